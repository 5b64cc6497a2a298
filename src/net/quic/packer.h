/* A datagram that is being made: what output.c and payload.c share. */
#ifndef NET_QUIC_PACKER_H
#define NET_QUIC_PACKER_H

#include "net/quic/private.h"

#define QUIC_PACKETS_MOST 3u       /* of a datagram: one for each space */
#define QUIC_LEAST_STREAM_ROOM 24u /* bytes for one more STREAM frame */

/* A packet that is being made. */
struct packet_out {
    enum quic_space space;
    struct quic_level *level;
    struct quic_sent *sent;
    uint64_t number;
    unsigned number_size;
    unsigned char *start, *length_at, *number_at, *payload;
    unsigned char *end; /* of what was written */
    bool is_eliciting;
};

/* A datagram that is being made. */
struct packer {
    struct quic_connection *c;
    struct quic_path *path;
    uint64_t now_us;
    unsigned char *start;
    unsigned char *end; /* of what it may have */
    struct packet_out packets[QUIC_PACKETS_MOST];
    unsigned count;
    bool may_elicit;    /* the window lets it go */
    bool needs_padding; /* to 1200 bytes at least */
    unsigned probe;     /* bytes of a probe of path MTU discovery; 0 = it is none */
    struct packet_out *packet;
    struct quic_out out; /* of the payload of packet */
};

/* ---- payload.c: each puts frames into the packet that is being made ---- */

void quic_put_ack(struct packer *p);
void quic_put_crypto(struct packer *p);
void quic_put_path(struct packer *p);
/* All that the application space has to send. */
void quic_put_application(struct packer *p);
/* A frame that asks for an acknowledgement; written by the caller. */
void quic_put_ping(struct packer *p, struct quic_carried carried);

#endif
