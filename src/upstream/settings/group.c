/* Sets of groups, and the groups in them: by the name of a block, or implicit ones of an address.
 */
#include "base/parse.h"
#include "upstream/private.h"
#include "upstream/settings/server.h"

enum {
    HTTP_PORT = 80,
    HTTP_KEEPALIVE = 32,
    DEFAULT_KEEPALIVE_REQUESTS = 1000,
    DEFAULT_KEEPALIVE_TIME_MS = 3600000,
    DEFAULT_KEEPALIVE_TIMEOUT_MS = 60000,
    DEFAULT_RESOLVER_TIMEOUT_MS = 30000,
};

struct settings_key upstream_http_group_key, upstream_stream_group_key;

const struct upstream_subsystem upstream_http = {
    .name = "http",
    .state = "http upstreams",
    .block_context = IN_HTTP,
    .group_context = IN_UPSTREAM,
    .default_port = HTTP_PORT,
    .keepalive = HTTP_KEEPALIVE,
    .has_stickiness = true,
    .group_key = &upstream_http_group_key,
};

const struct upstream_subsystem upstream_stream = {
    .name = "stream",
    .state = "stream upstreams",
    .block_context = IN_STREAM,
    .group_context = IN_STREAM_UPSTREAM,
    .group_key = &upstream_stream_group_key,
};

/* ---- sets and groups ---- */

struct upstream_set *upstream_set_of(struct conf *conf, const struct upstream_subsystem *subsystem)
{
    struct upstream_set *set = conf_state(conf, subsystem->state, sizeof(*set));

    if (set->generation == NULL) {
        set->subsystem = subsystem;
        set->generation = conf->generation;
        set->arena = conf->arena;
        set->resolver_timeout_ms = DEFAULT_RESOLVER_TIMEOUT_MS;
        set->no_server_status = 502;
    }
    return set;
}

void upstream_set_resolver(struct upstream_set *set, const struct resolver_settings *resolver,
                           uint64_t timeout_ms)
{
    set->resolver = resolver;
    set->resolver_timeout_ms = timeout_ms;
}

void upstream_set_error_log(struct upstream_set *set, struct log_sink *const *error_log)
{
    set->error_log = error_log;
}

void upstream_group_defaults(struct upstream_group *group,
                             const struct upstream_subsystem *subsystem)
{
    group->magic = UPSTREAM_GROUP_MAGIC;
    group->default_port = subsystem->default_port;
    group->keepalive = subsystem->keepalive;
    group->is_keepalive_local = true;
    group->keepalive_requests = DEFAULT_KEEPALIVE_REQUESTS;
    group->keepalive_time_ms = DEFAULT_KEEPALIVE_TIME_MS;
    group->keepalive_timeout_ms = DEFAULT_KEEPALIVE_TIMEOUT_MS;
    group->resolver_timeout_ms = DEFAULT_RESOLVER_TIMEOUT_MS;
}

void upstream_group_init(struct upstream_group *group, struct upstream_set *set, struct str name)
{
    memset(group, 0, sizeof(*group));
    upstream_group_defaults(group, set->subsystem);
    group->name = name;
    group->set = set;
    group->is_implicit = true;
    group->balancer = &balancer_round_robin;
    group->resolver = set->resolver;
    group->resolver_timeout_ms = set->resolver_timeout_ms;
}

void upstream_set_add(struct conf *conf, struct upstream_set *set, struct upstream_group *group)
{
    group->set = set;
    group->number = (unsigned) set->groups.count;
    *vec_add(&set->groups, conf->arena, struct upstream_group *) = group;
}

struct str upstream_shown_name(const struct upstream_group *group)
{
    return group->status_zone.len != 0 ? group->status_zone : group->name;
}

/* ---- implicit groups, and finding groups by name ---- */

static struct str implicit_key(struct arena *arena, struct str host, uint16_t port)
{
    return str_starts_nocase(host, STR("unix:"))
               ? arena_dup(arena, host)
               : arena_printf(arena, "%.*s:%u", STR_ARG(host), port);
}

/*
 * "host:port" may not be written where an `upstream` block has the host's name: which port would it
 * be? But nginx allows it where the host stood before without a port, and the block comes after
 * both: then the port is the one that was left out, and it is the group; or another one, and it is
 * the host's own address. So the port that was left out first is kept here; NULL = none was.
 */
static const uint16_t *port_left_out(struct conf *conf, const struct upstream_group *group,
                                     const struct conf_node *node, uint16_t port,
                                     uint16_t default_port)
{
    struct map *ports = group == NULL ? NULL : &group->set->ports_left_out;

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

struct upstream_group *upstream_use(struct conf *conf, const struct upstream_subsystem *subsystem,
                                    const struct conf_node *node, struct str address,
                                    uint16_t default_port)
{
    struct upstream_set *set = upstream_set_of(conf, subsystem);
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
    struct upstream_server *server = upstream_server_add(conf, group, node, address);
    if (!upstream_server_read(conf, node, default_port, server)) {
        return NULL;
    }
    group->name = implicit_key(conf->arena, server->host, server->port);
    struct upstream_group *former = map_get_nocase(&set->implicit, group->name);
    if (former != NULL) {
        return former;
    }
    map_put_nocase(&set->implicit, conf->arena, group->name, group);
    upstream_set_add(conf, set, group);
    return group;
}

struct upstream_group *upstream_find(const struct upstream_set *set, struct str name, uint16_t port)
{
    struct upstream_group *group = map_get_nocase(&set->blocks, name);
    char key[512];
    struct str host;

    if (set->find_changed != NULL && set->find_changed(name, &group)) {
        return group;
    }
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
