/* A unary call of gRPC by HTTP/2 (RFC 9113), on a connection that carries one call at a time. */
#include <errno.h>

#include "http/exchange/probe/probe.h"
#include "http/message/frame.h"
#include "http/message/hpack.h"
#include "net/conn/conn.h"

enum {
    INDEX_AUTHORITY = 1, /* in HPACK's static table */
    INDEX_POST = 3,
    INDEX_PATH = 4,
    INDEX_HTTP = 6,
    INDEX_HTTPS = 7,
    INDEX_CONTENT_TYPE = 31,
    INDEX_USER_AGENT = 58,
    MESSAGE_HEAD_SIZE = 5,        /* packed or not, and the length, before a message */
    UNSENT_MOST = 128 * 1024,     /* bytes of frames that wait for the socket */
    RECEIVED_MOST = 32 * 1024,    /* bytes of responses before the peer's window grows again */
    STREAM_LAST = WINDOW_MAX - 2, /* then the connection ends */
};

/* ---- the head ---- */

static char *put_call_field(char *at, uint8_t index, struct str name, struct str value)
{
    static struct hpack_table none = {.is_plain = true};

    return hpack_put_field(at, &none, (struct hpack_form){index, .stays_out = true}, name, value);
}

static struct str call_block(struct arena *arena, const struct grpc_call *call)
{
    size_t room = call->authority.len + call->path.len + call->user_agent.len + 256;

    for (unsigned i = 0; i < call->metadata_count; i++) {
        room += hpack_field_room(call->metadata[i].name, call->metadata[i].value);
    }
    char *block = arena_text(arena, room);
    char *at = block;
    *at++ = (char) (0x80 | INDEX_POST);
    *at++ = (char) (0x80 | (call->is_https ? INDEX_HTTPS : INDEX_HTTP));
    at = put_call_field(at, INDEX_PATH, STR_NONE, call->path);
    at = put_call_field(at, INDEX_AUTHORITY, STR_NONE, call->authority);
    at = put_call_field(at, INDEX_CONTENT_TYPE, STR_NONE, STR("application/grpc"));
    at = put_call_field(at, 0, STR("te"), STR("trailers"));
    at = put_call_field(at, INDEX_USER_AGENT, STR_NONE, call->user_agent);
    for (unsigned i = 0; i < call->metadata_count; i++) {
        at = put_call_field(at, 0, call->metadata[i].name, call->metadata[i].value);
    }
    return str_from(block, at);
}

static void put_opening(struct conn *conn)
{
    char text[FRAME_HEAD_SIZE + 12];
    char *at = frame_put(text, 12, FRAME_SETTINGS, 0, 0);

    at = put_u32(put_u16(at, SETTING_HEADER_TABLE_SIZE), 0);
    at = put_u32(put_u16(at, SETTING_ENABLE_PUSH), 0);
    conn_write(conn, STR(V2_PREFACE));
    conn_write(conn, str_from(text, at));
}

static void put_head_frame(struct conn *conn, uint32_t length, uint8_t type, uint8_t flags,
                           uint32_t stream)
{
    char text[FRAME_HEAD_SIZE];

    conn_write(conn, str_from(text, frame_put(text, length, type, flags, stream)));
}

/* HEADERS, and CONTINUATION for what one frame has no room for. */
static void put_block(struct conn *conn, struct str block, uint32_t stream)
{
    uint8_t type = FRAME_HEADERS;

    do {
        struct str part = str_head(block, FRAME_SIZE_DEFAULT);

        block = str_skip(block, part.len);
        put_head_frame(conn, (uint32_t) part.len, type, block.len == 0 ? FLAG_END_HEADERS : 0,
                       stream);
        conn_write(conn, part);
        type = FRAME_CONTINUATION;
    } while (block.len != 0);
}

/* ---- the message ---- */

/* What is left of the message. */
struct message_rest {
    char head[MESSAGE_HEAD_SIZE];
    size_t head_left;
    struct str bytes;
};

/* Frames of it, as many as windows and the queue have room for. True: the queue is full. */
static bool put_message(struct conn *conn, struct grpc_link *link, struct message_rest *rest)
{
    while (rest->head_left + rest->bytes.len != 0) {
        int64_t room = link->window < link->stream_window ? link->window : link->stream_window;
        size_t size = rest->head_left + rest->bytes.len;

        if (room <= 0 || (rest->head_left != 0 && room < MESSAGE_HEAD_SIZE)) {
            return false;
        }
        if (conn_unsent(conn) >= UNSENT_MOST) {
            return true;
        }
        size = size < FRAME_SIZE_DEFAULT ? size : FRAME_SIZE_DEFAULT;
        size = size < (size_t) room ? size : (size_t) room;
        struct str part = str_head(rest->bytes, size - rest->head_left);
        bool is_last = part.len == rest->bytes.len;
        put_head_frame(conn, (uint32_t) size, FRAME_DATA, is_last ? FLAG_END_STREAM : 0,
                       link->stream);
        if (rest->head_left != 0) {
            conn_write(conn, (struct str){rest->head, MESSAGE_HEAD_SIZE});
        }
        if (part.len != 0) {
            conn_write_reference(conn, part, NULL, NULL);
        }
        rest->head_left = 0;
        rest->bytes = str_skip(rest->bytes, part.len);
        link->window -= (int64_t) size;
        link->stream_window -= (int64_t) size;
    }
    return false;
}

/* ---- the call ---- */

static void begin_call(struct conn *conn, struct grpc_link *link)
{
    if (link->stream == 0) {
        link->window = link->initial_window = WINDOW_DEFAULT;
        put_opening(conn);
    }
    link->stream = link->stream == 0 ? 1 : link->stream + 2;
    link->stream_window = link->initial_window;
}

/* Bytes of responses were used: the peer's window grows again. */
static void give_back(struct conn *conn, struct grpc_link *link)
{
    char text[4];

    if (link->received >= RECEIVED_MOST) {
        put_head_frame(conn, sizeof(text), FRAME_WINDOW_UPDATE, 0, 0);
        put_u32(text, link->received);
        conn_write(conn, (struct str){text, sizeof(text)});
        link->received = 0;
    }
}

/* More of the response, or of what lets the message go on. False: the probe's reason tells. MAY
 * WAIT. */
static bool take_more(struct health_probe *probe, struct probe_grpc *grpc, enum probe_step *step)
{
    bool is_end = false;

    if (!health_receive(probe, PROBE_HEAD_MAX, &is_end)) {
        return false;
    }
    struct str input = conn_input(probe->conn);
    size_t before = input.len;
    *step = probe_grpc_take(grpc, &input);
    conn_consume(probe->conn, before - input.len);
    if (grpc->reply_size != 0) {
        conn_write(probe->conn, (struct str){grpc->reply, grpc->reply_size});
        grpc->reply_size = 0;
    }
    return *step != PROBE_MORE || !is_end || health_fail(probe, "answer, which was cut short", 0);
}

/* Sends what there is room for, and waits for the peer, or for the socket. */
static bool converse_once(struct health_probe *probe, struct probe_grpc *grpc,
                          struct message_rest *rest, enum probe_step *step)
{
    struct conn *conn = probe->conn;

    if (put_message(conn, grpc->link, rest)) {
        return conn_wait_output(conn, UNSENT_MOST, probe->deadline_ms) == WAIT_READY ||
               health_fail(probe, "connection, while sending",
                           conn->is_broken ? conn->error : ETIMEDOUT);
    }
    if (!conn_flush(conn)) {
        return health_fail(probe, "connection, while sending", conn->error);
    }
    return take_more(probe, grpc, step);
}

bool grpc_call_run(struct health_probe *probe, const struct grpc_call *call,
                   struct probe_grpc *grpc)
{
    struct grpc_link *link = grpc->link;
    struct message_rest rest = {.head_left = MESSAGE_HEAD_SIZE, .bytes = call->message};
    enum probe_step step = PROBE_MORE;

    begin_call(probe->conn, link);
    put_u32(rest.head + 1, (uint32_t) call->message.len);
    rest.head[0] = 0;
    put_block(probe->conn, call_block(probe->arena, call), link->stream);
    while (step == PROBE_MORE) {
        if (!converse_once(probe, grpc, &rest, &step)) {
            return false;
        }
    }
    if (step == PROBE_BAD) {
        return health_fail(probe, grpc->reason, 0);
    }
    if (rest.head_left + rest.bytes.len != 0 || conn_unsent(probe->conn) != 0 ||
        link->stream >= STREAM_LAST) {
        link->is_closing = true; /* it answered before it had all */
    }
    give_back(probe->conn, link);
    return conn_flush(probe->conn) || health_fail(probe, "connection, while sending", 0);
}
