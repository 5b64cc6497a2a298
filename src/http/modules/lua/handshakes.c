/* Scripts in handshakes with clients: ssl_client_hello_by_lua*, ssl_certificate_by_lua*,
 * ssl_session_fetch_by_lua*, …_store_by_lua*. */
#include "http/client/connection.h"
#include "http/modules/lua/lua.h"
#include "lua/tls/tls.h"
#include "net/tls/tls.h"

/* A script of the server runs as this phase of its handshake. MAY WAIT. */
static bool http_lua_handshakes_run(struct script_handshake *handshake,
                                    const struct http_connection *connection,
                                    const struct http_server *server,
                                    struct script_handshake_call *call)
{
    const struct http_lua_main *main = location_settings(server->root, &http_lua_main_key);
    const struct http_lua_settings *settings = location_settings(server->root, &http_lua_key);

    connection_log(connection, NULL, &handshake->connection_log);
    call->vm = main->script.vm;
    call->settings = &settings->script;
    call->context = script_handshake_context(call->ssl, call->vm);
    return script_handshake_run(call, handshake);
}

static const struct http_lua_settings *http_lua_handshakes_settings_of(
    const struct http_server *server)
{
    return location_settings(server->root, &http_lua_key);
}

static bool hello(struct conn *conn, struct ssl_st *ssl, void *arg)
{
    const struct http_connection *connection = connection_of(conn);
    const struct http_server *server = connection->listen->default_server;
    struct script_handshake handshake = {.session = NULL};
    struct script_handshake_call call = {.code = http_lua_handshakes_settings_of(server)->tls.hello,
                                         .phase = SCRIPT_CLIENT_HELLO,
                                         .conn = conn,
                                         .ssl = ssl,
                                         .name = "ssl_client_hello_by_lua"};

    return call.code == NULL || http_lua_handshakes_run(&handshake, connection, server, &call);
}

static bool http_lua_handshakes_certify(struct conn *conn, struct ssl_st *ssl, void *arg)
{
    const struct http_connection *connection = connection_of(conn);
    const struct http_server *server = connection_server(connection);
    struct script_handshake handshake = {.session = NULL};
    struct script_handshake_call call =
        {.code = http_lua_handshakes_settings_of(server)->tls.certificate,
         .phase = SCRIPT_CERTIFICATE,
         .conn = conn,
         .ssl = ssl,
         .name = "lua_certificate_by_lua"};

    return call.code == NULL || http_lua_handshakes_run(&handshake, connection, server, &call);
}

static SSL_SESSION *fetch(struct conn *conn, struct ssl_st *ssl, struct str id, void *arg)
{
    const struct http_connection *connection = connection_of(conn);
    const struct http_server *server = connection->listen->default_server;
    struct script_handshake handshake = {.session = NULL, .session_id = id};
    struct script_handshake_call call = {.code = http_lua_handshakes_settings_of(server)->tls.fetch,
                                         .phase = SCRIPT_SESSION_FETCH,
                                         .conn = conn,
                                         .ssl = ssl};

    if (call.code != NULL && !http_lua_handshakes_run(&handshake, connection, server, &call)) {
        SSL_SESSION_free(handshake.session);
        return NULL;
    }
    return handshake.session;
}

static void http_lua_handshakes_store(struct conn *conn, struct ssl_st *ssl, SSL_SESSION *session,
                                      void *arg)
{
    const struct http_connection *connection = connection_of(conn);
    const struct http_server *server = connection->listen->default_server;
    struct script_handshake handshake = {.session = session};
    struct script_handshake_call call = {.code = http_lua_handshakes_settings_of(server)->tls.store,
                                         .phase = SCRIPT_SESSION_STORE,
                                         .conn = conn,
                                         .ssl = ssl};

    if (call.code != NULL) {
        http_lua_handshakes_run(&handshake, connection, server, &call);
    }
}

static const struct tls_hooks hooks = {.hello = hello,
                                       .certify = http_lua_handshakes_certify,
                                       .fetch = fetch,
                                       .store = http_lua_handshakes_store};

const struct tls_client_hooks *http_lua_backend_hooks(struct request *request)
{
    struct http_lua_request *lua = http_lua_request_of(request);

    return script_backend_hooks(&lua->backend, &lua->subject,
                                &http_lua_settings_of(request)->backend);
}

void http_lua_handshakes_end(struct http_main *http)
{
    vec_each(struct http_listen *, listen, &http->listens) {
        vec_each(struct http_server *, server, &(*listen)->servers) {
            const struct script_tls_codes *codes = &http_lua_handshakes_settings_of(*server)->tls;

            if (codes->hello != NULL || codes->certificate != NULL || codes->fetch != NULL ||
                codes->store != NULL) {
                (*listen)->tls_hooks = &hooks;
            }
        }
    }
}
