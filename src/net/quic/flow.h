/* Flow control (RFC 9000, 4): credit that the peer gave us, windows that we give, limits on
 * streams. Pure; time in microseconds. */
#ifndef NET_QUIC_FLOW_H
#define NET_QUIC_FLOW_H

#include <stdbool.h>
#include <stdint.h>

/* What we may send, on a stream or on the whole connection. */
struct quic_credit {
    uint64_t limit;      /* bytes in all, by the peer's MAX_DATA or MAX_STREAM_DATA */
    uint64_t used;       /* bytes in all that were sent for the first time */
    uint64_t blocked_at; /* the limit for which DATA_BLOCKED or STREAM_DATA_BLOCKED was sent;
                            UINT64_MAX: none */
};

void quic_credit_init(struct quic_credit *credit, uint64_t limit);
/* A limit of the peer came; lower ones are ignored. Whether there is more credit where there was
 * none. */
bool quic_credit_raise(struct quic_credit *credit, uint64_t limit);
static inline uint64_t quic_credit_left(const struct quic_credit *credit)
{
    return credit->limit - credit->used;
}
/* There is something to send and no credit: whether a BLOCKED frame is to be sent; once for each
 * limit. */
bool quic_credit_blocked(struct quic_credit *credit);
/* The BLOCKED frame of this limit was lost: it is sent again if it still holds. */
void quic_credit_blocked_lost(struct quic_credit *credit, uint64_t limit);

/* What the peer may send, on a stream or on the whole connection. The window grows with the path.
 */
struct quic_window {
    uint64_t limit;      /* bytes in all, as announced last */
    uint64_t received;   /* bytes in all; of a stream: its highest offset */
    uint64_t consumed;   /* bytes in all that were used */
    uint64_t size;       /* bytes that may be unconsumed */
    uint64_t most;       /* to which size grows */
    uint64_t updated_us; /* when the limit was last raised; 0: not yet */
};

void quic_window_init(struct quic_window *window, uint64_t size, uint64_t most);
/* n bytes more came. False: beyond the limit (FLOW_CONTROL_ERROR), and nothing changes. */
bool quic_window_receive(struct quic_window *window, uint64_t n);
static inline void quic_window_consume(struct quic_window *window, uint64_t n)
{
    window->consumed += n;
}
/* Whether the limit should be raised: half of the window was consumed. */
bool quic_window_is_due(const struct quic_window *window);
/* Raises the limit and gives it, for the frame. The size doubles where half of it was consumed in
 * less than two RTT. */
uint64_t quic_window_update(struct quic_window *window, uint64_t now_us, uint64_t rtt_us);
/* The window of the connection is not smaller than what its largest stream needs; never above
 * `most`. */
void quic_window_at_least(struct quic_window *window, uint64_t size);

/* Streams of one type that the peer opens. */
struct quic_peer_streams {
    uint64_t limit;  /* as announced last */
    uint64_t opened; /* in all: also those with lower numbers that were skipped */
    uint64_t closed; /* in all */
    uint64_t most;   /* open at a time */
};

void quic_peer_streams_init(struct quic_peer_streams *streams, uint64_t most);
/* A frame for stream number `index` (id / 4). Gives how many streams it opens: those with the
 * numbers `opened` before the call up to index; 0: it was opened before. -1: above the limit
 * (STREAM_LIMIT_ERROR). */
int64_t quic_peer_streams_touch(struct quic_peer_streams *streams, uint64_t index);
/* One of them has ended on both sides. */
static inline void quic_peer_streams_close(struct quic_peer_streams *streams)
{
    streams->closed++;
}
/* Whether MAX_STREAMS should be sent: a quarter of those allowed has ended. */
bool quic_peer_streams_is_due(const struct quic_peer_streams *streams);
uint64_t quic_peer_streams_update(struct quic_peer_streams *streams);

#endif
