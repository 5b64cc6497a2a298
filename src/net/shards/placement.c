/*
 * Which workers of a group accept. The rules:
 *
 * - A member that accepts judges itself every 5 ms. It leaves when the others could do its work too, in two windows
 *   running, the one that joined last first; where it waits for a core (run delay), it leaves unless the others are
 *   nearly full. The last one stays.
 *   Before it stops watching a socket it empties it: a connection may have woken nobody else.
 * - One that is busy for more than 60% of its time calls one that stands by. One that left soon after it had joined was
 *   of no use: it becomes calm for a time that doubles, and only a member that is nearly full calls meanwhile.
 * - A timer is set ahead by those that accept as they turn, at most every 0.5 ms. It expires when none has turned
 *   for 1.5 ms, and wakes one that stands by: if all that accept are stuck it takes what waits, and joins if they still
 *   are, or if that happens again and again. If they only sleep and the load is light, it joins as well: then all accept, the timer rests,
 *   and nothing runs while the service is idle.
 * - One that is 20 points busier than the mean gives idle connections to the one that is busy least, whether that accepts
 *   or not, at most 16 in a window, until it is within 5 points.
 */
#include "net/shards/placement.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptors.h"
#include "base/log.h"
#include "event/loop.h"
#include "net/conn/conn.h"
#include "net/shards/acceptor.h"
#include "net/shards/coalesce.h"
#include "net/shards/placement_group.h"
#include "net/shards/slots.h"

#define MS UINT64_C(1000000)
#define STUCK_NS (3 * MS / 2) /* without a turn of any that accepts */
#define PUSH_NS (MS / 2)      /* between two settings of the timer */
#define TURNS_NS MS           /* a member that turned since then is not stuck */
#define WINDOW_NS (5 * MS)
#define MEMORY_NS (100 * MS) /* of the average */
#define SETTLE_NS (2 * MS)   /* between two changes */
#define SOON_NS (50 * MS)    /* leaving so soon after joining was of no use */
#define BACKOFF_LEAST_NS (50 * MS)
#define BACKOFF_MOST_NS (1000 * MS)
#define CALL_BUSY 60  /* percent: calls another one */
#define CALL_FULL 85  /* … at any time */
#define LEAVE_BUSY 40 /* … that the others would come to at most */
#define LEAVE_FULL 80 /* … if this one waits for a core */
#define NO_CORE 10    /* … of run delay */
#define LIGHT 15      /* … of all that accept together */
#define WAKES_LEAST 5 /* in a window, for it to be judged */
#define STRIKES 2     /* windows running */
#define STUCK_TIMES 3
#define AHEAD 20           /* percent busier than the mean: begins to give connections away */
#define BALANCED 5         /* … and stops */
#define ALIVE_NS (20 * MS) /* a member that turned since then does not stand still */
#define GIVEN_MOST 16      /* in a window */

static struct {
    const struct placement_handle *handle; /* NULL: this worker always accepts */
    struct placement_group *group;         /* of it */
    struct placement_member *own;
    unsigned member;
    unsigned first_slot; /* of the group */
    bool accepts;
    bool is_full;
    int schedstat_fd; /* -1 = none */
    struct event_source call;
    struct event_source timer;
    uint64_t woke_ns; /* the turn under way began */
    unsigned (*hand_over)(int mailbox, unsigned most);
    bool is_balancing; /* it gives connections away */
    uint64_t poked_ns
        [PLACEMENT_GROUP_MOST]; /* by member: when it was woken last, to see whether it turns */
    unsigned strikes;
    unsigned stuck; /* times running that all were stuck */
    struct {
        uint64_t began_ns;
        uint64_t busy_ns;
        uint64_t delay_ns; /* at its begin */
        unsigned wakes;
    } window;
} placement = {.accepts = true, .schedstat_fd = -1};

static unsigned group_members; /* of the group */

static uint64_t load(const _Atomic uint64_t *at)
{
    return atomic_load_explicit(at, memory_order_relaxed);
}

static uint32_t load_percent(const _Atomic uint32_t *at)
{
    return atomic_load_explicit(at, memory_order_relaxed);
}

static uint64_t accepting(void)
{
    return atomic_load(&placement.group->accepting);
}

static bool member_accepts(unsigned member)
{
    return (accepting() >> member & 1) != 0;
}

/* How long this process was ready to run but had no core so far; 0 where the kernel does not tell. */
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

/* ---- questions about the group ---- */

/* Does any other member that accepts turn, or sleep and so would wake? */
static bool others_are_alive(uint64_t now_ns)
{
    for (unsigned i = 0; i < PLACEMENT_GROUP_MOST; i++) {
        const struct placement_member *member = &placement.group->members[i];

        if (i != placement.member && member_accepts(i) &&
            (load_percent(&member->is_asleep) != 0 ||
             now_ns - load(&member->turned_ns) < TURNS_NS)) {
            return true;
        }
    }
    return false;
}

/*
 * How many other members that accept have turned just now? A worker that was stopped in its sleep is asleep still, and
 * would never wake: nothing is left to it.
 */
static unsigned others_that_turned(uint64_t now_ns)
{
    unsigned count = 0;

    for (unsigned i = 0; i < group_members; i++) {
        count += i != placement.member && member_accepts(i) &&
                 now_ns - load(&placement.group->members[i].turned_ns) < ALIVE_NS;
    }
    return count;
}

/* How busy a member was of late; what was judged long ago fades. */
static unsigned busy_of_late(unsigned member, uint64_t now_ns)
{
    const struct placement_member *at = &placement.group->members[member];
    uint64_t age_ns = now_ns - load(&at->judged_ns);

    return age_ns >= MEMORY_NS
               ? 0
               : (unsigned) (load_percent(&at->average_percent) * (MEMORY_NS - age_ns) / MEMORY_NS);
}

/* Are those that accept so little busy that waking up for nothing costs nothing? What was judged long ago fades. */
static bool load_is_light(uint64_t now_ns)
{
    unsigned sum = 0;

    for (unsigned i = 0; i < group_members; i++) {
        sum += member_accepts(i) ? busy_of_late(i, now_ns) : 0;
    }
    return sum < LIGHT;
}

/* Percent of a core that the members that accept use together; waiting for a core is no use. */
static unsigned busy_together(void)
{
    unsigned busy = 0, delayed = 0;

    for (unsigned i = 0; i < PLACEMENT_GROUP_MOST; i++) {
        if (member_accepts(i)) {
            busy += load_percent(&placement.group->members[i].busy_percent);
            delayed += load_percent(&placement.group->members[i].delay_percent);
        }
    }
    return busy > delayed ? busy - delayed : 0;
}

/* ---- joining and leaving ---- */

static void begin_window(uint64_t now_ns)
{
    placement.window.began_ns = now_ns;
    placement.window.busy_ns = 0;
    placement.window.wakes = 0;
    placement.window.delay_ns = run_delay_ns();
}

static void set_timer(void)
{
    const struct itimerspec spec = {.it_value = {.tv_nsec = STUCK_NS}};

    timerfd_settime(placement.timer.fd, 0, &spec, NULL);
}

/* Those that stand by look after those that accept, even where none of these turns any more. */
static void watch_over_group(void)
{
    if ((unsigned) __builtin_popcountll(accepting()) < group_members) {
        set_timer();
    }
}

static void watch_calls(void)
{
    uint64_t old;

    /* A call that nobody answered is too old. */
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
    begin_window(clock_now.now_ns);
    coalesce_resume();
    acceptors_watch();
    watch_over_group();
}

/* Clears the bit of this member. Gives those that still accept. */
static uint64_t clear_own_bit(void)
{
    uint64_t bit = UINT64_C(1) << placement.member;

    return atomic_fetch_and(&placement.group->accepting, ~bit) & ~bit;
}

/* One leaves at a time, and never the last. */
static bool may_leave(uint64_t now_ns)
{
    uint64_t changed_ns = load(&placement.group->changed_ns);
    uint64_t members = accepting();

    return (members & (members - 1)) != 0 && now_ns - changed_ns >= SETTLE_NS &&
           atomic_compare_exchange_strong(&placement.group->changed_ns, &changed_ns, now_ns) &&
           atomic_compare_exchange_strong(&placement.group->accepting, &members,
                                          members & ~(UINT64_C(1) << placement.member));
}

static void leave(uint64_t now_ns)
{
    uint64_t backoff_ns = load(&placement.group->backoff_ns) * 2;

    if (!may_leave(now_ns)) {
        return;
    }
    if (now_ns - load(&placement.own->joined_ns) >= SOON_NS || backoff_ns == 0) {
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
    if (accepting() == 0) {
        placement_join(); /* the others have gone meanwhile, and their call was thrown away as too old */
    } else {
        watch_over_group();
    }
}

/* ---- judging ---- */

static void judge_calling(uint64_t now_ns)
{
    if (load_percent(&placement.own->busy_percent) > CALL_BUSY &&
        (load_percent(&placement.own->average_percent) > CALL_FULL ||
         now_ns > load(&placement.group->calm_until_ns)) &&
        now_ns - load(&placement.group->changed_ns) > WINDOW_NS) {
        atomic_store(&placement.group->changed_ns, now_ns);
        placement_call(placement.handle);
    }
}

/* Did any other member that accepts join later? */
static bool somebody_joined_later(void)
{
    for (unsigned i = 0; i < group_members; i++) {
        if (i != placement.member && member_accepts(i) &&
            load(&placement.group->members[i].joined_ns) > load(&placement.own->joined_ns)) {
            return true;
        }
    }
    return false;
}

static void judge_leaving(uint64_t now_ns, unsigned others)
{
    bool has_no_core = load_percent(&placement.own->delay_percent) > NO_CORE;

    if (!has_no_core && somebody_joined_later()) {
        placement.strikes = 0;
        judge_calling(now_ns);
        return;
    }
    if (busy_together() >= (has_no_core ? LEAVE_FULL : LEAVE_BUSY) * others) {
        placement.strikes = 0;
    } else if (++placement.strikes >= STRIKES) {
        placement.strikes = 0;
        leave(now_ns);
    }
}

static unsigned percent(uint64_t part_ns, uint64_t whole_ns)
{
    uint64_t found = part_ns * 100 / whole_ns;

    return found > 100 ? 100 : (unsigned) found;
}

static uint32_t beyond(uint32_t left, uint32_t reserve)
{
    return left > reserve ? left - reserve : 0;
}

/*
 * How many connections may others give to this worker? A sixteenth of its connections and descriptors is left for what
 * comes until the next window ends.
 */
static void offer_room(void)
{
    uint32_t places = beyond(conn_pool.limit, conn_pool.limit / 16 + conn_pool.used);
    uint32_t descriptors = beyond(descriptors_left(conn_pool.used), descriptors_limit() / 16);

    atomic_store_explicit(&placement.own->offered, places < descriptors ? places : descriptors,
                          memory_order_relaxed);
}

/* A window has ended: notes what it was like. */
static void note_window(uint64_t now_ns)
{
    uint64_t length_ns = now_ns - placement.window.began_ns;
    uint64_t delay_ns = run_delay_ns() - placement.window.delay_ns;
    int busy = (int) percent(placement.window.busy_ns, length_ns);
    int average = (int) load_percent(&placement.own->average_percent);
    int64_t weight_ns = (int64_t) (length_ns < MEMORY_NS ? length_ns : MEMORY_NS);

    average += (int) ((busy - average) * weight_ns / (int64_t) MEMORY_NS);
    atomic_store_explicit(&placement.own->average_percent, (uint32_t) average,
                          memory_order_relaxed);
    atomic_store_explicit(&placement.own->busy_percent, (uint32_t) busy, memory_order_relaxed);
    atomic_store_explicit(&placement.own->delay_percent, percent(delay_ns, length_ns),
                          memory_order_relaxed);
    atomic_store_explicit(&placement.own->judged_ns, now_ns, memory_order_relaxed);
    offer_room();
}

/* Would the member have a core for more connections, as far as is known? */
static bool member_has_core(unsigned member, uint64_t now_ns)
{
    const struct placement_member *at = &placement.group->members[member];

    return now_ns - load(&at->judged_ns) >= MEMORY_NS ||
           load_percent(&at->delay_percent) <= NO_CORE;
}

/* How many idle connections may it get? None where it could not keep them. */
static unsigned member_room(unsigned member)
{
    unsigned room = shard_slot_free(placement.first_slot + member, conn_pool.limit);
    uint32_t offered = load_percent(&placement.group->members[member].offered);

    room = room < offered ? room : offered;
    return room < GIVEN_MOST ? room : GIVEN_MOST;
}

/* The same for connections that are given now: nobody else counts on that room. */
static unsigned take_room(unsigned member)
{
    _Atomic uint32_t *at = &placement.group->members[member].offered;
    uint32_t before = load_percent(at);
    unsigned room;

    do {
        room = member_room(member);
        room = room < before ? room : before;
    } while (!atomic_compare_exchange_weak(at, &before, before - room));
    return room;
}

/*
 * Does the member turn? Connections would wait at one that stands still. One that may only sleep is woken, and counts
 * once it has turned.
 */
static bool member_turns(unsigned member, uint64_t now_ns)
{
    uint64_t turned_ns = load(&placement.group->members[member].turned_ns);

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
           member_room(member) != 0;
}

/* Gives idle connections to the member that is busy least of those that turn. */
static void give(uint64_t now_ns, unsigned below)
{
    unsigned least = below, to = 0;

    for (unsigned i = 0; i < group_members; i++) {
        unsigned busy = busy_of_late(i, now_ns);

        if (is_worth_considering(i, now_ns) && busy < least && member_turns(i, now_ns)) {
            to = i;
            least = busy;
        }
    }
    if (least < below) {
        unsigned room = take_room(to);

        if (room != 0) {
            shard_slot_gave(placement.first_slot + placement.member,
                            placement.hand_over(placement.handle->mailboxes[to][1], room));
        }
    }
}

/* It was woken, and has not turned since. */
static bool stands_still(unsigned member, uint64_t now_ns)
{
    uint64_t poked_ns = placement.poked_ns[member];

    return load(&placement.group->members[member].turned_ns) < poked_ns &&
           now_ns - poked_ns >= ALIVE_NS;
}

/* One that is much busier than the mean gives idle connections to the one that is busy least. */
static void balance(uint64_t now_ns)
{
    unsigned own = busy_of_late(placement.member, now_ns);
    unsigned sum = own, count = 1;

    if (own <= BALANCED) {
        placement.is_balancing = false;
        return;
    }
    for (unsigned i = 0; i < group_members; i++) {
        if (is_worth_considering(i, now_ns) && !stands_still(i, now_ns)) {
            sum += busy_of_late(i, now_ns);
            count++;
        }
    }
    unsigned mean = sum / count;
    unsigned ahead = placement.is_balancing ? BALANCED : AHEAD;
    placement.is_balancing = count > 1 && own > mean + ahead;
    if (placement.is_balancing && placement.hand_over != NULL) {
        give(now_ns, mean);
    }
}

static void judge(uint64_t now_ns)
{
    unsigned others = others_that_turned(now_ns);

    note_window(now_ns);
    balance(now_ns);
    if (!placement.accepts) {
        begin_window(now_ns);
        return;
    }
    if (others != 0 && placement.window.wakes >= WAKES_LEAST && others_are_alive(now_ns)) {
        judge_leaving(now_ns, others);
    } else {
        placement.strikes = 0;
        judge_calling(now_ns);
    }
    begin_window(now_ns);
}

/* ---- the loop ---- */

/* This worker lives: sets the timer ahead, where somebody watches it. */
static void show_life(uint64_t now_ns)
{
    uint64_t pushed_ns = load(&placement.group->pushed_ns);

    atomic_store_explicit(&placement.own->turned_ns, now_ns, memory_order_relaxed);
    if (placement.accepts && now_ns - pushed_ns >= PUSH_NS &&
        (unsigned) __builtin_popcountll(accepting()) < group_members &&
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
        judge(now_ns);
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

/* All that accept are stuck: what waits is taken. Once that did not help, or again and again, this worker joins. */
static void help(void)
{
    unsigned taken = acceptors_drain();

    placement.stuck++;
    if (others_are_alive(clock_read_ns())) {
        placement.stuck = 0;
    } else if (taken != 0 || placement.stuck >= STUCK_TIMES || accepting() == 0) {
        placement_join();
    } else {
        set_timer();
    }
}

/*
 * Those that accept sleep. With little to do all accept; else another look follows, for one that was stopped in its
 * sleep does not wake up for what comes.
 */
static void help_sleepers(uint64_t now_ns)
{
    placement.stuck = 0;
    acceptors_drain();
    if (load_is_light(now_ns)) {
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
    if (now_ns - load(&placement.group->pushed_ns) < STUCK_NS - PUSH_NS) {
        set_timer(); /* by one that may not have set it yet: it is never lost */
    } else if (!others_are_alive(now_ns)) {
        help();
    } else {
        help_sleepers(now_ns);
    }
}

/* ---- for the acceptors ---- */

void placement_start(uint32_t generation, unsigned slot, unsigned slots,
                     unsigned (*hand_over)(int mailbox, unsigned most))
{
    const struct placement_handle *handle = placement_find(generation, slot);

    placement_keep(handle);
    placement.accepts = true;
    placement.is_full = false;
    placement.handle = handle;
    group_members = slots;
    if (handle == NULL) {
        return;
    }
    unsigned size = placement_group_size(slots);

    placement.group = handle->group;
    placement.member = slot % size;
    placement.first_slot = slot - placement.member;
    group_members = slots - placement.first_slot < size ? slots - placement.first_slot : size;
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
    begin_window(clock_now.now_ns);
    offer_room();
    show_life(clock_now.now_ns);
    atomic_fetch_or(&placement.group->accepting, UINT64_C(1) << placement.member);
    loop_observe(&observer);
}

/* This worker does not accept now. Somebody else does, or is called. */
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
    atomic_store(&placement.own->turned_ns, 0); /* nobody gives it connections */
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
           slot - placement.first_slot >= group_members ||
           member_accepts(slot - placement.first_slot);
}

bool placement_is_alone(void)
{
    return placement.handle == NULL ? group_members < 2
                                    : (accepting() & ~(UINT64_C(1) << placement.member)) == 0;
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
