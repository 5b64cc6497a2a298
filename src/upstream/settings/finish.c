/* After the whole http block was read: names are looked up, groups checked, shared memory laid out.
 */
#include "upstream/private.h"

/* Names that were looked up in this reading. */
struct looked_up {
    struct addr_list list; /* count 0: not found */
};

static const struct looked_up *look_up(struct conf *conf, struct map *known, struct str host)
{
    struct looked_up *found = map_get_nocase(known, host);

    if (found == NULL) {
        found = arena_new(conf->arena, struct looked_up);
        if (!addr_parse(conf->arena, host, 0, false, &found->list)) {
            found->list.count = 0;
        }
        map_put_nocase(known, conf->arena, host, found);
    }
    return found;
}

/* One that is not found does not stop the service: the others serve, and it is asked for again. */
static void resolve_server(struct conf *conf, struct map *known, const struct upstream_group *group,
                           struct upstream_server *server)
{
    if (!server->resolves || server->wants_resolve || server->discovered != NULL) {
        return;
    }
    if (conf->is_later) {
        return; /* nothing may wait: its name is asked for at run time */
    }
    const struct looked_up *found = look_up(conf, known, server->host);
    if (found->list.count == 0) {
        conf_warn(conf, server->node, "host not found in upstream \"%.*s\"",
                  STR_ARG(group->is_implicit ? server->host : server->written));
        return;
    }
    server->resolves = group->fallback != FALLBACK_NONE;
    server->addresses.items =
        arena_array(conf->arena, found->list.count, sizeof(*server->addresses.items));
    server->addresses.count = found->list.count;
    for (size_t i = 0; i < found->list.count; i++) {
        server->addresses.items[i] = found->list.items[i];
        addr_set_port(&server->addresses.items[i], server->port);
    }
}

/* `resolve` needs somebody to ask, and a zone, as with nginx. */
static bool check_resolve(struct conf *conf, const struct upstream_group *group)
{
    const struct conf_node *node = group->node;

    if (group->zone_name.len == 0) {
        return conf_error(conf, NULL,
                          "resolving names at run time requires upstream \"%.*s\" in %.*s:%u to be "
                          "in shared memory",
                          STR_ARG(group->name), STR_ARG(node->file->name), node->end_line);
    }
    if (group->resolver == NULL) {
        return conf_error(conf, NULL,
                          "no resolver defined to resolve names at run time in upstream \"%.*s\" "
                          "in %.*s:%u",
                          STR_ARG(group->name), STR_ARG(node->file->name), node->end_line);
    }
    return true;
}

/* Two groups under one name would be one to a reader of the figures. */
static bool check_status_zone(struct conf *conf, const struct upstream_group *group)
{
    const struct upstream_group *other =
        group->status_zone.len == 0 ? NULL
                                    : map_get_nocase(&group->set->blocks, group->status_zone);

    return other == NULL || other == group ||
           !str_equal(upstream_shown_name(other), group->status_zone) ||
           conf_error(conf, group->node,
                      "\"status_zone\" of upstream \"%.*s\" is the name of another upstream",
                      STR_ARG(group->name));
}

static bool finish_group(struct conf *conf, struct map *known, struct upstream_group *group)
{
    bool has_primary = false, wants_resolve = false;

    if (group->balancer == NULL) {
        group->balancer = &balancer_round_robin;
    }
    if (group->resolver == NULL) {
        group->resolver = group->set->resolver;
    }
    if (!group->has_resolver_timeout) {
        group->resolver_timeout_ms = group->set->resolver_timeout_ms;
    }
    vec_each(struct upstream_server *, server, &group->servers) {
        resolve_server(conf, known, group, *server);
        has_primary |= !(*server)->is_backup;
        wants_resolve |= (*server)->wants_resolve;
    }
    if (!has_primary && group->balancer->direct == NULL && group->state_file.len == 0 &&
        (group->zone_size == 0 || group->servers.count != 0)) {
        /* nginx names the line of the block's beginning here. */
        return conf_error(conf, NULL, "no servers in upstream \"%.*s\" in %.*s:%u",
                          STR_ARG(group->name), STR_ARG(group->node->file->name),
                          group->node->end_line);
    }
    return check_status_zone(conf, group) && (!wants_resolve || check_resolve(conf, group));
}

bool upstream_finish(struct conf *conf, const struct upstream_subsystem *subsystem)
{
    return upstream_finish_set(conf, upstream_set_of(conf, subsystem));
}

bool upstream_finish_set(struct conf *conf, struct upstream_set *set)
{
    struct map known = {0};
    bool is_good = true;

    vec_each(struct upstream_group *, group, &set->groups) {
        is_good &= finish_group(conf, &known, *group);
    }
    return is_good && servers_lay_out(conf, set) && cells_lay_out(conf, set);
}
