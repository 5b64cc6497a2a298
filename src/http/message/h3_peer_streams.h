/*
 * Streams of one direction of HTTP/3 (RFC 9114, 6.2; RFC 9204, 4.2): the control stream and the two
 * of QPACK that the peer has opened, on connections of clients and to backends alike.
 */
#ifndef HTTP_MESSAGE_H3_PEER_STREAMS_H
#define HTTP_MESSAGE_H3_PEER_STREAMS_H

#include "base/list.h"
#include "http/message/h3_input.h"
#include "net/quic/quic.h"

/* What a connection does with them; `arg` is its own. On the loop's stack, not waiting. */
struct h3_peer_rules {
    enum h3_error push_error; /* of a push stream, which nobody may open here */
    bool (*is_sound)(const void *arg);
    /* The connection fails, with a reason such as "opened a push stream"; is_sound is false from
     * now on. */
    void (*fail)(void *arg, uint64_t error, const char *reason);
    /* One of an unknown type, or that ended before its type, was refused: counted. */
    void (*refused)(void *arg);
    struct h3_control_reader control; /* frames of the control stream; its own `arg` is not used */
    void (*read_encoder)(void *arg, struct str bytes);
    void (*read_decoder)(void *arg, struct str bytes);
};

/* Of a connection. */
struct h3_peer_streams {
    const struct h3_peer_rules *rules;
    void *arg;
    struct list inputs; /* what is read of each */
    uint8_t opened;     /* bits by enum h3_stream_type */
};

void h3_peer_streams_init(struct h3_peer_streams *streams, const struct h3_peer_rules *rules,
                          void *arg);
/* The connection has closed: all that was kept of them is freed; QUIC's streams are gone. */
void h3_peer_streams_free(struct h3_peer_streams *streams);
/* The peer has opened one: quic->user is used here from now on. */
void h3_peer_streams_opened(struct h3_peer_streams *streams, struct quic_stream *quic);
void h3_peer_streams_readable(struct h3_peer_streams *streams, struct quic_stream *quic);

/* One of ours, its type written. NULL: the peer allows no more. */
struct quic_stream *h3_stream_open(struct quic_connection *quic, enum h3_stream_type type);

#endif
