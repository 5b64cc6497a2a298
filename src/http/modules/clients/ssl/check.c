/* TLS checks of requests: plain HTTP (497), no valid client certificate (495, 496), a server other
 * than that of the handshake (421). */
#include "http/modules/clients/ssl/ssl.h"
#include "http/request/request.h"
#include "shared/tls/accept.h"

/* Redirects a plain HTTP request to https, on an address that allows this. */
static enum handler_result send_to_https(struct request *request)
{
    uint16_t port = addr_port(connection_local(request->connection));
    struct str host = request->head.host.len != 0 ? request->head.host : request->server->name;
    struct str target = request_origin_form(request);

    if (host.len == 0) {
        return request_fail(request, 400);
    }
    struct str shown =
        port == 443 || port == 0 ? STR("") : arena_printf(&request->arena, ":%u", port);
    const struct str parts[] = {STR("https://"), host, shown, target};
    return response_redirect(request, 301, arena_join(&request->arena, parts, 4));
}

static enum handler_result client_refuse(struct request *request, unsigned status)
{
    request->keepalive = false;
    return request_fail(request, status);
}

static enum handler_result check_plain(struct request *request)
{
    if (request->connection->listen->allows_plain_http) {
        request->keepalive = false;
        return send_to_https(request);
    }
    log_info(&request->log, 0, "client sent plain HTTP request to HTTPS port");
    return client_refuse(request, 497);
}

static enum handler_result check_certificate(struct request *request,
                                             const struct tls_server_settings *settings)
{
    bool has_certificate;

    if (tls_server_check_client(settings, connection_tls(request->connection), &request->log,
                                &has_certificate)) {
        return HANDLER_NEXT;
    }
    return client_refuse(request, has_certificate ? 495 : 496);
}

/* Is the location of the URI, as the client sent it, exempt? Rewrites are ignored. */
static bool leads_to_exception(struct request *request)
{
    bool lacks_slash;

    return ssl_location_settings_of(
               location_find(request->server->root, request->uri, &request->env, &lacks_slash))
        ->is_exempt;
}

/* Checks the connection against the settings of the request's server. */
static enum handler_result check_connection(struct request *request)
{
    struct http_connection *connection = request->connection;

    if (!connection->listen->address.is_ssl) {
        return HANDLER_NEXT;
    }
    if (connection_tls(connection) == NULL) {
        return check_plain(request);
    }
    if (request->head.host.len == 0 && connection->secure_server != NULL) {
        request_set_location(request, connection->secure_server->root);
    }
    const struct ssl_settings *settings = ssl_settings_of(request->server);
    if (settings->tls.verify == TLS_VERIFY_OFF) {
        return HANDLER_NEXT;
    }
    if (connection->secure_server != request->server) {
        log_info(&request->log, 0,
                 "client attempted to request the server name different from the "
                 "one that was negotiated");
        return request_fail(request, 421);
    }
    if (settings->has_exceptions && leads_to_exception(request)) {
        return HANDLER_NEXT; /* ssl_check_location decides */
    }
    return check_certificate(request, &settings->tls);
}

enum handler_result ssl_check(struct request *request)
{
    request->log.action =
        "reading client request headers"; /* as in nginx, which checks while it reads them */
    enum handler_result result = check_connection(request);
    request->log.action = NULL;
    return result;
}

enum handler_result ssl_check_location(struct request *request)
{
    const struct ssl_settings *settings = ssl_settings_of(request->server);

    if (!settings->has_exceptions || !request_is_encrypted(request) || request->parent != NULL ||
        request->is_error_redirect || ssl_location_settings_of(request->location)->is_exempt) {
        return HANDLER_NEXT;
    }
    return check_certificate(request, &settings->tls);
}
