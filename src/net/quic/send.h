/* The sending half of a stream, or the bytes of CRYPTO frames (RFC 9000, 3.1): what was written,
 * sent, lost, acknowledged. */
#ifndef NET_QUIC_SEND_H
#define NET_QUIC_SEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "net/quic/flow.h"
#include "net/quic/ranges.h"

struct quic_piece;

enum quic_send_state {
    QUIC_SEND_OPEN,       /* also Ready of the RFC */
    QUIC_SEND_SENT,       /* Data Sent: all was sent once, with FIN */
    QUIC_SEND_DONE,       /* Data Recvd: all was acknowledged */
    QUIC_SEND_RESET,      /* Reset Sent, or to be sent */
    QUIC_SEND_RESET_DONE, /* Reset Recvd */
};

/* Bytes that are copied into the first piece of a stream, which is often all of it. */
#define QUIC_SEND_FIRST 1000u

struct quic_send {
    enum quic_send_state state : 8;
    bool has_room;    /* quic_send_room_size bytes after the struct are free for the first piece */
    bool is_finished; /* quic_send_finish was called */
    bool is_fin_sent; /* the frame with FIN was sent or acknowledged */
    bool is_fin_acked;
    bool wants_reset; /* RESET_STREAM is to be sent; the caller does, and says quic_send_reset_sent
                       */
    struct quic_credit credit; /* of the stream; used: the next new byte */
    uint64_t acked;            /* all below was acknowledged and its memory given back */
    uint64_t queued;           /* bytes written in all */
    uint64_t reset_code;
    uint64_t resent;                 /* bytes that were sent again, in all */
    struct quic_ranges acknowledged; /* above `acked` */
    struct quic_ranges lost;         /* to be sent again; nothing of it is in `acknowledged` */
    struct quic_piece *first;        /* owned */
    struct quic_piece *last;
    struct quic_piece *next; /* has the next new byte; NULL: all were sent */
};

/* `limit`: the peer's initial_max_stream_data of this kind of stream; UINT64_MAX for CRYPTO. */
void quic_send_init(struct quic_send *send, uint64_t limit);
/* Bytes after the struct that a caller may reserve: has_room then says so. */
size_t quic_send_room_size(void);
/* Calls the release functions that are left. */
void quic_send_free(struct quic_send *send);

/* Writing. What comes after finish or reset is dropped (release is called). */
void quic_send_copy(struct quic_send *send, struct str bytes);
/* The memory stays as it is until release(arg) is called: when all of it was acknowledged, or the
 * half ends. May be NULL. */
void quic_send_refer(struct quic_send *send, struct str bytes, void (*release)(void *), void *arg);
/* Bytes of a file; the descriptor is not owned. release as above. */
struct quic_file_part {
    int fd;
    uint64_t offset;
    uint64_t len;
};
void quic_send_file(struct quic_send *send, const struct quic_file_part *part,
                    void (*release)(void *), void *arg);
void quic_send_finish(struct quic_send *send);
/* RESET_STREAM: everything is dropped; does nothing once all was acknowledged, or after a reset. */
void quic_send_reset(struct quic_send *send, uint64_t code);

/* Bytes written that were never sent; that were not acknowledged. */
static inline uint64_t quic_send_unsent(const struct quic_send *send)
{
    return send->queued - send->credit.used;
}
uint64_t quic_send_unacknowledged(const struct quic_send *send);
/* The final size for RESET_STREAM: what was sent. */
static inline uint64_t quic_send_final_size(const struct quic_send *send)
{
    return send->credit.used;
}

/* What a STREAM frame would carry next. */
enum quic_send_need {
    QUIC_SEND_NOTHING,
    QUIC_SEND_AGAIN,              /* lost bytes, or a lost FIN: needs no credit */
    QUIC_SEND_NEW,                /* new bytes within both credits, or FIN alone */
    QUIC_SEND_BLOCKED_STREAM,     /* there are bytes and the stream has no credit */
    QUIC_SEND_BLOCKED_CONNECTION, /* there are bytes and the connection has no credit */
};
/* `connection`: the credit of the connection; NULL for CRYPTO. */
enum quic_send_need quic_send_need(const struct quic_send *send,
                                   const struct quic_credit *connection);

struct quic_send_chunk {
    uint64_t offset;
    uint32_t len; /* bytes; may be 0 with FIN */
    bool is_fin;
    bool is_again; /* it was sent before */
};
/* Chooses the next chunk, of at most `room` bytes, lost ones first. False: there is none (see
 * quic_send_need), or room is 0 and bytes would be needed. Changes nothing: the offset is needed to
 * know the size of the frame's head. */
bool quic_send_next(const struct quic_send *send, const struct quic_credit *connection,
                    uint32_t room, struct quic_send_chunk *chunk);
/* Copies bytes of a chunk into the packet. False: a file was shorter than announced or could not be
 * read. */
bool quic_send_read(const struct quic_send *send, uint64_t offset, char *to, uint32_t len);
/* Whether all bytes of a chunk are in one part of a file; then says which: they may be read
 * together with others. */
bool quic_send_is_in_file(const struct quic_send *send, uint64_t offset, uint32_t len,
                          struct quic_file_part *part);
/* The chunk, or its first bytes (len made smaller, is_fin then false), is in a packet. Uses the
 * credits. */
void quic_send_commit(struct quic_send *send, struct quic_credit *connection,
                      const struct quic_send_chunk *chunk);

/* What became of a chunk that was in a packet: any part of what was sent, in any order, any number
 * of times. */
void quic_send_acked(struct quic_send *send, const struct quic_send_chunk *chunk);
void quic_send_lost(struct quic_send *send, const struct quic_send_chunk *chunk);
void quic_send_reset_sent(struct quic_send *send);
void quic_send_reset_lost(struct quic_send *send);
void quic_send_reset_acked(struct quic_send *send);

/* Nothing is left to do: all was acknowledged, or the reset was. */
static inline bool quic_send_is_done(const struct quic_send *send)
{
    return send->state == QUIC_SEND_DONE || send->state == QUIC_SEND_RESET_DONE;
}

#endif
