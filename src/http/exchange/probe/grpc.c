/* gRPC as far as a health check needs it: one call of grpc.health.v1.Health/Check by HTTP/2 (RFC 9113), on a connection of
 * its own. */
#include "base/parse.h"
#include "http/exchange/probe/probe.h"
#include "http/message/fields.h"
#include "http/message/frame.h"
#include "http/message/hpack.h"
#include "net/conn/conn.h"

enum {
    STREAM_ID = 1,
    INDEX_AUTHORITY = 1, /* in HPACK's static table */
    INDEX_POST = 3,
    INDEX_PATH = 4,
    INDEX_HTTP = 6,
    INDEX_HTTPS = 7,
    INDEX_CONTENT_TYPE = 31,
    INDEX_USER_AGENT = 58,
    MESSAGE_HEAD_SIZE = 5,             /* packed or not, and the length, before a message of gRPC */
    RECEIVED_MAX = 2 * PROBE_HEAD_MAX, /* bytes of frames: a response has some hundred */
};

/* ---- the request ---- */

static char *probe_grpc_put_field(char *at, uint8_t index, struct str name, struct str value)
{
    static struct hpack_table none = {.is_plain = true};

    return hpack_put_field(at, &none, (struct hpack_form){index, .stays_out = true}, name, value);
}

static struct str request_block(struct arena *arena, struct str authority, bool is_https)
{
    const struct str path = STR("/grpc.health.v1.Health/Check");
    char *block = arena_text(arena, authority.len + 512);
    char *at = block;

    *at++ = (char) (0x80 | INDEX_POST);
    *at++ = (char) (0x80 | (is_https ? INDEX_HTTPS : INDEX_HTTP));
    at = probe_grpc_put_field(at, INDEX_PATH, STR_NONE, path);
    at = probe_grpc_put_field(at, INDEX_AUTHORITY, STR_NONE, authority);
    at = probe_grpc_put_field(at, INDEX_CONTENT_TYPE, STR_NONE, STR("application/grpc"));
    at = probe_grpc_put_field(at, 0, STR("te"), STR("trailers"));
    at = probe_grpc_put_field(at, INDEX_USER_AGENT, STR_NONE, STR("Portunus (health check)"));
    return str_from(block, at);
}

static char *put_text(char *at, struct str text)
{
    memcpy(at, text.data, text.len);
    return at + text.len;
}

/* HealthCheckRequest: the service is its field 1, a string. */
static struct str request_message(struct arena *arena, struct str service)
{
    char *message = arena_text(arena, MESSAGE_HEAD_SIZE + 8 + service.len);
    char *at = message + MESSAGE_HEAD_SIZE;

    if (service.len != 0) {
        *at++ = 1 << 3 | 2;
        size_t length = service.len;
        for (; length >= 0x80; length >>= 7) {
            *at++ = (char) (length | 0x80);
        }
        *at++ = (char) length;
        at = put_text(at, service);
    }
    message[0] = 0;
    put_u32(message + 1, (uint32_t) (at - message - MESSAGE_HEAD_SIZE));
    return str_from(message, at);
}

bool probe_grpc_request(struct arena *arena, struct str authority, bool is_https,
                        struct str service, struct str *out)
{
    if (authority.len > PROBE_GRPC_TEXT_MAX || service.len > PROBE_GRPC_TEXT_MAX) {
        return false;
    }
    struct str block = request_block(arena, authority, is_https);
    struct str message = request_message(arena, service);
    char *text = arena_text(arena, 128 + block.len + message.len);
    char *at = put_text(text, STR(V2_PREFACE));

    at = frame_put(at, 12, FRAME_SETTINGS, 0, 0);
    at = put_u32(put_u16(at, SETTING_HEADER_TABLE_SIZE), 0);
    at = put_u32(put_u16(at, SETTING_ENABLE_PUSH), 0);
    at = frame_put(at, (uint32_t) block.len, FRAME_HEADERS, FLAG_END_HEADERS, STREAM_ID);
    at = put_text(at, block);
    at = frame_put(at, (uint32_t) message.len, FRAME_DATA, FLAG_END_STREAM, STREAM_ID);
    at = put_text(at, message);
    *out = str_from(text, at);
    return true;
}

/* ---- the response ---- */

static enum probe_step bad_frame(struct probe_grpc *grpc, const char *reason)
{
    grpc->reason = reason;
    return PROBE_BAD;
}

/* False: there are more frames to be acknowledged than anybody sends. */
static bool reply(struct probe_grpc *grpc, uint8_t type, struct str payload)
{
    char *at = grpc->reply + grpc->reply_size;

    if (FRAME_HEAD_SIZE + payload.len > sizeof(grpc->reply) - grpc->reply_size) {
        return false;
    }
    at = frame_put(at, (uint32_t) payload.len, type, FLAG_ACK, 0);
    if (payload.len != 0) {
        at = put_text(at, payload);
    }
    grpc->reply_size = (size_t) (at - grpc->reply);
    return true;
}

static enum probe_step probe_grpc_take_field(struct probe_grpc *grpc,
                                             const struct coded_field *field)
{
    uint64_t number;

    if (str_is(field->name, ":status")) {
        if (!parse_uint(field->value, &number) || number < 100 || number > 999) {
            return bad_frame(grpc, "header \":status\"");
        }
        grpc->http_status = (unsigned) number;
    } else if (str_is(field->name, "content-type")) {
        grpc->is_grpc = str_starts_nocase(field->value, STR("application/grpc"));
    } else if (str_is(field->name, "grpc-status")) {
        if (!parse_uint(field->value, &number) || number > INT32_MAX) {
            return bad_frame(grpc, "trailer \"grpc-status\"");
        }
        grpc->grpc_status = (int) number;
    }
    return PROBE_MORE;
}

/* A block is whole: a head, or trailers, which may be all there is. */
static enum probe_step take_block(struct probe_grpc *grpc)
{
    struct hpack_table table;
    struct coded_field field;
    enum hpack_result result;
    enum probe_step step = PROBE_MORE;
    struct str block = {grpc->block, grpc->block_size};

    hpack_table_init(&table, 0); /* it was forbidden to use one */
    table.takes_long_padding = true;
    while (step == PROBE_MORE &&
           (result = hpack_decode(&table, &block, grpc->arena, UINT32_MAX, &field)) != HPACK_END) {
        step = result == HPACK_FIELD ? probe_grpc_take_field(grpc, &field)
                                     : bad_frame(grpc, "header block");
    }
    grpc->block_size = 0;
    grpc->is_in_block = false;
    if (step == PROBE_MORE && grpc->http_status == 0) {
        return bad_frame(grpc, "header \":status\"");
    }
    return step == PROBE_MORE && grpc->is_ended ? PROBE_DONE : step;
}

static enum probe_step take_headers(struct probe_grpc *grpc, const struct frame_head *head,
                                    struct str payload)
{
    if (head->type == FRAME_HEADERS) {
        if (!frame_unpad(head, &payload, NULL)) {
            return bad_frame(grpc, "HTTP/2 frame");
        }
        grpc->is_in_block = true;
        grpc->is_ended = (head->flags & FLAG_END_STREAM) != 0;
    }
    if (payload.len > PROBE_HEAD_MAX - grpc->block_size) {
        return bad_frame(grpc, "header, which is too large");
    }
    if (grpc->block == NULL) {
        grpc->block = arena_text(grpc->arena, PROBE_HEAD_MAX);
    }
    if (payload.len != 0) {
        put_text(grpc->block + grpc->block_size, payload);
        grpc->block_size += payload.len;
    }
    return (head->flags & FLAG_END_HEADERS) != 0 ? take_block(grpc) : PROBE_MORE;
}

static enum probe_step take_data(struct probe_grpc *grpc, const struct frame_head *head,
                                 struct str payload)
{
    if (!frame_unpad(head, &payload, NULL) || grpc->http_status < 200) {
        return bad_frame(grpc, "HTTP/2 frame");
    }
    if (payload.len > sizeof(grpc->message) - grpc->message_size) {
        return bad_frame(grpc, "gRPC message, which is too large");
    }
    if (payload.len != 0) {
        memcpy(grpc->message + grpc->message_size, payload.data, payload.len);
        grpc->message_size += payload.len;
    }
    return (head->flags & FLAG_END_STREAM) != 0 ? PROBE_DONE : PROBE_MORE;
}

/* Frames of the connection; those that mean nothing here are passed over. */
static enum probe_step take_other(struct probe_grpc *grpc, const struct frame_head *head,
                                  struct str payload)
{
    switch (head->type) {
    case FRAME_SETTINGS:
    case FRAME_PING:
        if ((head->flags & FLAG_ACK) != 0 ||
            reply(grpc, head->type, head->type == FRAME_PING ? payload : STR_NONE)) {
            return PROBE_MORE;
        }
        return bad_frame(grpc, "answer: too many frames");
    case FRAME_GOAWAY:
        return (get_u32(payload.data) & WINDOW_MAX) < STREAM_ID ? bad_frame(grpc, "answer: GOAWAY")
                                                                : PROBE_MORE;
    case FRAME_RST_STREAM:
        return bad_frame(grpc, "answer: RST_STREAM");
    case FRAME_PUSH_PROMISE:
        return bad_frame(grpc, "HTTP/2 frame");
    default:
        return PROBE_MORE;
    }
}

static enum probe_step take_frame(struct probe_grpc *grpc, const struct frame_head *head,
                                  struct str payload)
{
    bool is_first = !grpc->has_settings;

    grpc->has_settings = true;
    if ((is_first && (head->type != FRAME_SETTINGS || (head->flags & FLAG_ACK) != 0)) ||
        grpc->is_in_block != (head->type == FRAME_CONTINUATION)) {
        return bad_frame(grpc, "HTTP/2 frame");
    }
    switch (head->type) {
    case FRAME_DATA:
    case FRAME_HEADERS:
    case FRAME_CONTINUATION:
        if (head->stream != STREAM_ID) {
            return bad_frame(grpc, "HTTP/2 frame");
        }
        return head->type == FRAME_DATA ? take_data(grpc, head, payload)
                                        : take_headers(grpc, head, payload);
    default:
        return take_other(grpc, head, payload);
    }
}

enum probe_step probe_grpc_take(struct probe_grpc *grpc, struct str *input)
{
    enum probe_step step = PROBE_MORE;
    bool is_stream_error;

    while (step == PROBE_MORE && input->len >= FRAME_HEAD_SIZE) {
        struct frame_head head = frame_read(input->data);
        size_t size = FRAME_HEAD_SIZE + (size_t) head.length;

        if (frame_check(&head, FRAME_SIZE_DEFAULT, &is_stream_error) != V2_NO_ERROR) {
            return bad_frame(grpc, "HTTP/2 frame");
        }
        if (input->len < size) {
            break;
        }
        grpc->received += size;
        if (grpc->received > RECEIVED_MAX) {
            return bad_frame(grpc, "answer, which is too large");
        }
        struct str payload = str_skip(str_head(*input, size), FRAME_HEAD_SIZE);
        *input = str_skip(*input, size);
        step = take_frame(grpc, &head, payload);
    }
    return step;
}

/* ---- what it means ---- */

/* A number of seven bits a byte, off *in. False: there is none. */
static bool take_varint(struct str *in, uint64_t *out)
{
    *out = 0;
    for (unsigned shift = 0; in->len != 0 && shift < 64; shift += 7) {
        unsigned char byte = (unsigned char) in->data[0];
        *in = str_skip(*in, 1);
        *out |= (uint64_t) (byte & 0x7f) << shift;
        if (byte < 0x80) {
            return true;
        }
    }
    return false;
}

bool probe_grpc_serving(const struct probe_grpc *grpc, uint64_t *serving)
{
    enum { VARINT, FIXED64, BYTES, FIXED32 = 5 };
    struct str in = {grpc->message, grpc->message_size};
    uint64_t key, value;

    *serving = 0;
    if (in.len < MESSAGE_HEAD_SIZE || in.data[0] != 0 ||
        get_u32(in.data + 1) != in.len - MESSAGE_HEAD_SIZE) {
        return false;
    }
    for (in = str_skip(in, MESSAGE_HEAD_SIZE); in.len != 0;) {
        if (!take_varint(&in, &key)) {
            return false;
        }
        unsigned kind = key & 7;
        value = kind == FIXED64 ? 8 : 4;
        if (kind != VARINT && kind != BYTES && kind != FIXED64 && kind != FIXED32) {
            return false;
        }
        if ((kind == VARINT || kind == BYTES) && !take_varint(&in, &value)) {
            return false;
        }
        if (kind != VARINT) {
            if (value > in.len) {
                return false;
            }
            in = str_skip(in, (size_t) value);
        } else if (key >> 3 == 1) {
            *serving = value;
        }
    }
    return true;
}

static bool probe_grpc_judge(struct health_probe *probe, const struct probe_grpc *grpc)
{
    static const char *const names[] = {"UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"};
    const struct grpc_probe *wanted = probe->settings->speak_settings;
    uint64_t serving;

    if (grpc->http_status != 200) {
        probe->reason = arena_printf(probe->arena, "status code %u", grpc->http_status).data;
    } else if (!grpc->is_grpc) {
        probe->reason = "header \"content-type\"";
    } else if (grpc->grpc_status < 0) {
        probe->reason = "trailer \"grpc-status\", which is not there";
    } else if (grpc->grpc_status != 0) {
        probe->reason = arena_printf(probe->arena, "gRPC status %d", grpc->grpc_status).data;
        return wanted->status != 0 && (unsigned) grpc->grpc_status == wanted->status;
    } else if (!probe_grpc_serving(grpc, &serving)) {
        probe->reason = "gRPC message";
    } else {
        probe->reason =
            arena_printf(probe->arena, "gRPC health %s",
                         serving < sizeof(names) / sizeof(names[0]) ? names[serving]
                                                                    : "of no known kind")
                .data;
        return serving == 1;
    }
    return false;
}

bool probe_speak_grpc(struct health_probe *probe)
{
    const struct grpc_probe *settings = probe->settings->speak_settings;
    struct probe_grpc grpc = {.arena = probe->arena, .grpc_status = -1};
    enum probe_step step = PROBE_MORE;
    bool is_end = false;

    if (!health_send(probe, settings->request)) {
        return false;
    }
    while (step == PROBE_MORE) {
        if (is_end) {
            probe->reason = "answer, which was cut short";
            return false;
        }
        if (!health_receive(probe, PROBE_HEAD_MAX, &is_end)) {
            return false;
        }
        struct str input = conn_input(probe->conn);
        size_t before = input.len;
        step = probe_grpc_take(&grpc, &input);
        conn_consume(probe->conn, before - input.len);
        struct str reply = {grpc.reply, grpc.reply_size};
        if (step == PROBE_MORE && reply.len != 0 && !health_send(probe, reply)) {
            return false;
        }
        grpc.reply_size = 0;
    }
    if (step == PROBE_BAD) {
        probe->reason = grpc.reason;
        return false;
    }
    return probe_grpc_judge(probe, &grpc);
}
