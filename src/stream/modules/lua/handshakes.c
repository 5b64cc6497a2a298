/* Scripts in handshakes: ssl_client_hello_by_lua*, ssl_certificate_by_lua*; with backends
 * proxy_ssl_certificate_by_lua*, …_verify_by_lua*. */
#include "lua/tls/tls.h"
#include "stream/modules/lua/lua.h"
#include "stream/session/session.h"

/* A script of the server runs as this phase of its handshake. MAY WAIT. */
static bool stream_lua_handshakes_run(const struct stream_server *server,
                                      struct script_handshake_call *call)
{
    struct session *session = call->conn->user;
    const struct stream_lua_settings *settings = stream_settings(server, &stream_lua_key);
    struct stream_lua *lua = stream_lua_of(session);
    struct script_handshake handshake = {.session = NULL, .connection_log = session->log};

    call->vm = lua->subject.vm;
    call->context = &lua->subject.context;
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

    return call.code == NULL || stream_lua_handshakes_run(server, &call);
}

static bool stream_lua_handshakes_certify(struct conn *conn, struct ssl_st *ssl, void *arg)
{
    const struct session *session = conn->user;
    const struct stream_lua_settings *settings = stream_lua_settings_of(session);
    struct script_handshake_call call = {.code = settings->tls.certificate,
                                         .phase = SCRIPT_CERTIFICATE,
                                         .conn = conn,
                                         .ssl = ssl,
                                         .name = "lua_certificate_by_lua"};

    return call.code == NULL || stream_lua_handshakes_run(session->server, &call);
}

static const struct tls_hooks hooks = {.hello = hello, .certify = stream_lua_handshakes_certify};

/* A script for handshakes with the backend needs proxy_ssl. False after conf_error. */
static bool check_backend(struct conf *conf, const struct stream_server *server)
{
    const struct stream_lua_settings *settings = stream_settings(server, &stream_lua_key);
    const struct script_code *code = settings->backend.certificate != NULL
                                         ? settings->backend.certificate
                                         : settings->backend.verify;

    return code == NULL || server->tls != NULL ||
           conf_error(conf, code->node, "%s* should be used with proxy_ssl directive",
                      code == settings->backend.verify ? "proxy_ssl_verify_by_lua"
                                                       : "proxy_ssl_certificate_by_lua");
}

bool stream_lua_handshakes_end(struct conf *conf, struct stream_main *stream)
{
    bool is_good = true;

    vec_each(struct stream_server *, server, &stream->servers) {
        is_good &= check_backend(conf, *server);
    }
    vec_each(struct stream_listen *, listen, &stream->listens) {
        vec_each(struct stream_server *, server, &(*listen)->servers) {
            const struct stream_lua_settings *settings = stream_settings(*server, &stream_lua_key);

            if (settings->tls.hello != NULL || settings->tls.certificate != NULL) {
                (*listen)->tls_hooks = &hooks;
            }
        }
    }
    return is_good;
}

const struct tls_client_hooks *stream_lua_backend_hooks(struct session *session)
{
    struct stream_lua *lua = stream_lua_of(session);

    return script_backend_hooks(&lua->backend, &lua->subject,
                                &stream_lua_settings_of(session)->backend);
}
