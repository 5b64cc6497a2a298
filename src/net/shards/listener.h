/* Listeners and shards: a SO_REUSEPORT socket per address and slot, which outlives workers.
 * Implemented in acceptor.c, bind_hint.c, inherit.c, leaving.c, retire.c, shards.c, slots.c and
 * steer.c. */
#ifndef NET_SHARDS_LISTENER_H
#define NET_SHARDS_LISTENER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/str.h"
#include "event/loop.h"
#include "net/addr/addr.h"

struct conn;
struct datagram_flow;
struct datagram_taker;
struct quic_service;
struct handshakes;

/* How the slot is found in a connection id of QUIC: net/quic/token.c. */
struct id_steering {
    uint32_t key[2]; /* that masks it */
    uint32_t size;   /* bytes of an id, of which the last 12 name the slot */
};

/* The socket options of one `listen` address. */
struct listen_options {
    int backlog; /* -1 = default (511) */
    int rcvbuf;  /* bytes; -1 = system's */
    int sndbuf;
    int fastopen;                         /* queue length; -1 = off */
    int keepalive;                        /* 0 = system's, 1 = on, 2 = off */
    int keepidle_s, keepintvl_s, keepcnt; /* 0 = system's */
    bool is_deferred;                     /* TCP_DEFER_ACCEPT */
    bool is_ipv6only;
    bool is_reuseport; /* asked for on the line itself */
    bool is_multipath; /* MPTCP */
    bool is_datagram;  /* UDP; the same address and port of TCP is another listener */
    bool has_ids;      /* datagrams there have connection ids of QUIC, which name the slot */
    struct id_steering ids;
};

/* Options of a line that does not set them. */
#define LISTEN_OPTIONS_INIT                                                                        \
    {                                                                                              \
        .backlog = -1, .rcvbuf = -1, .sndbuf = -1, .fastopen = -1, .is_ipv6only = true             \
    }

#define LISTENER_MAGIC 0x115e4e75u

/*
 * An address that a configuration wants served. Made by src/http while the configuration is
 * read; sockets are attached by the master. Several names for one address are one listener.
 */
struct listener {
    uint32_t magic; /* LISTENER_MAGIC */
    struct listener *next;
    struct addr addr;
    struct str text; /* "0.0.0.0:80", as messages show it */
    struct listen_options options;
    struct log *log; /* for accept errors and new connections */
    /*
     * Handed down by the layer above: takes ownership of the accepted descriptor. On the loop's
     * stack. When no connection is left (conn_new gives NULL) it counts the client, and closes.
     * NULL for datagrams.
     */
    void (*accepted)(struct listener *listener, int fd, const struct addr *peer);
    /* A connection that another listener of this worker has accepted is served as if it had come
     * here: it is the callee's, with what was read of it. NULL: none is taken. */
    void (*passed)(struct listener *listener, struct conn *conn);
    /* For datagrams: a client speaks for the first time (net/datagram/flow.h); NULL for others. */
    void (*began)(struct listener *listener, struct datagram_flow *flow);
    /* For datagrams: what identifies its clients, if not their addresses: a string that is valid
     * until the next call. Empty: the address after all. NULL: it always does. */
    struct str (*flow_key)(struct listener *listener, const struct addr *peer);
    unsigned flow_ids; /* for datagrams: the ids by which clients are found that come from another
                          address: enum datagram_ids */
    /* A parked connection comes over from an older generation. */
    void (*handed_over)(struct listener *listener, int fd, const struct addr *peer,
                        const void *state, size_t size);
    /* Takes every datagram as it is, without flows (net/datagram/packet.h); or NULL. */
    const struct datagram_taker *taker;
    const struct quic_service
        *quic;        /* of the taker of QUIC: how it serves (net/quic/quic.h); or NULL */
    void *user;       /* of the layer above: its table of servers */
    uint32_t opening; /* of the layer above: what a connection begins with (TLS ...). One passes
                         only to a listener that asks for the same */
    struct shard_set *shards; /* the service's sockets for it, set by shards_open; not owned */
};

/*
 * The sockets of one address: lives in the master for the life of the service, over reloads and
 * upgrades; workers have it by fork. slot n of an address is one socket for ever (rule 1).
 */
struct shard_set {
    struct shard_set *next;
    uint32_t number; /* of the set, in all processes of the service that have it */
    struct addr addr;
    struct listen_options options; /* as applied last */
    int *fds;                      /* by slot; -1 = none */
    unsigned count;                /* slots with a socket; 1 when not sharded */
    unsigned wanted; /* slots that the configuration in force wants; below count while it shrinks */
    unsigned room;   /* of fds */
    unsigned steered; /* of datagrams: slots that the program in force spreads clients over; 0 =
                         none yet */
    unsigned steered_count;        /* number of these slots */
    struct id_steering steered_by; /* ids that the program knows; zero: none */
    bool is_sharded; /* SO_REUSEPORT group with a socket per slot; else all workers share fds[0] */
    bool is_wanted;  /* by the configuration in force */
    bool is_lent;    /* by systemd: the file of a unix socket is not ours to remove */
    uint64_t leaves_ms;            /* since then it takes no new connections (shard_set_leave) */
    struct handshakes *handshakes; /* handshakes that were in progress then; NULL = unknown */
    bool was_inherited; /* from NGINX= or LISTEN_FDS, and no configuration has wanted it yet */
};

/* After a bind() that failed at the start: who has the port, or what it takes (base/hint.h). */
void bind_hint(const struct addr *addr, bool is_datagram, int error) __attribute__((cold));

/* The master's registry of all shard sets. */
struct shard_set *shard_sets(void);
/* The set of the number; NULL = it is gone. */
struct shard_set *shard_set_numbered(uint32_t number);

/*
 * Takes descriptors from NGINX= ("7;8;") or LISTEN_FDS into the registry, ordered by slot as given.
 * Logs as nginx does.
 */
bool shards_inherit(struct str list, const struct log *log);
bool shards_inherit_systemd(const struct log *log);
/* The list for NGINX= of a new binary; the descriptors are made inheritable. */
struct str shards_export(struct arena *arena);

/*
 * Opens what the generation wants: for each listener finds or makes its shard_set with `slots`
 * sockets when sharding is on (create and listen first: rule 2), probes that no foreign server has
 * the address, retries five times 500 ms apart while it is busy (only for a first start). All or
 * nothing: on failure everything new is closed, messages are logged, the old state is intact. Slots
 * beyond `slots` are not closed here (see shard_close_top). A set that grew is left steered to its
 * former slots: call shard_steer(set, set->wanted, log) once the new workers accept.
 */
bool shards_open(struct listener *listeners, unsigned slots, bool is_sharded, bool is_first_start,
                 const struct log *log);

/*
 * Steers new connections to slots [0, active) by a classic BPF program on the group; detaches it
 * when every socket of the group is meant, those that retire included. Of datagrams all of one
 * client go to one slot, and the program stays. False with errno logged: traffic goes to all, as
 * before. Nothing to do, and true, for a set of one socket.
 */
bool shard_steer(struct shard_set *set, unsigned active, const struct log *log);

/* The descriptor of a slot's socket: its own, or the one that all share; -1 = none. */
int shard_fd(const struct shard_set *set, unsigned slot);

/*
 * Slots from the top whose sockets the generation does not want any more are count - wanted. To
 * shrink, the master steers to `wanted` and hands each surplus socket to a surviving worker
 * (acceptor_adopt with a call for its end). When the worker says that the top one is done, it is
 * ended here for every process that still has it, and shard_top_retired brings the steering up to
 * date.
 */
void shard_close_top(struct shard_set *set);
void shard_top_retired(struct shard_set *set, unsigned slot, const struct log *log);

/*
 * Closes a set that no configuration wants, and removes it; the file of a unix socket as well: only
 * when no other master has it.
 */
void shard_set_close(struct shard_set *set);

/*
 * The same where another listener serves its clients from now on: its sockets get no new
 * connection, and the set is taken out of the registry. False: the kernel cannot, or it is no set
 * of TCP; the set is as it was.
 */
bool shard_set_leave(struct shard_set *set);
/* Nobody wants the set: it leaves if one of the listeners serves its clients, or some of them; else
 * it is closed. */
void shard_set_end(struct shard_set *set, const struct listener *listeners);
/* The listener of a connection's local address: the address itself rather than the wildcard. NULL =
 * none. */
struct listener *listener_serving(struct listener *listeners, const struct addr *local);
/*
 * A worker gets a connection, with its local address; the descriptor stays the caller's. False:
 * none can take it now, it is offered again later.
 */
typedef bool shard_take(int fd, const struct addr *local, void *arg);
/* Accepts what has come to the sets that leave, and closes those to which nothing more can come.
 * True: call it again soon. */
bool shard_sets_leaving(shard_take *take, void *arg);
bool shard_set_is_leaving(void);
/* This process has nothing to do with them, or ends. */
void shard_sets_leave_at_once(void);

/*
 * The end of the master: closes all sets. Files of unix sockets stay when a new binary took them
 * over.
 */
void shards_close_all(bool keep_files);

/* The worker that reads the slot's datagrams; a newer one's word takes the place of an older one's
 * (net/datagram). */
void shard_reader_set(unsigned slot, uint32_t reader);
uint32_t shard_reader(unsigned slot);

/* Length of the accept queue of a listening socket (TCP_INFO); 0 for others. */
unsigned shard_backlog(int fd);
/*
 * Handshakes under way with this address, on all its sockets, as far as the kernel tells
 * (sock_diag); -1 = unknown.
 */
int shard_handshakes(const struct addr *addr);

/* ---- slots: what all processes share about them ---- */

/* Makes the shared memory, once, in the first process. False with errno. */
bool shard_slots_init(void);

/* Since the service began. */
struct shard_counts {
    uint64_t own;     /* connections that the slot's own worker accepted */
    uint64_t taken;   /* connections that siblings took, since it was busy */
    uint64_t adopted; /* connections that a survivor took after the slot had retired */
    uint64_t joined;  /* times that its worker began to accept again, after it had stood by */
    uint64_t left;    /* times that it stood by */
    uint64_t gave;    /* idle connections that it gave to others */
    uint64_t in_vain; /* times that its worker was woken to accept, and there was nothing */
};
void shard_counts(unsigned slot, struct shard_counts *counts);
/* How often new connections were steered to other slots than before. */
uint64_t shard_steerings(void);

/*
 * Does the worker of slot `by`, one of `slots`, watch the socket of this slot while it accepts?
 * Those of its group (placement.h); a slot that retires (from `slots` on) belongs to the group of
 * slot % slots.
 */
bool shard_is_watched(unsigned slot, unsigned by, unsigned slots);

/* ---- in a worker ---- */

/*
 * Called once after fork: closes this process's copies of every listening socket that it does not
 * watch as the worker of slot `slot` of `slots`. slot -1: all of them (a helper process). Sockets
 * that all workers share are kept by every slot.
 */
void shards_keep_slot(int slot, unsigned slots);

struct accept_options {
    uint32_t generation; /* of the worker */
    bool multi_accept;   /* all at once; else one per event, or a few if experience says so */
    bool is_shared;      /* the sockets are shared with other workers: EPOLLEXCLUSIVE */
    unsigned slots; /* workers of this generation: they lend each other a hand; 0, 1 = this one is
                       alone */
    /* Gives at most so many idle connections to the worker that reads a mailbox, or, with 0, only
     * wakes it. Their number. Or NULL. */
    unsigned (*hand_over)(int mailbox, unsigned most);
    /* Connections that this worker has open, kept up to date, in memory that all processes share;
     * NULL = none. */
    const uint64_t *load;
    const uint64_t *accepted; /* connections that each accepted so far; as load */
    const uint64_t *requests; /* requests that it served so far; as load */
};

/*
 * Starts accepting on this slot's sockets, and on those of its siblings. The kernel wakes the first
 * one that sleeps of those that watch a socket: that is the slot's own worker when it sleeps, and
 * when it is busy, a sibling. So nobody waits for a busy worker while another one is idle, and
 * nobody is woken for nothing. False with errno logged.
 */
bool acceptors_start(struct listener *listeners, unsigned slot,
                     const struct accept_options *options);

/* Stops accepting, adopted sockets too (closed); this slot's own descriptors stay open. */
void acceptors_stop(void);

/*
 * Looks at the socket of a sibling's slot now, and takes what waits there: the worker that was
 * woken for it may be blocked.
 */
void acceptors_look_at(unsigned slot);

/*
 * Accepts from fd (owned from now on, closed on failure) as well: the socket of the retired slot
 * `slot` of the listener's address, until it is empty and no handshake is under way; then closes it
 * and calls done(arg) (not when acceptors_stop or acceptor_return come first). False with errno.
 */
bool acceptor_adopt(struct listener *listener, unsigned slot, int fd, void (*done)(void *),
                    void *arg);

/* Gives back what was adopted, since the slot is wanted again: closes the descriptor; done is not
 * called. */
void acceptor_return(struct listener *listener, unsigned slot);

/* Number of adopted sockets that are not empty yet; a worker that wants to end waits for 0. */
unsigned acceptors_retiring(void);

/*
 * Called when descriptors (EMFILE, ENFILE) or connections ran out: closes one idle connection;
 * false = there is none. The layer above may set its own; the default calls the owner of the
 * connection that was idle longest that its time is up, and closes it if the owner did not.
 */
extern bool (*acceptors_make_room)(void);

#endif
