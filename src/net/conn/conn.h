/* Connections: buffered input, output queue, deadlines. Nothing above sees readiness.
 * Implemented in conn.c, flush.c, input.c and output.c. */
#ifndef NET_CONN_CONN_H
#define NET_CONN_CONN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/arena.h"
#include "base/list.h"
#include "base/log.h"
#include "base/str.h"
#include "event/loop.h"
#include "fiber/fiber.h"
#include "net/addr/addr.h"

struct conn;
struct handover;
struct listener;
struct out_piece;

/*
 * How bytes go over the wire. Plain sockets and TLS are two of these; each call is non-blocking.
 * Results: > 0 bytes, 0 end of input (recv only), -1 with errno (EAGAIN = not now). A transport is
 * asked until it says EAGAIN; only for a plain socket does a short count mean that it is empty or
 * full.
 */
struct conn_transport {
    ssize_t (*recv)(struct conn *conn, void *at, size_t size);
    ssize_t (*writev)(struct conn *conn, const struct iovec *iov, int count, bool more_follows);
    /* NULL: pieces of files are read into memory first. */
    ssize_t (*sendfile)(struct conn *conn, int fd, off_t offset, size_t size);
    void (*close)(struct conn *conn); /* before the descriptor is closed; frees transport_state */
    /* Our side ends, the queue is empty: says so in the transport's own words. Or NULL. */
    void (*end)(struct conn *conn);
    /* The socket is writable: sends what the transport itself held back. May call the owner, who
     * may close it. Or NULL. */
    void (*drain)(struct conn *conn);
};

/*
 * The owner of a connection (HTTP/1 server side, a parked connection, an upstream exchange): called
 * on the loop's stack. Small, so that what a connection does next can change by pointing elsewhere.
 * Each callback may close the connection. Output that a callback wrote is flushed when it returns.
 */
struct conn_owner {
    /*
     * The socket has input, or its end, or an error: ask conn_fill or conn_read, which find out
     * (is_input_closed, is_broken). They need to be asked until they have nothing, or conn_watch is
     * called, which remembers that something is left. NULL: conn_wake_input. While input is paused
     * it is called only when the peer closes its side (is_peer_closed) or the connection broke.
     */
    void (*input)(struct conn *conn);
    /* The output queue became empty after it had been waiting; may be NULL. */
    void (*drained)(struct conn *conn);
    void (*timed_out)(struct conn *conn); /* the deadline passed; may be NULL */
    /* It is idle: gives it to another worker, and closes it here. False: it stays. May be NULL: it
     * always does. */
    bool (*hand_over)(struct conn *conn, struct handover *to);
};

#define CONN_MAGIC 0xc0227ec7u

/*
 * A connection. Kept small: an idle one costs this struct, its place in the timer heap and no
 * buffers. The members stand in the order in which a request needs them, not by subject.
 */
struct conn {
    uint32_t magic;
    uint32_t life; /* raised when the struct is freed, to notice it across a callback; the pool's */
    struct event_source source; /* fd and its registration */
    const struct conn_owner *owner;
    void *user; /* of the owner */

    /* Input. Bytes [in_start, in_end) of the buffer have arrived and were not consumed. */
    char *in;         /* pooled buffer, or NULL while there is no input */
    uint32_t in_size; /* of the buffer */
    uint32_t in_start;
    uint32_t in_end;

    unsigned is_readable : 1;     /* the socket may have more than was read */
    unsigned is_writable : 1;     /* the socket may take more */
    unsigned is_input_closed : 1; /* the peer has sent its last byte, and all were read */
    unsigned is_input_paused : 1; /* by the owner: nothing is read from the socket for now */
    unsigned is_peer_closed : 1;  /* the peer has shut its sending side; unread input may be left */
    unsigned is_broken : 1;       /* error: nothing more can be sent or received; error tells why */
    unsigned is_last_output : 1; /* the owner closes when the queue is empty: what is left waits for
                                       the FIN, so that both leave in one packet */
    unsigned is_fin_awaited : 1; /* the socket holds bytes back until then (MSG_MORE) */
    unsigned is_ending : 1;      /* the owner closes it before the loop sleeps: not to be watched */
    unsigned is_idle : 1;        /* on the list of idle connections */
    unsigned is_tcp : 1;
    unsigned is_nodelay_known : 1; /* is_nodelay says what the socket has */
    unsigned is_nodelay : 1;       /* TCP_NODELAY was set */
    unsigned is_busy_backend : 1;  /* to a backend, and does not rest: conn_pool counts it */
    unsigned is_noted : 1;   /* may lead to this service itself: stands in the table of own.h */
    unsigned is_at_home : 1; /* it does lead to this service itself */
    /* Of this package only: */
    unsigned is_fresh : 1;          /* nothing was read yet: the first read teaches the predictor */
    unsigned is_output_waiting : 1; /* output was left in the queue for the loop to send */
    unsigned is_shutdown_wanted : 1; /* our side ends when the queue is empty */
    unsigned is_input_due : 1;       /* the owner is to be asked again at the next turn */

    /* Output. */
    struct out_piece *out;      /* queue of pieces, owned; NULL = empty. See output.c */
    struct out_piece *out_last; /* valid while out is not NULL */
    char *out_at;          /* where bytes may be written on in the last piece; NULL = nowhere */
    char *out_end;         /* the end of that room */
    uint64_t queued;       /* bytes ever put in the queue, less those dropped */
    uint64_t sent;         /* bytes ever taken by the socket */
    uint64_t moved_ms;     /* when the socket last took a part, and left another */
    struct deferred flush; /* pending while there is output that this turn has to send */

    struct timer timer;              /* the one deadline that is in force */
    struct log *log;                 /* of the owner; never NULL */
    const struct listener *listener; /* where it came from, or NULL */
    union {
        struct wait_point input_wait; /* a fiber that waits for input or the end of it */
        struct list idle_node;        /* instead while is_idle: least recently idle first */
    };

    const struct conn_transport *transport; /* NULL = plain socket */
    void *transport_state;                  /* of the transport */
    struct wait_point output_wait;          /* a fiber that waits for the queue to shrink */
    uint32_t output_wait_below; /* bytes of the queue below which it is woken; 0 = none waits */
    uint16_t error;             /* errno of the failure */
    uint16_t address_length;    /* of peer; 0 = unknown */

    uint32_t turn_budget; /* bytes sent at a time before others get their turn; 0 = usual */
    uint32_t number_low;  /* serial number of the connection for the log, low and high half */
    uint32_t number_high;
    uint32_t
        handed_over_ms; /* when it came from another worker, of clock_now.now_ms; 0 = it did not */
    union {             /* the peer's address; larger families have a heap copy */
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct addr *other; /* owned; when address_length is beyond v6 */
    } peer;
};

/*
 * The pool of connections of this worker: at most `limit` (worker_connections) at a time. Memory
 * for those that exist only.
 */
struct conn_pool_stats {
    uint32_t limit;
    uint32_t used;      /* connections in use, all kinds */
    uint32_t idle;      /* parked ones among them */
    uint32_t backends;  /* to backends, those that rest left out */
    uint32_t own;       /* connections to this service itself */
    uint64_t given_way; /* idle connections closed for a new one */
    uint64_t refused;   /* clients closed at once, since nobody could give way */
    void (*freed)(
        void); /* called when one was closed, where connections are waited for; else NULL */
};
extern struct conn_pool_stats conn_pool;
void conn_pool_init(uint32_t limit);

/*
 * A connection on a connected or accepted, non-blocking descriptor, which it owns from now on. NULL
 * when the limit is reached (the caller closes fd; see conn_longest_idle). fd is not registered
 * with the loop until the first wait for it, so that a short exchange may need no registration at
 * all. fd -1: a connection without a socket of its own (net/quic), which bears addresses, log and
 * TLS; nothing is read from it or written to it.
 */
struct conn *conn_new(int fd, const struct addr *peer, const struct conn_owner *owner,
                      struct log *log);

/*
 * Backends leave a quarter of the connections to clients, and those to this service itself, each of
 * which comes in again, take three eighths at most: so a configuration in which it asks itself does
 * not keep others out. Is there room for one more of that kind?
 */
static inline bool conn_pool_has_room(bool is_own)
{
    return is_own ? conn_pool.own < conn_pool.limit - conn_pool.limit / 8 * 5
                  : conn_pool.backends < conn_pool.limit - conn_pool.limit / 4;
}
/* A connection to a backend is in use, or rests, and does not count meanwhile. */
void conn_backend_is_busy(struct conn *conn, bool is_busy);
/*
 * It is up, and its peer may be this service: the requests that it will carry have come round
 * `hops` times (own.h). To be called before anything is sent. False: there are too many of these.
 */
bool conn_note_own(struct conn *conn, const struct addr *peer, unsigned hops);
/* The same of a conn without a socket of its own: fd carries it. The caller says own_forget_at when
 * that ends. */
bool conn_note_own_by(struct conn *conn, int fd, const struct addr *peer, unsigned hops);

/*
 * Lets a fresh accepted connection begin, with owner and user set: when experience says that the
 * first bytes are there already, the owner's input is called at once, and the loop watches after
 * that; else it rests (is_idle) until its client speaks. It may be gone when this returns.
 */
void conn_start(struct conn *conn);
/* The same for one that has changed hands, and whose input buffer may hold bytes: the owner's input
 * is called at once. */
void conn_take_up(struct conn *conn);

/*
 * Closes and frees; fibers that wait on it get WAIT_CANCELLED first by the owner. Output not
 * sent is dropped, its references released.
 */
void conn_close(struct conn *conn);

/* Nothing more shall be sent or received: drops what is queued. The owner closes it then. */
void conn_fail(struct conn *conn, int error);

/* Closes with RST (SO_LINGER 0): reset_timedout_connection, code 444 after a timeout. */
void conn_reset(struct conn *conn);

void conn_peer(const struct conn *conn, struct addr *out);
/* How often what comes over this accepted connection came from this service itself: see own_hops
 * (net/conn/own.h). */
unsigned conn_hops(const struct conn *conn);

static inline uint64_t conn_number(const struct conn *conn)
{
    return (uint64_t) conn->number_high << 32 | conn->number_low;
}

/* ---- input ---- */

/* How many bytes have arrived and were not consumed. */
static inline size_t conn_input_len(const struct conn *conn)
{
    return conn->in_end - conn->in_start;
}

/* These bytes; STR_NONE without a buffer. */
static inline struct str conn_input(const struct conn *conn)
{
    return conn->in == NULL ? STR_NONE
                            : (struct str){conn->in + conn->in_start, conn_input_len(conn)};
}

/*
 * n bytes were used; when none is left the buffer goes back to the pool at conn_park or
 * conn_input_release.
 */
static inline void conn_consume(struct conn *conn, size_t n)
{
    conn->in_start += (uint32_t) n;
}

/*
 * Reads (one recv) what the socket has now into the buffer, which is taken from the pool
 * (first_size bytes) when there is none and grows up to max_size (doubling, the unread bytes are
 * moved: pointers into it become stale). Gives true when bytes were added. False: nothing now, end
 * (is_input_closed), failure (is_broken) or the buffer is full at max_size (then is_readable stays
 * set).
 */
bool conn_fill(struct conn *conn, size_t first_size, size_t max_size);

/*
 * After a failure while sending (the peer has answered and closed): reads what had arrived before
 * it, up to max_size bytes, into the input. Plain connections only; does nothing for others, nor
 * for one that is sound.
 */
void conn_fill_last(struct conn *conn, size_t max_size);

/* Are the first bytes of a new connection likely to be there already, as experience says? */
bool conn_expects_input(void);

/* Gives the input buffer back when it holds no unread byte. */
void conn_input_release(struct conn *conn);

/*
 * Takes the buffer away from the connection together with its unread bytes; the caller (a request
 * whose head lies in it) frees it with conn_buffer_free. The unread tail from in_start on is copied
 * to a fresh buffer if there is any.
 */
char *conn_input_detach(struct conn *conn, uint32_t *size);
char *conn_buffer_alloc(uint32_t size);
void conn_buffer_free(char *buffer, uint32_t size);

/*
 * Puts other bytes, which lie elsewhere, in the place of the first `used` of the input: the next
 * read gives these. Pointers into the buffer become stale.
 */
void conn_input_replace(struct conn *conn, size_t used, struct str bytes);

/* A buffer for who frees it by a function of one argument: conn_buffer_release(struct conn_buffer
 * *). */
struct conn_buffer {
    char *data; /* of conn_buffer_alloc or conn_input_detach; NULL = none */
    uint32_t size;
};
void conn_buffer_release(void *buffer);

/*
 * The owner wants input again; its callback is called at the next turn if some was held back. False
 * with errno.
 */
bool conn_resume_input(struct conn *conn);

/*
 * For fibers: waits until conn_fill or conn_read has something to find: input, its end or a
 * failure. MAY WAIT. Needs owner->input to be NULL or to call conn_wake_input.
 */
enum wait_result conn_wait_input(struct conn *conn, uint64_t deadline_ms);
/*
 * For fibers: waits until the deadline, unless the peer shuts its sending side or breaks off before
 * (WAIT_READY), whatever input is left to read. MAY WAIT. Needs what conn_wait_input needs.
 */
enum wait_result conn_wait_peer_closed(struct conn *conn, uint64_t deadline_ms);
/*
 * Has the peer closed its side, or broken off, with no input left to read? Looks at the socket only
 * when the loop reported it. For a request that is worked on: the client that waits for its answer
 * is gone.
 */
bool conn_peer_is_gone(struct conn *conn);
/* Owner's input callback of a connection whose fiber reads for itself: wakes it. */
void conn_wake_input(struct conn *conn);

/*
 * Reads straight into the caller's memory what is buffered or on the socket: bytes, 0 = end, -1
 * nothing now (errno EAGAIN) or failure.
 */
ssize_t conn_read(struct conn *conn, void *at, size_t size);

/*
 * Moves up to `size` bytes from a plain socket into a pipe, none of which lie in the input buffer.
 * Gives what conn_read does. The pipe is non-blocking and has room.
 */
ssize_t conn_splice_in(struct conn *conn, int pipe, size_t size);

/* ---- output ---- */

/*
 * Room of at least `size` (at most OUT_CHUNK_SIZE) contiguous bytes at the end of the queue, to be
 * filled in place and committed with the number of bytes used. Response heads and small bodies are
 * written so: many small answers share one chunk and leave with one send.
 */
#define OUT_CHUNK_SIZE 16384
char *conn_out_grow(struct conn *conn, size_t size);       /* the slow path: another chunk */
void conn_write_long(struct conn *conn, struct str bytes); /* into as many as it takes */
void conn_out_drop(struct conn *conn);                     /* of a broken one: nobody hears it */

static inline char *conn_out_room(struct conn *conn, size_t size)
{
    return (size_t) (conn->out_end - conn->out_at) > size ? conn->out_at
                                                          : conn_out_grow(conn, size);
}

static inline void conn_out_commit(struct conn *conn, size_t used)
{
    conn->out_at += used;
    conn->queued += used;
    if (__builtin_expect(conn->is_broken, 0)) {
        conn_out_drop(conn);
    }
}

/* Copies bytes into the queue. */
static inline void conn_write(struct conn *conn, struct str bytes)
{
    if (bytes.len != 0 && (size_t) (conn->out_end - conn->out_at) >= bytes.len) {
        memcpy(conn->out_at, bytes.data, bytes.len);
        conn_out_commit(conn, bytes.len);
    } else {
        conn_write_long(conn, bytes);
    }
}

/*
 * A reference to memory that stays valid until it was sent; then release(arg) is called (or when
 * the connection ends before). release may be NULL when the memory lives as long as the
 * connection's owner promises.
 */
void conn_write_reference(struct conn *conn, struct str bytes, void (*release)(void *), void *arg);

/* So many bytes of a file from an offset on. */
struct file_range {
    off_t offset;
    uint64_t size;
};

/*
 * A range of a file, sent by sendfile where the transport can. release as above (typically drops a
 * reference to the file).
 */
void conn_write_file(struct conn *conn, int fd, struct file_range range, void (*release)(void *),
                     void *arg);

/* Bytes that wait to be sent. */
static inline uint64_t conn_unsent(const struct conn *conn)
{
    return conn->queued - conn->sent;
}

/* Has the loop send the queue before it sleeps. Called by the code that wrote. */
static inline void conn_flush_later(struct conn *conn)
{
    loop_defer(&conn->flush);
}

/*
 * Sends now what the socket takes. false: it is broken. More is sent by itself when the socket
 * reads.
 */
bool conn_flush(struct conn *conn);

/*
 * Sends bytes at once, from where they lie; what the socket does not take is copied to the queue,
 * as are all when something waits already. false: it is broken.
 */
bool conn_write_now(struct conn *conn, struct str bytes);

/*
 * The same while nothing waits, but nothing is copied: gives how many of the bytes the socket took.
 * None, and not broken: one that connects is not up yet.
 */
size_t conn_offer(struct conn *conn, struct str bytes);

/*
 * Moves up to `size` bytes out of a pipe to a plain socket whose queue is empty. Those that it
 * took; with fewer than `size` it is broken, or the owner's `drained` is called when it takes more.
 */
size_t conn_splice_out(struct conn *conn, int pipe, size_t size);

/*
 * Something is held back elsewhere because the socket took no more, and the queue is empty:
 * `drained`, or the transport's drain, is called when it is writable.
 */
void conn_want_drained(struct conn *conn);

/*
 * For fibers: waits until fewer than `below` bytes are unsent (1 = all sent). Flushes first. MAY
 * WAIT. WAIT_CANCELLED also when it broke.
 */
enum wait_result conn_wait_output(struct conn *conn, uint32_t below, uint64_t deadline_ms);
/* The same for as long as it takes, while the socket continues to take bytes: timed out when it
 * took nothing for so long. */
enum wait_result conn_wait_sent(struct conn *conn, uint32_t below, uint64_t timeout_ms);

/*
 * For fibers: waits until the connect() that is under way on a fresh connection has come to its
 * end. MAY WAIT. WAIT_READY: is_broken and error tell how it ended.
 */
enum wait_result conn_wait_connected(struct conn *conn, uint64_t deadline_ms);

/* The options; each makes its system call only when the state changes. */
void conn_set_nodelay(struct conn *conn, bool on);
/* The last bytes, which wait for the FIN (is_fin_awaited), leave now: what comes before the close
 * may take long. */
void conn_push(struct conn *conn);
/* Ends our sending side (after the queue is empty). */
void conn_shutdown_output(struct conn *conn);

/* ---- deadlines and idle connections ---- */

static inline void conn_set_deadline(struct conn *conn, uint64_t deadline_ms)
{
    timer_set(&conn->timer, deadline_ms);
}

/*
 * Registers with the loop if it is not yet; to be called when the owner has nothing left to do but
 * wait. When the socket may have unread input the owner is asked again at the next turn. False with
 * errno.
 */
bool conn_watch(struct conn *conn);

/*
 * Rest: buffers are given back, the connection goes to the end of the idle list, and the loop
 * watches it. The owner's input is called when the client speaks; the connection is off the list by
 * then. False with errno. One without a descriptor (QUIC) is only put on the list: its owner calls
 * conn_unpark.
 */
bool conn_park(struct conn *conn);
void conn_unpark(struct conn *conn);

/*
 * The connection that was idle longest, or NULL; what gives way when descriptors or connections
 * run out.
 */
struct conn *conn_longest_idle(void);
/* Visits idle ones, those that were busy last first, at most so many; a visit may close the one
 * that it gets. */
void conn_each_latest_idle(unsigned most, void (*visit)(struct conn *conn, void *arg), void *arg);

/* Walks all connections of this worker, whatever they do; visit may close the one it is given. */
void conn_each(void (*visit)(struct conn *conn, void *arg), void *arg);

/* The same in pieces, with turns of the loop between them; all zero before the first. */
struct conn_walk {
    struct conn_block *block;
    size_t at;
    bool has_begun;
};
/* Visits the next of those that were there when the walk began, looking at `places` places for
 * them. False: it is over. */
bool conn_walk(struct conn_walk *walk, size_t places, void (*visit)(struct conn *conn, void *arg),
               void *arg);

/* Number for the next connection: unique in the service, from shared memory. */
extern _Atomic uint64_t *conn_serial;

#endif
