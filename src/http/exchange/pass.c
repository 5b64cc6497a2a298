/* *_pass directives: what their address names, and the handler they give to their place. */
#include "http/exchange/exchange.h"
#include "http/settings.h"

bool pass_target_read(struct conf_scope *scope, const struct conf_node *node, struct str address,
                      uint16_t default_port, struct pass_target *out)
{
    struct http_location *location = scope_location(scope);

    *out = (struct pass_target){.default_port = default_port};
    location->pass_group = NULL;
    location->pass_tls = NULL;
    if (template_variable_count(address) != 0) {
        out->text = template_compile(scope->conf, node, address);
        return out->text != NULL;
    }
    out->group = upstream_use(scope->conf, node, address, default_port);
    location->pass_group = out->group;
    return out->group != NULL;
}

bool pass_handler_set(struct conf_scope *scope, const struct conf_node *node,
                      request_handler handler)
{
    struct http_location *location = scope_location(scope);
    struct str name = location->name;

    (void) node;
    location->handler = handler;
    location->handler_carries = true;
    if (location->kind == LOCATION_PREFIX || location->kind == LOCATION_PREFIX_NO_REGEX) {
        location->handler_redirects_slash = name.len != 0 && name.data[name.len - 1] == '/';
    }
    return true;
}
