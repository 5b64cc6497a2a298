/* The TLS handshake of accepted connections: selects server, certificate and protocol. */
#include "http/client/connection.h"
#include "http/client/protocol.h"
#include "http/modules/clients/ssl/ssl.h"
#include "http/request/request.h"
#include "shared/tls/accept.h"

/* ---- the server by its name ---- */

static struct tls_context *select_server(struct conn *conn, struct str name, struct str *protocols,
                                         void *arg)
{
    struct http_connection *connection = connection_of(conn);
    const struct http_listen *listen = connection->listen;
    const struct http_server *server = listen->default_server;
    struct handshake handshake;

    if (name.len != 0 && listen->has_names) {
        if (name.data[name.len - 1] == '.') {
            name.len--;
        }
        handshake_begin(&handshake, connection);
        server = server_find(listen, name, &handshake.env);
        handshake_end(&handshake);
    }
    connection->secure_server = server;
    *protocols = protocols_offered(listen, server);
    const struct tls_server_settings *settings = &ssl_settings_of(server)->tls;
    return tls_server_context(settings, &ssl_settings_of(listen->default_server)->tls);
}

/* Selects certificates whose file names have variables. */
static bool ssl_handshake_certify(struct conn *conn, void *arg)
{
    struct http_connection *connection = connection_of(conn);
    const struct tls_server_settings *settings =
        tls_server_certified(&ssl_settings_of(connection->secure_server)->tls,
                             &ssl_settings_of(connection->listen->default_server)->tls);

    if (!settings->has_variables) {
        return true;
    }
    struct handshake handshake;
    handshake_begin(&handshake, connection);
    if (connection->listen->names.regexes != NULL) {
        server_find(connection->listen, tls_server_name(conn),
                    &handshake.env); /* so that the captures are available */
    }
    bool is_good = tls_server_certify(settings, conn, &handshake.env);
    handshake_end(&handshake);
    return is_good;
}

/* The log for malformed records. */
static void log_of(struct conn *conn, struct log *out)
{
    const struct http_connection *connection = connection_of(conn);

    const struct request *request = connection_current(connection);

    if (request != NULL) {
        *out = request->log;
    } else {
        connection_log(connection, connection_action(connection), out);
    }
}

static const struct tls_hooks *hooks_of(struct conn *conn, void *arg)
{
    const struct http_connection *connection = connection_of(conn);

    return connection->listen->tls_hooks;
}

static const struct tls_selector selector = {
    .select = select_server,
    .certify = ssl_handshake_certify,
    .hooks = hooks_of,
    .log = log_of,
    .knows_plain = true,
};

/* ---- the stage ---- */

static enum tls_progress go_on(struct http_connection *connection)
{
    struct log log;

    connection_log(connection, connection_action(connection), &log);
    return tls_server_go_on(connection_carrier(connection),
                            ssl_settings_of(connection->listen->default_server)->tls.context,
                            &selector, &log);
}

static int64_t expires(const struct http_server *server)
{
    const struct tls_context *context = ssl_settings_of(server)->tls.context;

    return context == NULL ? 0 : tls_context_expires(context);
}

static struct tls_context *context_of(const struct http_server *server)
{
    return ssl_settings_of(server)->tls.context;
}

const struct http_handshake ssl_handshake = {
    .selector = &selector,
    .context = context_of,
    .server = handshake_server,
    .go_on = go_on,
    .expires = expires,
};
