/* Requests by HTTP/2: heads as header blocks, bodies within the windows of the backend. */
#include <errno.h>
#include <unistd.h>

#include "base/clock.h"
#include "http/exchange/h2/h2.h"
#include "http/message/hpack.h"

/* ---- heads ---- */

/* Numbers in HPACK's static table. */
enum { INDEX_AUTHORITY = 1, INDEX_METHOD = 2, INDEX_POST = 3, INDEX_PATH = 4, INDEX_HTTP = 6 };

static const uint8_t index_of[FIELD_COUNT] = {
    [FIELD_ACCEPT_ENCODING] = 16,
    [FIELD_AUTHORIZATION] = 23,
    [FIELD_CACHE_CONTROL] = 24,
    [FIELD_CONTENT_LENGTH] = 28,
    [FIELD_CONTENT_TYPE] = 31,
    [FIELD_COOKIE] = 32,
    [FIELD_HOST] = 38,
    [FIELD_IF_MATCH] = 39,
    [FIELD_IF_MODIFIED_SINCE] = 40,
    [FIELD_IF_NONE_MATCH] = 41,
    [FIELD_IF_RANGE] = 42,
    [FIELD_IF_UNMODIFIED_SINCE] = 43,
    [FIELD_RANGE] = 50,
    [FIELD_REFERER] = 51,
    [FIELD_USER_AGENT] = 58,
    [FIELD_VIA] = 60,
};

/* Nothing is put in the backend's table: a block stands for itself, on any connection. Nor is it
 * packed: backends are near, and have to unpack. */
static char *h2_send_put_field(char *at, uint8_t index, struct str name, struct str value)
{
    static struct hpack_table none = {.is_plain = true};

    return hpack_put_field(at, &none, (struct hpack_form){index, .stays_out = true}, name, value);
}

static char *put_known(char *at, unsigned index)
{
    *at = (char) (0x80 | index);
    return at + 1;
}

static char *put_pseudo(char *at, const struct coded_request *request, struct str authority)
{
    if (str_is(request->method, "GET") || str_is(request->method, "POST")) {
        at = put_known(at, request->method.len == 3 ? INDEX_METHOD : INDEX_POST);
    } else {
        at = h2_send_put_field(at, INDEX_METHOD, STR_NONE, request->method);
    }
    at = put_known(at, INDEX_HTTP + request->is_https);
    if (str_is(request->path, "/")) {
        at = put_known(at, INDEX_PATH);
    } else {
        at = h2_send_put_field(at, INDEX_PATH, STR_NONE, request->path);
    }
    return authority.len == 0 ? at : h2_send_put_field(at, INDEX_AUTHORITY, STR_NONE, authority);
}

void h2_request_make(struct exchange *x, const struct coded_request *sent_request,
                     struct head_draft *draft)
{
    struct request *request = x->request;
    struct h2_stream *stream = arena_new(&request->arena, struct h2_stream);
    struct coded_request_fields fields;
    struct str name, value;
    enum field_id id;
    size_t lines;

    coded_stream_make(&stream->coded, x, sent_request);
    size_t size = coded_request_begin(x, sent_request, draft, &fields, &lines);
    /* A line has four bytes that are not name or value; a field has at most 24. */
    size_t room = size + lines * 20 + sent_request->method.len + sent_request->path.len +
                  draft->host.len + 128;
    char *start = arena_text(&request->arena, room);
    char *at = put_pseudo(start, sent_request, draft->has_own_host ? STR_NONE : draft->host);
    while (coded_request_next(&fields, &id, &name, &value)) {
        at = h2_send_put_field(at, index_of[id], name, value);
    }
    x->head = str_from(start, at);
}

/* ---- frames ---- */

static void note_frame(struct h2_stream *stream, size_t size)
{
    output_share_add(&stream->framed, stream->connection->connection->conn, size + FRAME_HEAD_SIZE);
}

static bool has_body(const struct exchange *x)
{
    return x->body_mode == SENT_BODY_STREAMED || sent_body_length(x) != 0;
}

void h2_send_head(struct exchange *x)
{
    static const char no_table = 0x20; /* a table of no bytes (RFC 7541, 6.3) */
    struct h2_stream *stream = h2_stream_of(x);
    struct h2_connection *connection = stream->connection;
    struct conn *conn = x->connection->conn;
    struct str rest = x->head;
    size_t prefix = connection->has_table_limit;
    uint8_t type = FRAME_HEADERS;
    uint8_t flags = 0;
    uint64_t before = conn->queued;

    if (!connection->has_begun) {
        h2_connection_begin(connection, stream->coded.sent_request.announcement);
    }
    if (!has_body(x)) {
        flags = FLAG_END_STREAM;
        stream->coded.is_output_ended = true;
    }
    do {
        struct str part = str_head(rest, FRAME_SIZE_DEFAULT - prefix);
        char head[FRAME_HEAD_SIZE];

        rest = str_skip(rest, part.len);
        flags |= rest.len == 0 ? FLAG_END_HEADERS : 0;
        frame_put(head, (uint32_t) (part.len + prefix), type, flags, stream->id);
        conn_write(conn, (struct str){head, sizeof(head)});
        conn_write(conn, (struct str){&no_table, prefix});
        conn_write(conn, part);
        type = FRAME_CONTINUATION;
        flags = 0;
        prefix = 0;
    } while (rest.len != 0);
    connection->has_table_limit = false;
    output_share_add(&stream->framed, conn, conn->queued - before);
}

uint64_t h2_stream_pending(const struct h2_stream *stream)
{
    return stream->bytes.len + stream->file_left;
}

static bool is_done(const struct h2_stream *stream)
{
    return h2_stream_pending(stream) == 0 && !stream->coded.is_all_given;
}

/* A part of the file into the queue, its frame's head before it. False: it cannot be read; logged.
 */
static bool put_file_part(struct h2_stream *stream, size_t n, uint8_t flags)
{
    struct conn *conn = stream->connection->connection->conn;
    char *at = conn_out_room(conn, FRAME_HEAD_SIZE + n);
    ssize_t got = pread(stream->fd, at + FRAME_HEAD_SIZE, n, stream->offset);

    if (got != (ssize_t) n) {
        exchange_log(stream->coded.x, LOG_CRIT, got == -1 ? errno : 0,
                     "pread() of a request body failed");
        coded_stream_fail(&stream->coded, "request body could not be sent");
        return false;
    }
    frame_put(at, (uint32_t) n, FRAME_DATA, flags, stream->id);
    conn_out_commit(conn, FRAME_HEAD_SIZE + n);
    stream->offset += (off_t) n;
    stream->file_left -= n;
    return true;
}

/* One frame of DATA, as large as the windows allow. */
static void send_frame(struct h2_connection *connection, struct h2_stream *stream)
{
    struct conn *conn = connection->connection->conn;
    uint64_t pending = h2_stream_pending(stream);
    int64_t window = stream->send_window < connection->send_window ? stream->send_window
                                                                   : connection->send_window;
    size_t most = stream->bytes.len != 0 ? FRAME_SIZE_DEFAULT : OUT_CHUNK_SIZE - FRAME_HEAD_SIZE;
    size_t n = stream->bytes.len != 0 ? stream->bytes.len
               : pending < most       ? (size_t) pending
                                      : most;
    char head[FRAME_HEAD_SIZE];

    n = n < most ? n : most;
    n = (int64_t) n < window ? n : (size_t) (window < 0 ? 0 : window);
    uint8_t flags = n == pending && stream->coded.is_all_given ? FLAG_END_STREAM : 0;
    if (stream->bytes.len == 0 && n != 0) {
        if (!put_file_part(stream, n, flags)) {
            return;
        }
    } else {
        frame_put(head, (uint32_t) n, FRAME_DATA, flags, stream->id);
        conn_write(conn, (struct str){head, sizeof(head)});
        conn_write(conn, str_head(stream->bytes, n));
        stream->bytes = str_skip(stream->bytes, n);
    }
    stream->moved_ms = clock_now.now_ms;
    stream->send_window -= (int64_t) n;
    connection->send_window -= (int64_t) n;
    stream->coded.is_output_ended = flags != 0;
    note_frame(stream, n);
}

bool h2_connection_has_room(struct h2_connection *connection)
{
    struct conn *conn = connection->connection->conn;

    /* What the socket does not take now makes it tell of the queue's end. */
    return conn_unsent(conn) < H2_UNSENT_MAX ||
           (conn_flush(conn) && conn_unsent(conn) < H2_UNSENT_MAX);
}

void h2_connection_pump(struct h2_connection *connection)
{
    struct conn *conn = connection->connection->conn;
    struct list *item;

    while (!list_is_empty(&connection->senders) && h2_connection_has_room(connection)) {
        struct h2_stream *first =
            container_of(connection->senders.next, struct h2_stream, in_senders);

        if (h2_stream_pending(first) != 0 && connection->send_window <= 0) {
            break; /* all wait for this one */
        }
        item = list_pop_front(&connection->senders);
        struct h2_stream *stream = container_of(item, struct h2_stream, in_senders);
        if (h2_stream_pending(stream) != 0 && stream->send_window <= 0) {
            stream->is_waiting = true;
            continue;
        }
        send_frame(connection, stream);
        if (!stream->coded.is_output_ended && !stream->coded.is_bad && !is_done(stream)) {
            list_push_back(&connection->senders, &stream->in_senders);
        } else {
            wait_signal_later(&stream->coded.room);
        }
    }
    if (conn_unsent(conn) != 0) {
        conn_flush_later(conn);
    }
}

static void join_senders(struct h2_stream *stream)
{
    if (!stream->coded.is_output_ended && !stream->is_waiting &&
        list_is_empty(&stream->in_senders) && !is_done(stream)) {
        list_push_back(&stream->connection->senders, &stream->in_senders);
    }
}

void h2_stream_may_send(struct h2_stream *stream)
{
    if (stream->send_window > 0) {
        stream->is_waiting = false;
        join_senders(stream);
    }
}

void h2_stream_drop_body(struct h2_stream *stream)
{
    stream->coded.is_output_ended = true;
    stream->bytes = STR_NONE;
    stream->file_left = 0;
    list_remove(&stream->in_senders);
    wait_signal_later(&stream->coded.room);
}

/* ---- bodies ---- */

/* What is left of a piece that does not last is copied after what waits already. */
static void keep_bytes(struct h2_stream *stream, struct str more)
{
    struct str left = stream->bytes;

    if (left.len != 0 && left.data != stream->kept.data) {
        memmove(stream->kept.data, left.data, left.len);
    }
    stream->kept.len = left.len;
    buf_append(&stream->kept, more);
    stream->bytes = buf_str(&stream->kept);
}

void h2_send_body(struct exchange *x, const struct body_piece *piece, bool is_last)
{
    struct h2_stream *stream = h2_stream_of(x);
    struct h2_connection *connection = stream->connection;

    if (stream->coded.is_output_ended) {
        return;
    }
    stream->coded.is_all_given = is_last;
    if (piece != NULL && piece->bytes.data == NULL) {
        stream->fd = piece->fd;
        stream->offset = piece->offset;
        stream->file_left = piece->size;
    } else if (piece != NULL && piece->is_volatile && stream->bytes.len != 0) {
        keep_bytes(stream, piece->bytes);
    } else if (piece != NULL) {
        stream->bytes = piece->bytes;
    }
    join_senders(stream);
    h2_connection_pump(connection);
    if (piece != NULL && piece->is_volatile && stream->bytes.len != 0 &&
        stream->bytes.data >= piece->bytes.data &&
        stream->bytes.data < piece->bytes.data + piece->bytes.len) {
        struct str left = stream->bytes;
        stream->bytes = STR_NONE;
        keep_bytes(stream, left);
    }
}
