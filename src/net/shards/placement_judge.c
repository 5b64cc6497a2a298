/* Measures a worker and its group, window by window: should it accept, should another one?
 * placement.c has the rules. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net/shards/placement_state.h"

#define TURNS_NS MS  /* a member that turned since then is not stuck */
#define CALL_BUSY 60 /* percent: calls another member */
#define CALL_FULL 85 /* percent: calls another member even during a backoff */
/* Percent that the others may reach together when this one leaves, for each of them. */
#define LEAVE_BUSY 40
#define LEAVE_FULL 80 /* the same if this one waits for a core */
#define LIGHT 15      /* percent of all accepting members together: the load is light */
#define WAKES_LEAST 5 /* in a window, or it is not judged */
#define STRIKES 2     /* consecutive windows */

/* ---- state of the group ---- */

bool placement_others_are_alive(uint64_t now_ns)
{
    for (unsigned i = 0; i < PLACEMENT_GROUP_MOST; i++) {
        const struct placement_member *member = &placement.group->members[i];

        if (i != placement.member && placement_member_accepts(i) &&
            (placement_read32(&member->is_asleep) != 0 ||
             now_ns - placement_read64(&member->turned_ns) < TURNS_NS)) {
            return true;
        }
    }
    return false;
}

/*
 * The number of other accepting members that turned recently. A worker that was stopped while it
 * slept counts as asleep and never wakes: it must not be relied on.
 */
static unsigned others_that_turned(uint64_t now_ns)
{
    unsigned count = 0;

    for (unsigned i = 0; i < placement.members; i++) {
        count += i != placement.member && placement_member_accepts(i) &&
                 now_ns - placement_read64(&placement.group->members[i].turned_ns) < ALIVE_NS;
    }
    return count;
}

unsigned placement_busy_of_late(unsigned member, uint64_t now_ns)
{
    const struct placement_member *at = &placement.group->members[member];
    uint64_t age_ns = now_ns - placement_read64(&at->judged_ns);

    return age_ns >= MEMORY_NS ? 0
                               : (unsigned) (placement_read32(&at->average_percent) *
                                             (MEMORY_NS - age_ns) / MEMORY_NS);
}

bool placement_load_is_light(uint64_t now_ns)
{
    unsigned sum = 0;

    for (unsigned i = 0; i < placement.members; i++) {
        sum += placement_member_accepts(i) ? placement_busy_of_late(i, now_ns) : 0;
    }
    return sum < LIGHT;
}

/* Percent of a core that the accepting members use together; waiting for a core does not count. */
static unsigned busy_together(void)
{
    unsigned busy = 0, delayed = 0;

    for (unsigned i = 0; i < PLACEMENT_GROUP_MOST; i++) {
        if (placement_member_accepts(i)) {
            busy += placement_read32(&placement.group->members[i].busy_percent);
            delayed += placement_read32(&placement.group->members[i].delay_percent);
        }
    }
    return busy > delayed ? busy - delayed : 0;
}

/* ---- windows ---- */

/* For how long this process was ready to run without a core so far; 0 if the kernel does not report
 * it. */
static uint64_t run_delay_ns(void)
{
    char text[96];
    ssize_t n =
        placement.schedstat_fd < 0 ? 0 : pread(placement.schedstat_fd, text, sizeof(text) - 1, 0);

    if (n <= 0) {
        return 0;
    }
    text[n] = '\0';
    const char *second = strchr(text, ' ');
    return second == NULL ? 0 : strtoull(second, NULL, 10);
}

void placement_begin_window(uint64_t now_ns)
{
    placement.window.began_ns = now_ns;
    placement.window.busy_ns = 0;
    placement.window.wakes = 0;
    placement.window.delay_ns = run_delay_ns();
}

static unsigned percent(uint64_t part_ns, uint64_t whole_ns)
{
    uint64_t found = part_ns * 100 / whole_ns;

    return found > 100 ? 100 : (unsigned) found;
}

/* Records the results of a window that has ended. */
static void note_window(uint64_t now_ns)
{
    uint64_t length_ns = now_ns - placement.window.began_ns;
    uint64_t delay_ns = run_delay_ns() - placement.window.delay_ns;
    int busy = (int) percent(placement.window.busy_ns, length_ns);
    int average = (int) placement_read32(&placement.own->average_percent);
    int64_t weight_ns = (int64_t) (length_ns < MEMORY_NS ? length_ns : MEMORY_NS);

    average += (int) ((busy - average) * weight_ns / (int64_t) MEMORY_NS);
    atomic_store_explicit(&placement.own->average_percent, (uint32_t) average,
                          memory_order_relaxed);
    atomic_store_explicit(&placement.own->busy_percent, (uint32_t) busy, memory_order_relaxed);
    atomic_store_explicit(&placement.own->delay_percent, percent(delay_ns, length_ns),
                          memory_order_relaxed);
    atomic_store_explicit(&placement.own->judged_ns, now_ns, memory_order_relaxed);
    placement_offer_capacity();
}

/* ---- judging ---- */

static void judge_calling(uint64_t now_ns)
{
    if (placement_read32(&placement.own->busy_percent) > CALL_BUSY &&
        (placement_read32(&placement.own->average_percent) > CALL_FULL ||
         now_ns > placement_read64(&placement.group->calm_until_ns)) &&
        now_ns - placement_read64(&placement.group->changed_ns) > WINDOW_NS) {
        atomic_store(&placement.group->changed_ns, now_ns);
        placement_call(placement.handle);
    }
}

/* Did any other accepting member join later? */
static bool somebody_joined_later(void)
{
    for (unsigned i = 0; i < placement.members; i++) {
        if (i != placement.member && placement_member_accepts(i) &&
            placement_read64(&placement.group->members[i].joined_ns) >
                placement_read64(&placement.own->joined_ns)) {
            return true;
        }
    }
    return false;
}

static bool should_leave(uint64_t now_ns, unsigned others)
{
    bool has_no_core = placement_read32(&placement.own->delay_percent) > NO_CORE;

    if (!has_no_core && somebody_joined_later()) {
        placement.strikes = 0;
        judge_calling(now_ns);
        return false;
    }
    if (busy_together() >= (has_no_core ? LEAVE_FULL : LEAVE_BUSY) * others) {
        placement.strikes = 0;
        return false;
    }
    placement.strikes = (placement.strikes + 1) % STRIKES;
    return placement.strikes == 0;
}

bool placement_judge(uint64_t now_ns)
{
    unsigned others = others_that_turned(now_ns);

    note_window(now_ns);
    placement_balance(now_ns);
    if (!placement.accepts) {
        return false;
    }
    if (others != 0 && placement.window.wakes >= WAKES_LEAST &&
        placement_others_are_alive(now_ns)) {
        return should_leave(now_ns, others);
    }
    placement.strikes = 0;
    judge_calling(now_ns);
    return false;
}
