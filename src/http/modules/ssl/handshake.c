/* Accepted connections that speak TLS: PROXY protocol, handshake, then HTTP/1 or HTTP/2. */
#include <errno.h>

#include "base/clock.h"
#include "http/modules/ssl/ssl.h"
#include "http/request.h"
#include "http/tls_options.h"
#include "http/v1/v1.h"
#include "http/v2/v2.h"
#include "net/conn.h"
#include "server/generation.h"

static const struct conn_owner secure_owner;

/* ---- the server, by name ---- */

static struct tls_context *select_server(struct conn *conn, struct str name, struct str *protocols,
                                         void *arg)
{
    struct http_connection *http = conn->user;
    const struct http_listen *listen = http->listen;
    const struct http_server *server = listen->default_server;

    (void) arg;
    if (name.len != 0 && listen->has_names) {
        if (name.data[name.len - 1] == '.') {
            name.len--;
        }
        /* Names by regular expression want a request, whose captures nobody sees. */
        struct request *request =
            listen->regexes == NULL ? NULL : request_new(conn, http, &v1_wire);
        server = server_find(listen, name, request);
        if (request != NULL) {
            request_free(request);
        }
    }
    http->secure_server = server;
    *protocols = STR("\x08http/1.1\x08http/1.0\x08http/0.9");
    if (listen->is_http2 || v2_is_on(server)) {
        *protocols = STR("\x02h2\x08http/1.1\x08http/1.0\x08http/0.9");
    }
    const struct ssl_settings *settings = ssl_settings_of(server);
    if (settings->rejects_handshake) {
        return NULL;
    }
    /* A server without certificates is reached with those of the default one. */
    return settings->context != NULL ? settings->context
                                     : ssl_settings_of(listen->default_server)->context;
}

/* Certificates whose names hold variables. */
static bool certify(struct conn *conn, void *arg)
{
    struct http_connection *http = conn->user;
    const struct http_server *server = http->secure_server;
    const struct ssl_settings *settings = ssl_settings_of(server);

    (void) arg;
    if (settings->context == NULL) {
        server = http->listen->default_server;
        settings = ssl_settings_of(server);
    }
    if (!settings->has_variables) {
        return true;
    }
    struct request *request = request_new(conn, http, &v1_wire);
    struct arena *arena = &request->arena;
    struct str directory = generation_now->conf.conf_prefix;
    bool is_good = true;
    request_set_location(request, server->root);
    if (http->listen->regexes != NULL) {
        server_find(http->listen, tls_server_name(conn), request); /* for its captures */
    }
    for (size_t i = 0; is_good && i < settings->certificates.count; i++) {
        struct str certificate =
            template_text(*vec_at(&settings->certificates, struct template *, i), &request->env);
        struct str key =
            template_text(*vec_at(&settings->keys, struct template *, i), &request->env);
        is_good = tls_use_certificate(conn, tls_option_full_name(arena, directory, certificate),
                                      tls_option_full_name(arena, directory, key),
                                      &settings->passwords, settings->certificate_cache);
    }
    request_free(request);
    return is_good;
}

/* Of records that are no good. */
static void log_of(struct conn *conn, struct log *out)
{
    const struct http_connection *http = conn->user;

    if (http->current != NULL) {
        *out = http->current->log;
    } else {
        connection_log(http,
                       http->wire_state != NULL ? "processing HTTP/2 connection"
                                                : "waiting for request",
                       out);
    }
}

static const struct tls_selector selector = {
    .select = select_server,
    .certify = certify,
    .log = log_of,
};

/* ---- the stage ---- */

static void give_to_http1(struct http_connection *http)
{
    struct conn *conn = http->conn;
    uint32_t life = conn->life;

    conn->owner = &v1_owner;
    http->state = V1_READING;
    conn_set_deadline(conn,
                      clock_now.now_ms + http->listen->default_server->client_header_timeout_ms);
    v1_owner.input(conn);
    if (conn->life == life) {
        tls_flush(conn);
    }
}

static void established(struct http_connection *http)
{
    struct conn *conn = http->conn;

    if (http->secure_server != NULL) {
        http->rest_location = http->secure_server->root;
    }
    if (str_is(tls_alpn(conn), "h2")) {
        v2_begin(http);
        return;
    }
    give_to_http1(http);
}

/* As far as the handshake goes now. The connection may be gone afterwards. */
static void go_on(struct http_connection *http)
{
    struct conn *conn = http->conn;
    struct log *kept = conn->log;
    struct log log;

    connection_log(http, "SSL handshaking", &log);
    conn->log = &log;
    enum tls_progress progress = tls_handshake(conn);
    conn->log = kept;
    switch (progress) {
    case TLS_DONE:
        established(http);
        break;
    case TLS_PLAIN:
        give_to_http1(http); /* ssl_check refuses its requests */
        break;
    case TLS_MORE:
        if (!conn_park(conn)) {
            connection_close(http);
        }
        break;
    case TLS_FAILED:
        connection_close(http);
        break;
    }
}

static void on_input(struct conn *conn)
{
    struct http_connection *http = conn->user;

    if (http->state == V1_PROXY) {
        if (!v1_read_proxy_header(http)) {
            return;
        }
    }
    if (!conn_is_tls(conn)) {
        tls_accept(conn, ssl_settings_of(http->listen->default_server)->context, &selector);
    }
    go_on(http);
}

static void on_timeout(struct conn *conn)
{
    struct http_connection *http = conn->user;
    struct log log;

    connection_log(http, "SSL handshaking", &log);
    log_info(&log, ETIMEDOUT, "client timed out");
    conn_fail(conn, ETIMEDOUT);
    connection_close(http);
}

static const struct conn_owner secure_owner = {
    .input = on_input,
    .timed_out = on_timeout,
};

void ssl_accepted(struct listener *listener, int fd, const struct addr *peer)
{
    struct http_connection *http = v1_make(listener, fd, peer);

    counters_mine->accepted++;
    if (http != NULL) {
        counters_mine->handled++;
        v1_begin(http);
        http->conn->owner = &secure_owner;
        conn_start(http->conn);
    }
}

static void abort_one(struct conn *conn, void *arg)
{
    (void) arg;
    if (conn->owner == &secure_owner) {
        conn_fail(conn, ECANCELED);
        connection_close(conn->user);
    }
}

void ssl_abort(void)
{
    conn_each(abort_one, NULL);
}
