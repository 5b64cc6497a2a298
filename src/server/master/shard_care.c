/*
 * The master's policy for the shards: shrinking and blocked workers, as docs/architecture.md
 * describes them.
 *   - A slot that is not used any more gets no new connections, a survivor empties it, then it is
 *     closed, from the top.
 *   - Connections that wait for a blocked worker are shown to other workers, and a worker that
 * stays blocked is logged.
 *   - New clients of QUIC, whose datagrams only the worker of their slot reads, go to another
 * worker after that was logged.
 */
#include "server/master/shard_care.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "net/addr/addr.h"
#include "net/shards/listener.h"
#include "net/shards/placement.h"
#include "server/master/shard_idle.h"
#include "server/process/cells.h"
#include "server/process/server.h"

enum {
    LOOKS_UNTIL_STUCK = 20,
    LOOKS_UNTIL_IDLE = 4, /* checks without a new connection and with nothing to do */
    NOBODY = -1,
};
/* If a worker of the group has turned its loop within this time, the group takes waiting
   connections without help. */
#define LOOK_NS (UINT64_C(1000000) * SHARD_LOOK_MS)

/* The socket of a retired slot, which a survivor empties. */
struct adoption {
    struct adoption *next;
    struct shard_set *set;
    unsigned slot;
    pid_t by;     /* 0: no worker could take it yet */
    bool is_done; /* empty, and the survivor has closed its copy */
};

/* What the checks found out about one slot. */
struct slot_watch {
    uint64_t turns; /* of its worker, at the last check */
    uint64_t taken; /* connections that siblings had taken from it by then */
    pid_t pid;      /* of that worker, once it accepts */
    unsigned looks; /* checks without a turn since it was poked; 0 = it was not poked */
    bool is_stuck;  /* this was logged */
};

static struct adoption *adoptions;
static struct slot_watch *watches; /* by slot */
static unsigned watch_count;
static unsigned quiet_looks;     /* in succession */
static uint64_t accepted_before; /* connections of all slots, at the last check */

/* ---- helpers */

/* The listener's number in its generation, which identifies it in messages to workers; false = no
 * listener has the set. */
static bool number_of(const struct generation *generation, const struct shard_set *set,
                      uint32_t *number)
{
    uint32_t n = 0;

    for (const struct listener *l = generation->listeners; l != NULL; l = l->next, n++) {
        if (l->shards == set) {
            *number = n;
            return true;
        }
    }
    return false;
}

static bool is_stuck(unsigned slot)
{
    return slot < watch_count && watches[slot].is_stuck;
}

/* A worker that takes over for slot `slot`: the next one, modulo the number of slots, that is ready
   and not stuck. */
static struct process *survivor_for(const struct generation *generation, unsigned slot)
{
    for (unsigned i = 0; i < generation->slots; i++) {
        unsigned other = (slot + i) % generation->slots;
        struct process *process = process_of_slot(generation->number, other);

        if (other != slot && process != NULL && process->is_ready && !is_stuck(other)) {
            return process;
        }
    }
    return NULL;
}

bool another_master_lives(void)
{
    return (server.is_upgrade && getppid() == server.parent) || process_new_binary() != NULL;
}

/* ---- adoptions */

static struct adoption *adoption_find(const struct shard_set *set, unsigned slot)
{
    for (struct adoption *adoption = adoptions; adoption != NULL; adoption = adoption->next) {
        if (adoption->set == set && adoption->slot == slot) {
            return adoption;
        }
    }
    return NULL;
}

static struct adoption *adoption_new(struct shard_set *set, unsigned slot)
{
    struct adoption *adoption = calloc(1, sizeof(*adoption));

    if (adoption == NULL) {
        fatal_no_memory(sizeof(*adoption));
    }
    adoption->set = set;
    adoption->slot = slot;
    adoption->next = adoptions;
    adoptions = adoption;
    return adoption;
}

static void adoption_free(struct adoption *adoption)
{
    struct adoption **link = &adoptions;

    while (*link != adoption) {
        link = &(*link)->next;
    }
    *link = adoption->next;
    free(adoption);
}

/* Hands the socket to a survivor, if there is one; otherwise a later check tries again. */
static void adoption_assign(const struct generation *generation, struct adoption *adoption)
{
    struct process *survivor = survivor_for(generation, adoption->slot);
    struct channel_message message = {.type = CHANNEL_ADOPT, .slot = adoption->slot};

    if (survivor != NULL && number_of(generation, adoption->set, &message.listener) &&
        process_tell(survivor, &message, adoption->set->fds[adoption->slot])) {
        adoption->by = survivor->pid;
    }
}

/* Takes the socket back: no worker empties it from now on. */
static void adoption_recall(const struct generation *generation, struct adoption *adoption)
{
    struct process *process = adoption->by == 0 ? NULL : process_find(adoption->by);
    struct channel_message message = {.type = CHANNEL_RETURN, .slot = adoption->slot};

    if (process != NULL && number_of(generation, adoption->set, &message.listener)) {
        process_tell(process, &message, NOBODY);
    }
    adoption->by = 0;
}

static void adoption_return(const struct generation *generation, struct adoption *adoption)
{
    adoption_recall(generation, adoption);
    adoption_free(adoption);
}

/* ---- shrinking and growing */

static unsigned active_slots(const struct shard_set *set)
{
    return set->wanted < set->count ? set->wanted : set->count;
}

static void steer(struct shard_set *set)
{
    if (set->count > 1) {
        shard_steer(set, active_slots(set), log_main);
    }
}

/* Finds a survivor for each slot beyond the wanted number. While there is another master, its
 * workers may use these slots, so nothing is retired. */
static void retire_slots(const struct generation *generation, struct shard_set *set)
{
    if (another_master_lives()) {
        return;
    }
    for (unsigned slot = set->wanted; slot < set->count; slot++) {
        struct adoption *adoption = adoption_find(set, slot);

        if (adoption == NULL) {
            adoption = adoption_new(set, slot);
        }
        if (adoption->by == 0 && !adoption->is_done) {
            adoption_assign(generation, adoption);
        }
    }
}

/* Slots that are used again are served by their own workers. */
static void unretire_slots(const struct generation *generation, struct shard_set *set)
{
    for (unsigned slot = 0; slot < set->wanted; slot++) {
        struct adoption *adoption = adoption_find(set, slot);

        if (adoption != NULL) {
            adoption_return(generation, adoption);
        }
    }
}

/* ---- sets whose clients are served by another listener */

/* Passes a connection from a set that is being closed to a worker. False: no worker is ready. */
static bool pass_on(int fd, const struct addr *local, void *arg)
{
    static unsigned turn;
    const struct generation *generation = arg;
    struct channel_message message = {.type = CHANNEL_ACCEPTED};
    const struct listener *successor = listener_serving(generation->listeners, local);

    if (successor == NULL || !number_of(generation, successor->shards, &message.listener)) {
        return true;
    }
    for (unsigned i = 0; i < generation->slots; i++) {
        unsigned slot = turn++ % generation->slots;
        struct process *process = process_of_slot(generation->number, slot);

        if (process != NULL && process->is_ready && !is_stuck(slot) &&
            process_tell(process, &message, fd)) {
            return true;
        }
    }
    return false;
}

/* Closes a set that no listener uses; its adoptions end with it. */
static void close_set(const struct generation *generation, struct shard_set *set)
{
    for (unsigned slot = 0; slot < set->count; slot++) {
        struct adoption *adoption = adoption_find(set, slot);

        if (adoption != NULL) {
            adoption_free(adoption);
        }
    }
    shard_set_end(set, generation->listeners);
}

/* Something has changed: the checks start again. */
static void look_again(void)
{
    quiet_looks = 0;
    shard_idle_end();
}

void shard_care_settle(struct generation *generation)
{
    struct shard_set *next;

    look_again();
    for (struct shard_set *set = shard_sets(); set != NULL; set = next) {
        next = set->next;
        if (!set->is_wanted) {
            if (!another_master_lives()) {
                close_set(generation, set);
            }
            continue;
        }
        unretire_slots(generation, set);
        steer(set);
        retire_slots(generation, set);
    }
}

void shard_care_restart(void)
{
    look_again();
    for (struct adoption *adoption = adoptions; adoption != NULL; adoption = adoption->next) {
        if (!adoption->is_done) {
            adoption->by = 0; /* its worker is quitting; another one takes over */
        }
    }
    free(watches);
    watches = NULL;
    watch_count = 0;
}

/* Closes empty slots, from the top: the kernel numbers the group in the order of listen(). */
static void close_retired(struct shard_set *set)
{
    while (set->count > set->wanted) {
        unsigned slot = set->count - 1;
        struct adoption *adoption = adoption_find(set, slot);

        if (adoption == NULL || !adoption->is_done) {
            return;
        }
        adoption_free(adoption);
        /* A stopped worker of an older generation may have a copy of the descriptor; shutdown()
           removes the socket from the group nevertheless. */
        shutdown(set->fds[slot], SHUT_RDWR);
        shard_close_top(set);
        shard_top_retired(set, slot, log_main);
    }
    steer(set);
}

void shard_care_retired(struct generation *generation, uint32_t listener, uint32_t slot)
{
    const struct listener *l = generation->listeners;

    while (l != NULL && listener-- != 0) {
        l = l->next;
    }
    if (l == NULL || l->shards == NULL) {
        return;
    }
    struct adoption *adoption = adoption_find(l->shards, slot);

    if (adoption != NULL) {
        adoption->is_done = true;
        close_retired(l->shards);
    }
}

void shard_care_process_gone(struct generation *generation, const struct process *process)
{
    look_again();
    placement_worker_gone(process->generation, process->slot);
    for (struct adoption *adoption = adoptions; adoption != NULL; adoption = adoption->next) {
        if (adoption->by == process->pid && !adoption->is_done) {
            adoption->by = 0;
            adoption_assign(generation, adoption);
        }
    }
}

/* ---- workers that are blocked */

/* A set of QUIC: only the worker of a slot reads its socket, but others can serve the clients. */
static bool is_quic(const struct shard_set *set)
{
    return set->options.is_datagram && set->options.has_ids;
}

bool shard_care_watches(const struct shard_set *set)
{
    return set->is_wanted && set->is_sharded && (!set->options.is_datagram || is_quic(set));
}

/* Does a connection wait in one of the accept queues of the slot, or a datagram for a new one? */
static bool has_waiting(unsigned slot)
{
    enum { MANY = 64 };
    struct pollfd fds[MANY];
    nfds_t count = 0;

    for (struct shard_set *set = shard_sets(); set != NULL; set = set->next) {
        if (!shard_care_watches(set) || slot >= set->count) {
            continue;
        }
        fds[count++] = (struct pollfd){.fd = set->fds[slot], .events = POLLIN};
        if (count == MANY) {
            if (poll(fds, count, 0) > 0) {
                return true;
            }
            count = 0;
        }
    }
    return count != 0 && poll(fds, count, 0) > 0;
}

/* A worker that watches the slot's sockets as well: one that sleeps, if possible; NULL = none. */
static struct process *helper_for(const struct generation *generation, unsigned slot)
{
    struct process *helper = NULL;

    for (unsigned i = 1; i < generation->slots; i++) {
        unsigned other = (slot + i) % generation->slots;
        struct process *process = process_of_slot(generation->number, other);

        if (process == NULL || !process->is_ready || is_stuck(other) ||
            !shard_is_watched(slot, other, generation->slots)) {
            continue;
        }
        const struct loop_pulse *pulse = cell_pulse(process->cell);
        if (pulse != NULL && atomic_load_explicit(&pulse->is_sleeping, memory_order_relaxed) != 0) {
            return process;
        }
        helper = helper != NULL ? helper : process;
    }
    return helper;
}

/*
 * The workers that accept do not take what waits there: they may be blocked, or at their limits.
 * All workers that stand by accept now; if none does, one that sleeps is shown the waiting
 * connections.
 */
static void show_waiting(const struct generation *generation, unsigned slot)
{
    const struct channel_message message = {.type = CHANNEL_LOOK, .slot = slot};
    struct process *helper = helper_for(generation, slot);
    unsigned called = 0;

    for (unsigned other = 0; other < generation->slots; other++) {
        struct process *process = process_of_slot(generation->number, other);

        if (process != NULL && process->is_ready &&
            shard_is_watched(slot, other, generation->slots) &&
            placement_stands_by(generation->number, other)) {
            called += process_tell(process, &message, NOBODY);
        }
    }
    if (called == 0 && helper != NULL) {
        process_tell(helper, &message, NOBODY);
    }
}

/* Passes the adopted sockets of this worker to others. */
static void replace_adopter(const struct generation *generation, pid_t pid)
{
    for (struct adoption *adoption = adoptions; adoption != NULL; adoption = adoption->next) {
        if (adoption->by == pid && !adoption->is_done) {
            adoption_recall(generation, adoption);
            adoption_assign(generation, adoption);
        }
    }
}

/* Lets another worker read the QUIC datagrams that wait: it serves new clients, and passes the
 * other datagrams on. */
static void lend_datagrams(const struct generation *generation, unsigned slot)
{
    struct process *survivor = survivor_for(generation, slot);
    struct channel_message message = {.type = CHANNEL_ADOPT, .slot = slot};

    for (struct shard_set *set = shard_sets(); survivor != NULL && set != NULL; set = set->next) {
        if (is_quic(set) && shard_care_watches(set) && slot < set->count &&
            number_of(generation, set, &message.listener)) {
            process_tell(survivor, &message, set->fds[slot]);
        }
    }
}

/* Other workers do its work: is it alive? A worker that only sleeps turns when it is poked. */
static void poke(struct process *process, struct slot_watch *watch)
{
    const struct channel_message message = {.type = CHANNEL_TURN};

    watch->looks = 1;
    process_tell(process, &message, NOBODY);
}

/* It has turned since the last check. */
static void has_turned(struct slot_watch *watch)
{
    if (watch->is_stuck) {
        log_notice(log_main, 0, "worker process %d runs again", (int) watch->pid);
    }
    watch->looks = 0;
    watch->is_stuck = false;
}

/* True if the next check would find the same, unless a connection comes. */
static bool look_at_slot(const struct generation *generation, unsigned slot)
{
    struct slot_watch *watch = &watches[slot];
    struct process *process = process_of_slot(generation->number, slot);
    const struct loop_pulse *pulse = process == NULL ? NULL : cell_pulse(process->cell);
    bool is_waiting = has_waiting(slot);
    struct shard_counts counts;

    if (is_waiting && !placement_is_served(generation->number, slot, clock_now.now_ns - LOOK_NS)) {
        show_waiting(generation, slot);
    }
    if (pulse == NULL || !process->is_ready) {
        return !is_waiting;
    }
    uint64_t turns = atomic_load_explicit(&pulse->turns, memory_order_relaxed);
    shard_counts(slot, &counts);
    bool is_needed = is_waiting || (counts.taken != watch->taken &&
                                    !placement_stands_by(generation->number, slot));
    if (process->pid != watch->pid || turns != watch->turns) {
        has_turned(watch);
    } else if (watch->looks != 0) {
        watch->looks++;
    } else if (is_needed) {
        poke(process, watch);
    }
    if (is_waiting && watch->is_stuck) {
        lend_datagrams(generation, slot);
    }
    watch->pid = process->pid;
    watch->turns = turns;
    watch->taken = counts.taken;
    if (watch->looks >= LOOKS_UNTIL_STUCK && !watch->is_stuck) {
        watch->is_stuck = true;
        log_warn(log_main, 0, "worker process %d is blocked, other workers accept its connections",
                 (int) watch->pid);
        replace_adopter(generation, watch->pid);
    }
    return !is_waiting && watch->looks == 0;
}

/* Did any slot get a connection since the last check? */
static bool was_accepted(const struct generation *generation)
{
    uint64_t before = accepted_before;
    struct shard_counts counts;

    accepted_before = 0;
    for (unsigned slot = 0; slot < generation->slots; slot++) {
        shard_counts(slot, &counts);
        accepted_before += counts.own + counts.taken + counts.adopted;
    }
    return accepted_before != before;
}

/* After some checks with nothing to do the master sleeps until a connection comes, or something
 * changes. */
static void idle_if_quiet(const struct generation *generation, bool is_quiet)
{
    if (was_accepted(generation) || !is_quiet) {
        quiet_looks = 0;
    } else if (++quiet_looks >= LOOKS_UNTIL_IDLE) {
        quiet_looks = 0;
        shard_idle_begin(generation);
    }
}

void shard_care_look(struct generation *generation)
{
    bool is_quiet = !shard_sets_leaving(pass_on, generation);

    if (watch_count != generation->slots) {
        free(watches);
        watches = calloc(generation->slots, sizeof(*watches));
        if (watches == NULL) {
            fatal_no_memory(generation->slots * sizeof(*watches));
        }
        watch_count = generation->slots;
    }
    for (unsigned slot = 0; slot < generation->slots; slot++) {
        is_quiet = look_at_slot(generation, slot) && is_quiet;
    }
    /* Sockets that no worker could take before. */
    for (struct adoption *adoption = adoptions; adoption != NULL; adoption = adoption->next) {
        if (adoption->by == 0 && !adoption->is_done) {
            adoption_assign(generation, adoption);
            is_quiet = false;
        }
    }
    idle_if_quiet(generation, is_quiet);
}

bool shard_care_has_to_look(const struct generation *generation)
{
    if (shard_set_is_leaving()) {
        return true;
    }
    if (generation->slots < 2 || process_count() == 0 || shard_idle_fd() >= 0) {
        return false;
    }
    for (struct shard_set *set = shard_sets(); set != NULL; set = set->next) {
        if (shard_care_watches(set)) {
            return true;
        }
    }
    return false;
}
