/* Streams of one direction on connections to backends (RFC 9114, 6.2): control streams, and those
 * of QPACK. */
#include "http/exchange/h3/h3.h"

#include "base/clock.h"
#include "http/message/prefixed.h"

/* ---- ours ---- */

/* No section of a response may wait for entries: SETTINGS_QPACK_BLOCKED_STREAMS stays 0. */
bool h3_control_begin(struct h3_connection *c)
{
    char payload[2 * H3_INTEGER_ROOM];
    char head[H3_FRAME_ROOM];

    c->control = h3_stream_open(c->quic, H3_STREAM_CONTROL);
    c->decoder_stream = h3_stream_open(c->quic, H3_STREAM_DECODER);
    if (c->control == NULL || c->decoder_stream == NULL) {
        return false;
    }
    char *at =
        h3_put_setting(payload, H3_QPACK_MAX_TABLE_CAPACITY, c->settings->max_table_capacity);
    char *end = h3_put_frame(head, H3_SETTINGS, (uint64_t) (at - payload));
    quic_stream_write(c->control, str_from(head, end));
    quic_stream_write(c->control, str_from(payload, at));
    return true;
}

void h3_cancel_sections(struct h3_connection *c, const struct quic_stream *quic)
{
    char instruction[PREFIXED_INTEGER_ROOM];

    if (c->decoder_stream != NULL && c->settings->max_table_capacity != 0) {
        char *end = qpack_put_cancellation(instruction, quic->id);
        quic_stream_write(c->decoder_stream, str_from(instruction, end));
    }
}

/* ---- frames of the backend's control stream ---- */

static void take_goaway(struct h3_connection *c, uint64_t id)
{
    if (id % 4 != 0 || id > c->goaway_id) {
        h3_connection_fail(c, H3_ID_ERROR, "upstream sent GOAWAY with invalid id %llu",
                           (unsigned long long) id);
        return;
    }
    c->goaway_id = id;
    c->connection->is_doomed = true;
    list_each(link, &c->streams) {
        struct h3_stream *stream = container_of(link, struct h3_stream, link);

        if (stream->quic != NULL && stream->quic->id >= id && !stream->coded.has_heard) {
            coded_stream_refuse(&stream->coded, "upstream sent goaway");
        }
    }
}

static void take_settings(struct h3_connection *c, struct str payload)
{
    struct h3_settings peer;
    enum h3_error error = h3_settings_read(payload, &peer);

    c->has_settings = true;
    if (error != H3_NO_ERROR) {
        h3_connection_fail(c, error, "upstream sent malformed SETTINGS");
    }
}

static bool take_frame(void *arg, const struct h3_input *input)
{
    struct h3_connection *c = arg;
    struct str payload = {input->block, input->block_size};
    struct h3_reader reader = {.size = 0};
    uint64_t id;

    c->heard_ms = clock_now.now_ms; /* the backend is alive, for all requests on it */
    if (input->type == H3_SETTINGS) {
        take_settings(c, payload);
    } else if (!h3_read_integer(&reader, &payload, &id) || payload.len != 0) {
        h3_connection_fail(c, H3_FRAME_ERROR, "upstream sent a malformed control frame");
    } else if (input->type == H3_GOAWAY) {
        take_goaway(c, id);
    } else {
        h3_connection_fail(c, H3_ID_ERROR, "upstream cancelled a push that there is not");
    }
    return h3_connection_is_sound(c);
}

/* What only clients send is as wrong as what belongs to requests. */
static bool is_of_server(uint64_t type)
{
    return h3_frame_is_of_control(type) && type != H3_MAX_PUSH_ID && type != H3_PRIORITY_UPDATE &&
           type != H3_PRIORITY_UPDATE_PUSH;
}

static bool may_follow(void *arg, const struct h3_input *input)
{
    struct h3_connection *c = arg;
    bool is_known = h3_frame_is_known_control(input->type);

    if (!c->has_settings && input->type != H3_SETTINGS) {
        h3_connection_fail(c, H3_MISSING_SETTINGS, "upstream sent no SETTINGS first");
    } else if (!is_of_server(input->type) || (c->has_settings && input->type == H3_SETTINGS)) {
        h3_connection_fail(c, H3_FRAME_UNEXPECTED,
                           "upstream sent unexpected frame %llu on its control stream",
                           (unsigned long long) input->type);
    } else if (is_known && input->left > H3_CONTROL_FRAME_MAX) {
        h3_connection_fail(c, H3_EXCESSIVE_LOAD, "upstream sent too long a control frame");
    } else {
        h3_guard(c, is_known ? H3_GUARD_CONTROL : H3_GUARD_UNKNOWN);
    }
    return h3_connection_is_sound(c);
}

/* ---- QPACK ---- */

static void read_encoder(void *arg, struct str bytes)
{
    struct h3_connection *c = arg;
    char instruction[PREFIXED_INTEGER_ROOM];

    if (!qpack_decoder_feed(&c->decoder, bytes)) {
        h3_connection_fail(c, QPACK_ENCODER_STREAM_ERROR,
                           "upstream sent a malformed encoder stream");
        return;
    }
    for (; c->copies_seen != c->decoder.duplicated; c->copies_seen++) {
        if (!h3_guard(c, H3_GUARD_COPIES)) {
            return;
        }
    }
    char *end = qpack_put_increment(instruction, &c->decoder);
    quic_stream_write(c->decoder_stream, str_from(instruction, end));
}

/* Our encoder has no table: there is nothing that its peer could say but cancellations, which mean
 * nothing. */
static void read_decoder(void *arg, struct str bytes)
{
}

/* ---- the backend's streams ---- */

static bool is_sound(const void *arg)
{
    return h3_connection_is_sound(arg);
}

static void fail(void *arg, uint64_t error, const char *reason)
{
    h3_connection_fail(arg, error, "upstream %s", reason);
}

static void refused(void *arg)
{
    h3_guard(arg, H3_GUARD_STREAMS);
}

const struct h3_peer_rules h3_backend_rules = {.push_error = H3_ID_ERROR,
                                               .is_sound = is_sound,
                                               .fail = fail,
                                               .refused = refused,
                                               .control = {may_follow, take_frame, NULL},
                                               .read_encoder = read_encoder,
                                               .read_decoder = read_decoder};
