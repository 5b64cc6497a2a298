/* A relay: bytes between two connections, both ways, without a fiber and, while nothing moves,
 * without a buffer. */
#ifndef NET_RELAY_RELAY_H
#define NET_RELAY_RELAY_H

#include <stdbool.h>
#include <stdint.h>

#include "net/conn/conn.h"

struct relay;
struct relay_pipe;

/* Its two ends. */
enum relay_end {
    RELAY_CLIENT,
    RELAY_BACKEND,
};

/* Why it is over. */
enum relay_why {
    RELAY_CLOSED,    /* the side has ended; what was read of it, and for it, was delivered */
    RELAY_BROKEN,    /* the side failed: its conn's `error` tells. What came before was delivered */
    RELAY_TIMED_OUT, /* no byte went either way for timeout_ms; the side says nothing */
    RELAY_STALLED,   /* the side took nothing for its stall_timeout_ms */
    RELAY_ABORTED,   /* relay_abort; the side says nothing */
};

/* One end: a connection, and what is done with the bytes that it sends. */
struct relay_side {
    struct conn *conn; /* of the user. conn->sent counts what went to it, by whatever way */
    uint64_t received; /* bytes of it that were passed on, with those that were read before */
    uint64_t first_ms; /* of ours: when the first of these was; 0 = not yet */
    uint64_t rate;     /* bytes per second to be read of it, a second's worth at first; 0 = all */
    /* It may take nothing of what waits for it for so long; 0 = as long as timeout_ms says. */
    uint64_t stall_timeout_ms;
    struct relay_pipe *pipe; /* of ours: holds what the other end has not taken yet; or NULL */
    /* Its end is passed on to the other one, whose bytes still come; else it ends all, once what
     * was read is delivered. */
    unsigned is_half_close_on : 1;
    /* Small pieces for it are not to wait for one another: TCP_NODELAY, set when one follows
     * another. */
    unsigned wants_nodelay : 1;
    unsigned is_input_over : 1; /* of ours: nothing more comes from it */
    unsigned is_end_passed : 1; /* of ours: the other end got that */
    unsigned is_large : 1;      /* of ours: it sends much: buffers came full */
};

/*
 * Embedded by its user, who fills the members that are not "of ours" (the others are zero), and
 * calls relay_start. From then on the bytes of both conns, their deadlines and their output are the
 * relay's. conn->user stays the user's, and so does conn->owner, whose three callbacks lead here;
 * the same owner may serve both conns:
 *
 *     static void session_moves(struct conn *conn) { relay_move(&session_of(conn)->relay); }
 *     static void session_is_due(struct conn *conn) { relay_check_time(&session_of(conn)->relay); }
 *     static const struct conn_owner relayed = {.input = session_moves, .drained = session_moves,
 * .timed_out = session_is_due};
 */
struct relay {
    uint32_t magic; /* of ours */
    /* Bytes read at a time, and so the most that wait for a peer that does not read; 0 = 16384. */
    uint32_t buffer_size;
    /* Since the last byte either way. May change at any time: relay_check_time. */
    uint64_t timeout_ms;
    uint64_t started_ms; /* of ours */
    uint64_t active_ms;  /* of ours: the last byte either way */
    uint64_t moved;      /* of ours: bytes received and sent by then, of both sides */
    /*
     * It is over, nothing of it will be called again: the user logs, closes both conns or gives
     * them other owners, and may free the relay. On the loop's stack, from inside any function
     * below. conn_unsent tells what was not delivered.
     */
    void (*ended)(struct relay *relay, enum relay_why why, enum relay_end side);
    unsigned is_ending : 1; /* of ours: why and side are known, what was read is being delivered */
    unsigned is_over : 1;   /* of ours: ended was called */
    unsigned why : 3;       /* of ours: enum relay_why, while it is ending */
    unsigned side : 1;      /* of ours: enum relay_end, while it is ending */
    struct relay_side sides[2]; /* by enum relay_end */
};

/*
 * Begins, with what lies in the input buffers of both conns, which are up. Never waits. It may be
 * over, and gone, when this returns.
 */
void relay_start(struct relay *relay);

/* What the owner of either conn does when there is input, and when output has drained. It may be
 * gone when this returns. */
void relay_move(struct relay *relay);

/* What the owner of either conn does when its deadline has passed; to be called when timeout_ms was
 * changed, too. It may be gone when this returns. */
void relay_check_time(struct relay *relay);

/* Ends it at once; what was not delivered is dropped. `ended` is called from inside, unless it is
 * over. */
void relay_abort(struct relay *relay);

/* The other end. */
static inline enum relay_end relay_other(enum relay_end end)
{
    return end == RELAY_CLIENT ? RELAY_BACKEND : RELAY_CLIENT;
}

#endif
