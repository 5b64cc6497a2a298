/* The `upstream` block of http and of stream, and what stands in it but the rows of balancers and
 * the like. */
#include "upstream/private.h"
#include "upstream/settings/resolver_rows.h"
#include "upstream/settings/server.h"
#include "upstream/settings/words.h"

enum { DEFAULT_QUEUE_TIMEOUT_MS = 60000 };

/* ---- `queue` ---- */

static bool queue_apply(struct conf_scope *scope, const struct directive *row,
                        struct conf_node *node, void *settings)
{
    struct upstream_group *group = settings;
    struct str value;

    if (!word_read_number(node->args[1], 1, INT32_MAX, &group->queue_max)) {
        return conf_error(scope->conf, node, "invalid value \"%.*s\" in \"queue\" directive",
                          STR_ARG(node->args[1]));
    }
    group->queue_timeout_ms = DEFAULT_QUEUE_TIMEOUT_MS;
    if (node->count > 2 && (!word_is_parameter(node->args[2], STR("timeout="), &value) ||
                            !parse_msec(value, &group->queue_timeout_ms))) {
        return conf_error(scope->conf, node, "invalid parameter \"%.*s\"", STR_ARG(node->args[2]));
    }
    return true;
}

/* ---- `status_zone` ---- */

static bool status_zone_apply(struct conf_scope *scope, const struct directive *row,
                              struct conf_node *node, void *settings)
{
    struct conf *conf = scope->conf;
    struct upstream_group *group = settings;
    struct str name = node->args[1];

    if (conf->is_later) {
        return conf_error(conf, node, "\"status_zone\" is for upstreams of the configuration");
    }
    if (name.len == 0) {
        return conf_error(conf, node, "invalid zone name \"\"");
    }
    if (map_get(&group->set->status_zones, name) != NULL) {
        return conf_error(conf, node, "\"status_zone\" \"%.*s\" is that of another upstream",
                          STR_ARG(name));
    }
    map_put(&group->set->status_zones, conf->arena, name, group);
    group->status_zone = name;
    return true;
}

/* ---- the block ---- */

static bool block_apply(struct conf_scope *scope, const struct directive *row,
                        struct conf_node *node, void *settings)
{
    struct conf *conf = scope->conf;
    struct upstream_set *set = upstream_set_of(conf, scope_subsystem(scope));
    struct upstream_group *group = arena_new(conf->arena, struct upstream_group);

    group->name = node->args[1];
    group->node = node;
    if (map_get_nocase(&set->blocks, group->name) != NULL) {
        return conf_error(conf, node, "duplicate upstream \"%.*s\"", STR_ARG(group->name));
    }
    map_put_nocase(&set->blocks, conf->arena, group->name, group);
    upstream_set_add(conf, set, group);
    node->user = group;
    return true;
}

/* The settings of the block are the group itself, which directives before the block may have named.
 */
static void block_prepare(struct conf_scope *scope, void *arg)
{
    struct upstream_group *group = arg;
    const struct settings_key *key = group->set->subsystem->group_key;
    struct upstream_group *made = conf_settings(scope, key);

    made->name = group->name;
    made->node = group->node;
    made->set = group->set;
    made->number = group->number;
    *group = *made;
    scope->settings[key->number] = group;
}

bool upstream_block_read(struct conf_scope *scope, struct conf_node *node,
                         struct upstream_group *group)
{
    unsigned errors = scope->conf->error_count;

    struct conf_scope *inner =
        conf_enter(scope, node, group->set->subsystem->group_context, block_prepare, group);
    if (inner == NULL) {
        return false;
    }
    /* With a zone the servers may all come while the service runs. */
    return group->servers.count != 0 || group->zone_size != 0 ||
           (group->balancer != NULL && group->balancer->direct != NULL) ||
           scope->conf->error_count != errors ||
           conf_error(scope->conf, node, "no servers are inside upstream");
}

static bool block_enter(struct conf_scope *scope, const struct directive *row,
                        struct conf_node *node, void *settings)
{
    return upstream_block_read(scope, node, node->user);
}

static bool group_finish(struct conf_scope *scope, void *settings)
{
    struct upstream_group *group = settings;

    group->has_resolver_timeout =
        conf_is_set(scope, scope_subsystem(scope)->group_key, "resolver_timeout");
    return upstream_state_check(scope->conf, group);
}

static bool ntlm_apply(struct conf_scope *scope, const struct directive *row,
                       struct conf_node *node, void *settings)
{
    struct upstream_group *group = settings;

    group->keeps_logins = true;
    return true;
}

#define G struct upstream_group
#define GROUP_ROWS(CONTEXT, SERVER_SYNTAX)                                                         \
    {"server",                                                                                     \
     CONTEXT,                                                                                      \
     CUSTOM(upstream_server_apply),                                                                \
     ARGS(1, ARGS_ANY),                                                                            \
     .repeat = REPEAT_CUSTOM,                                                                      \
     .syntax = SERVER_SYNTAX,                                                                      \
     .doc = "A server of the group: an address, a name (each of its addresses is a peer) or "      \
            "unix:path. A name that cannot be resolved is resolved again at run time; with "       \
            "`resolve`, changes of the addresses are followed as well."},                          \
        {"state",                                                                                  \
         CONTEXT,                                                                                  \
         CUSTOM_FIELD(G, state_file, upstream_state_apply),                                        \
         ARGS(1, 1),                                                                               \
         .syntax = "file",                                                                         \
         .doc = "File with the servers of the group, used instead of `server` lines. When "        \
                "`api` changes the servers, the file is written to disk before `api` responds. "   \
                "The file need not exist yet. Requires `zone`; the directory must be writable "    \
                "for workers."},                                                                   \
        {"status_zone",                                                                            \
         CONTEXT,                                                                                  \
         CUSTOM(status_zone_apply),                                                                \
         ARGS(1, 1),                                                                               \
         .syntax = "name",                                                                         \
         .doc = "Name under which `api`, `metrics` and `dashboard` show the statistics of the "    \
                "group; by default, the name of the group. `api` then shows them even without "    \
                "`zone`, but changing servers requires a `zone`."},                                \
        {"resolver",                                                                               \
         CONTEXT,                                                                                  \
         CUSTOM_FIELD(G, resolver, resolver_row_apply),                                            \
         ARGS(1, ARGS_ANY),                                                                        \
         .syntax = RESOLVER_SYNTAX,                                                                \
         .doc = "Name servers for the names in this group, instead of those of the enclosing "     \
                "block."},                                                                         \
        RESOLVER_TIMEOUT_ROW(CONTEXT, G)

static const struct directive http_group_rows[] = {
    GROUP_ROWS(IN_UPSTREAM,
               "address [weight=number] [max_conns=number] [max_fails=number] [fail_timeout=time] "
               "[slow_start=time] [backup] [down] [drain] [route=string] [id=string] [resolve] "
               "[service=name]"),
    {"ntlm", IN_UPSTREAM, CUSTOM(ntlm_apply), ARGS(0, 0),
     .doc = "Keeps connections that a client has authenticated by NTLM or Negotiate even where "
            "`keepalive` is 0. Such a connection is always bound to the client's connection, in "
            "any group, and is otherwise kept as `keepalive` sets."},
    {"queue", IN_UPSTREAM, CUSTOM(queue_apply), ARGS(1, 2), .syntax = "number [timeout=time]",
     .doc = "Largest number of requests, in each worker, that wait when no server of the group "
            "is available, including when the group has no servers yet. The default timeout is "
            "60s."},
    {0},
};

static const struct directive stream_group_rows[] = {
    GROUP_ROWS(IN_STREAM_UPSTREAM,
               "address:port [weight=number] [max_conns=number] [max_fails=number] "
               "[fail_timeout=time] [slow_start=time] [backup] [down] [resolve] [service=name]"),
    {0},
};
#undef G

static void http_group_fresh(void *settings)
{
    upstream_group_defaults(settings, &upstream_http);
}

static void stream_group_fresh(void *settings)
{
    upstream_group_defaults(settings, &upstream_stream);
}

const struct directive_table upstream_http_group_table = {.key = &upstream_http_group_key,
                                                          .rows = http_group_rows,
                                                          .contexts = IN_UPSTREAM,
                                                          .size = sizeof(struct upstream_group),
                                                          .finish = group_finish,
                                                          .fresh = http_group_fresh};

const struct directive_table upstream_stream_group_table = {.key = &upstream_stream_group_key,
                                                            .rows = stream_group_rows,
                                                            .contexts = IN_STREAM_UPSTREAM,
                                                            .size = sizeof(struct upstream_group),
                                                            .finish = group_finish,
                                                            .fresh = stream_group_fresh};

/* What the http block says of all its groups; goes into the set when the block was read. */
struct set_settings {
    int64_t discard_most;
    bool is_no_server_502;
};

static bool set_finish(struct conf_scope *scope, void *settings)
{
    const struct set_settings *written = settings;
    struct upstream_set *set = upstream_set_of(scope->conf, scope_subsystem(scope));

    set->no_server_status = written->is_no_server_502 ? 502 : 500;
    set->discard_most = (uint64_t) written->discard_most;
    return true;
}

#define BLOCK_ROW(CONTEXT)                                                                         \
    {                                                                                              \
        "upstream", CONTEXT, BLOCK(block_enter),                                                   \
            .apply = block_apply, ARGS(1, 1), .repeat = REPEAT_CUSTOM, .syntax = "name",           \
            .doc = "Defines a group of servers. Its name can be used in place of an address."      \
    }

static const struct directive http_block_rows[] = {
    BLOCK_ROW(IN_HTTP),
    {"upstream_change_no_server_status", IN_HTTP, FLAG(struct set_settings, is_no_server_502),
     .initial = "on",
     .doc = "Whether the status is 502 when no server of the group is available. When off, which "
            "is the default in Tengine, it is 500."},
    {"rr_discarded_range", IN_HTTP, NUMBER(struct set_settings, discard_most), .initial = "0",
     .doc = "In each worker, round robin skips a random number of turns at the start, less than "
            "this number, so that workers and machines do not all start with the first servers "
            "of a large group."},
    {0},
};

const struct directive_table upstream_http_block_table = {.rows = http_block_rows,
                                                          .contexts = IN_HTTP,
                                                          .size = sizeof(struct set_settings),
                                                          .finish = set_finish};

static const struct directive stream_block_rows[] = {BLOCK_ROW(IN_STREAM), {0}};

const struct directive_table upstream_stream_block_table = {.rows = stream_block_rows,
                                                            .contexts = IN_STREAM};

void upstream_set_balancer(struct conf_scope *scope, const struct conf_node *node,
                           const struct balancer *balancer, void *settings)
{
    struct upstream_group *group = scope_group(scope);

    if (group->balancer != NULL || group->is_keepalive_set) {
        conf_warn(scope->conf, node, "load balancing method redefined");
    }
    group->balancer = balancer;
    group->balancer_settings = settings;
}
