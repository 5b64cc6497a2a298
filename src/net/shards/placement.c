/*
 * Which workers of a group accept. The rules:
 *
 * - An accepting member judges itself every 5 ms. It goes to standby when the others could do its
 * work as well, in two consecutive windows, the one that joined last first; if it waits for a core
 * (run delay), it does so unless the others are nearly full. The last accepting member stays.
 * Before it stops watching a socket it empties it, since a connection may have woken no other
 * worker.
 * - A member that is busy for more than 60% of its time calls one on standby. A member that left
 * soon after it joined was not needed: for a time that doubles with each such case, only a member
 * that is nearly full may call.
 * - Accepting members move a timer ahead as they turn, at most every 0.5 ms. It expires when none
 * has turned for 1.5 ms, and wakes a member on standby. If all accepting members are stuck, it
 * accepts what waits, and joins if they still are or if this repeats. If they only sleep and the
 * load is light, it joins as well: then all accept, the timer is off, and nothing runs while the
 * service is idle.
 * - A member that is 20 points busier than the mean gives idle connections to the least busy one,
 * accepting or not, at most 16 in a window, until it is within 5 points.
 */
#include "net/shards/placement.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "event/loop.h"
#include "net/shards/acceptor.h"
#include "net/shards/coalesce.h"
#include "net/shards/placement_state.h"
#include "net/shards/slots.h"

#define STUCK_NS (3 * MS / 2) /* no accepting member has turned for this long */
#define PUSH_NS (MS / 2)      /* least time between two settings of the timer */
#define SETTLE_NS (2 * MS)    /* least time between two changes */
#define SOON_NS (50 * MS)     /* leaving so soon after joining means that it was not needed */
#define BACKOFF_LEAST_NS (50 * MS)
#define BACKOFF_MOST_NS (1000 * MS)
#define STUCK_TIMES 3

struct placement_state placement = {.accepts = true, .schedstat_fd = -1};

/* ---- joining and leaving ---- */

static void set_timer(void)
{
    const struct itimerspec spec = {.it_value = {.tv_nsec = STUCK_NS}};

    timerfd_settime(placement.timer.fd, 0, &spec, NULL);
}

/* Starts the timer if any member is on standby, so that it watches the accepting ones even if none
 * of these turns any more. */
static void watch_over_group(void)
{
    if ((unsigned) __builtin_popcountll(placement_accepting()) < placement.members) {
        set_timer();
    }
}

static void watch_calls(void)
{
    uint64_t old;

    /* Drops a call from before, which no member answered. */
    if (read(placement.call.fd, &old, sizeof(old)) < 0 && errno != EAGAIN) {
        log_alert(log_main, errno, "read() of an eventfd failed");
    }
    event_add_listener(&placement.call, true);
    event_add_listener(&placement.timer, true);
}

static void unwatch_calls(void)
{
    event_remove(&placement.call);
    event_remove(&placement.timer);
}

void placement_join(void)
{
    if (placement.handle == NULL || placement.accepts || placement.is_full) {
        return;
    }
    unwatch_calls();
    placement.accepts = true;
    placement.stuck = placement.strikes = 0;
    atomic_store(&placement.own->joined_ns, clock_now.now_ns);
    atomic_store(&placement.group->changed_ns, clock_now.now_ns);
    atomic_fetch_or(&placement.group->accepting, UINT64_C(1) << placement.member);
    shard_slot_joined(placement.first_slot + placement.member);
    placement_begin_window(clock_now.now_ns);
    coalesce_resume();
    acceptors_watch();
    watch_over_group();
}

/* Clears the bit of this member. Gives the members that still accept. */
static uint64_t clear_own_bit(void)
{
    uint64_t bit = UINT64_C(1) << placement.member;

    return atomic_fetch_and(&placement.group->accepting, ~bit) & ~bit;
}

/* Only one member leaves at a time, and never the last one. */
static bool may_leave(uint64_t now_ns)
{
    uint64_t changed_ns = placement_read64(&placement.group->changed_ns);
    uint64_t members = placement_accepting();

    return (members & (members - 1)) != 0 && now_ns - changed_ns >= SETTLE_NS &&
           atomic_compare_exchange_strong(&placement.group->changed_ns, &changed_ns, now_ns) &&
           atomic_compare_exchange_strong(&placement.group->accepting, &members,
                                          members & ~(UINT64_C(1) << placement.member));
}

static void leave(uint64_t now_ns)
{
    uint64_t backoff_ns = placement_read64(&placement.group->backoff_ns) * 2;

    if (!may_leave(now_ns)) {
        return;
    }
    if (now_ns - placement_read64(&placement.own->joined_ns) >= SOON_NS || backoff_ns == 0) {
        backoff_ns = BACKOFF_LEAST_NS;
    } else if (backoff_ns > BACKOFF_MOST_NS) {
        backoff_ns = BACKOFF_MOST_NS;
    }
    atomic_store(&placement.group->backoff_ns, backoff_ns);
    atomic_store(&placement.group->calm_until_ns, now_ns + backoff_ns);
    placement.accepts = false;
    shard_slot_left(placement.first_slot + placement.member);
    acceptors_drain();
    acceptors_unwatch();
    watch_calls();
    if (placement_accepting() == 0) {
        placement_join(); /* the others have left meanwhile, and their call was dropped above */
    } else {
        watch_over_group();
    }
}

/* ---- the loop ---- */

/* Records that this worker turns, and moves the timer ahead if a member on standby watches it. */
static void show_life(uint64_t now_ns)
{
    uint64_t pushed_ns = placement_read64(&placement.group->pushed_ns);

    atomic_store_explicit(&placement.own->turned_ns, now_ns, memory_order_relaxed);
    if (placement.accepts && now_ns - pushed_ns >= PUSH_NS &&
        (unsigned) __builtin_popcountll(placement_accepting()) < placement.members &&
        atomic_compare_exchange_strong(&placement.group->pushed_ns, &pushed_ns, now_ns)) {
        set_timer();
    }
}

static void turn_begins(void)
{
    uint64_t now_ns = clock_now.now_ns;

    placement.woke_ns = now_ns;
    atomic_store_explicit(&placement.own->is_asleep, 0, memory_order_relaxed);
    show_life(now_ns);
    placement.window.wakes++;
    if (now_ns - placement.window.began_ns >= WINDOW_NS) {
        if (placement_judge(now_ns)) {
            leave(now_ns);
        }
        placement_begin_window(now_ns);
    }
}

static void turn_continues(void)
{
    show_life(clock_read_ns());
}

static void turn_ends(bool sleeps)
{
    placement.window.busy_ns += clock_read_ns() - placement.woke_ns;
    if (sleeps) {
        atomic_store_explicit(&placement.own->is_asleep, 1, memory_order_relaxed);
    }
}

static const struct loop_observer observer = {turn_begins, turn_continues, turn_ends};

static void call_ready(struct event_source *source, unsigned events)
{
    uint64_t calls;

    if (read(source->fd, &calls, sizeof(calls)) == sizeof(calls)) {
        placement_join();
    }
}

/* All accepting members are stuck: accepts what waits. If that did not help, or this repeats, this
 * worker joins. */
static void help(void)
{
    unsigned taken = acceptors_drain();

    placement.stuck++;
    if (placement_others_are_alive(clock_read_ns())) {
        placement.stuck = 0;
    } else if (taken != 0 || placement.stuck >= STUCK_TIMES || placement_accepting() == 0) {
        placement_join();
    } else {
        set_timer();
    }
}

/*
 * The accepting members sleep. If the load is light all shall accept. Otherwise look again later: a
 * worker that was stopped while it slept does not wake up for new connections.
 */
static void help_sleepers(uint64_t now_ns)
{
    placement.stuck = 0;
    acceptors_drain();
    if (placement_load_is_light(now_ns)) {
        placement_join();
    } else {
        set_timer();
    }
}

static void timer_ready(struct event_source *source, unsigned events)
{
    uint64_t now_ns = clock_now.now_ns;
    uint64_t expirations;

    if (read(source->fd, &expirations, sizeof(expirations)) != sizeof(expirations) ||
        placement.accepts) {
        return;
    }
    if (now_ns - placement_read64(&placement.group->pushed_ns) < STUCK_NS - PUSH_NS) {
        /* Another member is setting it and may not have done so yet; the timer is never left off.
         */
        set_timer();
    } else if (!placement_others_are_alive(now_ns)) {
        help();
    } else {
        help_sleepers(now_ns);
    }
}

/* ---- interface for the acceptors ---- */

void placement_start(uint32_t generation, unsigned slot, unsigned slots,
                     unsigned (*hand_over)(int mailbox, unsigned most))
{
    const struct placement_handle *handle = placement_find(generation, slot);

    placement_keep(handle);
    placement.accepts = true;
    placement.is_full = false;
    placement.handle = handle;
    placement.members = slots;
    if (handle == NULL) {
        return;
    }
    unsigned size = placement_group_size(slots);

    placement.group = handle->group;
    placement.member = slot % size;
    placement.first_slot = slot - placement.member;
    placement.members = slots - placement.first_slot < size ? slots - placement.first_slot : size;
    placement.own = &placement.group->members[placement.member];
    placement.schedstat_fd = open("/proc/self/schedstat", O_RDONLY | O_CLOEXEC);
    placement.hand_over = hand_over;
    placement.is_balancing = false;
    memset(placement.poked_ns, 0, sizeof(placement.poked_ns));
    placement.strikes = placement.stuck = 0;
    placement.woke_ns = clock_now.now_ns;
    atomic_store(&placement.own->joined_ns, clock_now.now_ns);
    event_source_init(&placement.call, handle->call_fd, call_ready);
    event_source_init(&placement.timer, handle->timer_fd, timer_ready);
    placement_begin_window(clock_now.now_ns);
    placement_offer_capacity();
    show_life(clock_now.now_ns);
    atomic_fetch_or(&placement.group->accepting, UINT64_C(1) << placement.member);
    loop_observe(&observer);
}

/* This worker does not accept now. If no other member does, calls one. */
static void give_up_accepting(void)
{
    bool accepted = placement.accepts;

    placement.accepts = false;
    if (accepted && clear_own_bit() == 0) {
        placement_call(placement.handle);
    }
}

void placement_stop(void)
{
    if (placement.handle == NULL) {
        return;
    }
    give_up_accepting();
    loop_observe(NULL);
    atomic_store(&placement.own->turned_ns, 0); /* so that no member gives it connections */
    unwatch_calls();
    if (placement.schedstat_fd >= 0) {
        close(placement.schedstat_fd);
        placement.schedstat_fd = -1;
    }
    placement.handle = NULL;
    placement.accepts = true;
}

int placement_mailbox(void)
{
    return placement.handle == NULL ? -1 : placement.handle->mailboxes[placement.member][0];
}

bool placement_accepts(void)
{
    return placement.accepts;
}

bool placement_sibling_accepts(unsigned slot)
{
    return placement.handle == NULL || slot < placement.first_slot ||
           slot - placement.first_slot >= placement.members ||
           placement_member_accepts(slot - placement.first_slot);
}

bool placement_is_alone(void)
{
    return placement.handle == NULL
               ? placement.members < 2
               : (placement_accepting() & ~(UINT64_C(1) << placement.member)) == 0;
}

void placement_set_full(bool is_full)
{
    if (placement.handle == NULL || placement.is_full == is_full) {
        return;
    }
    placement.is_full = is_full;
    if (is_full) {
        unwatch_calls();
        give_up_accepting();
    } else {
        placement_join();
    }
}
