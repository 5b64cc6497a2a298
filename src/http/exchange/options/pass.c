/* *_pass directives: what their address names, and the handler they give to their location. */
#include "http/exchange/options/pass.h"

#include "http/exchange/options/settings.h"

bool pass_target_read(struct conf_scope *scope, const struct conf_node *node, struct str address,
                      uint16_t default_port, struct pass_target *out)
{
    struct http_location *location = scope_location(scope);

    *out = (struct pass_target){.default_port = default_port};
    location->content.group = NULL;
    location->content.tls = NULL;
    if (template_variable_count(address) != 0) {
        out->text = template_compile(scope->conf, node, address);
        return out->text != NULL;
    }
    out->group = upstream_use(scope->conf, &upstream_http, node, address, default_port);
    location->content.group = out->group;
    return out->group != NULL;
}

bool pass_handler_set(struct conf_scope *scope, const struct conf_node *node,
                      request_handler handler)
{
    struct http_location *location = scope_location(scope);
    struct str name = location->name;

    content_set(location, handler, NULL);
    location->content.carries = true;
    if (location->kind == LOCATION_PREFIX || location->kind == LOCATION_PREFIX_NO_REGEX ||
        location->kind == LOCATION_EXACT) {
        location->content.redirects_slash = name.len != 0 && name.data[name.len - 1] == '/';
    }
    return true;
}

void exchange_needs_tls(const struct conf_scope *scope, const struct settings_key *family,
                        bool is_needed)
{
    struct exchange_settings *own = conf_settings(scope, family);
    struct http_location *location = scope_location(scope);

    own->tls.is_needed = is_needed;
    if (is_needed) {
        location->content.tls = &own->tls;
    } else if (location->content.tls == &own->tls) {
        location->content.tls = NULL;
    }
}
