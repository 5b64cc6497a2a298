/* Gives idle connections of a busy worker to a less busy one. placement.c has the rules. */
#include "base/descriptors.h"
#include "net/conn/conn.h"
#include "net/shards/placement_state.h"
#include "net/shards/slots.h"

#define AHEAD 20      /* points busier than the mean: starts to give connections */
#define BALANCED 5    /* points busier than the mean: stops */
#define GIVEN_MOST 16 /* in a window */

/* ---- connections that this worker can take ---- */

static uint32_t beyond(uint32_t left, uint32_t reserve)
{
    return left > reserve ? left - reserve : 0;
}

void placement_offer_capacity(void)
{
    uint32_t free_count = beyond(conn_pool.limit, conn_pool.limit / 16 + conn_pool.used);
    uint32_t descriptors = beyond(descriptors_left(conn_pool.used), descriptors_limit() / 16);

    atomic_store_explicit(&placement.own->offered,
                          free_count < descriptors ? free_count : descriptors,
                          memory_order_relaxed);
}

/* ---- connections that others can take ---- */

/* Has the member a core for more connections, as far as is known? */
static bool member_has_core(unsigned member, uint64_t now_ns)
{
    const struct placement_member *at = &placement.group->members[member];

    return now_ns - placement_read64(&at->judged_ns) >= MEMORY_NS ||
           placement_read32(&at->delay_percent) <= NO_CORE;
}

/* How many idle connections may the member get? None where it could not keep them. */
static unsigned member_capacity(unsigned member)
{
    unsigned capacity = shard_slot_free(placement.first_slot + member, conn_pool.limit);
    uint32_t offered = placement_read32(&placement.group->members[member].offered);

    capacity = capacity < offered ? capacity : offered;
    return capacity < GIVEN_MOST ? capacity : GIVEN_MOST;
}

/* Reserves that many, so that no other worker counts on them. */
static unsigned take_capacity(unsigned member)
{
    _Atomic uint32_t *at = &placement.group->members[member].offered;
    uint32_t before = placement_read32(at);
    unsigned capacity;

    do {
        capacity = member_capacity(member);
        capacity = capacity < before ? capacity : before;
    } while (!atomic_compare_exchange_weak(at, &before, before - capacity));
    return capacity;
}

/*
 * Does the member turn? Connections would wait at one that is stuck. One that may only sleep is
 * woken, and counts once it has turned.
 */
static bool member_turns(unsigned member, uint64_t now_ns)
{
    uint64_t turned_ns = placement_read64(&placement.group->members[member].turned_ns);

    if (now_ns - turned_ns < ALIVE_NS) {
        return true;
    }
    if (turned_ns >= placement.poked_ns[member]) {
        placement.poked_ns[member] = now_ns;
        placement.hand_over(placement.handle->mailboxes[member][1], 0);
    }
    return false;
}

static bool is_worth_considering(unsigned member, uint64_t now_ns)
{
    return member != placement.member && member_has_core(member, now_ns) &&
           member_capacity(member) != 0;
}

/* Gives idle connections to the least busy member of those that turn. */
static void placement_balance_give(uint64_t now_ns, unsigned below)
{
    unsigned least = below, to = 0;

    for (unsigned i = 0; i < placement.members; i++) {
        unsigned busy = placement_busy_of_late(i, now_ns);

        if (is_worth_considering(i, now_ns) && busy < least && member_turns(i, now_ns)) {
            to = i;
            least = busy;
        }
    }
    if (least < below) {
        unsigned capacity = take_capacity(to);

        if (capacity != 0) {
            shard_slot_gave(placement.first_slot + placement.member,
                            placement.hand_over(placement.handle->mailboxes[to][1], capacity));
        }
    }
}

/* Was it woken without turning since? */
static bool stands_still(unsigned member, uint64_t now_ns)
{
    uint64_t poked_ns = placement.poked_ns[member];

    return placement_read64(&placement.group->members[member].turned_ns) < poked_ns &&
           now_ns - poked_ns >= ALIVE_NS;
}

void placement_balance(uint64_t now_ns)
{
    unsigned own = placement_busy_of_late(placement.member, now_ns);
    unsigned sum = own, count = 1;

    if (own <= BALANCED) {
        placement.is_balancing = false;
        return;
    }
    for (unsigned i = 0; i < placement.members; i++) {
        if (is_worth_considering(i, now_ns) && !stands_still(i, now_ns)) {
            sum += placement_busy_of_late(i, now_ns);
            count++;
        }
    }
    unsigned mean = sum / count;
    unsigned ahead = placement.is_balancing ? BALANCED : AHEAD;
    placement.is_balancing = count > 1 && own > mean + ahead;
    if (placement.is_balancing && placement.hand_over != NULL) {
        placement_balance_give(now_ns, mean);
    }
}
