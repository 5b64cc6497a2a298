/* Listeners and shards: one SO_REUSEPORT socket for each address and slot, which outlives workers.
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

/* Where to find the slot in a QUIC connection id: net/quic/token.c. */
struct id_steering {
    uint32_t key[2]; /* the mask of the slot */
    uint32_t size;   /* bytes of an id; the last 12 contain the slot */
};

/* The socket options of one `listen` address. */
struct listen_options {
    int backlog; /* -1 = default (511) */
    int rcvbuf;  /* bytes; -1 = the system's default */
    int sndbuf;
    int fastopen;                         /* queue length; -1 = off */
    int keepalive;                        /* 0 = the system's default, 1 = on, 2 = off */
    int keepidle_s, keepintvl_s, keepcnt; /* 0 = the system's default */
    bool is_deferred;                     /* TCP_DEFER_ACCEPT */
    bool is_ipv6only;
    bool is_reuseport; /* `reuseport` on the `listen` line itself */
    bool is_multipath; /* MPTCP */
    bool is_datagram;  /* UDP; TCP with the same address and port is another listener */
    bool has_ids;      /* its datagrams have QUIC connection ids, which contain the slot */
    struct id_steering ids;
};

/* The options of a `listen` line that sets none. */
#define LISTEN_OPTIONS_INIT                                                                        \
    {                                                                                              \
        .backlog = -1, .rcvbuf = -1, .sndbuf = -1, .fastopen = -1, .is_ipv6only = true             \
    }

#define LISTENER_MAGIC 0x115e4e75u

/*
 * An address that a configuration listens on. Created by src/http, src/stream and src/mail while
 * the configuration is read; the master attaches the sockets. Several `listen` lines of one address
 * are one listener.
 */
struct listener {
    uint32_t magic; /* LISTENER_MAGIC */
    struct listener *next;
    struct addr addr;
    struct str text; /* "0.0.0.0:80", as shown in messages */
    struct listen_options options;
    struct log *log; /* for accept errors and new connections */
    /*
     * Set by the layer above: takes ownership of the accepted descriptor. Runs on the loop's stack.
     * Without a free connection (conn_new gives NULL) it counts the client and closes it. NULL for
     * datagrams.
     */
    void (*accepted)(struct listener *listener, int fd, const struct addr *peer);
    /* Serves a connection that another listener of this worker accepted as if it had come here. The
     * connection, with its unread input, belongs to the callee. NULL: not supported. */
    void (*passed)(struct listener *listener, struct conn *conn);
    /* For datagrams: the first datagram of a client (net/datagram/flow.h); NULL for others. */
    void (*began)(struct listener *listener, struct datagram_flow *flow);
    /* For datagrams: what identifies a client instead of its address: a string that is valid until
     * the next call. Empty: the address. NULL: always the address. */
    struct str (*flow_key)(struct listener *listener, const struct addr *peer);
    /* For datagrams: the ids that identify a client whose address has changed: enum datagram_ids.
     */
    unsigned flow_ids;
    /* Continues a parked connection of an older generation. */
    void (*handed_over)(struct listener *listener, int fd, const struct addr *peer,
                        const void *state, size_t size);
    /* Receives every datagram, without flows (net/datagram/packet.h); or NULL. */
    const struct datagram_taker *taker;
    const struct quic_service *quic; /* for QUIC's taker: its settings (net/quic/quic.h); or NULL */
    void *user;                      /* owned by the layer above: its table of servers */
    /* Owned by the layer above: how a connection begins (TLS ...). A connection passes only to a
     * listener with the same value. */
    uint32_t opening;
    struct shard_set *shards; /* the service's sockets, set by shards_open; not owned */
};

/*
 * The sockets of one address. Belongs to the master for the life of the service, over reloads and
 * upgrades; workers have a copy by fork. Slot n of an address is the same socket for the life of
 * the service (rule 1).
 */
struct shard_set {
    struct shard_set *next;
    uint32_t number; /* the same in all processes of the service */
    struct addr addr;
    struct listen_options options; /* as last applied */
    int *fds;                      /* by slot; -1 = none */
    unsigned count;                /* slots with a socket; 1 when not sharded */
    unsigned wanted; /* slots of the current configuration; less than count while the set shrinks */
    unsigned capacity;      /* capacity of fds */
    unsigned steered;       /* datagrams: slots that the attached program uses; 0 = none yet */
    unsigned steered_count; /* datagrams: slots of the set when it was attached */
    struct id_steering steered_by; /* datagrams: the ids that it parses; zero: none */
    /* An SO_REUSEPORT group with a socket for each slot; else all workers share fds[0]. */
    bool is_sharded;
    bool is_wanted;                /* used by the current configuration */
    bool is_lent;                  /* by systemd: the file of a unix socket is not removed */
    uint64_t leaves_ms;            /* when it stopped to get new connections (shard_set_leave) */
    struct handshakes *handshakes; /* handshakes in progress at that time; NULL = unknown */
    bool was_inherited; /* from NGINX= or LISTEN_FDS, and not used by a configuration yet */
};

/* After a bind() that failed at start: logs which process has the port, or which privilege is
 * missing (base/hint.h). */
void bind_hint(const struct addr *addr, bool is_datagram, int error) __attribute__((cold));

/* The master's registry of all shard sets. */
struct shard_set *shard_sets(void);
/* The set with this number; NULL: it is gone. */
struct shard_set *shard_set_numbered(uint32_t number);

/*
 * Adds descriptors from NGINX= ("7;8;") or LISTEN_FDS to the registry; those of one address are its
 * slots in this order. Logs as nginx does.
 */
bool shards_inherit(struct str list, const struct log *log);
bool shards_inherit_systemd(const struct log *log);
/* The list for NGINX= of a new binary; makes the descriptors inheritable. */
struct str shards_export(struct arena *arena);

/*
 * Opens the sockets of a generation. For each listener finds or makes its shard_set, with `slots`
 * sockets if sharding is on (they are created and listen before anything is closed: rule 2), and
 * checks that no foreign server has the address. While the address is in use, a first start makes
 * five attempts, 500 ms apart. All or nothing: on failure everything new is closed, messages are
 * logged and the old state is intact. Slots from `slots` on are not closed here (see
 * shard_close_top). A set that grew still steers to its former slots: call shard_steer(set,
 * set->wanted, log) when the new workers accept.
 */
bool shards_open(struct listener *listeners, unsigned slots, bool is_sharded, bool is_first_start,
                 const struct log *log);

/*
 * Steers new connections to slots [0, active) by a classic BPF program on the group. For TCP the
 * program is detached when `active` covers every socket of the group, retiring ones included. For
 * datagrams it stays, since all datagrams of a client go to one slot. False, with the error logged:
 * connections go to all slots as before. A set of one socket needs nothing and gives true.
 */
bool shard_steer(struct shard_set *set, unsigned active, const struct log *log);

/* The descriptor of a slot's socket: its own, or the shared one; -1 = none. */
int shard_fd(const struct shard_set *set, unsigned slot);

/*
 * Retires slots from the top. The generation does not use the sockets of the upper count - wanted
 * slots: the master steers to `wanted` and passes each surplus socket to a remaining worker
 * (acceptor_adopt, with a callback for its end). When the worker reports that the top one is done,
 * it is shut down for every process that still has it, and shard_top_retired updates the steering.
 */
void shard_close_top(struct shard_set *set);
void shard_top_retired(struct shard_set *set, unsigned slot, const struct log *log);

/*
 * Closes and removes a set that no configuration uses, and the file of a unix socket. Only when no
 * other master has the set.
 */
void shard_set_close(struct shard_set *set);

/*
 * Like shard_set_close, for a set whose clients another listener serves from now on: its sockets
 * get no new connections, and the set is removed from the registry. False: the kernel does not
 * support it, or it is not a TCP set; the set is unchanged.
 */
bool shard_set_leave(struct shard_set *set);
/* Ends a set that no configuration uses: it leaves if a listener serves at least some of its
 * clients; else it is closed. */
void shard_set_end(struct shard_set *set, const struct listener *listeners);
/* The listener for a connection's local address; one with the address itself is preferred to the
 * wildcard. NULL: none. */
struct listener *listener_serving(struct listener *listeners, const struct addr *local);
/*
 * Passes a connection with its local address to a worker; the descriptor still belongs to the
 * caller. False: no worker can take it now, and it is offered again later.
 */
typedef bool shard_take(int fd, const struct addr *local, void *arg);
/* Accepts from the sets that leave, and closes those to which nothing more can come. True: call it
 * again soon. */
bool shard_sets_leaving(shard_take *take, void *arg);
bool shard_set_is_leaving(void);
/* Drops the sets that leave: this process does not accept for them, or it ends. */
void shard_sets_leave_at_once(void);

/*
 * Closes all sets when the master ends. Files of unix sockets stay if a new binary has taken them
 * over.
 */
void shards_close_all(bool keep_files);

/* Registers the worker that reads the slot's datagrams; a newer worker replaces an older one
 * (net/datagram). */
void shard_reader_set(unsigned slot, uint32_t reader);
uint32_t shard_reader(unsigned slot);

/* Length of the accept queue of a listening TCP socket (TCP_INFO); 0 for others. */
unsigned shard_backlog(int fd);
/* Handshakes in progress with this address, on all its sockets, from sock_diag; -1 = unknown. */
int shard_handshakes(const struct addr *addr);

/* ---- slots: state that all processes share ---- */

/* Allocates the shared memory, once, in the first process. False with errno. */
bool shard_slots_init(void);

/* Counts since the service started. */
struct shard_counts {
    uint64_t own;     /* connections that the slot's own worker accepted */
    uint64_t taken;   /* connections that siblings accepted because it was busy */
    uint64_t adopted; /* connections that another worker accepted after the slot was retired */
    uint64_t joined;  /* times that its worker began to accept again after standby */
    uint64_t left;    /* times that it went to standby */
    uint64_t gave;    /* idle connections that it gave to other workers */
    uint64_t in_vain; /* times that its worker was woken to accept and found nothing */
};
void shard_counts(unsigned slot, struct shard_counts *counts);
/* How many times the steering of new connections has changed. */
uint64_t shard_steerings(void);

/*
 * Does the worker of slot `by`, one of `slots`, watch the socket of this slot while it accepts? It
 * watches those of its group (placement.h); a retiring slot (from `slots` on) belongs to the group
 * of slot % slots.
 */
bool shard_is_watched(unsigned slot, unsigned by, unsigned slots);

/* ---- in a worker ---- */

/*
 * To be called once after fork: closes this process's copies of all listening sockets that the
 * worker of slot `slot` of `slots` does not watch. slot -1: all of them (a helper process). Shared
 * sockets are kept by every slot.
 */
void shards_keep_slot(int slot, unsigned slots);

struct accept_options {
    uint32_t generation; /* of the worker */
    /* Accept all at once; else one for each event, or a few if that proved useful. */
    bool multi_accept;
    bool is_shared; /* the sockets are shared with other workers: EPOLLEXCLUSIVE */
    /* Workers of this generation, which accept for each other; 0, 1 = this one is alone. */
    unsigned slots;
    /* Passes at most `most` idle connections to the worker that reads a mailbox, and gives their
     * number; with 0 only wakes it. Or NULL. */
    unsigned (*hand_over)(int mailbox, unsigned most);
    /* The current number of connections of this worker, in memory that all processes share; NULL =
     * none. */
    const uint64_t *load;
    const uint64_t *accepted; /* connections accepted so far; in shared memory, too */
    const uint64_t *requests; /* requests served so far; in shared memory, too */
};

/*
 * Starts to accept on this slot's sockets and those of its siblings. The kernel wakes the first
 * sleeping watcher of a socket: the slot's own worker if it sleeps, otherwise a sibling. So no
 * connection waits for a busy worker while another one is idle, and no worker is woken for nothing.
 * False: the error is logged.
 */
bool acceptors_start(struct listener *listeners, unsigned slot,
                     const struct accept_options *options);

/* Stops accepting, and closes adopted sockets; this slot's own descriptors stay open. */
void acceptors_stop(void);

/*
 * Accepts now from the socket of a sibling's slot: the worker that was woken for it may be blocked.
 */
void acceptors_look_at(unsigned slot);

/*
 * Also accepts from fd (owned from now on, closed on failure), the socket of the retired slot
 * `slot` of the listener's address. When it is empty and no handshake is in progress, closes it and
 * calls done(arg), unless acceptors_stop or acceptor_return was called before. False with errno.
 */
bool acceptor_adopt(struct listener *listener, unsigned slot, int fd, void (*done)(void *),
                    void *arg);

/* The slot is used again: closes the adopted descriptor without calling done. */
void acceptor_return(struct listener *listener, unsigned slot);

/* The number of adopted sockets that are not empty yet. A worker that ends waits for 0. */
unsigned acceptors_retiring(void);

/*
 * Called when descriptors (EMFILE, ENFILE) or connections run out: closes one idle connection;
 * false = there is none. The layer above may set another function. The default calls the timed_out
 * callback of the connection that was idle for longest, and closes it if the owner did not.
 */
extern bool (*acceptors_make_room)(void);

#endif
