/* ngx_http_access_module: allow and deny by the client's address. */
#include "http/routing/hooks.h"
#include "http/request/request.h"
#include "server/module.h"
#include "shared/access/access.h"

struct access_settings {
    struct vec rules; /* struct access_rule: the first match decides */
};

static struct settings_key access_key;

TYPED_SETTINGS(access_settings_at, struct access_settings, access_key, struct http_location)

static enum handler_result check_access(struct request *request)
{
    struct addr client;

    request_client(request, &client);
    switch (access_check(&access_settings_at(request->location)->rules, &client)) {
    case ACCESS_UNDECIDED:
        return HANDLER_NEXT;
    case ACCESS_ALLOWED:
        return HANDLER_ALLOW;
    case ACCESS_DENIED:
        break;
    }
    if (request->location->satisfy == SATISFY_ALL) {
        log_error(&request->log, 0, "access forbidden by rule");
    }
    return request_fail(request, 403);
}

/* Both directives append to one list, so the first of either replaces the inherited list. */
static bool access_apply(struct conf_scope *scope, const struct directive *row,
                         struct conf_node *node, void *settings)
{
    struct access_settings *access = settings;

    if (!conf_is_set(scope, &access_key, "allow") && !conf_is_set(scope, &access_key, "deny")) {
        access->rules = (struct vec){0};
    }
    return access_rule_read(scope->conf, node, &access->rules);
}

static const struct directive access_rows[] = {
    ACCESS_ROWS(IN_HTTP_ALL | IN_LIMIT_EXCEPT, access_apply, "Denies access, with 403, to clients"),
    {0},
};

static const struct phase_hook access_phases[] = {
    {.phase = PHASE_ACCESS,
     .name = "access",
     .run = check_access,
     .when = SETTING(access_key, struct access_settings, rules.count)},
    {.run = NULL},
};

static const struct http_module access_hooks = {.phases = access_phases};

const struct module ngx_http_access_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_access_module",
    .kind = MODULE_HTTP,
    .table = {.key = &access_key,
              .rows = access_rows,
              .contexts = IN_HTTP_LOCATION_SETTINGS,
              .size = sizeof(struct access_settings)},
    .hooks = &access_hooks,
};
