/* Makes the TLS context of a server from its settings, and checks listeners. */
#include "http/client/protocol.h"
#include "http/modules/clients/ssl/ssl.h"
#include "shared/tls/accept.h"

bool ssl_finish(struct conf_scope *scope, void *arg)
{
    struct ssl_settings *settings = arg;
    const struct http_location *location = scope_location(scope);

    settings->tls.context = NULL;
    settings->has_exceptions = false;
    return scope->context != IN_SERVER ||
           tls_server_finish(scope, &settings->tls, location->resolver,
                             location->resolver_timeout_ms, &location->error_log);
}

bool ssl_location_finish(struct conf_scope *scope, void *settings)
{
    const struct ssl_location_settings *location = settings;

    if (location->is_exempt) {
        const struct http_server *server = scope_location(scope)->server;
        ((struct ssl_settings *) server_settings(server, &ssl_key))->has_exceptions = true;
    }
    return true;
}

/* ---- listeners ---- */

static const struct tls_server_settings *tls_of(const void *server)
{
    return &ssl_settings_of(server)->tls;
}

/* Does the default server of an address with QUIC have what QUIC requires? */
static bool check_quic(struct conf *conf, const struct conf_node *node,
                       const struct tls_server_settings *settings)
{
    if (settings->early_data) {
        conf_warn(conf, node,
                  "\"ssl_early_data\" does not apply to the \"listen ... quic\" directive: "
                  "0-RTT of QUIC is not accepted");
    }
    return (settings->protocols & TLS_1_3) != 0 ||
           conf_error(
               conf, node,
               "\"ssl_protocols\" must enable TLSv1.3 for the \"listen ... quic\" directive");
}

/* Does an address with TLS have what TLS requires? */
static bool check_listen(struct conf *conf, const struct http_listen *listen)
{
    const struct conf_node *node = listen->address.ssl_node;
    bool is_quic = listen_is_quic(listen);

    return tls_server_check_listen(conf, node, is_quic ? "quic" : "ssl", &listen->servers,
                                   listen->default_server, tls_of) &&
           (!is_quic || check_quic(conf, node, tls_of(listen->default_server)));
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
