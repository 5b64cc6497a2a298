/* Unidirectional streams of an HTTP/3 peer (RFC 9114, 6.2; RFC 9204, 4.2): the control stream and
 * the two QPACK streams that the peer has opened, on connections of clients and to backends. */
#ifndef HTTP_MESSAGE_H3_PEER_STREAMS_H
#define HTTP_MESSAGE_H3_PEER_STREAMS_H

#include "base/list.h"
#include "http/message/h3_input.h"
#include "net/quic/quic.h"

/* Callbacks of a connection; `arg` is for its use. On the loop's stack, must not wait. */
struct h3_peer_rules {
    enum h3_error push_error; /* for a push stream, which is never allowed */
    bool (*is_sound)(const void *arg);
    /* The connection fails, with a reason such as "opened a push stream"; is_sound returns false
     * from now on. */
    void (*fail)(void *arg, uint64_t error, const char *reason);
    /* A stream with an unknown type, or that ended before its type, was refused: to be counted. */
    void (*refused)(void *arg);
    struct h3_control_reader control; /* for frames of the control stream; its `arg` is not used */
    void (*read_encoder)(void *arg, struct str bytes);
    void (*read_decoder)(void *arg, struct str bytes);
};

/* The state of a connection. */
struct h3_peer_streams {
    const struct h3_peer_rules *rules;
    void *arg;
    struct list inputs; /* struct peer_input: one per stream */
    uint8_t opened;     /* bits by enum h3_stream_type */
};

void h3_peer_streams_init(struct h3_peer_streams *streams, const struct h3_peer_rules *rules,
                          void *arg);
/* Frees the state after the connection was closed, and its QUIC streams are gone. */
void h3_peer_streams_free(struct h3_peer_streams *streams);
/* The peer has opened a stream: quic->user is used here from now on. */
void h3_peer_streams_opened(struct h3_peer_streams *streams, struct quic_stream *quic);
void h3_peer_streams_readable(struct h3_peer_streams *streams, struct quic_stream *quic);

/* Opens a stream and writes its type. NULL: the peer allows no more. */
struct quic_stream *h3_stream_open(struct quic_connection *quic, enum h3_stream_type type);

#endif
