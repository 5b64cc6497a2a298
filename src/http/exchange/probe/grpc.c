/* gRPC as far as a health check needs it: one call of grpc.health.v1.Health/Check by HTTP/2 (RFC
 * 9113), on a connection of its own. */
#include <string.h>

#include "base/parse.h"
#include "base/protobuf.h"
#include "http/exchange/probe/probe.h"
#include "http/message/fields.h"
#include "http/message/frame.h"
#include "http/message/hpack.h"
#include "net/conn/conn.h"

enum {
    MESSAGE_HEAD_SIZE = 5,             /* packed or not, and the length, before a message of gRPC */
    RECEIVED_MAX = 2 * PROBE_HEAD_MAX, /* bytes of frames: a response has some hundred */
};

/* ---- the request ---- */

/* HealthCheckRequest: the service is its field 1, a string. */
bool probe_grpc_request(struct arena *arena, struct str authority, bool is_https,
                        struct str service, struct grpc_call *out)
{
    struct buf message = {0};

    if (authority.len > PROBE_GRPC_TEXT_MAX || service.len > PROBE_GRPC_TEXT_MAX) {
        return false;
    }
    if (service.len != 0) {
        protobuf_put_bytes(&message, 1, service);
    }
    *out = (struct grpc_call){.authority = authority,
                              .path = STR("/grpc.health.v1.Health/Check"),
                              .is_https = is_https,
                              .user_agent = STR("Portunus (health check)"),
                              .message = arena_dup(arena, buf_str(&message))};
    buf_free(&message);
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
    at = str_put(frame_put(at, (uint32_t) payload.len, type, FLAG_ACK, 0), payload);
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
    } else if (str_is(field->name, "grpc-message")) {
        struct writer writer = {grpc->status_text,
                                grpc->status_text + sizeof(grpc->status_text) - 1};
        writer_put(&writer, field->value);
        *writer.at = 0;
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
        memcpy(grpc->block + grpc->block_size, payload.data, payload.len);
        grpc->block_size += payload.len;
    }
    return (head->flags & FLAG_END_HEADERS) != 0 ? take_block(grpc) : PROBE_MORE;
}

static enum probe_step take_data(struct probe_grpc *grpc, const struct frame_head *head,
                                 struct str payload)
{
    grpc->link->received += head->length;
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

/* A change of the initial window is one of windows that are in use, too (RFC 9113, 6.9.2). False: a
 * value is none. */
static bool take_settings(struct grpc_link *link, struct str payload)
{
    for (; payload.len >= 6; payload = str_skip(payload, 6)) {
        unsigned setting = (unsigned char) payload.data[0] << 8 | (unsigned char) payload.data[1];
        uint32_t value = get_u32(payload.data + 2);

        if (setting == SETTING_INITIAL_WINDOW_SIZE) {
            if (value > WINDOW_MAX) {
                return false;
            }
            link->stream_window += (int64_t) value - link->initial_window;
            link->initial_window = value;
        } else if (setting == SETTING_MAX_FRAME_SIZE) {
            if (value < FRAME_SIZE_DEFAULT || value > FRAME_SIZE_MAX) {
                return false;
            }
            link->frame_size = value;
        }
    }
    return true;
}

/* A window grows. False: by more than it can, or by nothing. */
static bool take_window(struct grpc_link *link, const struct frame_head *head, struct str payload)
{
    int64_t *window = head->stream == 0              ? &link->window
                      : head->stream == link->stream ? &link->stream_window
                                                     : NULL;
    uint32_t more = get_u32(payload.data) & WINDOW_MAX;

    if (window == NULL) {
        return true; /* of a call that has ended */
    }
    *window += more;
    return more != 0 && *window <= WINDOW_MAX;
}

/* Frames of the connection; those that mean nothing here are passed over. */
static enum probe_step take_other(struct probe_grpc *grpc, const struct frame_head *head,
                                  struct str payload)
{
    struct grpc_link *link = grpc->link;

    switch (head->type) {
    case FRAME_SETTINGS:
    case FRAME_PING:
        if ((head->flags & FLAG_ACK) != 0) {
            return PROBE_MORE;
        }
        if (head->type == FRAME_SETTINGS && !take_settings(link, payload)) {
            return bad_frame(grpc, "HTTP/2 frame");
        }
        return reply(grpc, head->type, head->type == FRAME_PING ? payload : STR_NONE)
                   ? PROBE_MORE
                   : bad_frame(grpc, "answer: too many frames");
    case FRAME_WINDOW_UPDATE:
        return take_window(link, head, payload) ? PROBE_MORE : bad_frame(grpc, "HTTP/2 frame");
    case FRAME_GOAWAY:
        link->is_closing = true;
        return (get_u32(payload.data) & WINDOW_MAX) < link->stream
                   ? bad_frame(grpc, "answer: GOAWAY")
                   : PROBE_MORE;
    case FRAME_RST_STREAM:
        return head->stream < link->stream ? PROBE_MORE : bad_frame(grpc, "answer: RST_STREAM");
    case FRAME_PUSH_PROMISE:
        return bad_frame(grpc, "HTTP/2 frame");
    default:
        return PROBE_MORE;
    }
}

static enum probe_step take_frame(struct probe_grpc *grpc, const struct frame_head *head,
                                  struct str payload)
{
    bool is_first = !grpc->link->has_settings;

    grpc->link->has_settings = true;
    if ((is_first && (head->type != FRAME_SETTINGS || (head->flags & FLAG_ACK) != 0)) ||
        grpc->is_in_block != (head->type == FRAME_CONTINUATION)) {
        return bad_frame(grpc, "HTTP/2 frame");
    }
    switch (head->type) {
    case FRAME_DATA:
    case FRAME_HEADERS:
    case FRAME_CONTINUATION:
        if (head->stream != grpc->link->stream) {
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

bool probe_grpc_serving(const struct probe_grpc *grpc, uint64_t *serving)
{
    struct str in = {grpc->message, grpc->message_size};
    struct protobuf_field field;
    bool is_bad;

    *serving = 0;
    if (in.len < MESSAGE_HEAD_SIZE || in.data[0] != 0 ||
        get_u32(in.data + 1) != in.len - MESSAGE_HEAD_SIZE) {
        return false;
    }
    in = str_skip(in, MESSAGE_HEAD_SIZE);
    while (protobuf_next(&in, &field, &is_bad)) {
        if (field.number == 1 && field.type == PROTOBUF_VARINT) {
            *serving = field.value;
        }
    }
    return !is_bad;
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
    struct grpc_link link = {.stream = 0};
    struct probe_grpc grpc = {.arena = probe->arena, .link = &link, .grpc_status = -1};

    return grpc_call_run(probe, &settings->call, &grpc) && probe_grpc_judge(probe, &grpc);
}
