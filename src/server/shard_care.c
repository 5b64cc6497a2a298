/*
 * The master's care for the shards. Rules, by the numbers of docs/architecture.md:
 *   3. a slot that is not wanted any more gets no new connection, a survivor empties it, then it is
 *      closed, from the top;
 *   5. a worker that does not turn while connections wait is stepped around until it turns again.
 */
#include "server/shard_care.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fatal.h"
#include "net/listener.h"
#include "server/cells.h"
#include "server/server.h"

enum { LOOKS_UNTIL_STUCK = 2, NOBODY = -1 };

/* A socket that a worker serves beside its own. */
struct adoption {
    struct adoption *next;
    struct shard_set *set;
    unsigned slot;
    pid_t by;         /* 0: nobody could take it yet */
    bool is_retiring; /* for good; else for as long as the slot's worker is stuck */
    bool is_done;     /* retired: empty, and the survivor has closed its copy */
};

/* What the looks saw of one slot. */
struct slot_watch {
    uint64_t turns; /* of its worker, at the last look */
    pid_t pid;      /* of that worker, once it accepts */
    unsigned looks; /* in a row that saw connections wait and no turn */
    bool is_stuck;  /* stepped around */
};

static struct adoption *adoptions;
static struct slot_watch *watches; /* by slot */
static unsigned watch_count;

/* ---- small questions */

/* The listener's number in its generation, as messages to workers name it; false = none has the
 * set. */
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

/* The steering can leave one slot out: the lowest that is stuck. Others are adopted all the same.
 */
static int stuck_slot(const struct shard_set *set)
{
    for (unsigned slot = 0; slot < watch_count && slot < set->wanted; slot++) {
        if (watches[slot].is_stuck) {
            return (int) slot;
        }
    }
    return NOBODY;
}

/* A worker that can take what slot `slot` cannot: counted from the one that is its turn. */
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

/* Hands the socket to a survivor, if there is one; else a later settle tries again. */
static void adoption_place(const struct generation *generation, struct adoption *adoption)
{
    struct process *survivor = survivor_for(generation, adoption->slot);
    struct channel_message message = {.type = CHANNEL_ADOPT,
                                      .slot = adoption->slot,
                                      .is_retiring = adoption->is_retiring};

    if (survivor != NULL && number_of(generation, adoption->set, &message.listener) &&
        process_tell(survivor, &message, adoption->set->fds[adoption->slot])) {
        adoption->by = survivor->pid;
    }
}

/* Nobody has it from now on. */
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
        shard_steer(set, active_slots(set), stuck_slot(set), log_main);
    }
}

/* Slots beyond what is wanted: each needs somebody who empties it. */
static void retire_slots(const struct generation *generation, struct shard_set *set)
{
    bool is_final = !another_master_lives();

    for (unsigned slot = set->wanted; slot < set->count; slot++) {
        struct adoption *adoption = adoption_find(set, slot);

        if (adoption == NULL) {
            adoption = adoption_new(set, slot);
        }
        if (is_final && !adoption->is_retiring) {
            adoption->is_retiring = true;
            adoption->by = 0;
        }
        if (adoption->by == 0 && !adoption->is_done) {
            adoption_place(generation, adoption);
        }
    }
}

/* Slots that are wanted again are served by their own workers. */
static void unretire_slots(const struct generation *generation, struct shard_set *set)
{
    for (unsigned slot = 0; slot < set->wanted; slot++) {
        struct adoption *adoption = adoption_find(set, slot);

        if (adoption != NULL && !is_stuck(slot)) {
            adoption_return(generation, adoption);
        }
    }
}

/* A set that nobody wants; its adoptions end with it. */
static void close_set(struct shard_set *set)
{
    for (unsigned slot = 0; slot < set->count; slot++) {
        struct adoption *adoption = adoption_find(set, slot);

        if (adoption != NULL) {
            adoption_free(adoption);
        }
    }
    shard_set_close(set);
}

void shard_care_settle(struct generation *generation)
{
    struct shard_set *next;

    for (struct shard_set *set = shard_sets(); set != NULL; set = next) {
        next = set->next;
        if (!set->is_wanted) {
            if (!another_master_lives()) {
                close_set(set);
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
    struct adoption *next;

    for (struct adoption *adoption = adoptions; adoption != NULL; adoption = next) {
        next = adoption->next;
        if (adoption->is_retiring && !adoption->is_done) {
            adoption->by = 0; /* its worker ends; a new one goes on */
        } else if (!adoption->is_retiring) {
            adoption_free(adoption);
        }
    }
    free(watches);
    watches = NULL;
    watch_count = 0;
}

/* Closes what is empty, from the top: the kernel numbers the group by the order of listen. */
static void close_retired(struct shard_set *set)
{
    while (set->count > set->wanted) {
        unsigned slot = set->count - 1;
        struct adoption *adoption = adoption_find(set, slot);

        if (adoption == NULL || !adoption->is_done) {
            return;
        }
        adoption_free(adoption);
        /* A stopped worker of an older generation may hold a copy: the group must not keep it. */
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

    if (adoption != NULL && adoption->is_retiring) {
        adoption->is_done = true;
        close_retired(l->shards);
    }
}

void shard_care_process_gone(struct generation *generation, const struct process *process)
{
    for (struct adoption *adoption = adoptions; adoption != NULL; adoption = adoption->next) {
        if (adoption->by == process->pid && !adoption->is_done) {
            adoption->by = 0;
            adoption_place(generation, adoption);
        }
    }
}

/* ---- stepping around */

/* Does the slot's worker have to see to this slot of the set: its own, or one that it adopted? */
static bool is_due_to(const struct shard_set *set, unsigned of, unsigned slot, pid_t pid)
{
    if (of == slot) {
        return true;
    }
    const struct adoption *adoption = adoption_find(set, of);

    return adoption != NULL && pid != 0 && adoption->by == pid && !adoption->is_done;
}

/* Does a connection wait in one of the accept queues that the slot's worker has to see to? */
static bool has_waiting(unsigned slot, pid_t pid)
{
    enum { MANY = 64 };
    struct pollfd fds[MANY];
    nfds_t count = 0;

    for (struct shard_set *set = shard_sets(); set != NULL; set = set->next) {
        for (unsigned of = 0; of < set->count && set->is_sharded && set->is_wanted; of++) {
            if (!is_due_to(set, of, slot, pid)) {
                continue;
            }
            fds[count++] = (struct pollfd){.fd = set->fds[of], .events = POLLIN};
            if (count == MANY) {
                if (poll(fds, count, 0) > 0) {
                    return true;
                }
                count = 0;
            }
        }
    }
    return count != 0 && poll(fds, count, 0) > 0;
}

/* What this worker has adopted goes to others. */
static void replace_adopter(const struct generation *generation, const struct process *process)
{
    for (struct adoption *adoption = adoptions; adoption != NULL; adoption = adoption->next) {
        if (adoption->by == process->pid && !adoption->is_done) {
            adoption_recall(generation, adoption);
            adoption_place(generation, adoption);
        }
    }
}

static void step_around(const struct generation *generation, unsigned slot)
{
    /* Its neighbours may leave it nothing to do: without this it would sleep on for ever. */
    const struct channel_message poke = {.type = CHANNEL_TURN};
    struct process *process = process_of_slot(generation->number, slot);
    struct slot_watch *watch = &watches[slot];

    if (survivor_for(generation, slot) == NULL) {
        return;
    }
    watch->is_stuck = true;
    if (process != NULL) {
        process_tell(process, &poke, NOBODY);
        replace_adopter(generation, process);
    }
    log_warn(log_main, 0, "worker process %d does not turn, others take its connections",
             (int) watch->pid);
    for (struct shard_set *set = shard_sets(); set != NULL; set = set->next) {
        if (!set->is_sharded || !set->is_wanted || slot >= active_slots(set) ||
            adoption_find(set, slot) != NULL) {
            continue;
        }
        steer(set);
        adoption_place(generation, adoption_new(set, slot));
    }
}

static void step_back(const struct generation *generation, unsigned slot)
{
    watches[slot].is_stuck = false;
    log_notice(log_main, 0, "worker process %d turns again", (int) watches[slot].pid);
    for (struct shard_set *set = shard_sets(); set != NULL; set = set->next) {
        struct adoption *adoption = adoption_find(set, slot);

        if (adoption != NULL && !adoption->is_retiring) {
            adoption_return(generation, adoption);
            steer(set);
        }
    }
}

static void look_at(const struct generation *generation, unsigned slot)
{
    struct slot_watch *watch = &watches[slot];
    const struct process *process = process_of_slot(generation->number, slot);
    const struct loop_pulse *pulse = process == NULL ? NULL : cell_pulse(process->cell);
    pid_t pid = process == NULL ? 0 : process->pid;
    uint64_t turns = pulse == NULL ? 0 : __atomic_load_n(&pulse->turns, __ATOMIC_RELAXED);
    bool has_turned =
        pulse != NULL && process->is_ready && (pid != watch->pid || turns != watch->turns);

    if (process != NULL && process->is_ready) {
        watch->pid = pid;
        watch->turns = turns;
    }
    if (has_turned) {
        watch->looks = 0;
        if (watch->is_stuck) {
            step_back(generation, slot);
        }
        return;
    }
    if (watch->is_stuck) {
        return;
    }
    watch->looks = has_waiting(slot, pid) ? watch->looks + 1 : 0;
    if (watch->looks >= LOOKS_UNTIL_STUCK) {
        step_around(generation, slot);
    }
}

void shard_care_look(struct generation *generation)
{
    if (watch_count != generation->slots) {
        free(watches);
        watches = calloc(generation->slots, sizeof(*watches));
        if (watches == NULL) {
            fatal_no_memory(generation->slots * sizeof(*watches));
        }
        watch_count = generation->slots;
    }
    for (unsigned slot = 0; slot < generation->slots; slot++) {
        look_at(generation, slot);
    }
    /* What nobody could take before. */
    for (struct adoption *adoption = adoptions; adoption != NULL; adoption = adoption->next) {
        if (adoption->by == 0 && !adoption->is_done) {
            adoption_place(generation, adoption);
        }
    }
}

bool shard_care_has_to_look(const struct generation *generation)
{
    if (generation->slots < 2 || process_count() == 0) {
        return false;
    }
    for (struct shard_set *set = shard_sets(); set != NULL; set = set->next) {
        if (set->is_sharded && set->is_wanted) {
            return true;
        }
    }
    return false;
}
