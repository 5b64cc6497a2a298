/*
 * Streams of one direction (RFC 9114, 6.2): the control streams with SETTINGS, GOAWAY and priorities, and the two of QPACK.
 */
#include "http/v3/v3.h"

#include <stdlib.h>

#include "base/fatal.h"
#include "http/message/frame.h"
#include "http/message/prefixed.h"

/* What is read of a stream of the client's; hangs on quic_stream.user. From malloc. */
struct control_input {
    struct list link; /* on connection->controls */
    uint64_t type;    /* enum h3_stream_type, once has_type */
    bool has_type;
    bool has_frame; /* the head of a frame was read */
    struct h3_input input;
};

/* ---- ours ---- */

static struct quic_stream *open_stream(struct v3_connection *c, enum h3_stream_type type)
{
    struct quic_stream *quic = quic_stream_open(c->quic, true);
    char byte = (char) type;

    if (quic != NULL) {
        quic_stream_write(quic, (struct str){&byte, 1});
        quic_stream_prioritize(quic, 0, true);
    }
    return quic;
}

/* A setting and a frame that mean nothing keep peers used to them (RFC 9114, 7.2.4.1). */
#define GREASE (0x1f * 0x3b + 0x21)

static void send_settings(struct v3_connection *c)
{
    const struct head_limits *limits = &c->limits;
    char payload[64];
    char head[H3_FRAME_ROOM];
    char *at = payload;

    at = h3_put_setting(at, H3_QPACK_MAX_TABLE_CAPACITY, QPACK_TABLE_DEFAULT);
    at = h3_put_setting(at, H3_MAX_FIELD_SECTION_SIZE, limits->head_max);
    at = h3_put_setting(at, H3_QPACK_BLOCKED_STREAMS, V3_BLOCKED_MAX);
    at = h3_put_setting(at, H3_ENABLE_CONNECT_PROTOCOL, 1);
    at = h3_put_setting(at, GREASE, 1);
    char *end = h3_put_frame(head, H3_SETTINGS, (uint64_t) (at - payload));
    quic_stream_write(c->control, str_from(head, end));
    quic_stream_write(c->control, str_from(payload, at));
}

void v3_control_begin(struct v3_connection *c)
{
    c->control = open_stream(c, H3_STREAM_CONTROL);
    c->encoder_stream = open_stream(c, H3_STREAM_ENCODER);
    c->decoder_stream = open_stream(c, H3_STREAM_DECODER);
    if (c->control == NULL || c->encoder_stream == NULL || c->decoder_stream == NULL) {
        v3_fail(c, H3_STREAM_CREATION_ERROR, "allows fewer than three streams of one direction");
        return;
    }
    send_settings(c);
}

/* ---- frames of the client's control stream ---- */

static void take_settings(struct v3_connection *c, struct str payload)
{
    enum h3_error error = h3_settings_read(payload, &c->peer);

    if (error != H3_NO_ERROR) {
        v3_fail(c, error, "sent malformed SETTINGS");
        return;
    }
    c->has_settings = true;
    qpack_encoder_allow(&c->encoder, c->peer.table_capacity);
}

/* GOAWAY, MAX_PUSH_ID and CANCEL_PUSH have one integer, and nothing follows from it: nothing is pushed. */
static void take_integer(struct v3_connection *c, struct str payload)
{
    struct h3_reader reader = {.size = 0};
    uint64_t id;

    if (!h3_read_integer(&reader, &payload, &id) || payload.len != 0) {
        v3_fail(c, H3_FRAME_ERROR, "sent a malformed control frame");
    }
}

static void take_priority(struct v3_connection *c, struct str payload)
{
    struct h3_reader reader = {.size = 0};
    uint8_t urgency;
    bool is_incremental;
    uint64_t id;

    if (!h3_read_integer(&reader, &payload, &id)) {
        v3_fail(c, H3_FRAME_ERROR, "sent a malformed PRIORITY_UPDATE");
        return;
    }
    if (id % 4 != 0) {
        v3_fail(c, H3_ID_ERROR, "sent PRIORITY_UPDATE of no request");
        return;
    }
    priority_parse(payload, &urgency, &is_incremental);
    struct v3_stream *stream = v3_find(c, id);
    if (stream != NULL) {
        v3_prioritise(stream, urgency, is_incremental);
    }
    if (id >= c->next_stream || (stream != NULL && !stream->has_head)) {
        unsigned bucket = (unsigned) (id / 4 % V3_PRIORITIES_KEPT);
        c->early[bucket].id = id;
        c->early[bucket].is_used = true;
        c->early[bucket].urgency = urgency;
        c->early[bucket].is_incremental = is_incremental;
    }
}

/* False: the connection has failed. */
static bool take_frame(void *arg, const struct h3_input *input)
{
    struct v3_connection *c = arg;
    struct str payload = {input->block, input->block_size};

    switch (input->type) {
    case H3_SETTINGS:
        take_settings(c, payload);
        break;
    case H3_PRIORITY_UPDATE:
        take_priority(c, payload);
        break;
    case H3_PRIORITY_UPDATE_PUSH:
        v3_fail(c, H3_ID_ERROR, "sent PRIORITY_UPDATE of a push");
        break;
    case H3_CANCEL_PUSH:
        v3_fail(c, H3_ID_ERROR, "sent CANCEL_PUSH of no push");
        break;
    default:
        take_integer(c, payload);
        break;
    }
    return !c->is_failed;
}

static enum v3_guard guard_of(uint64_t type)
{
    if (type == H3_PRIORITY_UPDATE) {
        return V3_GUARD_PRIORITIES; /* browsers send one for each image */
    }
    return h3_frame_is_known_control(type) ? V3_GUARD_CONTROL : V3_GUARD_UNKNOWN;
}

/* May a frame of this head follow? False: the connection has failed. */
static bool may_follow(void *arg, const struct h3_input *input)
{
    struct v3_connection *c = arg;

    if (!c->has_settings && input->type != H3_SETTINGS) {
        v3_fail(c, H3_MISSING_SETTINGS, "sent no SETTINGS first");
    } else if (!h3_frame_is_of_control(input->type) ||
               (c->has_settings && input->type == H3_SETTINGS)) {
        v3_fail(c, H3_FRAME_UNEXPECTED, "sent a frame that has no place on a control stream");
    } else if (h3_frame_is_known_control(input->type) && input->left > H3_CONTROL_FRAME_MAX) {
        v3_fail(c, H3_EXCESSIVE_LOAD, "sent too long a control frame");
    } else {
        v3_guard(c, guard_of(input->type));
    }
    return !c->is_failed;
}

static void read_control(struct v3_connection *c, struct h3_input *input, struct str bytes)
{
    const struct h3_control_reader reader = {may_follow, take_frame, c};

    h3_control_read(input, bytes, &reader);
}

/* ---- QPACK ---- */

/* Entries have come. Sections that need still more are blocked again, and wait for the next ones: each is looked at once. */
static void unblock(struct v3_connection *c)
{
    struct list waiting;

    list_init(&waiting);
    list_splice_back(&waiting, &c->blocked);
    while (!c->is_failed && !list_is_empty(&waiting)) {
        v3_stream_unblocked(container_of(waiting.next, struct v3_stream, blocked_node));
    }
    list_splice_back(&c->blocked, &waiting);
}

static void read_encoder(struct v3_connection *c, struct str bytes)
{
    if (!qpack_decoder_feed(&c->decoder, bytes)) {
        v3_fail(c, QPACK_ENCODER_STREAM_ERROR, "sent a malformed encoder stream");
        return;
    }
    for (; c->copies_seen != c->decoder.duplicated; c->copies_seen++) {
        if (!v3_guard(c, V3_GUARD_COPIES)) {
            return;
        }
    }
    unblock(c);
    v3_send_instructions(c);
}

static void read_decoder(struct v3_connection *c, struct str bytes)
{
    if (!qpack_encoder_feed(&c->encoder, bytes)) {
        v3_fail(c, QPACK_DECODER_STREAM_ERROR, "sent a malformed decoder stream");
        return;
    }
    for (; c->feedback_seen != c->encoder.cancelled; c->feedback_seen++) {
        if (!v3_guard(c, V3_GUARD_FEEDBACK)) {
            return;
        }
    }
}

/* ---- the client's streams ---- */

void v3_control_opened(struct v3_connection *c, struct quic_stream *quic)
{
    struct control_input *control = calloc(1, sizeof(*control));

    if (control == NULL) {
        fatal_no_memory(sizeof(*control));
    }
    quic->user = control;
    list_push_back(&c->controls, &control->link);
}

static void control_free(struct control_input *control)
{
    list_remove(&control->link);
    h3_input_free(&control->input);
    free(control);
}

static void control_end(struct quic_stream *quic, uint64_t error)
{
    control_free(quic->user);
    quic->user = NULL;
    quic_stream_release(quic, error);
}

void v3_control_free(struct v3_connection *c)
{
    while (!list_is_empty(&c->controls)) {
        control_free(container_of(c->controls.next, struct control_input, link));
    }
}

/* The type has been read. False: the stream is gone, or the connection has failed. */
static bool control_begin(struct v3_connection *c, struct quic_stream *quic)
{
    const struct control_input *control = quic->user;

    if (control->type == H3_STREAM_PUSH) {
        v3_fail(c, H3_STREAM_CREATION_ERROR, "opened a push stream");
        return false;
    }
    if (control->type > H3_STREAM_DECODER) {
        control_end(quic, H3_STREAM_CREATION_ERROR);
        v3_guard(c, V3_GUARD_STREAMS);
        return false;
    }
    uint8_t bit = (uint8_t) (1u << control->type);
    if ((c->peer_streams & bit) != 0) {
        v3_fail(c, H3_STREAM_CREATION_ERROR, "opened a second stream of a kind");
        return false;
    }
    c->peer_streams |= bit;
    return true;
}

static void control_bytes(struct v3_connection *c, struct quic_stream *quic, struct str bytes)
{
    struct control_input *control = quic->user;

    switch (control->type) {
    case H3_STREAM_CONTROL:
        read_control(c, &control->input, bytes);
        break;
    case H3_STREAM_ENCODER:
        read_encoder(c, bytes);
        break;
    default:
        read_decoder(c, bytes);
        break;
    }
}

void v3_control_readable(struct v3_connection *c, struct quic_stream *quic)
{
    struct control_input *control = quic->user;

    while (!c->is_failed) {
        struct str bytes = quic_stream_input(quic);
        size_t size = bytes.len;

        if (size == 0) {
            break;
        }
        if (!control->has_type) {
            control->has_type = h3_read_integer(&control->input.reader, &bytes, &control->type);
            if (control->has_type && !control_begin(c, quic)) {
                return;
            }
        }
        if (bytes.len != 0) {
            control_bytes(c, quic, bytes);
        }
        if (!c->is_failed) {
            quic_stream_consume(quic, size);
        }
    }
    if (c->is_failed || !quic->is_input_finished) {
        return;
    }
    if (control->has_type) {
        v3_fail(c, H3_CLOSED_CRITICAL_STREAM, "closed a critical stream");
    } else {
        control_end(quic, H3_NO_ERROR);
        v3_guard(c, V3_GUARD_STREAMS);
    }
}
