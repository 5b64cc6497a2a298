/* What this worker knows of its place in the group; private to placement*.c. */
#ifndef NET_SHARDS_PLACEMENT_STATE_H
#define NET_SHARDS_PLACEMENT_STATE_H

#include "event/loop.h"
#include "net/shards/placement_group.h"

#define MS UINT64_C(1000000)
#define WINDOW_NS (5 * MS)
#define MEMORY_NS (100 * MS) /* of the average */
#define ALIVE_NS (20 * MS)   /* a member that turned since then does not stand still */
#define NO_CORE 10           /* percent of run delay */

struct placement_state {
    const struct placement_handle *handle; /* NULL: this worker always accepts */
    struct placement_group *group;         /* of it */
    struct placement_member *own;
    unsigned member;
    unsigned first_slot; /* of the group */
    unsigned members;    /* number of slots of the group; without a group, all workers */
    bool accepts;
    bool is_full;
    int schedstat_fd; /* -1 = none */
    struct event_source call;
    struct event_source timer;
    uint64_t woke_ns; /* the turn under way began */
    unsigned (*hand_over)(int mailbox, unsigned most);
    bool is_balancing;                       /* it gives connections away */
    uint64_t poked_ns[PLACEMENT_GROUP_MOST]; /* by member: when it was woken last, to see whether it
                                                turns */
    unsigned strikes;
    unsigned stuck; /* times running that all were stuck */
    struct {
        uint64_t began_ns;
        uint64_t busy_ns;
        uint64_t delay_ns; /* at its begin */
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

/* ---- placement_judge.c: what it and the others are like ---- */

void placement_begin_window(uint64_t now_ns);
/* A window of a member that accepts, or of one that stands by, has ended: notes what it was like,
 * calls another member if need be. True: this one should leave. The next window has to be begun. */
bool placement_judge(uint64_t now_ns);
/* Does any other member that accepts turn, or sleep and so would wake? */
bool placement_others_are_alive(uint64_t now_ns);
/* Are those that accept so little busy that waking up for nothing costs nothing? What was judged
 * long ago fades. */
bool placement_load_is_light(uint64_t now_ns);
/* How busy a member was of late, in percent; what was judged long ago fades. */
unsigned placement_busy_of_late(unsigned member, uint64_t now_ns);

/* ---- placement_balance.c: idle connections for others ---- */

/*
 * How many connections may others give to this worker? A sixteenth of its connections and
 * descriptors is left for what comes until the next window ends.
 */
void placement_offer_room(void);
/* If this worker is much busier than the mean it gives idle connections to the one that is busy
 * least. */
void placement_balance(uint64_t now_ns);

#endif
