/* A relay: passes bytes between two connections, both ways, without a fiber, and without a buffer
 * while nothing moves. */
#ifndef NET_RELAY_RELAY_H
#define NET_RELAY_RELAY_H

#include <stdbool.h>
#include <stdint.h>

#include "net/conn/conn.h"

struct relay;
struct relay_pipe;

/* The two ends. */
enum relay_end {
    RELAY_CLIENT,
    RELAY_BACKEND,
};

/* Why it ended. */
enum relay_why {
    RELAY_CLOSED,    /* the side has ended; what was read from it, and for it, was delivered */
    RELAY_BROKEN,    /* the side failed: see its conn's `error`. What came before was delivered */
    RELAY_TIMED_OUT, /* no byte in either direction for timeout_ms; side is meaningless */
    RELAY_STALLED,   /* the side accepted nothing for its stall_timeout_ms */
    RELAY_ABORTED,   /* relay_abort was called; side is meaningless */
};

/* One end: a connection, and how the bytes that it sends are handled. "Private" members belong to
 * the relay. */
struct relay_side {
    struct conn *conn; /* the user's. conn->sent counts what was sent to it, buffer or pipe */
    /* Bytes from it that were passed on; the user adds those that it read before. */
    uint64_t received;
    uint64_t first_ms; /* private: when the first of these came; 0 = not yet */
    uint64_t rate; /* bytes per second to read from it, a second's worth at first; 0 = unlimited */
    /* For how long it may accept nothing although bytes wait for it; 0 = only timeout_ms limits
     * it. */
    uint64_t stall_timeout_ms;
    struct relay_pipe *pipe; /* private: has bytes that the other end did not accept yet; or NULL */
    /* When this side ends, only its end is passed on, and bytes of the other side are still
     * relayed. Otherwise the relay ends once everything read is delivered. */
    unsigned is_half_close_on : 1;
    /* Small pieces for this side do not wait for one another: TCP_NODELAY is set when one piece
     * follows another. */
    unsigned wants_nodelay : 1;
    unsigned is_input_over : 1; /* private: nothing more comes from it */
    unsigned is_end_passed : 1; /* private: the other side got the end */
    unsigned is_large : 1;      /* private: it sends much (buffers were full) */
};

/*
 * Embedded by its user, which sets the members that are not private (the others are zero) and calls
 * relay_start. From then on the bytes of both conns, their deadlines and their output belong to the
 * relay. conn->user and conn->owner remain the user's; the owner's three callbacks call functions
 * of the relay, and one owner may serve both conns:
 *
 *     static void session_moves(struct conn *conn) { relay_move(&session_of(conn)->relay); }
 *     static void session_is_due(struct conn *conn) { relay_check_time(&session_of(conn)->relay); }
 *     static const struct conn_owner relayed = {
 *         .input = session_moves, .drained = session_moves, .timed_out = session_is_due};
 */
struct relay {
    uint32_t magic; /* private */
    /* Bytes read at a time, and so the most that wait for a peer that does not read; 0 = 16384. */
    uint32_t buffer_size;
    /* Since the last byte in either direction. May change at any time: call relay_check_time. */
    uint64_t timeout_ms;
    uint64_t started_ms; /* private */
    uint64_t active_ms;  /* private: when the last byte moved, in either direction */
    uint64_t moved;      /* private: bytes received and sent by then, of both sides */
    /*
     * The relay has ended and calls nothing any more: the user logs, closes both conns or gives
     * them other owners, and may free the relay. Called on the loop's stack, from inside any
     * function below. conn_unsent gives what was not delivered.
     */
    void (*ended)(struct relay *relay, enum relay_why why, enum relay_end side);
    /* private: why and side are known, and the bytes read are being delivered */
    unsigned is_ending : 1;
    unsigned is_over : 1;       /* private: ended was called */
    unsigned why : 3;           /* private: enum relay_why, while it is ending */
    unsigned side : 1;          /* private: enum relay_end, while it is ending */
    struct relay_side sides[2]; /* by enum relay_end */
};

/*
 * Starts with what is in the input buffers of both conns, which are connected. Never waits. The
 * relay may have ended, and be freed, when this returns.
 */
void relay_start(struct relay *relay);

/* To be called by the owner of either conn for input and for drained output. The relay may be freed
 * when this returns. */
void relay_move(struct relay *relay);

/* To be called by the owner of either conn for its deadline, and after a change of timeout_ms. The
 * relay may be freed when this returns. */
void relay_check_time(struct relay *relay);

/* Ends the relay at once; what was not delivered is dropped. Calls `ended`, unless the relay has
 * ended. */
void relay_abort(struct relay *relay);

/* The other end. */
static inline enum relay_end relay_other(enum relay_end end)
{
    return end == RELAY_CLIENT ? RELAY_BACKEND : RELAY_CLIENT;
}

#endif
