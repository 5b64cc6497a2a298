/* *_bind: the local address of connections to backends. */
#include "shared/upstream/bind.h"

#include "server/generation.h"

/* IP, or IP:port. */
static bool is_address(struct str text)
{
    struct addr address;
    struct str host;
    uint16_t port;

    return addr_parse_ip(text, &address) ||
           (addr_split_port(text, &host, &port) && addr_parse_ip(host, &address));
}

bool bind_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                void *settings)
{
    /* The field of the row, in the settings of a module whose struct is not known here. */
    const struct bind_settings **own = (void *) ((char *) settings + row->offset);
    struct template *address = NULL;

    if (node->count == 2 && str_is(node->args[1], "off")) {
        *own = NULL;
        return true;
    }
    if (!conf_value_template(scope, node, 1, &address)) {
        return false;
    }
    if (address->is_constant && !is_address(address->constant)) {
        return conf_error(scope->conf, node, "invalid address \"%.*s\"", STR_ARG(node->args[1]));
    }
    if (node->count == 3 && !str_is(node->args[2], "transparent")) {
        return conf_error(scope->conf, node, "invalid parameter \"%.*s\"", STR_ARG(node->args[2]));
    }
    struct bind_settings *bind = arena_new(scope->conf->arena, struct bind_settings);
    bind->address = address;
    bind->is_transparent = node->count == 3;
    *own = bind;
    if (bind->is_transparent) {
        struct generation *generation = scope->conf->generation;
        generation->binds_transparently = true;
    }
    return true;
}

bool bind_address(const struct bind_settings *bind, struct variable_env *env, struct addr *out)
{
    struct str text = template_text(bind->address, env);
    struct str host;
    uint16_t port = 0;

    if (text.len == 0) {
        out->len = 0;
        return true;
    }
    if (addr_parse_ip(text, out)) {
        return true;
    }
    if (!addr_split_port(text, &host, &port) || !addr_parse_ip(host, out)) {
        log_error(env->log, 0, "invalid local address \"%.*s\"", STR_ARG(text));
        return false;
    }
    addr_set_port(out, port);
    return true;
}
