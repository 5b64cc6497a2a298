/* What is sent to a proxied server: the head of the request, and the frames of its body. */
#include "http/modules/proxy/proxy.h"

#include <stdio.h>

#include "http/connection.h"
#include "http/exchange/h2/h2.h"
#include "net/proxy_protocol.h"

/* ---- the head ---- */

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

/* The method that the backend is asked with. False: proxy_method gives none; status set. */
static bool choose_method(struct exchange *x)
{
    struct request *request = x->request;
    const struct proxy_settings *settings = proxy_settings_of(x);
    struct proxy_state *state = proxy_state_of(x);

    state->method = request->method_name;
    if (settings->method != NULL) {
        struct str name = template_text(settings->method, &request->env);
        if (name.len != 0) {
            state->method = name;
        }
        if (!is_method(state->method)) {
            log_error(&request->log, 0, "invalid method \"%.*s\"", STR_ARG(name));
            request->response.status = 500;
            return false;
        }
    }
    if (x->is_cacheable && x->settings->cache_convert_head && str_is(state->method, "HEAD")) {
        state->method = STR("GET");
    }
    return true;
}

/* Variables tell of the framing. */
static void begin_head(struct exchange *x, struct head_draft *draft)
{
    struct proxy_state *state = proxy_state_of(x);

    head_draft_begin(x, proxy_settings_of(x)->plan, state->url.host, draft);
    state->body_length = draft->body_length;
    state->is_chunked = draft->is_chunked;
    x->is_chunked_out = draft->is_chunked;
}

bool proxy_make_request(struct exchange *x)
{
    struct request *request = x->request;
    const struct proxy_settings *settings = proxy_settings_of(x);
    struct proxy_state *state = proxy_state_of(x);
    struct head_draft draft;

    if (!choose_method(x)) {
        return false;
    }
    begin_head(x, &draft);
    size_t room = head_draft_room(x, &draft) + state->method.len + state->url.uri.len + 16;
    char *start = arena_text(&request->arena, room);
    char *at = str_put(start, state->method);
    *at++ = ' ';
    at = str_put(at, state->url.uri);
    at =
        settings->version == HTTP_1_1 ? STR_PUT(at, " HTTP/1.1\r\n") : STR_PUT(at, " HTTP/1.0\r\n");
    at = head_draft_put(at, x, &draft);
    at = STR_PUT(at, "\r\n");
    x->head = str_from(start, at);
    return true;
}

bool proxy_make_h2_request(struct exchange *x)
{
    const struct proxy_settings *settings = proxy_settings_of(x);
    struct proxy_state *state = proxy_state_of(x);
    struct head_draft draft;

    if (!choose_method(x)) {
        return false;
    }
    begin_head(x, &draft);
    struct h2_request request = {
        .method = state->method,
        .path = state->url.uri,
        .is_https = state->url.is_https,
        .accepts_trailers = settings->pass_trailers,
        .keeps_trailers = settings->pass_trailers,
        .is_alone = settings->proxy_protocol,
    };
    if (settings->proxy_protocol && !x->is_secure) {
        request.announcement = proxy_announcement(x);
    }
    h2_request_make(x, &request, &draft);
    return true;
}

/* ---- sending ---- */

struct str proxy_announcement(struct exchange *x)
{
    struct request *request = x->request;
    struct addr client = {.len = 0};
    char text[PROXY_HEADER_V1_MAX];

    request_client(request, &client);
    size_t length = proxy_header_write(&client, connection_local(request->http), text);
    return arena_dup(&request->arena, (struct str){text, length});
}

void proxy_send_head(struct exchange *x)
{
    if (proxy_settings_of(x)->proxy_protocol && !x->is_secure) {
        conn_write(x->link->conn, proxy_announcement(x));
    }
    conn_write(x->link->conn, x->head);
}

/* A part of a body without a known length: one chunk (RFC 9112, 7.1). */
static void send_chunk(struct exchange *x, const struct body_piece *piece)
{
    struct conn *conn = x->link->conn;
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
        conn_write(x->link->conn, STR("0\r\n\r\n"));
    }
}
