/* Unidirectional streams of an HTTP/3 peer. */
#include "http/message/h3_peer_streams.h"

#include <stdlib.h>

#include "base/fatal.h"

/* The state of one stream, at quic_stream.user. From malloc. */
struct peer_input {
    struct list node; /* in h3_peer_streams.inputs */
    uint64_t type;    /* an enum h3_stream_type, if has_type */
    bool has_type;
    struct h3_input input;
};

void h3_peer_streams_init(struct h3_peer_streams *streams, const struct h3_peer_rules *rules,
                          void *arg)
{
    streams->rules = rules;
    streams->arg = arg;
    streams->opened = 0;
    list_init(&streams->inputs);
}

static void input_free(struct peer_input *peer)
{
    list_remove(&peer->node);
    h3_input_free(&peer->input);
    free(peer);
}

void h3_peer_streams_free(struct h3_peer_streams *streams)
{
    while (!list_is_empty(&streams->inputs)) {
        input_free(container_of(streams->inputs.next, struct peer_input, node));
    }
}

void h3_peer_streams_opened(struct h3_peer_streams *streams, struct quic_stream *quic)
{
    struct peer_input *peer = calloc(1, sizeof(*peer));

    if (peer == NULL) {
        fatal_no_memory(sizeof(*peer));
    }
    quic->user = peer;
    list_push_back(&streams->inputs, &peer->node);
}

/* Refuses the stream, without effect on the connection. */
static void refuse_stream(struct h3_peer_streams *streams, struct quic_stream *quic, uint64_t error)
{
    input_free(quic->user);
    quic->user = NULL;
    quic_stream_release(quic, error);
    streams->rules->refused(streams->arg);
}

/* Called after the type was read. False: the stream is gone, or the connection has failed. */
static bool begin(struct h3_peer_streams *streams, struct quic_stream *quic)
{
    const struct h3_peer_rules *rules = streams->rules;
    const struct peer_input *peer = quic->user;

    if (peer->type == H3_STREAM_PUSH) {
        rules->fail(streams->arg, rules->push_error, "opened a push stream");
        return false;
    }
    if (peer->type > H3_STREAM_DECODER) {
        refuse_stream(streams, quic, H3_STREAM_CREATION_ERROR);
        return false;
    }
    uint8_t bit = (uint8_t) (1u << peer->type);
    if ((streams->opened & bit) != 0) {
        rules->fail(streams->arg, H3_STREAM_CREATION_ERROR, "opened a second stream of a kind");
        return false;
    }
    streams->opened |= bit;
    return true;
}

static void take_bytes(struct h3_peer_streams *streams, struct peer_input *peer, struct str bytes)
{
    struct h3_control_reader control = streams->rules->control;

    switch (peer->type) {
    case H3_STREAM_CONTROL:
        control.arg = streams->arg;
        h3_control_read(&peer->input, bytes, &control);
        break;
    case H3_STREAM_ENCODER:
        streams->rules->read_encoder(streams->arg, bytes);
        break;
    default:
        streams->rules->read_decoder(streams->arg, bytes);
        break;
    }
}

void h3_peer_streams_readable(struct h3_peer_streams *streams, struct quic_stream *quic)
{
    const struct h3_peer_rules *rules = streams->rules;
    struct peer_input *peer = quic->user;

    while (rules->is_sound(streams->arg)) {
        struct str bytes = quic_stream_input(quic);
        size_t size = bytes.len;

        if (size == 0) {
            break;
        }
        if (!peer->has_type) {
            peer->has_type = h3_read_integer(&peer->input.reader, &bytes, &peer->type);
            if (peer->has_type && !begin(streams, quic)) {
                return;
            }
        }
        if (bytes.len != 0) {
            take_bytes(streams, peer, bytes);
        }
        if (rules->is_sound(streams->arg)) {
            quic_stream_consume(quic, size);
        }
    }
    if (!rules->is_sound(streams->arg) || !quic->is_input_finished) {
        return;
    }
    if (peer->has_type) {
        rules->fail(streams->arg, H3_CLOSED_CRITICAL_STREAM, "closed a critical stream");
    } else {
        refuse_stream(streams, quic, H3_NO_ERROR);
    }
}

struct quic_stream *h3_stream_open(struct quic_connection *quic, enum h3_stream_type type)
{
    struct quic_stream *stream = quic_stream_open(quic, true);
    char byte = (char) type;

    if (stream != NULL) {
        quic_stream_write(stream, (struct str){&byte, 1});
        quic_stream_prioritize(stream, 0, true);
    }
    return stream;
}
