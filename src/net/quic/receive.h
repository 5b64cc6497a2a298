/* The receiving half of a stream, or the bytes of CRYPTO frames (RFC 9000, 3.2): order, overlaps,
 * final size, windows. */
#ifndef NET_QUIC_RECEIVE_H
#define NET_QUIC_RECEIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "net/quic/flow.h"
#include "net/quic/ranges.h"

/* Ranges that may wait for what is missing before them: so many, and one for each KB of the window,
 * which frames that fill packets never need. */
#define QUIC_RECEIVE_GAPS 64u
#define QUIC_SIZE_UNKNOWN UINT64_MAX

struct quic_block;

enum quic_receive_state {
    QUIC_RECEIVE_OPEN,     /* Recv */
    QUIC_RECEIVE_SIZED,    /* Size Known: FIN came */
    QUIC_RECEIVE_COMPLETE, /* Data Recvd: nothing is missing */
    QUIC_RECEIVE_READ,     /* Data Read: all was consumed, or dropped */
    QUIC_RECEIVE_RESET,    /* Reset Recvd */
};

struct quic_receive {
    enum quic_receive_state state;
    bool is_stopped; /* quic_receive_stop was called: what comes is dropped */
    bool wants_stop; /* STOP_SENDING is to be sent; the caller does, and says quic_receive_stop_sent
                      */
    struct quic_window window; /* consumed: the offset of the next byte for the reader; received:
                                  the highest offset */
    uint64_t final_size;       /* or QUIC_SIZE_UNKNOWN */
    uint64_t reset_code;       /* of the peer */
    uint64_t stop_code;        /* ours */
    uint64_t whole; /* all bytes below have come: those from `consumed` on wait for the reader */
    struct quic_ranges kept;   /* bytes above `whole` that wait for what is missing before them */
    struct quic_block *first;  /* their memory, by offset; owned */
    struct quic_block *recent; /* where bytes were last put */
};

/* `size`: the first window; `most`: to which it grows. For CRYPTO both are what is kept at most;
 * after quic_receive_consume, quic_window_update(&receive->window, 0, 0) moves it. */
void quic_receive_init(struct quic_receive *receive, uint64_t size, uint64_t most);
void quic_receive_free(struct quic_receive *receive);

enum quic_received_result {
    QUIC_RECEIVED,
    QUIC_RECEIVED_SCATTERED, /* too many gaps: nothing changed; the packet must not be acknowledged
                              */
    QUIC_RECEIVED_FLOW_CONTROL_ERROR, /* the rest are errors of the connection */
    QUIC_RECEIVED_FINAL_SIZE_ERROR,
};

/* A STREAM or CRYPTO frame. */
struct quic_arrival {
    uint64_t offset; /* offset + bytes.len < 2^62; the decoder checks that */
    struct str bytes;
    bool is_fin;
};

/*
 * Takes a frame. What it holds of new bytes counts in the window of the stream and of the
 * connection (NULL for CRYPTO). *now: the part of the frame that continues what was consumed, when
 * nothing waits before it: the reader can have it without a copy. The caller says
 * quic_receive_consume for what the reader took of it, and calls quic_receive_keep before the
 * frame's memory goes; until then nothing else of this half but quic_receive_stop. Empty: what
 * came, if anything, is in quic_receive_input.
 */
enum quic_received_result quic_receive_take(struct quic_receive *receive,
                                            struct quic_window *connection,
                                            const struct quic_arrival *frame,
                                            struct quic_arrival *now);
/* Copies what of `now` was not consumed. */
void quic_receive_keep(struct quic_receive *receive, const struct quic_arrival *now);

/* The bytes that come next and were kept, as many as lie together. Valid until the next call for
 * this half. */
struct str quic_receive_input(const struct quic_receive *receive);
/* n bytes of input, or of `now`, were used. */
void quic_receive_consume(struct quic_receive *receive, struct quic_window *connection, uint64_t n);

/* RESET_STREAM. What was not consumed is dropped and counts as consumed. Only QUIC_RECEIVED or an
 * error. */
enum quic_received_result quic_receive_reset(struct quic_receive *receive,
                                             struct quic_window *connection, uint64_t code,
                                             uint64_t final_size);
/* STOP_SENDING: what is kept and what comes is dropped and counts as consumed. */
void quic_receive_stop(struct quic_receive *receive, struct quic_window *connection, uint64_t code);
static inline void quic_receive_stop_sent(struct quic_receive *receive)
{
    receive->wants_stop = false;
}
void quic_receive_stop_lost(struct quic_receive *receive);

/* All was consumed, up to FIN. */
static inline bool quic_receive_is_read(const struct quic_receive *receive)
{
    return receive->state == QUIC_RECEIVE_READ;
}
/* Nothing more can come that matters: the peer's FIN and all before it is here, or it was reset. */
static inline bool quic_receive_is_done(const struct quic_receive *receive)
{
    return receive->state >= QUIC_RECEIVE_COMPLETE;
}
/* Whether MAX_STREAM_DATA should be sent; quic_window_update then gives its limit. */
bool quic_receive_is_window_due(const struct quic_receive *receive);
/* Bytes of memory that wait. */
uint64_t quic_receive_held(const struct quic_receive *receive);

#endif
