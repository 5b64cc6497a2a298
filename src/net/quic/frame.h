/* Frames (RFC 9000, 19; RFC 9221; draft-ietf-quic-ack-frequency): read from and written to slices;
 * pure functions. */
#ifndef NET_QUIC_FRAME_H
#define NET_QUIC_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "net/quic/packet.h"
#include "net/quic/ranges.h"
#include "net/quic/varint.h"

/* As on the wire. */
enum quic_frame_type {
    QUIC_FRAME_PADDING = 0x00,
    QUIC_FRAME_PING = 0x01,
    QUIC_FRAME_ACK = 0x02,
    QUIC_FRAME_ACK_ECN = 0x03,
    QUIC_FRAME_RESET_STREAM = 0x04,
    QUIC_FRAME_STOP_SENDING = 0x05,
    QUIC_FRAME_CRYPTO = 0x06,
    QUIC_FRAME_NEW_TOKEN = 0x07,
    QUIC_FRAME_STREAM = 0x08, /* to 0x0f: with OFFSET 4, LENGTH 2, FIN 1 */
    QUIC_FRAME_MAX_DATA = 0x10,
    QUIC_FRAME_MAX_STREAM_DATA = 0x11,
    QUIC_FRAME_MAX_STREAMS_BIDI = 0x12,
    QUIC_FRAME_MAX_STREAMS_UNI = 0x13,
    QUIC_FRAME_DATA_BLOCKED = 0x14,
    QUIC_FRAME_STREAM_DATA_BLOCKED = 0x15,
    QUIC_FRAME_STREAMS_BLOCKED_BIDI = 0x16,
    QUIC_FRAME_STREAMS_BLOCKED_UNI = 0x17,
    QUIC_FRAME_NEW_CONNECTION_ID = 0x18,
    QUIC_FRAME_RETIRE_CONNECTION_ID = 0x19,
    QUIC_FRAME_PATH_CHALLENGE = 0x1a,
    QUIC_FRAME_PATH_RESPONSE = 0x1b,
    QUIC_FRAME_CONNECTION_CLOSE = 0x1c,
    QUIC_FRAME_APPLICATION_CLOSE = 0x1d,
    QUIC_FRAME_HANDSHAKE_DONE = 0x1e,
    QUIC_FRAME_IMMEDIATE_ACK = 0x1f,
    QUIC_FRAME_DATAGRAM = 0x30, /* and 0x31, with a length */
    QUIC_FRAME_ACK_FREQUENCY = 0xaf,
};

#define QUIC_STREAM_HAS_OFFSET 4u
#define QUIC_STREAM_HAS_LENGTH 2u
#define QUIC_STREAM_HAS_FIN 1u

/* A frame that was read; slices point into the packet. */
struct quic_frame {
    uint64_t type; /* enum quic_frame_type; STREAM and DATAGRAM without the bits of their form */
    union {
        struct {
            uint64_t largest, delay, first_range;
            uint64_t count;    /* of further ranges */
            struct str ranges; /* the further ranges as on the wire, validated: quic_ack_next */
            bool has_ecn;
            uint64_t ect0, ect1, ce;
        } ack;
        struct {
            uint64_t id; /* of the stream */
            uint64_t code, final_size;
        } reset; /* STOP_SENDING has no final size */
        struct {
            uint64_t id, offset; /* CRYPTO has no id */
            struct str data;
            bool is_last;    /* FIN */
            bool has_length; /* not to be read as the last frame of its packet */
        } stream;
        struct {
            uint64_t id; /* of MAX_STREAM_DATA, STREAM_DATA_BLOCKED */
            uint64_t
                limit; /* of all frames of a limit; RETIRE_CONNECTION_ID: the sequence number */
        } limit;
        struct {
            uint64_t number, retire_before;
            struct str id;
            struct str reset_token;
        } new_id;
        struct str token; /* NEW_TOKEN */
        struct str data;  /* PATH_CHALLENGE, PATH_RESPONSE (8 bytes), DATAGRAM */
        struct {
            uint64_t code, frame_type;
            struct str reason;
        } close;
        size_t padding; /* bytes in a row */
        struct {
            uint64_t number;
            uint64_t threshold;  /* packets that ask for an ACK: one is sent when more have come */
            uint64_t delay_us;   /* and at the latest after it */
            uint64_t reordering; /* a packet that is missing for so many asks for an ACK at once; 0
                                    = never */
        } ack_frequency;
    };
};

/* Takes one frame off the front of the payload. False: FRAME_ENCODING_ERROR. */
bool quic_frame_read(struct str *payload, struct quic_frame *out);

/* Walks the ranges of an ACK that was read, largest first. Begin with {0} in walk. False: no more.
 */
struct quic_ack_walk {
    struct str rest;
    uint64_t left;
    uint64_t smallest; /* of the range that was given last */
    bool has_begun;
};
bool quic_ack_next(const struct quic_frame *ack, struct quic_ack_walk *walk,
                   struct quic_range *range);

/* Writes a frame that is not ACK; a STREAM whole. Nothing is written, and out->is_short set, where
 * there is no room. */
void quic_frame_put(struct quic_out *out, const struct quic_frame *frame);
/* Bytes before the data of a STREAM frame whose length field has two bytes. */
size_t quic_stream_head_size(uint64_t id, uint64_t offset);

/*
 * Writes an ACK of the numbers, the largest first, with as many ranges as there is room for;
 * nothing where the first does not fit. ecn: three counts, or NULL. Gives how many ranges it has.
 */
size_t quic_ack_put(struct quic_out *out, const struct quic_ranges *numbers, uint64_t delay,
                    const uint64_t *ecn);

/* May it be in a packet of this type (RFC 9000, 12.4)? */
bool quic_frame_is_allowed(uint64_t type, enum quic_packet_type packet);
static inline bool quic_frame_is_eliciting(uint64_t type)
{
    return type != QUIC_FRAME_PADDING && type != QUIC_FRAME_ACK && type != QUIC_FRAME_ACK_ECN &&
           type != QUIC_FRAME_CONNECTION_CLOSE && type != QUIC_FRAME_APPLICATION_CLOSE;
}
/* Frames that do not make a packet non-probing (RFC 9000, 9.1). */
static inline bool quic_frame_is_probing(uint64_t type)
{
    return type == QUIC_FRAME_PADDING || type == QUIC_FRAME_NEW_CONNECTION_ID ||
           type == QUIC_FRAME_PATH_CHALLENGE || type == QUIC_FRAME_PATH_RESPONSE;
}

#endif
