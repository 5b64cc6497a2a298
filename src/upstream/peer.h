/* Peers: the addresses of a group as one worker sees them, and what all workers know of each.
 * Implemented in cells/cells.c, picking/pick.c and picking/round_robin.c. */
#ifndef UPSTREAM_PEER_H
#define UPSTREAM_PEER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "upstream/upstream.h"

/* What one worker does at a peer: a cell for each slot, so that a worker that died can be
 * subtracted. Written by that worker alone, and on a cache line of its own: it changes with every
 * request. */
struct peer_use {
    _Alignas(64) _Atomic uint32_t active; /* requests in progress */
    _Atomic uint32_t open;                /* connections, idle ones too */
    _Atomic uint32_t waiting;             /* requests that wait for a connection */
    /* Of balancers that look at requests under way (least_time inflight): how many have no answer
     * yet, and the sum of the times when they were picked, monotonic milliseconds. */
    _Atomic uint32_t unanswered;
    _Atomic uint64_t unanswered_since_ms; /* the sum */
    _Atomic uint32_t held;                /* peer lists of the worker name the cell */
    _Atomic uint64_t selected_ms;         /* when it was picked last, monotonic; 0 = never */
};

/* From when a peer was picked until … */
enum peer_time {
    PEER_TIME_LAST_BYTE,  /* all of the answer, or of the session, was there */
    PEER_TIME_FIRST_BYTE, /* an answer began: with http its head was there */
    PEER_TIME_CONNECT,    /* it was connected; taken for stream alone */
    PEER_TIMES,
};

#define PEER_CHECKS_MAX 4 /* active checks of one group */

/* Has somebody said while the service runs whether a peer takes requests? */
enum peer_order { PEER_AS_CONFIGURED, PEER_ORDERED_DOWN, PEER_ORDERED_UP };

/* What one active check of the group knows of a peer (health.c). */
struct peer_check {
    _Atomic uint64_t next_ms; /* who moves it forward makes the probe; 0 = never looked at */
    _Atomic uint64_t probes, failures; /* so far */
    _Atomic uint64_t turns;            /* times that the peer became unhealthy */
    _Atomic uint32_t rise, fall;       /* good or bad answers in a row */
    _Atomic uint64_t leads_until_ms;   /* until then this node makes the probes for all; 0 = it does
                                          not (health.h) */
};

/*
 * What all workers of a generation know of one address; in shared memory. No lock: each word is
 * atomic by itself, and the words need not agree to the instant.
 */
struct peer_cell {
    _Atomic uint32_t fails;         /* within fail_timeout */
    _Atomic uint32_t order;         /* enum peer_order: what was said while the service runs */
    _Atomic uint64_t failed_at_ms;  /* last failure; monotonic milliseconds */
    _Atomic uint64_t checked_at_ms; /* last time that it was tried although it had failed */
    _Atomic uint64_t up_at_ms;      /* came back then: slow_start counts from here; 0 = always up */
    _Atomic uint64_t picked_at_ms;  /* of balancers that let old measurements fade (least_time) */
    _Atomic uint32_t times_us[PEER_TIMES]; /* moving averages, by enum peer_time; 0 = not known */

    /* For who reads figures: attempts that failed so far; how often it became unavailable by that.
     */
    _Atomic uint64_t failures, unavailable;
    _Atomic uint64_t
        down_since_ms; /* unavailable or unhealthy since then, monotonic; 0 = it is not */
    _Atomic uint64_t downtime_ms; /* milliseconds of all such times before that */

    /* Active health checks (health.c). */
    _Atomic uint32_t
        is_unhealthy; /* a bit for each check of the group that says so: not 0 = it is */
    struct peer_check checks[PEER_CHECKS_MAX]; /* by place in the list group->health */

    /* What a protocol learned of the backend; 0 = not known (FastCGI: FCGI_GET_VALUES). */
    _Atomic uint32_t facts_state;     /* 0 nobody asked, 1 asked, 2 known; of the protocol */
    _Atomic uint32_t connections_max; /* 0 = no limit is known */
    _Atomic uint32_t requests_max;    /* at one time; 0 = no limit is known */
    _Atomic uint32_t multiplexes;     /* several requests may share a connection */

    uint32_t number;       /* place in the memory of its set; CELL_PRIVATE: of this worker alone */
    uint32_t slots;        /* entries of use */
    struct peer_use use[]; /* by slot */
};

#define CELL_PRIVATE UINT32_MAX

/* Sums over all workers. */
uint32_t peer_active(const struct peer_cell *cell);
uint32_t peer_open(const struct peer_cell *cell);
uint32_t peer_waiting(const struct peer_cell *cell);
/* This worker's own entry. */
static inline struct peer_use *peer_use_mine(struct peer_cell *cell)
{
    return &cell->use[worker_slot < cell->slots ? worker_slot : 0];
}

/* One address of a group in this worker. */
struct peer {
    struct str name;  /* for logs and $upstream_addr: "127.0.0.1:8080", "unix:/path" */
    struct addr addr; /* with port */
    const struct upstream_server *server; /* the line that it comes from */
    struct str target;                    /* of an SRV record; else empty */
    struct peer_cell *cell;               /* what all workers know of it */
    struct peer_local *local;             /* this worker's connections to it; of connection.c */
    unsigned number;        /* bit in upstream_pick.tried; place in peer_list order, backups last */
    unsigned weight;        /* as written, or of its SRV record */
    int64_t current_weight; /* of weighted round robin, and of whatever balancer needs one */
    int64_t effective_weight; /* weight less what failures took; it grows back */
    bool has_digest;          /* digest was made; see peer_digest */
    char digest[32];          /* MD5 of name in hex: what cookies call the peer */
};

/* Is it down, as its line or the last order says? */
static inline bool peer_is_down(const struct peer *peer)
{
    uint32_t order = atomic_load_explicit(&peer->cell->order, memory_order_relaxed);

    return order == PEER_AS_CONFIGURED ? peer->server->is_down : order == PEER_ORDERED_DOWN;
}

/* It has become unavailable, or unhealthy; or is neither any more. Of no effect where it was so
 * already. */
void peer_went_down(struct peer_cell *cell);
void peer_came_up(struct peer_cell *cell);
/* What was counted of it begins again at 0. */
void peer_reset_figures(struct peer_cell *cell);
/* When it was picked last in any worker, monotonic; 0: never. */
uint64_t peer_selected_ms(const struct peer_cell *cell);

/* Orders that it takes no requests, or takes them again: in all workers of this generation, where
 * they share its cell. */
void peer_set_down(struct upstream_group *group, struct peer *peer, bool is_down);

/* Peers that are alternatives to each other: the primary ones, or the backups. */
struct peer_set {
    struct peer *peers;    /* part of the list's memory */
    unsigned count;        /* of peers */
    unsigned total_weight; /* sum of their weights */
    void *balancer_data;   /* made by balancer->prepare: rings, tables; freed by balancer->forget */
};

/* All peers of a group at one time. Replaced when names resolve again; code that uses it holds a
 * reference. */
struct peer_list {
    unsigned references;             /* of this worker: the group's, and one for each pick */
    unsigned number;                 /* the group's first list has 1, each further one more */
    struct upstream_group *group;    /* whose peers these are */
    struct peer_set primary, backup; /* backups serve while no primary one may */
    unsigned count;                  /* of both */
    bool is_single;                  /* one peer in all: its failures do not make it unavailable */
};

/*
 * A way to choose. `pick` looks at one set; it skips peers for which peer_may_serve says no, and
 * gives NULL when nobody is left.
 */
struct balancer {
    const char *name; /* of its directive, for messages */
    /* Optional: for a fresh set. */
    void (*prepare)(struct upstream_group *group, struct peer_set *set);
    void (*forget)(struct peer_set *set);
    struct peer *(*pick)(struct upstream_pick *pick, struct peer_set *set);
    /* Optional: a program. Before each attempt it says in pick->decision where it goes
     * (balancer_decision.h). */
    void (*direct)(struct upstream_pick *pick);
    /* Optional: pick->peer was chosen, by this balancer or because the request is bound to it;
     * pick->picked_ms is set. */
    void (*picked)(struct upstream_pick *pick);
    /* Optional: it is connected; see upstream_pick_connected. */
    void (*connected)(struct upstream_pick *pick);
    /* Optional: the head of the answer is there. */
    void (*responded)(struct upstream_pick *pick);
    /* Optional: when a peer is given back. */
    void (*done)(struct upstream_pick *pick, struct peer *peer, enum peer_outcome outcome);
    /* `server` lines after it may have neither `backup` nor `slow_start`, as with nginx: `balancing
     * method does not support parameter "backup"`. */
    bool refuses_backup;
};

/* Requests of one client that go to the same peer. Of src/upstream or of a module above. */
struct stickiness {
    const char *name; /* of its directive, for messages */
    /* The peer that this request is bound to, or NULL. Found peers may be draining. May set
     * pick->set_cookie, and pick->is_astray with NULL. */
    struct peer *(*find)(struct upstream_pick *pick);
    /* Optional: a peer was picked for it (bound or not). */
    void (*picked)(struct upstream_pick *pick);
    /* Optional: the head of the answer is there. */
    void (*responded)(struct upstream_pick *pick);
    /* Optional: the use of pick->peer is over; called before it becomes NULL. */
    void (*done)(struct upstream_pick *pick, enum peer_outcome outcome);
    /* Optional: may it go elsewhere when the bound peer cannot serve, or is_astray? NULL = yes. */
    bool (*may_leave)(struct upstream_pick *pick);
};

/*
 * May this peer take the request now? Not when it is down, unhealthy, draining (unless bound), had
 * its try, failed max_fails times within fail_timeout, or has max_conns requests.
 */
bool peer_may_serve(const struct upstream_pick *pick, const struct peer *peer, bool is_bound);

/* The weight in force: grows after slow_start, falls after failures. In units of
 * 1/PEER_WEIGHT_UNIT, so that the weight of 1 can grow, too; never 0 but after failures. */
#define PEER_WEIGHT_UNIT 100
unsigned peer_weight_now(const struct peer *peer);

/* Weighted round robin; also what other balancers fall back to. */
extern const struct balancer balancer_round_robin;
struct peer *round_robin_pick(struct upstream_pick *pick, struct peer_set *set);

#endif
