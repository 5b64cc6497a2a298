/* Shared by the files of the health checks: results, and a worker's state of its probes. */
#ifndef UPSTREAM_HEALTH_PRIVATE_H
#define UPSTREAM_HEALTH_PRIVATE_H

#include "base/arena.h"
#include "base/list.h"
#include "fiber/fiber.h"
#include "upstream/health.h"

/* The result of one probe. */
struct health_result {
    bool is_good;
    const char *reason; /* the failed step, for the log */
    int error;          /* errno after it, or 0 */
};

/* First check of this peer in this generation: sets its initial state, and lets probes begin at
 * first_ms. Does nothing if another worker has done it. (health.c) */
void health_begin_peer(const struct health_settings *settings, unsigned index,
                       const struct peer *peer, uint64_t first_ms);

/* Counts a result, and changes the peer's state after enough results of the same kind, which is
 * logged. (health.c) */
void health_settle(const struct health_subject *subject, const struct health_result *result,
                   const struct log *log);

struct checked_group;

/* One check of one peer in this worker. */
struct prober {
    /* NULL: the peer was removed, and the running probe frees the prober */
    struct checked_group *checked;
    struct peer *peer;      /* of checked->pick.list */
    struct peer_cell *cell; /* identifies the peer when the list changes */
    unsigned index;         /* of the check */
    const struct health_settings *settings;
    struct probe_run *run; /* the running probe, or NULL */
    struct conn *conn;     /* kept for the next probe, or NULL */
    uint64_t conn_made_ms;
    int64_t conn_probes;         /* probes made on it */
    bool is_ours;                /* this worker made the last probe; others wait longer */
    bool is_found;               /* used while the list changes: the peer still exists */
    const struct prober *leader; /* probes this address for this one as well; NULL = none */
};

/* A group with checks. */
struct checked_group {
    struct health_worker *worker;
    struct upstream_group *group;
    struct upstream_pick pick; /* has a reference to the list of peers */
    struct arena arena;        /* for pick */
    struct prober **probers;   /* on the heap: the array and each prober */
    unsigned count;
};

/* A running probe. Has its own reference to the peers. */
struct probe_run {
    struct list in_worker;
    struct health_worker *worker;
    struct prober *prober;
    struct fiber *fiber; /* NULL until it first waits */
    struct arena arena;
    struct upstream_pick pick;
    struct peer *peer;
    uint64_t start_ms;
    uint64_t claimed_ms; /* the value that next_ms was set to */
    bool is_shared;      /* other nodes get the result */
};

/* All checks of a set in a worker. Freed by the last of its fibers. */
struct health_worker {
    struct list in_process;
    const struct upstream_set *set;
    /* In the order of the set's groups, which determines the leaders. */
    struct checked_group *groups;
    unsigned group_count;
    /* The prober to look at first: so that all get their turn if there are more than may run. */
    unsigned first_group, first;
    struct list runs;
    unsigned running;
    struct fiber *fiber;    /* the scheduler; NULL when it has ended */
    struct wait_point wake; /* signalled when a probe has ended */
    bool is_ending;
};

/* Frees a prober whose peer was removed; if a probe is running, it does so at its end.
 * (health_probe.c) */
void health_free_prober(struct prober *prober);
/* Closes the connection that was kept for the next probe. */
void health_drop_conn(struct prober *prober);
/* Starts the probe that was claimed by this value of next_ms, on a fiber. False: not started. */
bool health_start_probe(struct prober *prober, uint64_t claimed_ms);

/* Updates the probers if the group's list of peers has changed. True: it has changed; *is_ok false:
 * no memory. (health_peers.c) */
bool health_renew_group(struct checked_group *checked, bool *is_ok);
/* Sets the leaders, for `unique` and for addresses that a name has twice; the same in all workers.
 * To be called after each change. (health_peers.c) */
void health_choose_leaders(struct health_worker *worker);

/* Frees the worker's state if it is ending and all its fibers have ended. (health_worker.c) */
void health_free_if_idle(struct health_worker *worker);

#endif
