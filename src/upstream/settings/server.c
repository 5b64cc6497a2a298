/* `server` of a group: an address and its parameters. */
#include "upstream/settings/server.h"

#include "upstream/discovery/discovery.h"
#include "upstream/private.h"
#include "upstream/servers.h"
#include "upstream/settings/words.h"

struct upstream_server *upstream_server_add(struct conf *conf, struct upstream_group *group,
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

bool upstream_server_read(struct conf *conf, const struct conf_node *node, uint16_t default_port,
                          struct upstream_server *server)
{
    const char *error = upstream_server_parse(conf->arena, default_port, server);

    return error == NULL ||
           conf_error(conf, node, "%s in upstream \"%.*s\"", error, STR_ARG(server->written));
}

/* ---- `server` ---- */

/* One that is for requests which stay with their server. */
static bool read_sticky(struct str parameter, struct upstream_server *server)
{
    struct str value;

    if (word_is_parameter(parameter, STR("route="), &value)) {
        server->route = value;
        return value.len != 0;
    }
    if (word_is_parameter(parameter, STR("id="), &value)) {
        server->id = value;
        return value.len != 0;
    }
    server->is_draining |= str_is(parameter, "drain");
    return str_is(parameter, "drain");
}

static bool settings_server_read_word(struct str parameter, struct upstream_server *server,
                                      bool *wants_resolve)
{
    if (str_is(parameter, "backup")) {
        server->is_backup = true;
    } else if (str_is(parameter, "down")) {
        server->is_down = true;
    } else if (str_is(parameter, "resolve")) {
        *wants_resolve = true;
    } else {
        return false;
    }
    return true;
}

/* One parameter after the address. False: it is none, or its value is wrong. */
static bool settings_server_read_parameter(struct str parameter, struct upstream_server *server,
                                           bool *wants_resolve)
{
    struct str value;

    if (word_is_parameter(parameter, STR("weight="), &value)) {
        return word_read_number(value, 1, SERVER_WEIGHT_MOST, &server->weight);
    }
    if (word_is_parameter(parameter, STR("max_conns="), &value)) {
        return word_read_number(value, 0, INT32_MAX, &server->max_conns);
    }
    if (word_is_parameter(parameter, STR("max_fails="), &value)) {
        return word_read_number(value, 0, INT32_MAX, &server->max_fails);
    }
    if (word_is_parameter(parameter, STR("fail_timeout="), &value)) {
        return parse_msec(value, &server->fail_timeout_ms);
    }
    if (word_is_parameter(parameter, STR("slow_start="), &value)) {
        return parse_msec(value, &server->slow_start_ms);
    }
    if (word_is_parameter(parameter, STR("service="), &value)) {
        server->service = value;
        return value.len != 0;
    }
    return settings_server_read_word(parameter, server, wants_resolve);
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

/* An address that an engine says: parameters of names do not go with it. */
static bool read_discovered(struct conf *conf, const struct conf_node *node,
                            struct upstream_server *server, struct str discovery,
                            bool wants_resolve)
{
    if (wants_resolve || server->service.len != 0) {
        return conf_error(conf, node, "\"%.*s\" has neither \"resolve\" nor \"service\"",
                          STR_ARG(server->written));
    }
    server->discovered = discovery_use(conf, node, server->written, discovery);
    server->host = server->written;
    server->resolves = true;
    return server->discovered != NULL;
}

bool upstream_server_apply(struct conf_scope *scope, const struct directive *row,
                           struct conf_node *node, void *settings)
{
    struct conf *conf = scope->conf;
    struct upstream_group *group = settings;
    struct upstream_server *server = upstream_server_add(conf, group, node, node->args[1]);
    bool has_stickiness = group->set->subsystem->has_stickiness, wants_resolve = false;
    bool is_discovered = discovery_is_name(server->written);
    struct str discovery = STR_NONE;

    for (unsigned i = 2; i < node->count; i++) {
        if (is_discovered && word_is_parameter(node->args[i], STR("discovery="), &discovery)) {
            continue;
        }
        if (!settings_server_read_parameter(node->args[i], server, &wants_resolve) &&
            !(has_stickiness && read_sticky(node->args[i], server))) {
            return conf_error(conf, node, "invalid parameter \"%.*s\"", STR_ARG(node->args[i]));
        }
    }
    if (!(is_discovered ? read_discovered(conf, node, server, discovery, wants_resolve)
                        : upstream_server_read(conf, node, group->default_port, server)) ||
        !check_parameters(conf, node, group, server, wants_resolve)) {
        return false;
    }
    server->wants_resolve = wants_resolve && server->resolves;
    return true;
}
