/* Scripts in handshakes: ssl_client_hello_by_lua*, ssl_certificate_by_lua*; with backends proxy_ssl_certificate_by_lua*, …_verify_by_lua*. */
#include "lua/tls/tls.h"
#include "stream/modules/lua/lua.h"
#include "stream/session/session.h"

/* A script of the server runs as this phase of its handshake. MAY WAIT. */
static bool run(const struct stream_server *server, struct script_handshake_call *call,
                const char *action)
{
    const struct session *session = call->conn->user;
    const struct stream_lua_main *main = stream_settings(server, &stream_lua_main_key);
    const struct stream_lua_settings *settings = stream_settings(server, &stream_lua_key);
    struct script_handshake handshake = {.session = NULL, .log = session->log};

    handshake.log.action = action;
    call->vm = main->vm;
    call->settings = &settings->script;
    return script_handshake_run(call, &handshake);
}

static bool hello(struct conn *conn, struct ssl_st *ssl, void *arg)
{
    const struct session *session = conn->user;
    const struct stream_server *server = session->listen->default_server;
    const struct stream_lua_settings *settings = stream_settings(server, &stream_lua_key);
    struct script_handshake_call call = {.code = settings->tls.hello,
                                         .phase = SCRIPT_CLIENT_HELLO,
                                         .conn = conn,
                                         .ssl = ssl,
                                         .name = "ssl_client_hello_by_lua"};

    return call.code == NULL || run(server, &call, "loading SSL client hello by lua");
}

static bool certify(struct conn *conn, struct ssl_st *ssl, void *arg)
{
    const struct session *session = conn->user;
    const struct stream_lua_settings *settings = stream_lua_settings_of(session);
    struct script_handshake_call call = {.code = settings->tls.certificate,
                                         .phase = SCRIPT_CERTIFICATE,
                                         .conn = conn,
                                         .ssl = ssl,
                                         .name = "lua_certificate_by_lua"};

    return call.code == NULL || run(session->server, &call, "loading SSL certificate by lua");
}

static const struct tls_hooks hooks = {.hello = hello, .certify = certify};

void stream_lua_handshakes_end(struct stream_main *stream)
{
    vec_each(struct stream_listen *, listen, &stream->listens) {
        vec_each(struct stream_server *, server, &(*listen)->servers) {
            const struct stream_lua_settings *settings = stream_settings(*server, &stream_lua_key);

            if (settings->tls.hello != NULL || settings->tls.certificate != NULL) {
                (*listen)->tls_hooks = &hooks;
            }
        }
    }
}

const struct tls_client_hooks *stream_lua_backend_hooks(struct session *session)
{
    struct stream_lua *lua = stream_lua_of(session);

    return script_backend_hooks(&lua->backend, &lua->subject,
                                &stream_lua_settings_of(session)->backend);
}
