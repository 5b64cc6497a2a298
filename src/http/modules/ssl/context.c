/* From the settings of a server to its TLS context, and the checks of listeners. */
#include "http/routing/hooks.h"
#include "http/modules/ssl/ssl.h"

bool ssl_finish(struct conf_scope *scope, void *arg)
{
    struct ssl_settings *settings = arg;
    const struct http_location *location = scope_location(scope);

    settings->tls.context = NULL;
    settings->has_exceptions = false;
    return scope->context != IN_SERVER ||
           tls_server_finish(scope, &settings->tls, location->resolver,
                             location->resolver_timeout_ms);
}

bool ssl_place_finish(struct conf_scope *scope, void *settings)
{
    const struct ssl_place_settings *place = settings;

    if (place->is_exempt) {
        const struct http_server *server = scope_location(scope)->server;
        ((struct ssl_settings *) server_settings(server, &ssl_key))->has_exceptions = true;
    }
    return true;
}

/* ---- listeners ---- */

/* The default server must have something to say; where it only rejects, all others must. */
static bool check_listen(struct conf *conf, const struct http_listen *listen)
{
    const struct tls_server_settings *first = &ssl_settings_of(listen->default_server)->tls;

    if (first->certificates.count != 0) {
        return true;
    }
    if (first->rejects_handshake) {
        bool is_good = true;
        vec_each(struct http_server *, server, &listen->servers) {
            const struct tls_server_settings *settings = &ssl_settings_of(*server)->tls;
            if (settings->certificates.count == 0 && !settings->rejects_handshake) {
                is_good = conf_error(
                    conf, listen->address.ssl_node,
                    "no \"ssl_certificate\" is defined for the \"listen ... ssl\" directive");
                break;
            }
        }
        return is_good;
    }
    return conf_error(conf, listen->address.ssl_node,
                      "no \"ssl_certificate\" is defined for the \"listen ... ssl\" directive");
}

bool ssl_end(struct conf *conf, struct http_main *main)
{
    bool is_good = true;

    vec_each(struct http_server *, server, &main->servers) {
        if (ssl_settings_of(*server)->ssl) {
            vec_each(struct http_listen *, listen, &(*server)->listens) {
                (*listen)->address.is_ssl = true;
            }
        }
    }
    vec_each(struct http_listen *, listen, &main->listens) {
        if ((*listen)->address.is_ssl) {
            is_good &= check_listen(conf, *listen);
        }
    }
    return is_good;
}
