/* Groups as the configuration describes them: the `upstream` block, its servers, implicit groups. */
#include "base/parse.h"
#include "upstream/private.h"
#include "upstream/settings/resolver_rows.h"

enum {
    DEFAULT_PORT = 80,
    DEFAULT_FAIL_TIMEOUT_MS = 10000,
    DEFAULT_KEEPALIVE = 32,
    DEFAULT_KEEPALIVE_REQUESTS = 1000,
    DEFAULT_KEEPALIVE_TIME_MS = 3600000,
    DEFAULT_KEEPALIVE_TIMEOUT_MS = 60000,
    DEFAULT_RESOLVER_TIMEOUT_MS = 30000,
    DEFAULT_QUEUE_TIMEOUT_MS = 60000,
    WEIGHT_MAX = 65535, /* so that sums of weights stay small */
};

/* ---- sets and groups ---- */

struct upstream_set *upstream_set_of(struct conf *conf)
{
    struct upstream_set *set = conf_state(conf, "http upstreams", sizeof(*set));

    if (set->generation == NULL) {
        set->generation = conf->generation;
        set->resolver_timeout_ms = DEFAULT_RESOLVER_TIMEOUT_MS;
        set->no_server_status = 502;
    }
    return set;
}

void upstream_set_resolver(struct conf *conf, const struct resolver_settings *resolver,
                           uint64_t timeout_ms)
{
    struct upstream_set *set = upstream_set_of(conf);

    set->resolver = resolver;
    set->resolver_timeout_ms = timeout_ms;
}

/* What holds for groups of both kinds unless a directive says otherwise. */
static void group_fresh(void *settings)
{
    struct upstream_group *group = settings;

    group->magic = UPSTREAM_GROUP_MAGIC;
    group->default_port = DEFAULT_PORT;
    group->keepalive = DEFAULT_KEEPALIVE;
    group->is_keepalive_local = true;
    group->keepalive_requests = DEFAULT_KEEPALIVE_REQUESTS;
    group->keepalive_time_ms = DEFAULT_KEEPALIVE_TIME_MS;
    group->keepalive_timeout_ms = DEFAULT_KEEPALIVE_TIMEOUT_MS;
    group->resolver_timeout_ms = DEFAULT_RESOLVER_TIMEOUT_MS;
}

void upstream_group_init(struct upstream_group *group, struct upstream_set *set, struct str name)
{
    memset(group, 0, sizeof(*group));
    group_fresh(group);
    group->name = name;
    group->set = set;
    group->is_implicit = true;
    group->balancer = &balancer_round_robin;
    group->resolver = set->resolver;
    group->resolver_timeout_ms = set->resolver_timeout_ms;
}

static void set_add(struct conf *conf, struct upstream_set *set, struct upstream_group *group)
{
    group->set = set;
    group->number = (unsigned) set->groups.count;
    *vec_add(&set->groups, conf->arena, struct upstream_group *) = group;
}

void upstream_server_init(struct upstream_server *server, struct str written)
{
    memset(server, 0, sizeof(*server));
    server->written = written;
    server->weight = 1;
    server->max_fails = 1;
    server->fail_timeout_ms = DEFAULT_FAIL_TIMEOUT_MS;
}

static struct upstream_server *add_server(struct conf *conf, struct upstream_group *group,
                                          const struct conf_node *node, struct str written)
{
    struct upstream_server *server = arena_new(conf->arena, struct upstream_server);

    upstream_server_init(server, written);
    server->node = node;
    server->index = (unsigned) group->servers.count;
    *vec_add(&group->servers, conf->arena, struct upstream_server *) = server;
    return server;
}

/* ---- addresses ---- */

/* Is it "name" or "name:port", where the name has to be looked up? */
static bool is_name(struct str text, struct str host)
{
    struct addr addr;

    return text.len != 0 && host.len != 0 && text.data[0] != '[' &&
           !str_starts_nocase(text, STR("unix:")) && str_find_char(text, '/') == NULL &&
           str_find_char(host, ':') == NULL && !addr_parse_ip(host, &addr);
}

/* The address of a server; a name is looked up later. False after conf_error. */
static bool read_address(struct conf *conf, const struct conf_node *node, uint16_t default_port,
                         struct upstream_server *server)
{
    struct str text = server->written;
    struct addr_list list;
    uint16_t port = 0;
    bool has_sound_port = addr_split_port(text, &server->host, &port);

    if (is_name(text, server->host)) {
        if (!has_sound_port) {
            return conf_error(conf, node, "invalid port in upstream \"%.*s\"", STR_ARG(text));
        }
        server->port = port != 0 ? port : default_port;
        server->resolves = true; /* until upstream_finish knows better */
    } else {
        if (!addr_parse(conf->arena, text, default_port, false, &list)) {
            return conf_error(conf, node, "%s in upstream \"%.*s\"", list.error, STR_ARG(text));
        }
        server->addresses = list;
        server->host = list.host;
        server->port = addr_port(&list.items[0]);
    }
    if (server->port == 0 && !str_starts_nocase(text, STR("unix:"))) {
        return conf_error(conf, node, "no port in upstream \"%.*s\"", STR_ARG(text));
    }
    return true;
}

/* ---- `server` ---- */

/* The value of "name=value" when the parameter is of that name. */
static bool is_parameter(struct str parameter, struct str name, struct str *value)
{
    if (!str_starts(parameter, name)) {
        return false;
    }
    *value = str_skip(parameter, name.len);
    return true;
}

static bool read_unsigned(struct str value, unsigned least, unsigned *out)
{
    uint64_t n;

    if (!parse_uint(value, &n) || n < least || n > INT32_MAX) {
        return false;
    }
    *out = (unsigned) n;
    return true;
}

static bool read_word(struct str parameter, struct upstream_server *server, bool *wants_resolve)
{
    if (str_is(parameter, "backup")) {
        server->is_backup = true;
    } else if (str_is(parameter, "down")) {
        server->is_down = true;
    } else if (str_is(parameter, "drain")) {
        server->is_draining = true;
    } else if (str_is(parameter, "resolve")) {
        *wants_resolve = true;
    } else {
        return false;
    }
    return true;
}

/* One parameter after the address. False: it is none, or its value is wrong. */
static bool read_parameter(struct str parameter, struct upstream_server *server,
                           bool *wants_resolve)
{
    struct str value;

    if (is_parameter(parameter, STR("weight="), &value)) {
        return read_unsigned(value, 1, &server->weight) && server->weight <= WEIGHT_MAX;
    }
    if (is_parameter(parameter, STR("max_conns="), &value)) {
        return read_unsigned(value, 0, &server->max_conns);
    }
    if (is_parameter(parameter, STR("max_fails="), &value)) {
        return read_unsigned(value, 0, &server->max_fails);
    }
    if (is_parameter(parameter, STR("fail_timeout="), &value)) {
        return parse_msec(value, &server->fail_timeout_ms);
    }
    if (is_parameter(parameter, STR("slow_start="), &value)) {
        return parse_msec(value, &server->slow_start_ms);
    }
    if (is_parameter(parameter, STR("service="), &value)) {
        server->service = value;
        return value.len != 0;
    }
    if (is_parameter(parameter, STR("route="), &value)) {
        server->route = value;
        return value.len != 0;
    }
    if (is_parameter(parameter, STR("id="), &value)) {
        server->id = value;
        return value.len != 0;
    }
    return read_word(parameter, server, wants_resolve);
}

/* Parameters that do not go together. */
static bool check_parameters(struct conf *conf, const struct conf_node *node,
                             const struct upstream_group *group,
                             const struct upstream_server *server, bool wants_resolve)
{
    const char *refused = NULL;

    if (group->balancer != NULL && group->balancer->refuses_backup) {
        refused = server->is_backup ? "backup" : server->slow_start_ms != 0 ? "slow_start" : NULL;
    }
    if (refused != NULL) {
        return conf_error(conf, node, "balancing method does not support parameter \"%s\"",
                          refused);
    }
    if (server->is_down && server->is_draining) {
        return conf_error(conf, node, "parameters \"down\" and \"drain\" exclude each other");
    }
    if (server->service.len != 0 && !wants_resolve) {
        return conf_error(conf, node, "service upstream \"%.*s\" requires \"resolve\" parameter",
                          STR_ARG(server->written));
    }
    if (server->service.len != 0 && !str_equal(server->host, server->written)) {
        return conf_error(conf, node, "service upstream \"%.*s\" may not have port",
                          STR_ARG(server->written));
    }
    return true;
}

static bool server_apply(struct conf_scope *scope, const struct directive *row,
                         struct conf_node *node, void *settings)
{
    struct conf *conf = scope->conf;
    struct upstream_group *group = settings;
    struct upstream_server *server = add_server(conf, group, node, node->args[1]);
    bool wants_resolve = false;

    for (unsigned i = 2; i < node->count; i++) {
        if (!read_parameter(node->args[i], server, &wants_resolve)) {
            return conf_error(conf, node, "invalid parameter \"%.*s\"", STR_ARG(node->args[i]));
        }
    }
    if (!read_address(conf, node, DEFAULT_PORT, server) ||
        !check_parameters(conf, node, group, server, wants_resolve)) {
        return false;
    }
    server->wants_resolve = wants_resolve && server->resolves;
    return true;
}

/* ---- `queue`, `resolver` ---- */

static bool queue_apply(struct conf_scope *scope, const struct directive *row,
                        struct conf_node *node, void *settings)
{
    struct upstream_group *group = settings;
    struct str value;

    if (!read_unsigned(node->args[1], 1, &group->queue_max)) {
        return conf_error(scope->conf, node, "invalid value \"%.*s\" in \"queue\" directive",
                          STR_ARG(node->args[1]));
    }
    group->queue_timeout_ms = DEFAULT_QUEUE_TIMEOUT_MS;
    if (node->count > 2 && (!is_parameter(node->args[2], STR("timeout="), &value) ||
                            !parse_msec(value, &group->queue_timeout_ms))) {
        return conf_error(scope->conf, node, "invalid parameter \"%.*s\"", STR_ARG(node->args[2]));
    }
    return true;
}

static bool group_resolver_apply(struct conf_scope *scope, const struct directive *row,
                                 struct conf_node *node, void *settings)
{
    struct upstream_group *group = settings;
    struct resolver_settings *resolver;

    if (!resolver_settings_read(scope->conf, node, &resolver)) {
        return false;
    }
    group->resolver = resolver;
    return true;
}

/* ---- the block ---- */

static bool block_apply(struct conf_scope *scope, const struct directive *row,
                        struct conf_node *node, void *settings)
{
    struct conf *conf = scope->conf;
    struct upstream_set *set = upstream_set_of(conf);
    struct upstream_group *group = arena_new(conf->arena, struct upstream_group);

    group->name = node->args[1];
    group->node = node;
    if (map_get_nocase(&set->blocks, group->name) != NULL) {
        return conf_error(conf, node, "duplicate upstream \"%.*s\"", STR_ARG(group->name));
    }
    map_put_nocase(&set->blocks, conf->arena, group->name, group);
    set_add(conf, set, group);
    node->user = group;
    return true;
}

/* The settings of the block are the group itself, which directives before the block may have named. */
static void block_prepare(struct conf_scope *scope, void *arg)
{
    struct upstream_group *group = arg;
    struct upstream_group *made = conf_settings(scope, &upstream_group_key);

    made->name = group->name;
    made->node = group->node;
    made->set = group->set;
    made->number = group->number;
    *group = *made;
    scope->settings[upstream_group_key.number] = group;
}

static bool block_enter(struct conf_scope *scope, const struct directive *row,
                        struct conf_node *node, void *settings)
{
    struct upstream_group *group = node->user;
    unsigned errors = scope->conf->error_count;

    struct conf_scope *inner = conf_enter(scope, node, IN_UPSTREAM, block_prepare, group);
    if (inner == NULL) {
        return false;
    }
    return group->servers.count != 0 || scope->conf->error_count != errors ||
           conf_error(scope->conf, node, "no servers are inside upstream");
}

static bool group_finish(struct conf_scope *scope, void *settings)
{
    struct upstream_group *group = settings;

    group->has_resolver_timeout = conf_is_set(scope, &upstream_group_key, "resolver_timeout");
    return true;
}

static bool ntlm_apply(struct conf_scope *scope, const struct directive *row,
                       struct conf_node *node, void *settings)
{
    struct upstream_group *group = settings;

    group->keeps_logins = true;
    return true;
}

#define G struct upstream_group
static const struct directive group_rows[] = {
    {"server", IN_UPSTREAM, CUSTOM(server_apply), ARGS(1, ARGS_ANY), .repeat = REPEAT_CUSTOM,
     .syntax = "address [weight=number] [max_conns=number] [max_fails=number] [fail_timeout=time] "
               "[slow_start=time] [backup] [down] [drain] [route=string] [id=string] [resolve] "
               "[service=name]",
     .doc = "A server of the group: an address, a name (each of its addresses is a peer) or "
            "unix:path. A name that is not found is asked for again while the service runs; "
            "`resolve` follows its changes as well."},
    {"ntlm", IN_UPSTREAM, CUSTOM(ntlm_apply), ARGS(0, 0),
     .doc =
         "A connection that a client has logged in by (NTLM, Negotiate) belongs to this client's "
         "connection in any group, and is kept for it as `keepalive` says; with `ntlm` it is "
         "kept where `keepalive` is 0, too."},
    {"queue", IN_UPSTREAM, CUSTOM(queue_apply), ARGS(1, 2), .syntax = "number [timeout=time]",
     .doc = "So many requests may wait in each worker when no server can take them; 60s unless "
            "told otherwise."},
    {"resolver", IN_UPSTREAM, CUSTOM_FIELD(G, resolver, group_resolver_apply), ARGS(1, ARGS_ANY),
     .syntax = "address ... [valid=time] [ipv4=on|off] [ipv6=on|off]",
     .doc = "Name servers for the names of this group, in place of those of the http block."},
    {"resolver_timeout", IN_UPSTREAM, MSEC(G, resolver_timeout_ms), .initial = "30s",
     .doc = "Longest time for finding the addresses of one name."},
    {0},
};
#undef G

struct settings_key upstream_group_key;
const struct directive_table upstream_group_table = {.key = &upstream_group_key,
                                                     .rows = group_rows,
                                                     .contexts = IN_UPSTREAM,
                                                     .size = sizeof(struct upstream_group),
                                                     .finish = group_finish,
                                                     .fresh = group_fresh};

/* What the http block says of all its groups; goes into the set when the block was read. */
struct set_settings {
    int64_t discard_most;
    bool is_no_server_502;
};

static bool set_finish(struct conf_scope *scope, void *settings)
{
    const struct set_settings *written = settings;
    struct upstream_set *set = upstream_set_of(scope->conf);

    set->no_server_status = written->is_no_server_502 ? 502 : 500;
    set->discard_most = (uint64_t) written->discard_most;
    return true;
}

static const struct directive block_rows[] = {
    {"upstream", IN_HTTP, BLOCK(block_enter), .apply = block_apply, ARGS(1, 1),
     .repeat = REPEAT_CUSTOM, .syntax = "name",
     .doc = "A group of servers, to be named where an address could stand."},
    {"upstream_change_no_server_status", IN_HTTP, FLAG(struct set_settings, is_no_server_502),
     .initial = "on",
     .doc = "The answer to a request that finds no server of its group usable: 502, or 500 when "
            "this is off, as it is in Tengine unless told otherwise."},
    {"rr_discarded_range", IN_HTTP, NUMBER(struct set_settings, discard_most), .initial = "0",
     .doc =
         "Round robin begins at a random one of so many first turns in each worker, so that many "
         "workers and machines do not all begin with the first servers of a large group."},
    {0},
};

const struct directive_table upstream_block_table = {.rows = block_rows,
                                                     .contexts = IN_HTTP,
                                                     .size = sizeof(struct set_settings),
                                                     .finish = set_finish};

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

/* ---- implicit groups, and finding groups by name ---- */

static struct str implicit_key(struct arena *arena, struct str host, uint16_t port)
{
    return str_starts_nocase(host, STR("unix:"))
               ? arena_dup(arena, host)
               : arena_printf(arena, "%.*s:%u", STR_ARG(host), port);
}

/*
 * "host:port" may not be written where an `upstream` block has the host's name: which port would it be? But nginx
 * allows it where the host stood before without a port, and the block comes after both: then the port is the one
 * that was left out, and it is the group; or another one, and it is the host's own address. So the port that
 * was left out first is kept here; NULL = none was.
 */
static const uint16_t *port_left_out(struct conf *conf, const struct upstream_group *group,
                                     const struct conf_node *node, uint16_t port,
                                     uint16_t default_port)
{
    struct map *ports = conf_state(conf, "http upstreams used before their blocks", sizeof(*ports));

    if (group == NULL || node->order > group->node->order) {
        return NULL;
    }
    uint16_t *kept = map_get_nocase(ports, group->name);
    if (kept == NULL && port == 0) {
        kept = arena_new(conf->arena, uint16_t);
        *kept = default_port;
        map_put_nocase(ports, conf->arena, group->name, kept);
    }
    return kept;
}

struct upstream_group *upstream_use(struct conf *conf, const struct conf_node *node,
                                    struct str address, uint16_t default_port)
{
    struct upstream_set *set = upstream_set_of(conf);
    struct str host;
    uint16_t port = 0;

    addr_split_port(address, &host, &port);
    struct upstream_group *group = map_get_nocase(&set->blocks, host.data == NULL ? STR("") : host);
    const uint16_t *left_out = port_left_out(conf, group, node, port, default_port);
    if (group != NULL && port != 0 && left_out == NULL) {
        conf_error(conf, node, "upstream \"%.*s\" may not have port %u", STR_ARG(host), port);
        return NULL;
    }
    if (group != NULL && (port == 0 || port == *left_out)) {
        return group;
    }
    group = arena_new(conf->arena, struct upstream_group);
    upstream_group_init(group, set, STR_NONE);
    group->node = node;
    group->default_port = default_port;
    struct upstream_server *server = add_server(conf, group, node, address);
    if (!read_address(conf, node, default_port, server)) {
        return NULL;
    }
    group->name = implicit_key(conf->arena, server->host, server->port);
    struct upstream_group *former = map_get_nocase(&set->implicit, group->name);
    if (former != NULL) {
        return former;
    }
    map_put_nocase(&set->implicit, conf->arena, group->name, group);
    set_add(conf, set, group);
    return group;
}

struct upstream_group *upstream_find(const struct upstream_set *set, struct str name, uint16_t port)
{
    struct upstream_group *group = map_get_nocase(&set->blocks, name);
    char key[512];
    struct str host;

    if (group != NULL) {
        return group;
    }
    if (str_starts_nocase(name, STR("unix:"))) {
        return map_get_nocase(&set->implicit, name);
    }
    if (!addr_split_port(name, &host, &port) || host.len + sizeof(":65535") > sizeof(key)) {
        return NULL;
    }
    memcpy(key, host.data, host.len);
    key[host.len] = ':';
    char *end = format_uint(key + host.len + 1, port);
    return map_get_nocase(&set->implicit, str_from(key, end));
}
