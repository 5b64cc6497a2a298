/* The request to a proxied server: its URI, its header, and the framing of its body. */
#include "http/modules/backends/proxy/proxy.h"

#include <stdio.h>

#include "http/client/connection.h"
#include "http/exchange/h2/h2.h"
#include "http/exchange/h3/h3.h"
#include "http/message/uri.h"
#include "net/conn/proxy_protocol.h"

/* ---- the URI ---- */

bool proxy_request_uri(struct request *request, const struct proxy_target *target, struct str *uri)
{
    struct arena *arena = &request->arena;
    struct str own_uri = *uri;

    if (own_uri.len != 0 && target->text != NULL) {
        *uri = target_safe(arena, target_rooted(arena, own_uri));
        return true;
    }
    if (own_uri.len != 0 && request->uri_state != URI_REWRITTEN &&
        str_starts(request->uri, target->prefix)) {
        *uri = target_assembled(request, target_rooted(arena, own_uri), target->prefix.len);
        return !uri_climbs(str_skip(request->uri, target->prefix.len));
    }
    *uri = target_of_request(request);
    return true;
}

/* ---- the header ---- */

static bool is_method(struct str name)
{
    for (size_t i = 0; i < name.len; i++) {
        unsigned char c = (unsigned char) name.data[i];
        if (c <= ' ' || c >= 127) {
            return false;
        }
    }
    return name.len != 0;
}

/* proxy_method. False: it is none; status set. */
static bool take_method(struct exchange *x, const struct template *method)
{
    struct request *request = x->request;
    struct proxy_state *state = x->state;
    struct str name = template_text(method, &request->env);

    if (name.len != 0) {
        state->method = name;
    }
    if (!is_method(state->method)) {
        log_error(&request->log, 0, "invalid method \"%.*s\"", STR_ARG(name));
        request->response.status = 500;
        return false;
    }
    return true;
}

/* Sets the method, and the framing, which variables use. False: status set. */
static bool begin_head(struct exchange *x, struct head_draft *draft)
{
    const struct proxy_settings *settings = x->module_settings;
    struct proxy_state *state = x->state;

    state->method = x->request->method_name;
    if (settings->method != NULL && !take_method(x, settings->method)) {
        return false;
    }
    if (x->cache.is_cacheable && x->settings->cache_convert_head && str_is(state->method, "HEAD")) {
        state->method = STR("GET");
    }
    head_draft_begin(x, settings->plan, state->url.host, draft);
    state->body_length = draft->body_length;
    state->is_chunked = draft->is_chunked;
    x->is_chunked_out = draft->is_chunked;
    return true;
}

bool proxy_make_request(struct exchange *x)
{
    struct request *request = x->request;
    const struct proxy_settings *settings = x->module_settings;
    struct proxy_state *state = x->state;
    struct head_draft draft;

    if (!begin_head(x, &draft)) {
        return false;
    }
    size_t capacity = head_draft_room(x, &draft) + state->method.len + state->url.uri.len + 16;
    char *start = arena_text(&request->arena, capacity);
    char *at = str_put(start, state->method);
    *at++ = ' ';
    at = str_put(at, state->url.uri);
    at =
        settings->version == HTTP_1_1 ? STR_PUT(at, " HTTP/1.1\r\n") : STR_PUT(at, " HTTP/1.0\r\n");
    at = head_draft_put(at, x, &draft);
    at = STR_PUT(at, "\r\n");
    x->head = str_from(start, at);
    state->says_close = draft.says_close;
    return true;
}

/* False: there is no method; status set. */
static bool make_coded_request(struct exchange *x, struct head_draft *draft,
                               struct coded_request *request)
{
    const struct proxy_settings *settings = x->module_settings;
    struct proxy_state *state = x->state;

    if (!begin_head(x, draft)) {
        return false;
    }
    *request = (struct coded_request){
        .method = state->method,
        .path = state->url.uri,
        .is_https = state->url.is_https,
        .accepts_trailers = settings->pass_trailers,
        .keeps_trailers = settings->pass_trailers,
        .is_alone = settings->proxy_protocol,
    };
    if (settings->proxy_protocol && !x->is_secure) {
        request->announcement = proxy_announcement(x);
    }
    return true;
}

bool proxy_make_h2_request(struct exchange *x)
{
    struct coded_request request;
    struct head_draft draft;

    if (!make_coded_request(x, &draft, &request)) {
        return false;
    }
    h2_request_make(x, &request, &draft);
    return true;
}

bool proxy_make_h3_request(struct exchange *x)
{
    struct coded_request request;
    struct head_draft draft;

    if (!make_coded_request(x, &draft, &request)) {
        return false;
    }
    h3_request_make(x, &request, &draft);
    return true;
}

/* ---- sending ---- */

struct str proxy_announcement(struct exchange *x)
{
    struct request *request = x->request;
    struct addr client = {.len = 0};
    char text[PROXY_HEADER_V1_MAX];

    request_client(request, &client);
    size_t length = proxy_header_write(&client, connection_local(request->connection), text);
    return arena_dup(&request->arena, (struct str){text, length});
}

void proxy_send_announced(struct exchange *x)
{
    if (!x->is_secure) { /* with TLS it was sent before the handshake */
        conn_write(x->connection->conn, proxy_announcement(x));
    }
    conn_write(x->connection->conn, x->head);
}

/* Sends a part of a body of unknown length as one chunk (RFC 9112, 7.1). */
static void send_chunk(struct exchange *x, const struct body_piece *piece)
{
    struct conn *conn = x->connection->conn;
    uint64_t size = piece->bytes.data != NULL ? piece->bytes.len : piece->size;
    char line[24];

    if (size == 0) {
        return;
    }
    int length = snprintf(line, sizeof(line), "%llx\r\n", (unsigned long long) size);
    conn_write(conn, (struct str){line, (size_t) length});
    exchange_send_piece(x, piece);
    conn_write(conn, STR("\r\n"));
}

void proxy_send_body(struct exchange *x, const struct body_piece *piece, bool is_last)
{
    if (!x->is_chunked_out) {
        if (piece != NULL) {
            exchange_send_piece(x, piece);
        }
        return;
    }
    if (piece != NULL) {
        send_chunk(x, piece);
    }
    if (is_last) {
        conn_write(x->connection->conn, STR("0\r\n\r\n"));
    }
}
