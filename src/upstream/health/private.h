/* What the files of the health checks share: results, and what a worker knows of its probes. */
#ifndef UPSTREAM_HEALTH_PRIVATE_H
#define UPSTREAM_HEALTH_PRIVATE_H

#include "base/arena.h"
#include "base/list.h"
#include "fiber/fiber.h"
#include "upstream/health.h"

/* What one probe found. */
struct health_result {
    bool is_good;
    const char *reason; /* what was wrong, for the log */
    int error;          /* errno after it, or 0 */
};

/* A check was never made of this peer in this generation: gives it its first state, and lets the
 * probes begin at first_ms. Does nothing when another worker did. (health.c) */
void health_begin_peer(const struct health_settings *settings, unsigned index,
                       const struct peer *peer, uint64_t first_ms);

/* Counts a result, and changes the peer's state when there were enough of its kind; says so in the
 * log. (health.c) */
void health_settle(const struct health_subject *subject, const struct health_result *result,
                   const struct log *log);

struct checked_group;

/* One check of one peer, as this worker makes it. */
struct prober {
    struct checked_group *checked; /* NULL: its peer has left, and the probe that runs frees it */
    struct peer *peer;             /* of checked->pick.list */
    struct peer_cell *cell;        /* says who the peer is over changes of the list */
    unsigned index;                /* of the check */
    const struct health_settings *settings;
    struct probe_run *run; /* under way, or NULL */
    struct conn *conn;     /* kept for the next probe, or NULL */
    uint64_t conn_made_ms;
    int64_t conn_probes;         /* made on it */
    bool is_ours;                /* this worker made the last probe, others let it go first */
    bool is_found;               /* while the list changes: the peer is there still */
    const struct prober *leader; /* who probes this address for us; NULL = nobody */
};

/* A group with checks. */
struct checked_group {
    struct health_worker *worker;
    struct upstream_group *group;
    struct upstream_pick pick; /* holds the list of peers */
    struct arena arena;        /* of pick */
    struct prober **probers;   /* on the heap, each and all */
    unsigned count;
};

/* A probe under way. It has its own hold on the peers. */
struct probe_run {
    struct list in_worker;
    struct health_worker *worker;
    struct prober *prober;
    struct fiber *fiber; /* NULL until it waits */
    struct arena arena;
    struct upstream_pick pick;
    struct peer *peer;
    uint64_t start_ms;
    uint64_t claimed_ms; /* what next_ms was moved to */
    bool is_shared;      /* other nodes get the result */
};

/* All of a set. Freed by the last of its fibers. */
struct health_worker {
    struct list in_process;
    const struct upstream_set *set;
    struct checked_group *groups; /* in the order of the groups: that says who leads */
    unsigned group_count;
    unsigned first_group, first; /* its prober that is looked at first: all get their turn where
                                    there are more than probes under way may be */
    struct list runs;
    unsigned running;
    struct fiber *fiber;    /* the one that knows what is due; NULL when it has ended */
    struct wait_point wake; /* a probe ended */
    bool is_ending;
};

/* Frees a prober whose peer has left; a probe that runs does it at its end. (health_probe.c) */
void health_free_prober(struct prober *prober);
/* Closes the connection that was kept for the next probe. */
void health_drop_conn(struct prober *prober);
/* The next probe is ours, claimed by that value of next_ms: a fiber makes it. False: there is none.
 */
bool health_start_probe(struct prober *prober, uint64_t claimed_ms);

/* The list of peers may be another one than before: who is new, who has left? True: it was; or no
 * memory, *is_ok false. (health_peers.c) */
bool health_renew_group(struct checked_group *checked, bool *is_ok);
/* `unique`, and addresses that a name has twice: who probes for whom; the same in all workers.
 * After each change. */
void health_choose_leaders(struct health_worker *worker);

/* Gives all back when it is ending and this was the last of its fibers. (health_worker.c) */
void health_free_if_idle(struct health_worker *worker);

#endif
