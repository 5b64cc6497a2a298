/*
 * Fuzz target: all that an HTTP/3 backend may send on its streams, to an exchange that reads a
 * response; QUIC itself is left out (tests/http/fake_quic.h). Nothing breaks, and a response that
 * is whole when it comes at once is the same however it is cut.
 */
#include <stdlib.h>

#include "event/loop.h"
#include "http/fake_quic.h"

#include "base/buf.h"
#include "http/exchange/h3/h3.h"
#include "server/generation.h"
#include "upstream/peer.h"

#define INPUT_MAX 65536

/* How the response came out. */
struct seen {
    struct buf body;
    enum { WAITING, WHOLE, BAD } end;
    unsigned status;   /* 0 = no head */
    unsigned trailers; /* fields */
};

/* All that a request needs to be on a connection. */
struct stage {
    struct request request;
    struct exchange x;
    struct protocol protocol;
    struct exchange_settings settings;
    struct upstream_connection connection;
    struct upstream_group group;
    struct peer_cell *cell;
    struct attempt attempt;
    struct log log;
    struct quic_connection *quic;
    struct seen *seen;
    bool has_head;
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct stage *stage_open(struct str body, struct seen *seen)
{
    struct stage *stage = calloc(1, sizeof(*stage));

    if (stage == NULL) {
        abort();
    }
    conn_pool_init(64);
    seen->body.len = 0;
    seen->end = WAITING;
    seen->status = seen->trailers = 0;
    stage->seen = seen;
    stage->quic = fake_connect_backend(100000);
    stage->cell = calloc(1, sizeof(*stage->cell));
    arena_init(&stage->request.arena);
    stage->request.method = METHOD_GET;
    stage->protocol = (struct protocol){.channel = &h3_channel};
    stage->settings.buffer_size = 4096;
    stage->settings.http3 =
        (struct exchange_http3){.max_concurrent_streams = 128, .max_table_capacity = 4096};
    stage->connection = (struct upstream_connection){.magic = UPSTREAM_CONNECTION_MAGIC,
                                                     .conn = stage->quic->conn,
                                                     .quic = stage->quic,
                                                     .group = &stage->group,
                                                     .cell = stage->cell,
                                                     .users = 1,
                                                     .users_max = 1};
    struct h3_stream *stream = arena_new(&stage->request.arena, struct h3_stream);
    stream->coded.response.keeps_trailers = true;
    stage->x = (struct exchange){.request = &stage->request,
                                 .protocol = &stage->protocol,
                                 .settings = &stage->settings,
                                 .channel_state = stream,
                                 .connection = &stage->connection,
                                 .attempt = &stage->attempt,
                                 .head = STR("\0\0\xd1\xd7\xc1"),
                                 .body_override = body,
                                 .response = {.content_length = -1}};
    if (!h3_channel.begin(&stage->x)) {
        abort();
    }
    h3_send_head(&stage->x);
    const struct body_piece piece = {.bytes = body, .fd = -1};
    h3_send_body(&stage->x, body.len == 0 ? NULL : &piece, true);
    return stage;
}

static void stage_close(struct stage *stage)
{
    struct h3_stream *stream = h3_stream_of(&stage->x);

    h3_connection_leave(stream->connection, stream);
    if (stream->reading != NULL) {
        conn_buffer_free(stream->reading, 64 * 1024);
    }
    buf_free(&stream->rest);
    stage->connection.state_free(&stage->connection);
    fake_free(stage->quic);
    arena_free(&stage->request.arena);
    free(stage->cell);
    free(stage);
}

/* One step: false when there is nothing more for now. */
static bool stage_read(struct stage *stage)
{
    struct exchange *x = &stage->x;
    struct seen *seen = stage->seen;
    struct str data;

    if (!stage->has_head) {
        enum head_result result = h3_read_head(x);
        if (result == HEAD_DONE) {
            stage->has_head = x->response.status >= 200;
            seen->status = x->response.status;
            if (!stage->has_head) {
                x->response = (struct upstream_response){.content_length = -1};
            }
            return true;
        }
        if (result == HEAD_BAD || (!h3_channel.fill(x) && h3_channel.has_ended(x))) {
            seen->end = BAD;
        }
        return false;
    }
    enum body_result result = h3_read_body(x, &data);
    if (result == BODY_DATA) {
        buf_append(&seen->body, data);
        return true;
    }
    if (result == BODY_MORE) {
        if (h3_channel.fill(x)) {
            return true;
        }
        if (!h3_channel.has_ended(x)) {
            return false;
        }
        result = h3_body_ended(x);
    }
    seen->end = result == BODY_END ? WHOLE : BAD;
    seen->trailers = x->response.trailers == NULL ? 0 : x->response.trailers->count;
    return false;
}

static void stage_turn(struct stage *stage)
{
    fake_turn(stage->quic);
    while (stage->seen->end == WAITING && stage_read(stage)) {
    }
}

/* The response alone, in pieces of `step` bytes. */
static void tell(struct str body, struct str text, size_t step, struct seen *seen)
{
    struct stage *stage = stage_open(body, seen);

    for (struct str rest = text; rest.len != 0 && seen->end == WAITING;) {
        struct str part = str_head(rest, step);

        rest = str_skip(rest, part.len);
        fake_give(stage->quic, 0, part, rest.len == 0);
        stage_turn(stage);
    }
    stage_close(stage);
}

/* What comes on all streams, in the order of the input: a byte says where, one how much. */
static void play(struct str text, struct seen *seen)
{
    static const uint64_t ids[] = {0, 0, 0, 3, 7, 11, 15, 1};
    struct stage *stage = stage_open(STR("abc"), seen);

    while (text.len >= 2) {
        unsigned what = (unsigned char) text.data[0], most = (unsigned char) text.data[1];
        struct str part = str_head(str_skip(text, 2), most);

        text = str_skip(text, 2 + part.len);
        switch (what >> 3 & 15) {
        case 0:
            fake_reset(stage->quic, ids[what & 7], most);
            break;
        case 1:
            fake_stop(stage->quic, what & 1 ? 0 : 2, most);
            break;
        case 2:
            stage->quic->is_closing = true;
            break;
        default:
            fake_give(stage->quic, ids[what & 7], part, what >= 0x80);
            break;
        }
        stage_turn(stage);
    }
    stage_close(stage);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct seen whole, cut;
    static struct slot_counters counters;
    static bool has_begun;
    static char body[100000];

    if (!has_begun) {
        const struct loop_options options = {.events_per_turn = 8, .log = log_main};

        log_is_starting = false;
        counters_mine = &counters;
        if (!loop_init(&options)) {
            abort();
        }
        has_begun = true;
    }
    if (size < 2 || size > INPUT_MAX) {
        return 0;
    }
    struct str text = {(const char *) data + 2, size - 2};
    if (data[0] == 0xff) {
        play(text, &whole);
        return 0;
    }
    /* The first byte says how long the request's body is, the second how the rest is cut. */
    struct str sent = {body, (size_t) data[0] * 390};
    tell(sent, text, INPUT_MAX, &whole);
    tell(sent, text, 1 + data[1] % 97, &cut);
    /* What breaks the rules after the end is seen only when it comes with it. */
    if (whole.end == WHOLE &&
        (cut.end != WHOLE || cut.status != whole.status || cut.trailers != whole.trailers ||
         cut.body.len != whole.body.len ||
         (cut.body.len != 0 && memcmp(cut.body.data, whole.body.data, cut.body.len) != 0))) {
        abort();
    }
    return 0;
}
