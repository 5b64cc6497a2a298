/* ngx_stream_ssl_module: TLS with clients. */
#include "server/module.h"
#include "shared/tls/accept.h"
#include "shared/tls/server.h"
#include "shared/tls/variables.h"
#include "stream/session/hooks.h"
#include "stream/session/session.h"

#define ALPN_MAX 255 /* bytes of one name (RFC 7301, 3.1) */

struct ssl_settings {
    struct tls_server_settings tls; /* first member, since the shared rows get the whole struct */
    uint64_t handshake_timeout_ms;
    struct str alpn; /* of ssl_alpn, in wire format; empty: no ALPN */
    bool needs_name; /* ssl_sni_force */
};

static struct settings_key ssl_key;

TYPED_SETTINGS(stream_ssl_settings_of, struct ssl_settings, ssl_key, struct stream_server)

static const struct tls_server_settings *tls_of(const void *server)
{
    return &stream_ssl_settings_of(server)->tls;
}

/* ---- the handshake ---- */

static struct tls_context *select_server(struct conn *conn, struct str name, struct str *protocols,
                                         void *arg)
{
    struct session *session = session_of(conn);

    if (name.len != 0) {
        if (name.data[name.len - 1] == '.') {
            name.len--;
        }
        if (!session_choose_server(session, name) &&
            stream_ssl_settings_of(session->server)->needs_name) {
            return NULL;
        }
    }
    *protocols = stream_ssl_settings_of(session->server)->alpn;
    return tls_server_context(tls_of(session->server), tls_of(session->listen->default_server));
}

/* Loads certificates whose names contain variables. */
static bool stream_ssl_certify(struct conn *conn, void *arg)
{
    struct session *session = session_of(conn);
    const struct tls_server_settings *settings =
        tls_server_certified(tls_of(session->server), tls_of(session->listen->default_server));

    return !settings->has_variables || tls_server_certify(settings, conn, &session->env);
}

static const struct tls_hooks *hooks_of(struct conn *conn, void *arg)
{
    const struct session *session = session_of(conn);

    return session->listen->tls_hooks;
}

static const struct tls_selector selector = {.select = select_server,
                                             .certify = stream_ssl_certify,
                                             .hooks = hooks_of};

static enum tls_progress go_on(struct session *session)
{
    return tls_server_go_on(session_carrier(session),
                            tls_of(session->listen->default_server)->context, &selector,
                            &session->log);
}

static uint64_t timeout_ms(const struct stream_server *server)
{
    return stream_ssl_settings_of(server)->handshake_timeout_ms;
}

static bool is_possible(const struct session *session)
{
    return tls_of(session->listen->default_server)->context != NULL;
}

static bool accepts_client(struct session *session)
{
    const struct tls_server_settings *settings = tls_of(session->server);
    bool has_certificate;

    return settings->verify == TLS_VERIFY_OFF ||
           tls_server_check_client(settings, session_carrier(session), &session->log,
                                   &has_certificate);
}

static const struct stream_handshake handshake = {.go_on = go_on,
                                                  .timeout_ms = timeout_ms,
                                                  .is_possible = is_possible,
                                                  .accepts_client = accepts_client};

static enum session_step check_client(struct session *session)
{
    return accepts_client(session) ? SESSION_NEXT : session_fail(session, SESSION_INTERNAL_ERROR);
}

/* ---- directives ---- */

static bool alpn_apply(struct conf_scope *scope, const struct directive *row,
                       struct conf_node *node, void *arg)
{
    struct ssl_settings *settings = arg;

    settings->alpn = STR_NONE;
    for (unsigned i = 1; i < node->count; i++) {
        struct str name = node->args[i];
        char length = (char) name.len;
        const struct str parts[] = {settings->alpn, {&length, 1}, name};

        if (name.len > ALPN_MAX) {
            return conf_error(scope->conf, node, "protocol too long");
        }
        settings->alpn = arena_join(scope->conf->arena, parts, 3);
    }
    return true;
}

static bool ssl_finish(struct conf_scope *scope, void *arg)
{
    struct ssl_settings *settings = arg;
    const struct stream_server *server = scope_stream_server(scope);

    settings->tls.context = NULL;
    return scope->context != IN_STREAM_SERVER ||
           tls_server_finish(scope, &settings->tls, server->resolver, server->resolver_timeout_ms,
                             &server->error_log);
}

static bool ssl_end(struct conf *conf, struct stream_main *main)
{
    bool is_good = true;

    vec_each(struct stream_listen *, listen, &main->listens) {
        if ((*listen)->address.is_ssl) {
            is_good &=
                tls_server_check_listen(conf, (*listen)->address.ssl_node, "ssl",
                                        &(*listen)->servers, (*listen)->default_server, tls_of);
        }
    }
    return is_good;
}

#define IN_BOTH IN_STREAM | IN_STREAM_SERVER
static const struct directive rows[] = {
    {"ssl_handshake_timeout", IN_BOTH, MSEC(struct ssl_settings, handshake_timeout_ms),
     .initial = "60s", .doc = "Timeout for the TLS handshake with a client."},
    {"ssl_alpn", IN_BOTH, CUSTOM_FIELD(struct ssl_settings, alpn, alpn_apply), ARGS(1, ARGS_ANY),
     .syntax = "protocol ...",
     .doc = "Protocols that the server supports by ALPN (RFC 7301), in order of preference. A "
            "client that offers only others is rejected."},
    {"ssl_sni_force", IN_BOTH, FLAG(struct ssl_settings, needs_name), .initial = "off",
     .doc = "Whether handshakes are rejected whose server name (SNI) matches no server_name of "
            "the address. The setting of the default server is used. From Tengine."},
    TLS_SERVER_ROWS(IN_BOTH),
    {0},
};

/* ---- the module ---- */

static bool get_ssl(struct variable_env *env, const struct variable *variable, struct str *out)
{
    const struct session *session = variable_session(env);

    return session_has_connection(session) &&
           tls_variable(session_carrier(session), str_skip(variable->name, sizeof("ssl_") - 1),
                        env->arena, out);
}

static const struct variable variables[] = {TLS_VARIABLES(get_ssl), {.name = STR_INIT("")}};

static const struct session_hook session_hooks[] = {
    {.phase = STREAM_SECURE, .run = check_client},
    {.run = NULL},
};

static const struct stream_module hooks = {
    .variables = variables,
    .hooks = session_hooks,
    .handshake = &handshake,
    .end = ssl_end,
};

static bool stream_ssl_worker_start(struct generation *generation)
{
    return tls_worker_start(&generation->log);
}

static void stream_ssl_worker_end(struct generation *generation)
{
    tls_worker_end();
}

const struct module ngx_stream_ssl_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_stream_ssl_module",
    .kind = MODULE_STREAM,
    .table = {.key = &ssl_key,
              .rows = rows,
              .contexts = IN_BOTH,
              .size = sizeof(struct ssl_settings),
              .finish = ssl_finish},
    .hooks = &hooks,
    .worker_start = stream_ssl_worker_start,
    .worker_end = stream_ssl_worker_end,
};
