/* Packets as they are on the wire (RFC 9000, 17; RFC 9369, 3.2): pure functions over slices. */
#ifndef NET_QUIC_PACKET_H
#define NET_QUIC_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "net/quic/varint.h"

#define QUIC_CID_MOST 20u /* bytes of a connection id in versions 1 and 2 */
#define QUIC_DATAGRAM_LEAST                                                                        \
    1200u                 /* bytes of a datagram with an Initial, and what every path carries */
#define QUIC_TAG_SIZE 16u /* of an AEAD, and of Retry's integrity */
#define QUIC_RESET_TOKEN_SIZE 16u
#define QUIC_RESET_LEAST 21u /* bytes of a stateless reset */
#define QUIC_NUMBER_NONE UINT64_MAX

struct quic_cid {
    uint8_t len;
    uint8_t bytes[QUIC_CID_MOST];
};

static inline struct str quic_cid_str(const struct quic_cid *cid)
{
    return (struct str){(const char *) cid->bytes, cid->len};
}

static inline bool quic_cid_is(const struct quic_cid *cid, struct str bytes)
{
    return str_equal(quic_cid_str(cid), bytes);
}

/* bytes.len is at most QUIC_CID_MOST. */
static inline struct quic_cid quic_cid_of(struct str bytes)
{
    struct quic_cid cid = {.len = (uint8_t) bytes.len};

    str_put((char *) cid.bytes, bytes);
    return cid;
}

enum quic_packet_type {
    QUIC_PACKET_INITIAL,
    QUIC_PACKET_0RTT,
    QUIC_PACKET_HANDSHAKE,
    QUIC_PACKET_RETRY,
    QUIC_PACKET_1RTT,        /* the short header */
    QUIC_PACKET_NEGOTIATION, /* of versions */
    QUIC_PACKET_UNKNOWN,     /* a long header of another version: ids are known (RFC 8999) */
};

/* The part of a header that is not protected. Slices point into the datagram. */
struct quic_header {
    enum quic_packet_type type;
    uint32_t version;   /* 0 with the short header */
    struct str dcid;    /* at most QUIC_CID_MOST bytes, but 255 where the version is unknown */
    struct str scid;    /* empty with the short header */
    struct str token;   /* of Initial and Retry */
    struct str payload; /* of a negotiation: the versions; of Retry: the tag; else from the packet
                           number on */
    size_t number_at;   /* offset of the packet number */
    size_t size;        /* bytes of this packet; others may follow in the datagram */
};

bool quic_version_is_ours(uint32_t version);

/*
 * Reads the header of the first packet of the datagram. cid_len: bytes of our connection ids, which
 * the short header does not tell. False: it is none, and what is left of the datagram is to be
 * dropped.
 */
bool quic_header_read(struct str datagram, unsigned cid_len, struct quic_header *out);

/* Bytes (1 to 4) in which the number of a packet is sent when all up to `acked` are acknowledged
 * (QUIC_NUMBER_NONE = none). */
unsigned quic_number_size(uint64_t number, uint64_t acked);
/* The number of which the last `size` bytes came, when `largest` was the largest so far
 * (QUIC_NUMBER_NONE = none). */
uint64_t quic_number_decode(uint64_t largest, uint64_t truncated, unsigned size);

/* Writes a long header of Initial, 0-RTT or Handshake with a length of two bytes at *length_at, to
 * be filled in by quic_length_set, and the packet number, whose first byte is at *number_at. */
struct quic_long {
    enum quic_packet_type type;
    uint32_t version;
    const struct quic_cid *dcid, *scid;
    struct str token; /* of an Initial */
    uint64_t number;
    unsigned number_size;
};
void quic_long_put(struct quic_out *out, const struct quic_long *packet, unsigned char **length_at,
                   unsigned char **number_at);
/* Bytes from the packet number to the end of the tag: less than 16384. */
void quic_length_set(unsigned char *length_at, size_t size);
/* The short header up to the end of the packet number. */
struct quic_short {
    const struct quic_cid *dcid;
    uint64_t number;
    unsigned number_size;
    bool key_phase;
};
void quic_short_put(struct quic_out *out, const struct quic_short *packet,
                    unsigned char **number_at);

/* Whole packets. The ids are those that the receiver's packet had, the other way round; `random`
 * greases. */
void quic_negotiation_put(struct quic_out *out, struct str dcid, struct str scid, uint32_t random);
/* A Retry up to its integrity tag, which quic_retry_tag makes of it. */
void quic_retry_put(struct quic_out *out, uint32_t version, const struct quic_cid *dcid,
                    const struct quic_cid *scid, struct str token);

/* The version among those on offer (four bytes each) that we prefer; 0 = none. */
uint32_t quic_version_choose(struct str versions);

#endif
