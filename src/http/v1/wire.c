/* Responses of HTTP/1 on the wire: heads, bodies with or without chunks, interim responses, rate
 * limits. */
#include <errno.h>

#include "base/clock.h"
#include "base/parse.h"
#include "conf/conf.h"
#include "http/message/agent.h"
#include "http/message/status.h"
#include "http/request/pace.h"
#include "http/request/wire.h"
#include "http/routing/connection_settings.h"
#include "http/routing/file_settings.h"
#include "http/routing/response_settings.h"
#include "http/v1/v1.h"
#include "server/generation.h"
#include "server/module.h"

/* Memory pieces up to this size are copied after the head: one send takes both. */
#define COPY_MAX 2048
/* More unsent bytes than this, and a handler that gives more waits. */
#define UNSENT_MAX (64 * 1024)

/* keepalive_disable: is it a browser that cannot do with a kept connection? MSIE 6 only after a
 * POST. */
static bool browser_loses_keepalive(const struct request *request, unsigned disabled)
{
    const struct field *agent = fields_get(&request->headers, FIELD_USER_AGENT);

    if (agent == NULL) {
        return false;
    }
    if ((disabled & KEEPALIVE_DISABLE_MSIE6) != 0 && request->method == METHOD_POST &&
        agent_is_msie6(agent->value)) {
        return true;
    }
    return (disabled & KEEPALIVE_DISABLE_SAFARI) != 0 &&
           str_find(agent->value, STR("Safari/")) != NULL &&
           str_find(agent->value, STR("Mac OS X")) != NULL &&
           str_find(agent->value, STR("Chrome/")) == NULL;
}

/* Will there be a next request on this connection? */
static bool keeps_connection(const struct request *request)
{
    const struct http_location *location = request->location;
    const struct http_connection *connection = request->connection;

    if (!request->keepalive || location->connections->keepalive_timeout_ms == 0 ||
        (int64_t) connection->requests >= location->connections->keepalive_requests ||
        clock_now.now_ms - connection->start_ms > location->connections->keepalive_time_ms) {
        return false;
    }
    if (service_is_draining() || (worker_is_quitting && !connection_can_hand_over(connection))) {
        return false;
    }
    unsigned disabled = location->connections->keepalive_disable;
    bool matters = (disabled & KEEPALIVE_DISABLE_SAFARI) != 0 || request->method == METHOD_POST;
    return !matters || !browser_loses_keepalive(request, disabled);
}

/* Room for a head: everything that can be in it, counted generously. */
static size_t head_room(const struct request *request)
{
    const struct response *response = &request->response;
    size_t size = 512 + request->location->responses->server_text.len + response->content_type.len +
                  response->charset.len + response->etag.len + response->reason.len +
                  response->location.len;

    fields_each(field, &response->fields) {
        size += field->name.len + field->value.len + 4;
    }
    return size;
}

/* Is the field added, because nobody else has? */
static bool adds(const struct response *response, enum field_id id)
{
    return (response->order.left_out & FIELD_BIT(id)) == 0 &&
           fields_get(&response->fields, id) == NULL;
}

/* Status line, Server and Date: for 200 laid out when the configuration was read. */
static char *put_start(char *at, const struct request *request)
{
    const struct response *response = &request->response;
    const struct v1_texts *texts = location_settings(request->location, &v1_key);
    uint64_t own = FIELD_BIT(FIELD_SERVER) | FIELD_BIT(FIELD_DATE);
    bool has_own = ((response->fields.seen | response->order.left_out) & own) != 0;

    if (response->status == 200 && response->reason.len == 0 && !has_own) {
        at = str_put(at, texts->head_200);
        at = str_put(at, CLOCK_STR(http_date));
        return STR_PUT(at, "\r\n");
    }
    at = STR_PUT(at, "HTTP/1.1 ");
    struct str reason =
        response->reason.len != 0 ? response->reason : status_phrase(response->status);
    if (response->status < 100) {
        *at++ = '0';
        if (response->status < 10) {
            *at++ = '0';
        }
    }
    at = format_uint(at, response->status);
    *at++ = ' ';
    at = str_put(at, reason);
    at = STR_PUT(at, "\r\n");
    if (!has_own || adds(response, FIELD_SERVER)) {
        at = str_put(at, texts->server_field);
    }
    if (!has_own || adds(response, FIELD_DATE)) {
        at = STR_PUT(at, "Date: ");
        at = str_put(at, CLOCK_STR(http_date));
        at = STR_PUT(at, "\r\n");
    }
    return at;
}

/* Length or chunks, and when neither can be, the end of the connection ends the body (RFC
 * 9112, 6.3). */
static char *put_framing(char *at, struct request *request)
{
    struct response *response = &request->response;

    if (response->framing == FRAMING_TUNNEL ||
        (response->status == 204 && !response->is_length_set) ||
        (response->status < 200 && response->status >= 100)) {
        return at;
    }
    if (response->content_length >= 0) {
        at = STR_PUT(at, "Content-Length: ");
        at = format_uint(at, (uint64_t) response->content_length);
        return STR_PUT(at, "\r\n");
    }
    if (response->is_header_only) {
        return at;
    }
    if (request->head.version >= HTTP_1_1 &&
        request->location->responses->chunked_transfer_encoding) {
        response->framing = FRAMING_CHUNKED;
    } else {
        request->keepalive = false;
    }
    return at;
}

static char *put_connection(char *at, const struct request *request)
{
    if (request->response.framing == FRAMING_CHUNKED) {
        at = STR_PUT(at, "Transfer-Encoding: chunked\r\n");
    }
    if (request->response.status == 101) {
        return STR_PUT(at, "Connection: upgrade\r\n");
    }
    if (request->response.framing == FRAMING_TUNNEL) {
        return at;
    }
    if (!request->keepalive) {
        return STR_PUT(at, "Connection: close\r\n");
    }
    at = STR_PUT(at, "Connection: keep-alive\r\n");
    if (request->location->connections->keepalive_header_s != 0) {
        at = STR_PUT(at, "Keep-Alive: timeout=");
        at = format_uint(at, request->location->connections->keepalive_header_s);
        at = STR_PUT(at, "\r\n");
    }
    return at;
}

/*
 * May the body that a handler gave whole go after the head at once? Not when a filter wants to see
 * it, when it is larger than what is worth copying, or when its speed is limited.
 */
static bool takes_whole(const struct request *request)
{
    const struct response *response = &request->response;

    return response->filters == NULL && !response->is_header_only &&
           response->framing != FRAMING_CHUNKED && request->delivery.limit_rate == 0 &&
           response->whole.len <= COPY_MAX &&
           response->content_length == (int64_t) response->whole.len;
}

static char *put_modified(char *at, const struct response *response)
{
    at = STR_PUT(at, "Last-Modified: ");
    at = response->last_modified_text.len != 0 ? str_put(at, response->last_modified_text)
                                               : http_date_format(at, response->last_modified);
    return STR_PUT(at, "\r\n");
}

/* Fields that stand before the others because of what they came from. */
static char *put_early_fields(char *at, const struct response *response)
{
    fields_each(field, &response->fields) {
        if (field->is_early && !field->is_removed) {
            at = field_put(at, field->name, field->value);
        }
    }
    return at;
}

/* The ETag and a late Last-Modified, where they stand before field number `place`. */
static char *put_validators(char *at, const struct response *response, uint32_t position)
{
    bool has_modified = response->last_modified != -1 && response->order.is_modified_late &&
                        response->order.modified_position == position;

    if (has_modified && !response->order.is_etag_first) {
        at = put_modified(at, response);
    }
    if (response->etag.len != 0 && response->order.etag_position == position) {
        at = field_put(at, STR("ETag"), response->etag);
    }
    if (has_modified && response->order.is_etag_first) {
        at = put_modified(at, response);
    }
    return at;
}

/* All that has no place of its own, with what a backend sent among it. */
static char *put_in_order(char *at, const struct response *response)
{
    uint32_t position = 0;

    fields_each(field, &response->fields) {
        if (position == response->order.etag_position ||
            position == response->order.modified_position) {
            at = put_validators(at, response, position);
        }
        position++;
        if (!field->is_removed && !field->is_early) {
            at = field_put(at, field->name, field->value);
        }
    }
    return put_validators(at, response, position);
}

/* The whole head in the order that nginx has: Last-Modified and Location stand after Connection
 * where they are late. */
static char *v1_wire_put_head(char *at, struct request *request)
{
    const struct response *response = &request->response;
    bool has_modified = response_tells_modified(response);
    bool has_location = response->location.len != 0;

    at = put_start(at, request);
    if (response->content_type.len != 0 && (response->status != 204 || response->reason.len != 0)) {
        at = STR_PUT(at, "Content-Type: ");
        at = str_put(at, response->content_type);
        if (response->charset.len != 0) {
            at = STR_PUT(at, "; charset=");
            at = str_put(at, response->charset);
        }
        at = STR_PUT(at, "\r\n");
    }
    at = put_framing(at, request);
    if (has_modified && !response->order.is_modified_late) {
        at = put_modified(at, response);
    }
    if (has_location && !response->order.is_location_late) {
        at = field_put(at, STR("Location"), response->location);
    }
    at = put_connection(at, request);
    if (response->order.has_early_field) {
        at = put_early_fields(at, response);
    }
    if (has_location && response->order.is_location_late) {
        at = field_put(at, STR("Location"), response->location);
    }
    if (response->order.is_modified_late || response->order.etag_position != 0) {
        return STR_PUT(put_in_order(at, response), "\r\n");
    }
    if (response->etag.len != 0) {
        at = field_put(at, STR("ETag"), response->etag);
    }
    fields_each(field, &response->fields) {
        if (!field->is_removed && !field->is_early) {
            at = field_put(at, field->name, field->value);
        }
    }
    return STR_PUT(at, "\r\n");
}

/* conn_wait_sent, with send_min_rate. MAY WAIT. */
static enum wait_result wait_at_pace(struct request *request, uint32_t below)
{
    struct conn *conn = v1_conn(request);
    uint64_t timeout_ms = request->location->connections->send_timeout_ms;
    uint64_t moved_ms = clock_now.now_ms;

    for (;;) {
        uint64_t sent = conn->sent;
        uint64_t deadline = pace_send_begins(request, sent, moved_ms + timeout_ms);
        enum wait_result result = conn_wait_output(conn, below, deadline);

        moved_ms = conn->sent != sent ? clock_now.now_ms : moved_ms;
        if (result == WAIT_CANCELLED || !pace_send_ended(request, conn->sent)) {
            return WAIT_CANCELLED;
        }
        if (result == WAIT_READY || clock_now.now_ms - moved_ms >= timeout_ms) {
            return result;
        }
    }
}

/*
 * Waits until fewer than `below` bytes are unsent. False: the client is gone, or does not read;
 * what is queued is dropped then. MAY WAIT.
 */
static bool wait_for_client(struct request *request, uint32_t below)
{
    struct conn *conn = v1_conn(request);
    bool is_paced = request->location->connections->send_min_rate.bytes != 0;
    enum wait_result result =
        is_paced ? wait_at_pace(request, below)
                 : conn_wait_sent(conn, below, request->location->connections->send_timeout_ms);

    if (request->is_timed_out) {
        conn_fail(conn, ETIMEDOUT);
    } else if (result == WAIT_TIMED_OUT) {
        request->log.action = "sending to client";
        log_info(&request->log, ETIMEDOUT, "client timed out");
        request->is_timed_out = true;
        conn_fail(conn, ETIMEDOUT);
    }
    return result == WAIT_READY && !conn->is_broken;
}

/* How many bytes may go now under limit_rate; waits until some may. 0: the client is gone. MAY
 * WAIT. */
static uint64_t wait_for_rate(struct request *request, uint64_t wanted)
{
    struct conn *conn = v1_conn(request);

    for (;;) {
        uint64_t elapsed_ms = clock_now.now_ms - request->start_ms;
        uint64_t allowed = request->delivery.limit_rate_after +
                           request->delivery.limit_rate * (elapsed_ms / 1000 + 1);
        uint64_t given = conn->queued - request->delivery.start;

        if (allowed > given) {
            return allowed - given < wanted ? allowed - given : wanted;
        }
        uint64_t pause_ms = (given - allowed) * 1000 / request->delivery.limit_rate + 1;
        if (!wait_for_client(request, 1) ||
            fiber_sleep(clock_now.now_ms + pause_ms) == WAIT_CANCELLED) {
            return 0;
        }
    }
}

/* A head that is longer than limit_rate lets go at once leaves in parts, as with nginx. MAY WAIT.
 */
static void write_slowly(struct request *request, struct str head)
{
    while (head.len != 0) {
        uint64_t part = wait_for_rate(request, head.len);

        if (part == 0) {
            return; /* the client is gone; the code that sends the body sees it, too */
        }
        conn_write(v1_conn(request), str_head(head, part));
        head = str_skip(head, part);
    }
}

static void v1_send_head(struct request *request)
{
    struct conn *conn = v1_conn(request);
    struct response *response = &request->response;

    request->delivery.start = conn->queued - request->delivery.interim_bytes;
    request->delivery.head_end = request->delivery.start;
    response->progress = RESPONSE_HEAD_SENT;
    if (request->method == METHOD_HEAD || response->status == 304 || response->status == 204) {
        response->is_header_only = true;
    }
    if (request->head.version < HTTP_1_0) {
        request->keepalive = false;
        return;
    }
    request->keepalive = keeps_connection(request);
    if (!request->location->connections->tcp_nodelay || conn->is_nodelay_known) {
        conn_set_nodelay(conn,
                         request->location->connections->tcp_nodelay); /* on, unless it was said */
    }
    if (__builtin_expect(response->raw_head.len != 0, 0)) {
        conn_write(conn, response->raw_head);
        request->delivery.head_end = conn->queued - request->delivery.interim_bytes;
        return;
    }
    size_t size = head_room(request);
    bool is_slow = request->delivery.limit_rate != 0 &&
                   size > request->delivery.limit_rate_after + request->delivery.limit_rate;
    if (size + COPY_MAX <= OUT_CHUNK_SIZE && !is_slow) {
        size_t whole = response->whole.len <= COPY_MAX ? response->whole.len : 0;
        char *room = conn_out_room(conn, size + whole);
        char *end = v1_wire_put_head(room, request);
        request->delivery.head_end =
            conn->queued + (uint64_t) (end - room) - request->delivery.interim_bytes;
        if (response->whole.data != NULL && takes_whole(request)) {
            end = str_put(end, response->whole);
            response->progress = RESPONSE_COMPLETE;
        }
        conn_out_commit(conn, (size_t) (end - room));
        return;
    }
    char *room = arena_text(&request->arena, size);
    struct str head = str_from(room, v1_wire_put_head(room, request));
    if (is_slow) {
        write_slowly(request, head);
    } else {
        conn_write(conn, head);
    }
    request->delivery.head_end = conn->queued - request->delivery.interim_bytes;
}

/* ---- bodies ---- */

static void drop_piece(const struct body_piece *piece)
{
    if (piece != NULL && piece->release != NULL) {
        piece->release(piece->release_arg);
    }
}

/* One piece, or as much of it at a time as the rate limit allows. */
static bool put_piece(struct request *request, const struct body_piece *piece)
{
    struct conn *conn = v1_conn(request);
    uint64_t size = piece->bytes.data != NULL ? piece->bytes.len : piece->size;

    for (uint64_t done = 0; done < size;) {
        uint64_t part = size - done;
        if (request->delivery.limit_rate != 0) {
            part = wait_for_rate(request, part);
            if (part == 0) {
                drop_piece(piece);
                return false;
            }
        }
        void (*release)(void *) = done + part == size ? piece->release : NULL;
        if (piece->bytes.data == NULL) {
            uint64_t chunk = request->location->files->sendfile_max_chunk;
            conn->turn_budget = chunk == 0 || chunk > UINT32_MAX ? UINT32_MAX : (uint32_t) chunk;
            conn_write_file(conn, piece->fd,
                            (struct file_range){piece->offset + (off_t) done, part}, release,
                            piece->release_arg);
        } else if (!piece->is_volatile && part > COPY_MAX) {
            conn_write_reference(conn, (struct str){piece->bytes.data + done, part}, release,
                                 piece->release_arg);
        } else {
            conn_write(conn, (struct str){piece->bytes.data + done, part});
            if (release != NULL) {
                release(piece->release_arg);
            }
        }
        done += part;
    }
    return true;
}

static void put_chunk_size(struct conn *conn, uint64_t size)
{
    char *room = conn_out_room(conn, 20);
    char digits[16];
    unsigned n = 0;
    char *at = room;

    do {
        digits[n++] = "0123456789abcdef"[size & 15];
        size >>= 4;
    } while (size != 0);
    while (n != 0) {
        *at++ = digits[--n];
    }
    at = STR_PUT(at, "\r\n");
    conn_out_commit(conn, (size_t) (at - room));
}

/* The last chunk and the trailers (RFC 9112, 7.1.2). */
static void put_last_chunk(struct request *request)
{
    struct conn *conn = v1_conn(request);

    conn_write(conn, STR("0\r\n"));
    if (request->response.trailers != NULL) {
        fields_each(field, request->response.trailers) {
            conn_write(conn, field->name);
            conn_write(conn, STR(": "));
            conn_write(conn, field->value);
            conn_write(conn, STR("\r\n"));
        }
    }
    conn_write(conn, STR("\r\n"));
}

static bool v1_send_body(struct request *request, const struct body_piece *piece, bool is_last)
{
    struct conn *conn = v1_conn(request);
    uint64_t size = piece == NULL ? 0 : piece->bytes.data != NULL ? piece->bytes.len : piece->size;
    bool is_chunked = request->response.framing == FRAMING_CHUNKED;

    if (conn->is_broken ||
        (conn_unsent(conn) >= UNSENT_MAX && !wait_for_client(request, UNSENT_MAX / 2))) {
        drop_piece(piece);
        return false;
    }
    if (size != 0) {
        if (is_chunked) {
            put_chunk_size(conn, size);
        }
        if (!put_piece(request, piece)) {
            return false;
        }
        if (is_chunked) {
            conn_write(conn, STR("\r\n"));
        }
    } else {
        drop_piece(piece);
    }
    if (is_last) {
        if (is_chunked) {
            put_last_chunk(request);
        }
        request->response.progress = RESPONSE_COMPLETE;
    } else if (piece != NULL && piece->is_flush) {
        conn_flush_later(conn);
    }
    return true;
}

static bool v1_drain(struct request *request)
{
    return !v1_conn(request)->is_broken && wait_for_client(request, 1);
}

static void v1_send_interim(struct request *request, unsigned status, const struct fields *fields)
{
    struct conn *conn = v1_conn(request);
    struct str reason = status_phrase(status);
    char number[20];

    if (request->head.version < HTTP_1_1) {
        return;
    }
    uint64_t begin = conn->queued;
    if (request->delivery.interim_bytes == 0) { /* what is counted where no response follows */
        request->delivery.start = request->delivery.head_end = begin;
    }
    conn_write(conn, STR("HTTP/1.1 "));
    conn_write(conn, str_from(number, format_uint(number, status)));
    conn_write(conn, STR(" "));
    conn_write(conn, reason);
    conn_write(conn, STR("\r\n"));
    if (fields != NULL) {
        fields_each(field, fields) {
            conn_write(conn, field->name);
            conn_write(conn, STR(": "));
            conn_write(conn, field->value);
            conn_write(conn, STR("\r\n"));
        }
    }
    conn_write(conn, STR("\r\n"));
    request->delivery.interim_bytes += conn->queued - begin;
    conn_flush_later(conn);
}

static uint64_t v1_backlog(const struct request *request, uint64_t more)
{
    uint64_t unsent = conn_unsent(v1_conn(request));

    (void) more; /* a piece goes whole once there is room */
    return unsent < UNSENT_MAX ? unsent : UINT64_MAX;
}

static void v1_flush(struct request *request)
{
    conn_flush(v1_conn(request));
}

static bool v1_has_lost_client(const struct request *request)
{
    return v1_conn(request)->is_broken;
}

static uint64_t v1_sent(const struct request *request)
{
    return v1_conn(request)->sent;
}

static void v1_keep_head(struct request *request)
{
    struct conn_buffer *buffer = arena_new(&request->arena, struct conn_buffer);

    buffer->data = conn_input_detach(v1_conn(request), &buffer->size);
    if (buffer->data != NULL) {
        arena_on_free(&request->arena, conn_buffer_release, buffer);
    }
}

const struct http_wire v1_wire = {
    .sends_whole = true,
    .has_text_head = true,
    .send_head = v1_send_head,
    .send_body = v1_send_body,
    .drain = v1_drain,
    .send_interim = v1_send_interim,
    .read_body = v1_read_body,
    .has_whole_body = v1_has_whole_body,
    .ended = v1_request_ended,
    .backlog = v1_backlog,
    .flush = v1_flush,
    .has_lost_client = v1_has_lost_client,
    .sent = v1_sent,
    .keep_head = v1_keep_head,
    .bare = v1_conn,
    .log_first = v1_log_first,
    .former = v1_former,
};

/* ---- the module: what heads of responses have at every location, laid out when the configuration
 * is read ---- */

struct settings_key v1_key;

static bool lay_out(struct conf_scope *scope, void *settings)
{
    const struct http_location *location = scope_location(scope);
    struct arena *arena = scope->conf->arena;
    struct v1_texts *texts = settings;
    const struct str field[] = {STR("Server: "), location->responses->server_text, STR("\r\n")};

    texts->server_field =
        location->responses->server_text.len == 0 ? STR("") : arena_join(arena, field, 3);
    const struct str head[] = {STR("HTTP/1.1 200 OK\r\n"), texts->server_field, STR("Date: ")};
    texts->head_200 = arena_join(arena, head, 3);
    return true;
}

const struct module ngx_http_header_filter_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_header_filter_module",
    .kind = MODULE_HTTP,
    .table = {.key = &v1_key,
              .contexts = IN_HTTP_ALL,
              .size = sizeof(struct v1_texts),
              .finish = lay_out},
};
