/* The order of streams: a list for each urgency. */
#include "net/quic/schedule.h"

#include <stddef.h>

void quic_schedule_init(struct quic_schedule *schedule)
{
    for (unsigned urgency = 0; urgency < QUIC_URGENCIES; urgency++) {
        list_init(&schedule->waiting[urgency]);
    }
    schedule->present = 0;
}

void quic_turn_init(struct quic_turn *turn, uint64_t id)
{
    *turn = (struct quic_turn){.id = id, .urgency = QUIC_URGENCY_DEFAULT};
    list_init(&turn->link);
}

static struct quic_turn *turn_of(struct list *link)
{
    return container_of(link, struct quic_turn, link);
}

/*
 * Where a stream that is not incremental goes: after those like it with lower ids, and before the
 * first like it with a higher one. The search is from the back, where new streams belong.
 */
static struct list *turn_successor(struct list *waiting, const struct quic_turn *turn)
{
    struct list *successor = waiting;

    for (struct list *at = waiting->prev; at != waiting; at = at->prev) {
        const struct quic_turn *other = turn_of(at);
        if (other->is_incremental) {
            continue;
        }
        if (other->id < turn->id) {
            break;
        }
        successor = at;
    }
    return successor;
}

void quic_schedule_add(struct quic_schedule *schedule, struct quic_turn *turn)
{
    if (turn->is_waiting) {
        return;
    }
    struct list *waiting = &schedule->waiting[turn->urgency];
    list_push_back(turn->is_incremental ? waiting : turn_successor(waiting, turn), &turn->link);
    turn->is_waiting = true;
    turn->taken = 0;
    schedule->present |= (uint8_t) (1u << turn->urgency);
}

void quic_schedule_remove(struct quic_schedule *schedule, struct quic_turn *turn)
{
    if (!turn->is_waiting) {
        return;
    }
    list_remove(&turn->link);
    turn->is_waiting = false;
    if (list_is_empty(&schedule->waiting[turn->urgency])) {
        schedule->present &= (uint8_t) ~(1u << turn->urgency);
    }
}

struct quic_turn *quic_schedule_first(const struct quic_schedule *schedule)
{
    if (schedule->present == 0) {
        return NULL;
    }
    return turn_of(schedule->waiting[__builtin_ctz(schedule->present)].next);
}

void quic_schedule_sent(struct quic_schedule *schedule, struct quic_turn *turn, uint32_t n)
{
    turn->taken += n;
    if (turn->is_waiting && turn->is_incremental && turn->taken >= QUIC_TURN_BYTES) {
        turn->taken = 0;
        list_remove(&turn->link);
        list_push_back(&schedule->waiting[turn->urgency], &turn->link);
    }
}

void quic_schedule_prioritize(struct quic_schedule *schedule, struct quic_turn *turn,
                              unsigned urgency, bool is_incremental)
{
    bool was_waiting = turn->is_waiting;

    quic_schedule_remove(schedule, turn);
    turn->urgency = (uint8_t) (urgency < QUIC_URGENCIES ? urgency : QUIC_URGENCIES - 1);
    turn->is_incremental = is_incremental;
    if (was_waiting) {
        quic_schedule_add(schedule, turn);
    }
}
