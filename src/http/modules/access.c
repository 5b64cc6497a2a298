/* ngx_http_access_module: allow and deny by the client's address. */
#include "http/hooks.h"
#include "http/request.h"
#include "server/module.h"

struct access_rule {
    struct cidr network;
    bool is_deny;
};

struct access_settings {
    struct vec rules; /* struct access_rule: the first that matches decides */
};

static struct directive_table access_table;

static const struct access_settings *settings_at(const struct http_location *location)
{
    return location_settings(location, &access_table);
}

static const struct access_rule *find_rule(const struct vec *rules, const struct addr *client)
{
    vec_each(const struct access_rule, rule, rules) {
        if (cidr_contains(&rule->network, client)) {
            return rule;
        }
    }
    return NULL;
}

static enum flow check_access(struct request *request)
{
    struct addr client;

    request_client(request, &client);
    if (client.len == 0) {
        client.any.sa_family = AF_UNIX; /* the other end of a unix socket has no name */
        client.len = sizeof(client.any.sa_family);
    }
    const struct access_rule *rule = find_rule(&settings_at(request->location)->rules, &client);
    if (rule == NULL) {
        return FLOW_NEXT;
    }
    if (!rule->is_deny) {
        return FLOW_ALLOW;
    }
    if (request->location->satisfy == SATISFY_ALL) {
        log_error(&request->log, 0, "access forbidden by rule");
    }
    return request_fail(request, 403);
}

static bool is_active(const struct http_location *location)
{
    return settings_at(location)->rules.count != 0;
}

/* The two rows fill one list, so that the first of either replaces what was inherited. */
static bool access_apply(struct conf_scope *scope, const struct directive *row,
                         struct conf_node *node, void *settings)
{
    struct access_settings *access = settings;
    struct access_rule rule = {.is_deny = str_is(str_of(row->name), "deny")};
    struct str text = node->args[1];

    if (!conf_is_set(scope, &access_table, "allow") && !conf_is_set(scope, &access_table, "deny")) {
        access->rules = (struct vec){0};
    }
    if (text.len == 0 || *text.data == '[' || !cidr_parse(text, &rule.network)) {
        return conf_error(scope->conf, node, "invalid parameter \"%.*s\"", STR_ARG(text));
    }
    if (rule.network.has_low_bits) {
        conf_warn(scope->conf, node, "low address bits of %.*s are meaningless", STR_ARG(text));
    }
    *(struct access_rule *) vec_push(&access->rules, scope->conf->arena, sizeof(rule)) = rule;
    return true;
}

#define IN_ACCESS IN_HTTP_ALL | IN_LIMIT_EXCEPT
static const struct directive access_rows[] = {
    {"allow", IN_ACCESS, CUSTOM(access_apply), ARGS(1, 1), .repeat = REPEAT_CUSTOM,
     .syntax = "address | CIDR | unix: | all",
     .doc = "Lets clients of this network in. The first allow or deny that matches decides; a "
            "block with some of its own inherits none."},
    {"deny", IN_ACCESS, CUSTOM(access_apply), ARGS(1, 1), .repeat = REPEAT_CUSTOM,
     .syntax = "address | CIDR | unix: | all", .doc = "Answers 403 to clients of this network."},
    {0},
};

static struct directive_table access_table = {.rows = access_rows,
                                              .contexts = IN_HTTP_LOCATION_SETTINGS,
                                              .size = sizeof(struct access_settings)};
static struct directive_table *const access_tables[] = {&access_table, NULL};

static const struct phase_hook access_phases[] = {
    {.phase = PHASE_ACCESS, .order = 10, .run = check_access, .is_active = is_active},
    {.run = NULL},
};

static const struct http_module access_hooks = {.phases = access_phases};

const struct module ngx_http_access_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_access_module",
    .kind = MODULE_HTTP,
    .tables = access_tables,
    .hooks = &access_hooks,
};
