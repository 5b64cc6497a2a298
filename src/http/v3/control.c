/*
 * Streams of one direction (RFC 9114, 6.2): the control streams with SETTINGS, GOAWAY and
 * priorities, and the two of QPACK.
 */
#include "http/v3/v3.h"

#include <stdlib.h>

#include "base/fatal.h"
#include "http/message/frame.h"
#include "http/message/prefixed.h"

/* ---- ours ---- */

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
    c->control = h3_stream_open(c->quic, H3_STREAM_CONTROL);
    c->encoder_stream = h3_stream_open(c->quic, H3_STREAM_ENCODER);
    c->decoder_stream = h3_stream_open(c->quic, H3_STREAM_DECODER);
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

/* GOAWAY, MAX_PUSH_ID and CANCEL_PUSH have one integer, and nothing follows from it: nothing is
 * pushed. */
static void take_integer(struct v3_connection *c, struct str payload)
{
    struct h3_reader reader = {.size = 0};
    uint64_t id;

    if (!h3_read_integer(&reader, &payload, &id) || payload.len != 0) {
        v3_fail(c, H3_FRAME_ERROR, "sent a malformed control frame");
    }
}

static void keep_early(struct v3_connection *c, const struct v3_early *early)
{
    if (c->early == NULL) {
        c->early = calloc(V3_PRIORITIES_KEPT, sizeof(*c->early));
    }
    if (c->early == NULL) {
        fatal_no_memory(V3_PRIORITIES_KEPT * sizeof(*c->early));
    }
    c->early[early->id / 4 % V3_PRIORITIES_KEPT] = *early;
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
        const struct v3_early early = {id, true, urgency, is_incremental};
        keep_early(c, &early);
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
    return c->phase < V3_FAILED;
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
    return c->phase < V3_FAILED;
}

/* ---- QPACK ---- */

/* Entries have come. Sections that need still more are blocked again, and wait for the next ones:
 * each is looked at once. */
static void unblock(struct v3_connection *c)
{
    struct list waiting;

    list_init(&waiting);
    list_splice_back(&waiting, &c->blocked);
    while (c->phase < V3_FAILED && !list_is_empty(&waiting)) {
        v3_stream_unblocked(container_of(waiting.next, struct v3_stream, blocked_node));
    }
    list_splice_back(&c->blocked, &waiting);
}

static void read_encoder(void *arg, struct str bytes)
{
    struct v3_connection *c = arg;

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

static void read_decoder(void *arg, struct str bytes)
{
    struct v3_connection *c = arg;

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

static bool is_sound(const void *arg)
{
    return ((const struct v3_connection *) arg)->phase < V3_FAILED;
}

static void fail(void *arg, uint64_t error, const char *reason)
{
    v3_fail(arg, error, reason);
}

static void refused(void *arg)
{
    v3_guard(arg, V3_GUARD_STREAMS);
}

const struct h3_peer_rules v3_peer_rules = {.push_error = H3_STREAM_CREATION_ERROR,
                                            .is_sound = is_sound,
                                            .fail = fail,
                                            .refused = refused,
                                            .control = {may_follow, take_frame, NULL},
                                            .read_encoder = read_encoder,
                                            .read_decoder = read_decoder};
