/* The master's change from one generation to the next. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "net/datagram/flow.h"
#include "net/shards/listener.h"
#include "net/shards/placement.h"
#include "server/configuration/generation_life.h"
#include "server/master/master.h"
#include "server/master/other_master.h"
#include "server/master/shard_care.h"
#include "server/process/notify.h"
#include "server/process/pid_file.h"
#include "server/process/server.h"

enum { SWITCH_WITHIN_MS = 5000 };

unsigned master_slots(void)
{
    return master.generation->slots + WORKER_ROLES - 1;
}

void master_start_slot(unsigned slot)
{
    struct generation *generation = master.generation;

    if (process_of_slot(generation->number, slot) != NULL) {
        return;
    }
    if (worker_role_of(generation, slot) == WORKER_AGENT && generation->agent_connections == 0) {
        log_alert(log_main, 0,
                  "0 worker_connection is not enough, privileged agent process cannot be spawned");
        return;
    }
    process_start(generation, slot);
}

void master_forget_respawns(void)
{
    size_t size = master_slots() * sizeof(*master.respawn_at_ms);

    free(master.respawn_at_ms);
    master.respawn_at_ms = calloc(1, size);
    if (master.respawn_at_ms == NULL) {
        fatal_no_memory(size);
    }
}

static bool is_wanted(const struct generation *generation, unsigned slot)
{
    switch (worker_role_of(generation, slot)) {
    case WORKER_AGENT:
        return generation->has_agent;
    case WORKER_BACKGROUND:
        return generation->background_connections != 0;
    default:
        return true;
    }
}

void master_start_workers(void)
{
    struct generation *generation = master.generation;

    log_notice(log_main, 0, "start worker processes");
    placement_open(generation->number, generation->slots);
    datagram_mailboxes_open(generation->listeners, generation->number, generation->slots);
    other_master_send_mailboxes();
    for (unsigned slot = 0; slot < master_slots(); slot++) {
        if (is_wanted(generation, slot)) {
            master_start_slot(slot);
        }
    }
    master.is_switching = true;
    master.switch_by_ms = clock_now.now_ms + SWITCH_WITHIN_MS;
}

bool master_is_waiting_for_workers(void)
{
    list_each(item, &processes) {
        const struct process *process = container_of(item, struct process, node);

        if (process->kind != PROCESS_NEW_BINARY &&
            process->generation == master.generation->number && !process->is_ready &&
            !process->is_leaving) {
            return true;
        }
    }
    return false;
}

/* Finds the listeners of the old generation that the next one does not have, or has with a
   different use of TLS or of the PROXY header: their parked connections cannot be handed over. */
static void find_gone(const struct generation *old, const struct generation *next)
{
    unsigned number = 0;

    free(master.gone);
    master.gone = NULL;
    master.gone_count = 0;
    for (const struct listener *l = old->listeners; l != NULL; l = l->next, number++) {
        const struct listener *same = next->listeners;

        while (same != NULL && (same->opening != l->opening ||
                                same->options.is_datagram != l->options.is_datagram ||
                                !addr_equal(&same->addr, &l->addr))) {
            same = same->next;
        }
        if (same == NULL) {
            master.gone = realloc(master.gone, (master.gone_count + 1) * sizeof(*master.gone));
            if (master.gone == NULL) {
                fatal_no_memory(sizeof(*master.gone));
            }
            master.gone[master.gone_count++] = number;
        }
    }
}

static void tell_gone(struct process *process)
{
    for (unsigned i = 0; i < master.gone_count; i++) {
        const struct channel_message message = {.type = CHANNEL_GONE, .listener = master.gone[i]};

        process_tell(process, &message, -1);
    }
}

/* Gives the end of a socket pair for the old worker; the other end was sent to its successor. -1 =
 * none. */
static int open_handover(const struct process *old)
{
    const struct channel_message message = {.type = CHANNEL_HANDOVER};
    const struct generation *generation = master.generation;
    struct process *successor = process_of_slot(generation->number, old->slot % generation->slots);
    int ends[2];

    if (successor == NULL || !successor->is_ready || !channel_open(ends)) {
        return -1;
    }
    if (!process_tell(successor, &message, ends[0])) {
        close(ends[1]);
        ends[1] = -1;
    }
    close(ends[0]);
    return ends[1];
}

/* Asks a worker of an older generation to quit. Those of even older generations are asked again:
   the successor that they know quits as well. */
static void dismiss(struct process *old)
{
    if (old->role != WORKER_SERVES) {
        if (!old->is_leaving) {
            process_command(old, CHANNEL_REPLACED, -1);
        }
        return;
    }
    int fd = open_handover(old);

    if (fd >= 0 && old->generation + 1 == master.generation->number) {
        tell_gone(old);
    }
    if (fd >= 0 || !old->is_leaving) {
        process_command(old, CHANNEL_REPLACED, fd);
    }
    if (fd >= 0) {
        close(fd);
    }
}

void master_switch(void)
{
    master.is_switching = false;
    shard_care_restart();
    list_each(item, &processes) {
        struct process *process = container_of(item, struct process, node);

        if (process->kind != PROCESS_NEW_BINARY &&
            process->generation != master.generation->number) {
            dismiss(process);
        }
    }
    placement_close_before(master.generation->number);
    shard_care_settle(master.generation);
    other_master_announce();
    notify_ready();
}

/* Moves the pid file if its name has changed. */
static void move_pid_file(const struct generation *next)
{
    struct str path = next->core->pid_path;

    if (str_equal(path, master.generation->core->pid_path)) {
        return;
    }
    if (pid_file_write(path)) {
        pid_file_remove(master.pid_path);
        master_set_pid_path(path);
    }
}

static void take_over_workers(struct generation *next)
{
    struct generation *old = master.generation;

    move_pid_file(next);
    find_gone(old, next);
    master.generation = next;
    master_forget_respawns();
    generation_free(old);
}

void master_change(enum change change)
{
    if (process_new_binary() != NULL && change != CHANGE_RELOAD) {
        log_error(log_main, 0, "a new binary runs: the configuration is not rolled back");
        return;
    }
    /* While a new binary runs, a HUP to the old one only starts its workers again. */
    if (process_new_binary() != NULL) {
        master.has_stopped_workers = false;
        master_start_workers();
        return;
    }
    if (master.is_switching) {
        master.next_change = change_after(master.next_change, change);
        return;
    }
    master.next_change = CHANGE_NONE;
    log_notice(log_main, 0, "reconfiguring");
    notify_reloading();
    struct generation *next = change_make(master.generation, change);

    if (next == NULL) {
        notify_ready();
        return;
    }
    log_notice(log_main, 0, "using the \"epoll\" event method");
    clock_update();
    take_over_workers(next);
    standard_error_follow(log_main);
    master.has_stopped_workers = false;
    master_start_workers();
}
