/* Streams of one direction on connections to backends (RFC 9114, 6.2): control streams, and those of QPACK. */
#include "http/exchange/h3/h3.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "http/message/prefixed.h"

/* What is read of a stream of the backend's; hangs on quic_stream.user. From malloc. */
struct control_input {
    struct list link; /* on connection->controls */
    uint64_t type;    /* enum h3_stream_type, once has_type */
    bool has_type;
    struct h3_input input;
};

/* ---- ours ---- */

static struct quic_stream *open_stream(struct h3_connection *c, enum h3_stream_type type)
{
    struct quic_stream *quic = quic_stream_open(c->quic, true);
    char byte = (char) type;

    if (quic != NULL) {
        quic_stream_write(quic, (struct str){&byte, 1});
        quic_stream_prioritize(quic, 0, true);
    }
    return quic;
}

/* No section of a response may wait for entries: SETTINGS_QPACK_BLOCKED_STREAMS stays 0. */
void h3_control_begin(struct h3_connection *c)
{
    char payload[2 * H3_INTEGER_ROOM];
    char head[H3_FRAME_ROOM];

    c->control = open_stream(c, H3_STREAM_CONTROL);
    c->decoder_stream = open_stream(c, H3_STREAM_DECODER);
    if (c->control == NULL || c->decoder_stream == NULL) {
        h3_connection_fail(c, H3_STREAM_CREATION_ERROR,
                           "upstream allows fewer than two streams of one direction");
        return;
    }
    char *at =
        h3_put_setting(payload, H3_QPACK_MAX_TABLE_CAPACITY, c->settings->max_table_capacity);
    char *end = h3_put_frame(head, H3_SETTINGS, (uint64_t) (at - payload));
    quic_stream_write(c->control, str_from(head, end));
    quic_stream_write(c->control, str_from(payload, at));
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

        if (stream->quic != NULL && stream->quic->id >= id && !stream->has_heard) {
            h3_stream_refuse(stream);
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

static void read_encoder(struct h3_connection *c, struct str bytes)
{
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

/* ---- the backend's streams ---- */

void h3_control_opened(struct h3_connection *c, struct quic_stream *quic)
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

void h3_control_free(struct h3_connection *c)
{
    while (!list_is_empty(&c->controls)) {
        control_free(container_of(c->controls.next, struct control_input, link));
    }
}

/* The type has been read. False: the stream is gone, or the connection has failed. */
static bool control_begin(struct h3_connection *c, struct quic_stream *quic)
{
    const struct control_input *control = quic->user;

    if (control->type == H3_STREAM_PUSH) {
        h3_connection_fail(c, H3_ID_ERROR, "upstream opened a push stream");
        return false;
    }
    if (control->type > H3_STREAM_DECODER) {
        control_end(quic, H3_STREAM_CREATION_ERROR);
        h3_guard(c, H3_GUARD_STREAMS);
        return false;
    }
    uint8_t bit = (uint8_t) (1u << control->type);
    if ((c->peer_streams & bit) != 0) {
        h3_connection_fail(c, H3_STREAM_CREATION_ERROR, "upstream opened a second control stream");
        return false;
    }
    c->peer_streams |= bit;
    return true;
}

static void control_bytes(struct h3_connection *c, struct control_input *control, struct str bytes)
{
    const struct h3_control_reader reader = {may_follow, take_frame, c};

    switch (control->type) {
    case H3_STREAM_CONTROL:
        h3_control_read(&control->input, bytes, &reader);
        break;
    case H3_STREAM_ENCODER:
        read_encoder(c, bytes);
        break;
    default:
        /* Our encoder has no table: there is nothing that its peer could say but cancellations, which mean nothing. */
        break;
    }
}

void h3_control_readable(struct h3_connection *c, struct quic_stream *quic)
{
    struct control_input *control = quic->user;

    while (h3_connection_is_sound(c)) {
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
            control_bytes(c, control, bytes);
        }
        if (h3_connection_is_sound(c)) {
            quic_stream_consume(quic, size);
        }
    }
    if (!h3_connection_is_sound(c) || !quic->is_input_finished) {
        return;
    }
    if (control->has_type) {
        h3_connection_fail(c, H3_CLOSED_CRITICAL_STREAM, "upstream closed a critical stream");
    } else {
        control_end(quic, H3_NO_ERROR);
        h3_guard(c, H3_GUARD_STREAMS);
    }
}
