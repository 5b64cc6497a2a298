/* Connections: buffered input, output queue, deadlines. Code above never sees readiness.
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
 * How bytes are read from and written to the wire: plain sockets have none, TLS is one. Each call
 * is non-blocking and gives > 0 bytes, 0 for the end of input (recv only), or -1 with errno
 * (EAGAIN: not now). A transport is called until it gives EAGAIN; a short count means that the
 * socket is empty or full only for a plain socket.
 */
struct conn_transport {
    ssize_t (*recv)(struct conn *conn, void *at, size_t size);
    ssize_t (*writev)(struct conn *conn, const struct iovec *iov, int count, bool more_follows);
    /* NULL: file ranges are read into memory first. */
    ssize_t (*sendfile)(struct conn *conn, int fd, off_t offset, size_t size);
    void (*close)(struct conn *conn); /* before the descriptor is closed; frees transport_state */
    /* Optional: our side ends and the queue is empty. Sends the transport's own notice
     * (close_notify of TLS). */
    void (*end)(struct conn *conn);
    /* Optional: the socket is writable. Sends what the transport itself held back. May call the
     * owner, which may close the connection. */
    void (*drain)(struct conn *conn);
};

/*
 * The owner of a connection (the HTTP/1 server, a parked connection, an upstream exchange). Its
 * callbacks run on the loop's stack. The struct is small, so that an owner changes what happens
 * next by setting another one. Each callback may close the connection. Output that a callback wrote
 * is flushed when it returns.
 */
struct conn_owner {
    /*
     * The socket has input, the end of input or an error: conn_fill or conn_read find out which
     * (is_input_closed, is_broken). Call them until they give nothing, or call conn_watch, which
     * remembers that something is left. NULL: conn_wake_input is called instead. While input is
     * paused this is called only when the peer closes its side (is_peer_closed) or the connection
     * breaks.
     */
    void (*input)(struct conn *conn);
    /* Optional: the output queue, which had to wait for the socket, is empty now. */
    void (*drained)(struct conn *conn);
    void (*timed_out)(struct conn *conn); /* optional: the deadline has passed */
    /* Optional: the connection is idle. Passes it to another worker and closes it here, or gives
     * false: it stays here. */
    bool (*hand_over)(struct conn *conn, struct handover *to);
};

#define CONN_MAGIC 0xc0227ec7u

/*
 * A connection. Kept small: an idle one costs this struct, an entry in the timer heap and no
 * buffers. The members are in the order in which a request uses them, not by subject.
 */
struct conn {
    uint32_t magic;
    uint32_t life; /* incremented when the struct is freed, so that a callback's caller sees it */
    struct event_source source; /* fd and its registration */
    const struct conn_owner *owner;
    void *user; /* owned and set by the owner */

    /* Input: bytes [in_start, in_end) of the buffer have arrived and are not consumed. */
    char *in;         /* pooled buffer, or NULL while there is no input */
    uint32_t in_size; /* of the buffer */
    uint32_t in_start;
    uint32_t in_end;

    unsigned is_readable : 1;     /* the socket may have more than was read */
    unsigned is_writable : 1;     /* the socket may take more */
    unsigned is_input_closed : 1; /* the peer's last byte has been read */
    unsigned is_input_paused : 1; /* set by the owner: nothing is read from the socket for now */
    unsigned is_peer_closed : 1;  /* the peer has shut down its output; unread input may be left */
    unsigned is_broken : 1;       /* failed: nothing more can be sent or received; see error */
    unsigned is_last_output : 1;  /* the owner closes when the queue is empty: the last bytes wait
                                     for the FIN, so that both leave in one packet */
    unsigned is_fin_awaited : 1;  /* the socket holds back bytes until the FIN (MSG_MORE) */
    unsigned is_ending : 1; /* the owner closes it before the loop waits: it is not registered with
                               the loop */
    unsigned is_idle : 1;   /* on the list of idle connections */
    unsigned is_tcp : 1;
    unsigned is_nodelay_known : 1; /* is_nodelay is the state of the socket */
    unsigned is_nodelay : 1;       /* TCP_NODELAY was set */
    unsigned is_busy_backend : 1;  /* to a backend, and in use: conn_pool counts it */
    unsigned is_noted : 1;   /* may lead to this service itself: it is in the table of own.h */
    unsigned is_at_home : 1; /* leads to this service itself */
    /* Private to this package: */
    unsigned is_fresh : 1; /* nothing was read yet: the first read trains the predictor (input.c) */
    unsigned is_output_waiting : 1;  /* output was left in the queue for the loop to send */
    unsigned is_shutdown_wanted : 1; /* our side ends when the queue is empty */
    unsigned is_input_due : 1;       /* the owner is called again at the next turn */

    /* Output. */
    struct out_piece *out;      /* queue of pieces, owned; NULL = empty. See output.c */
    struct out_piece *out_last; /* valid while out is not NULL */
    char *out_at;          /* where more bytes may be written in the last piece; NULL = nowhere */
    char *out_end;         /* the end of that buffer space */
    uint64_t queued;       /* bytes ever queued, less those dropped */
    uint64_t sent;         /* bytes ever accepted by the socket */
    uint64_t moved_ms;     /* when the socket last accepted a part and left some */
    struct deferred flush; /* pending while this turn has output to send */

    struct timer timer;              /* the one deadline in force */
    struct log *log;                 /* of the owner; never NULL */
    const struct listener *listener; /* that accepted it, or NULL */
    union {
        struct wait_point input_wait; /* of a fiber that waits for input or its end */
        struct list idle_node;        /* used instead while is_idle: idle for longest first */
    };

    const struct conn_transport *transport; /* NULL = plain socket */
    void *transport_state;                  /* of the transport */
    struct wait_point output_wait;          /* of a fiber that waits for the queue to shrink */
    uint32_t output_wait_below; /* it is woken when fewer bytes are queued; 0 = no fiber waits */
    uint16_t error;             /* errno of the failure */
    uint16_t address_length;    /* of peer; 0 = unknown */

    uint32_t turn_budget; /* bytes sent at a time before others get their turn; 0 = the default */
    uint32_t number_low;  /* serial number of the connection for the log, low and high half */
    uint32_t number_high;
    uint32_t handed_over_ms; /* when another worker passed it on, by clock_now.now_ms; 0 = never */
    union {                  /* the peer's address */
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct addr *other; /* owned; used when address_length is larger than v6 */
    } peer;
};

/*
 * The pool of connections of this worker: at most `limit` (worker_connections) at a time. Memory is
 * allocated only as needed.
 */
struct conn_pool_stats {
    uint32_t limit;
    uint32_t used;       /* connections in use, all kinds */
    uint32_t idle;       /* parked connections among them */
    uint32_t backends;   /* connections to backends that are in use (not idle) */
    uint32_t own;        /* connections to this service itself */
    uint64_t given_way;  /* idle connections closed for a new one */
    uint64_t refused;    /* clients closed at once because no idle connection could be closed */
    void (*freed)(void); /* called after a close, while something waits for a connection; or NULL */
};
extern struct conn_pool_stats conn_pool;
void conn_pool_init(uint32_t limit);

/*
 * Makes a connection of a connected or accepted, non-blocking descriptor and owns it from now on.
 * NULL when the limit is reached: the caller closes fd (see conn_longest_idle). fd is not
 * registered with the loop before the first wait, so that a short exchange may need no
 * registration. fd -1: a connection without a socket (net/quic), which has addresses, log and TLS;
 * nothing is read from it or written to it.
 */
struct conn *conn_new(int fd, const struct addr *peer, const struct conn_owner *owner,
                      struct log *log);

/*
 * Is another connection to a backend allowed? Connections to backends leave a quarter of the pool
 * to clients. Those to this service itself (is_own) may use three eighths, since each of them is
 * accepted again here: a configuration that proxies to itself does not shut out others.
 */
static inline bool conn_pool_has_room(bool is_own)
{
    return is_own ? conn_pool.own < conn_pool.limit - conn_pool.limit / 8 * 5
                  : conn_pool.backends < conn_pool.limit - conn_pool.limit / 4;
}
/* Marks a connection to a backend as in use, or as idle; an idle one does not count for the
 * limit. */
void conn_backend_is_busy(struct conn *conn, bool is_busy);
/*
 * The connection is established and its peer may be this service: the requests that it will carry
 * have passed through this service `hops` times (own.h). Call it before anything is sent. False:
 * there are too many connections of this kind.
 */
bool conn_note_own(struct conn *conn, const struct addr *peer, unsigned hops);
/* The same for a conn without a socket of its own, which fd carries. The caller calls own_forget_at
 * when the connection ends. */
bool conn_note_own_by(struct conn *conn, int fd, const struct addr *peer, unsigned hops);

/*
 * Starts a newly accepted connection with owner and user set. If its first bytes are likely to be
 * there already, the owner's input is called at once and the connection is registered after that;
 * else it is idle (is_idle) until the client sends. It may be freed when this returns.
 */
void conn_start(struct conn *conn);
/* The same for a connection from another worker, whose input buffer may hold bytes: the owner's
 * input is called at once. */
void conn_take_up(struct conn *conn);

/*
 * Closes and frees. The owner first cancels fibers that wait on it. Output that was not sent is
 * dropped and its references are released. (See is_fin_awaited for the last bytes.)
 */
void conn_close(struct conn *conn);

/* Marks it broken: drops the queue, nothing more is sent or received. The owner closes it after
 * that. */
void conn_fail(struct conn *conn, int error);

/* Closes with RST (SO_LINGER 0): reset_timedout_connection, code 444 after a timeout. */
void conn_reset(struct conn *conn);

void conn_peer(const struct conn *conn, struct addr *out);
/* How many times requests on this accepted connection have passed through this service: see
 * own_hops (net/conn/own.h). */
unsigned conn_hops(const struct conn *conn);

static inline uint64_t conn_number(const struct conn *conn)
{
    return (uint64_t) conn->number_high << 32 | conn->number_low;
}

/* ---- input ---- */

/* The number of bytes that have arrived and are not consumed. */
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

/* Consumes n bytes. When none is left, conn_park or conn_input_release give the buffer back. */
static inline void conn_consume(struct conn *conn, size_t n)
{
    conn->in_start += (uint32_t) n;
}

/*
 * Reads (one recv) what the socket has now into the buffer. Without a buffer, one of first_size
 * bytes is taken from the pool; it grows up to max_size by doubling, which moves the unread bytes
 * and invalidates pointers into it. True: bytes were added. False: nothing now, the end
 * (is_input_closed), a failure (is_broken), or the buffer is full at max_size (is_readable stays
 * set).
 */
bool conn_fill(struct conn *conn, size_t first_size, size_t max_size);

/*
 * After a failure to send (the peer has responded and closed): reads what arrived before the
 * failure, up to max_size bytes, into the input. Only for plain connections that are broken; does
 * nothing for others.
 */
void conn_fill_last(struct conn *conn, size_t max_size);

/* Are the first bytes of a new connection likely to be there already? See the predictor in
 * input.c. */
bool conn_expects_input(void);

/* Gives the input buffer back if it holds no unread byte. */
void conn_input_release(struct conn *conn);

/*
 * Takes the buffer with its unread bytes from the connection. The caller (a request whose header is
 * in it) frees it with conn_buffer_free. The unread tail from in_start on, if any, is copied to a
 * new buffer of the connection.
 */
char *conn_input_detach(struct conn *conn, uint32_t *size);
char *conn_buffer_alloc(uint32_t size);
void conn_buffer_free(char *buffer, uint32_t size);

/*
 * Replaces the first `used` bytes of the input by other bytes: the next read gives these. Pointers
 * into the buffer become invalid.
 */
void conn_input_replace(struct conn *conn, size_t used, struct str bytes);

/* A buffer for code that frees by a function of one argument: conn_buffer_release(struct
 * conn_buffer *). */
struct conn_buffer {
    char *data; /* of conn_buffer_alloc or conn_input_detach; NULL = none */
    uint32_t size;
};
void conn_buffer_release(void *buffer);

/*
 * The owner reads again after is_input_paused; its callback is called at the next turn if input was
 * held back. False with errno.
 */
bool conn_resume_input(struct conn *conn);

/*
 * For fibers: waits until conn_fill or conn_read has something to find: input, its end or a
 * failure. MAY WAIT. Needs owner->input to be NULL or to call conn_wake_input.
 */
enum wait_result conn_wait_input(struct conn *conn, uint64_t deadline_ms);
/*
 * For fibers: waits until the peer shuts down its sending side or fails (WAIT_READY), even with
 * unread input, or until the deadline. MAY WAIT. Needs owner->input as conn_wait_input does.
 */
enum wait_result conn_wait_peer_closed(struct conn *conn, uint64_t deadline_ms);
/*
 * Has the peer closed its side or failed, with no unread input left? Looks at the socket only after
 * the loop reported a close. Meant for a request in progress, whose client waits for the response.
 */
bool conn_peer_is_gone(struct conn *conn);
/* An owner's input callback for a connection that a fiber reads: wakes the fiber. */
void conn_wake_input(struct conn *conn);

/*
 * Reads buffered bytes, or else from the socket, straight into the caller's memory. Gives the
 * bytes, 0 for the end, or -1 with errno: EAGAIN (nothing now) or the failure.
 */
ssize_t conn_read(struct conn *conn, void *at, size_t size);

/*
 * Moves up to `size` bytes from a plain socket into a pipe; the input buffer must be empty. Results
 * as those of conn_read. The pipe is non-blocking and has free space.
 */
ssize_t conn_splice_in(struct conn *conn, int pipe, size_t size);

/* ---- output ---- */

/*
 * At least `size` contiguous bytes (at most OUT_CHUNK_SIZE) at the end of the queue: fill them in
 * place and commit the number used. Response headers and small bodies are written like this: many
 * small responses share a chunk and leave with one send.
 */
#define OUT_CHUNK_SIZE 16384
char *conn_out_grow(struct conn *conn, size_t size);       /* slow path: another chunk */
void conn_write_long(struct conn *conn, struct str bytes); /* into as many chunks as needed */
void conn_out_drop(struct conn *conn); /* drops the queue of a broken connection */

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
 * Queues a reference to memory that stays valid until it was sent or the connection ends; then
 * release(arg) is called. release may be NULL if the memory lives as long as the connection.
 */
void conn_write_reference(struct conn *conn, struct str bytes, void (*release)(void *), void *arg);

/* `size` bytes of a file from `offset` on. */
struct file_range {
    off_t offset;
    uint64_t size;
};

/*
 * Queues a range of a file, sent by sendfile if the transport can. release as above; it typically
 * drops a reference to the file.
 */
void conn_write_file(struct conn *conn, int fd, struct file_range range, void (*release)(void *),
                     void *arg);

/* Bytes queued and not sent yet. */
static inline uint64_t conn_unsent(const struct conn *conn)
{
    return conn->queued - conn->sent;
}

/* Has the loop send the queue before it waits. Called by the code that wrote. */
static inline void conn_flush_later(struct conn *conn)
{
    loop_defer(&conn->flush);
}

/*
 * Sends now what the socket accepts; the loop sends the remainder when the socket is writable.
 * False: it is broken.
 */
bool conn_flush(struct conn *conn);

/*
 * Sends bytes at once, without a copy. What the socket does not accept is copied to the queue; so
 * are all bytes if the queue is not empty. False: it is broken.
 */
bool conn_write_now(struct conn *conn, struct str bytes);

/*
 * Like conn_write_now, for an empty queue, but copies nothing: gives how many bytes the socket
 * accepted. None, and not broken: the socket is full, or connect() is still under way.
 */
size_t conn_offer(struct conn *conn, struct str bytes);

/*
 * Moves up to `size` bytes from a pipe to a plain socket whose queue is empty. Gives the number
 * moved. If it is fewer than `size`, the connection is broken, or the owner's `drained` is called
 * when the socket accepts more.
 */
size_t conn_splice_out(struct conn *conn, int pipe, size_t size);

/*
 * The caller holds back output because the socket is full, and the queue is empty: the owner's
 * `drained`, or the transport's drain, is called when the socket is writable.
 */
void conn_want_drained(struct conn *conn);

/*
 * For fibers: waits until fewer than `below` bytes are unsent (1 = all sent). Flushes first. MAY
 * WAIT. WAIT_CANCELLED also when it broke.
 */
enum wait_result conn_wait_output(struct conn *conn, uint32_t below, uint64_t deadline_ms);
/* The same without a total limit, as long as the socket continues to accept bytes: timed out when
 * it accepted none for timeout_ms. */
enum wait_result conn_wait_sent(struct conn *conn, uint32_t below, uint64_t timeout_ms);

/*
 * For fibers: waits for the end of the connect() that is under way. MAY WAIT. After WAIT_READY
 * is_broken and error give the result.
 */
enum wait_result conn_wait_connected(struct conn *conn, uint64_t deadline_ms);

/* Socket options. Each makes its system call only if the state changes. */
void conn_set_nodelay(struct conn *conn, bool on);
/* Sends the last bytes, which wait for the FIN (is_fin_awaited), now. Call it before something that
 * may take long and delays the close. */
void conn_push(struct conn *conn);
/* Ends our sending side once the queue is empty. */
void conn_shutdown_output(struct conn *conn);

/* ---- deadlines and idle connections ---- */

static inline void conn_set_deadline(struct conn *conn, uint64_t deadline_ms)
{
    timer_set(&conn->timer, deadline_ms);
}

/*
 * Registers with the loop if it is not registered. Call it when the owner only waits. If the socket
 * may have unread input, the owner is called again at the next turn. False with errno.
 */
bool conn_watch(struct conn *conn);

/*
 * Makes the connection idle: gives its buffers back, appends it to the idle list and registers it
 * with the loop. When the client sends, the owner's input is called; the connection is off the list
 * by then. False with errno. One without a descriptor (QUIC) is only put on the list: its owner
 * calls conn_unpark.
 */
bool conn_park(struct conn *conn);
void conn_unpark(struct conn *conn);

/*
 * The connection that has been idle for longest, or NULL. It is closed when descriptors or
 * connections run out.
 */
struct conn *conn_longest_idle(void);
/* Visits at most `most` idle connections, the most recently used first. A visit may close its
 * connection. */
void conn_each_latest_idle(unsigned most, void (*visit)(struct conn *conn, void *arg), void *arg);

/* Visits all connections of this worker, in any state. A visit may close its connection. */
void conn_each(void (*visit)(struct conn *conn, void *arg), void *arg);

/* The same in parts, with turns of the loop between them; all zero before the first. */
struct conn_walk {
    struct conn_block *block;
    size_t at;
    bool has_begun;
};
/* Visits the next connections of those that existed when the walk began, looking at `places`
 * positions. False: it is complete. */
bool conn_walk(struct conn_walk *walk, size_t count, void (*visit)(struct conn *conn, void *arg),
               void *arg);

/* Number for the next connection: unique in the service, from shared memory. */
extern _Atomic uint64_t *conn_serial;

#endif
