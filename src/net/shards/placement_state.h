/* What this worker knows about itself and its group; private to placement*.c. */
#ifndef NET_SHARDS_PLACEMENT_STATE_H
#define NET_SHARDS_PLACEMENT_STATE_H

#include "event/loop.h"
#include "net/shards/placement_group.h"

#define MS UINT64_C(1000000)
#define WINDOW_NS (5 * MS)
#define MEMORY_NS (100 * MS) /* of the average */
#define ALIVE_NS (20 * MS)   /* a member that turned since then is not stuck */
#define NO_CORE 10           /* percent of run delay */

struct placement_state {
    const struct placement_handle *handle; /* NULL: this worker always accepts */
    struct placement_group *group;         /* of the handle */
    struct placement_member *own;
    unsigned member;
    unsigned first_slot; /* of the group */
    unsigned members;    /* slots of the group; without a group, all workers */
    bool accepts;
    bool is_full;
    int schedstat_fd; /* -1 = none */
    struct event_source call;
    struct event_source timer;
    uint64_t woke_ns; /* when the current turn began */
    unsigned (*hand_over)(int mailbox, unsigned most);
    bool is_balancing; /* this worker gives connections to others */
    /* By member: when it was last woken to see whether it turns. */
    uint64_t poked_ns[PLACEMENT_GROUP_MOST];
    unsigned strikes;
    unsigned stuck; /* consecutive times that all accepting members were stuck */
    struct {
        uint64_t began_ns;
        uint64_t busy_ns;
        uint64_t delay_ns; /* run delay when it began */
        unsigned wakes;
    } window;
};
extern struct placement_state placement;

static inline uint64_t placement_read64(const _Atomic uint64_t *at)
{
    return atomic_load_explicit(at, memory_order_relaxed);
}

static inline uint32_t placement_read32(const _Atomic uint32_t *at)
{
    return atomic_load_explicit(at, memory_order_relaxed);
}

static inline uint64_t placement_accepting(void)
{
    return atomic_load(&placement.group->accepting);
}

static inline bool placement_member_accepts(unsigned member)
{
    return (placement_accepting() >> member & 1) != 0;
}

/* ---- placement_judge.c: load of this worker and of the others ---- */

void placement_begin_window(uint64_t now_ns);
/* A window has ended, of an accepting member or of one on standby: records its results and calls
 * another member if necessary. True: this one should leave. The caller begins the next window. */
bool placement_judge(uint64_t now_ns);
/* Does any other accepting member turn, or sleep (and so would wake)? */
bool placement_others_are_alive(uint64_t now_ns);
/* Are the accepting members so little busy that needless wakeups cost nothing? Old results fade. */
bool placement_load_is_light(uint64_t now_ns);
/* How busy a member was recently, in percent; old results fade. */
unsigned placement_busy_of_late(unsigned member, uint64_t now_ns);

/* ---- placement_balance.c: idle connections for other workers ---- */

/*
 * Updates how many connections other workers may give to this one. A sixteenth of its connections
 * and descriptors is reserved for new ones until the next window ends.
 */
void placement_offer_capacity(void);
/* If this worker is much busier than the mean, gives idle connections to the least busy one. */
void placement_balance(uint64_t now_ns);

#endif
