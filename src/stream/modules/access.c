/* ngx_stream_access_module: allow and deny by the client's address. */
#include "server/module.h"
#include "shared/access/access.h"
#include "stream/session/hooks.h"
#include "stream/session/session.h"

struct access_settings {
    struct vec rules; /* struct access_rule: the first that matches decides */
};

static struct settings_key access_key;

static enum session_step check_access(struct session *session)
{
    const struct access_settings *settings = stream_settings(session->server, &access_key);
    struct addr client;

    session_client(session, &client);
    if (access_check(&settings->rules, &client) != ACCESS_DENIED) {
        return SESSION_NEXT;
    }
    log_error(&session->log, 0, "access forbidden by rule");
    return session_fail(session, SESSION_FORBIDDEN);
}

/* The two rows fill one list, so that the first of either replaces what was inherited. */
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
    ACCESS_ROWS(IN_STREAM | IN_STREAM_SERVER, access_apply, "Closes the connections of clients"),
    {0},
};

static const struct session_hook session_hooks[] = {
    {.phase = STREAM_ACCESS,
     .run = check_access,
     .when = SETTING(access_key, struct access_settings, rules.count)},
    {.run = NULL},
};
static const struct stream_module access_hooks = {.hooks = session_hooks};

const struct module ngx_stream_access_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_stream_access_module",
    .kind = MODULE_STREAM,
    .table = {.key = &access_key,
              .rows = access_rows,
              .contexts = IN_STREAM | IN_STREAM_SERVER,
              .size = sizeof(struct access_settings)},
    .hooks = &access_hooks,
};
