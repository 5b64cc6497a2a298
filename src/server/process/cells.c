/* Shared memory of all processes of the service: a cell for each, with counters and pulse. */
#include "server/process/cells.h"

#include <stdatomic.h>
#include <string.h>

#include "base/shm.h"
#include "net/conn/conn.h"
#include "net/conn/own.h"
#include "net/shards/listener.h"

enum { CELLS = 4096 };

/* Written by one process; its own cache lines. Only pages of cells in use have memory. */
struct cell {
    struct slot_counters counters;
    struct loop_pulse pulse;
    char pad[64 - sizeof(struct loop_pulse)];
};

/* What all processes of the service share. */
struct shared {
    _Atomic uint64_t connection_serial;
    char pad[56];
    _Atomic bool drains; /* rarely written */
    char pad1[63];
    _Atomic uint64_t fold_version; /* odd while a cell is being folded into `gone` */
    struct slot_counters gone;     /* totals of processes that have ended */
    char pad2[56];
    _Atomic uint64_t used; /* cells that were ever used: sums stop here */
    char pad3[56];
    struct cell cells[CELLS];
};

_Static_assert(sizeof(struct cell) % 64 == 0, "a cell fills whole cache lines");

static struct shared *shared;
static bool is_taken[CELLS]; /* of the master */

static _Atomic bool drains_not; /* used before the shared memory exists */

struct slot_counters *counters_mine;
_Atomic bool *service_drains = &drains_not;

bool cells_init(void)
{
    shared = shm_map(sizeof(*shared));
    if (shared == NULL || !own_init() || !shard_slots_init()) {
        return false;
    }
    conn_serial = &shared->connection_serial;
    counters_mine = &shared->gone;
    service_drains = &shared->drains;
    return true;
}

uint32_t cell_take(void)
{
    for (uint32_t i = 0; i < CELLS; i++) {
        if (!is_taken[i]) {
            is_taken[i] = true;
            if (shared->used < i + 1) {
                atomic_store_explicit(&shared->used, i + 1, memory_order_release);
            }
            return i;
        }
    }
    return CELL_NONE;
}

/* Only one process writes a counter, without atomics: one plain read is enough. */
static uint64_t read_once(const volatile uint64_t *counter)
{
    return *counter;
}

static void add_totals(struct slot_counters *sum, const struct slot_counters *from)
{
    sum->accepted += read_once(&from->accepted);
    sum->handled += read_once(&from->handled);
    sum->requests += read_once(&from->requests);
    sum->request_time_ms += read_once(&from->request_time_ms);
    sum->limited += read_once(&from->limited);
    sum->tls_handshakes += read_once(&from->tls_handshakes);
    sum->tls_resumed += read_once(&from->tls_resumed);
    sum->tls_version_1_3 += read_once(&from->tls_version_1_3);
    sum->tls_failures += read_once(&from->tls_failures);
    sum->h2_connections += read_once(&from->h2_connections);
    sum->reload_failures += read_once(&from->reload_failures);
    sum->tls_no_protocol += read_once(&from->tls_no_protocol);
    sum->tls_no_cipher += read_once(&from->tls_no_cipher);
    sum->tls_timeouts += read_once(&from->tls_timeouts);
    sum->tls_rejected += read_once(&from->tls_rejected);
    sum->tls_no_certificate += read_once(&from->tls_no_certificate);
    sum->tls_expired += read_once(&from->tls_expired);
    sum->tls_revoked += read_once(&from->tls_revoked);
    sum->tls_unverified += read_once(&from->tls_unverified);
    sum->respawned += read_once(&from->respawned);
    sum->spans_sent += read_once(&from->spans_sent);
    sum->spans_dropped += read_once(&from->spans_dropped);
    sum->stalls += read_once(&from->stalls);
    sum->records_sent += read_once(&from->records_sent);
    sum->records_dropped += read_once(&from->records_dropped);
    sum->metrics_dropped += read_once(&from->metrics_dropped);
}

static void add_open(struct slot_counters *sum, const struct slot_counters *from)
{
    sum->active += read_once(&from->active);
    sum->reading += read_once(&from->reading);
    sum->writing += read_once(&from->writing);
    sum->lua_memory += read_once(&from->lua_memory);
}

void cell_give_back(uint32_t cell)
{
    if (cell == CELL_NONE) {
        return;
    }
    atomic_fetch_add_explicit(&shared->fold_version, 1, memory_order_acq_rel);
    add_totals(&shared->gone, &shared->cells[cell].counters);
    memset(&shared->cells[cell], 0, sizeof(struct cell));
    atomic_fetch_add_explicit(&shared->fold_version, 1, memory_order_acq_rel);
    is_taken[cell] = false;
}

struct slot_counters *cell_counters(uint32_t cell)
{
    return cell == CELL_NONE ? &shared->gone : &shared->cells[cell].counters;
}

struct loop_pulse *cell_pulse(uint32_t cell)
{
    return cell == CELL_NONE ? NULL : &shared->cells[cell].pulse;
}

static pid_t pid_of(const struct cell *cell)
{
    return (pid_t) * (const volatile uint32_t *) &cell->counters.pid;
}

unsigned workers_pids(pid_t *pids, unsigned max)
{
    uint64_t used = atomic_load_explicit(&shared->used, memory_order_acquire);
    unsigned count = 0;

    for (uint64_t i = 0; i < used && count < max; i++) {
        pid_t pid = pid_of(&shared->cells[i]);

        if (pid != 0) {
            pids[count++] = pid;
        }
    }
    return count;
}

static const struct cell *cell_of_slot(unsigned slot)
{
    uint64_t used = atomic_load_explicit(&shared->used, memory_order_acquire);

    for (uint64_t i = 0; i < used; i++) {
        if (pid_of(&shared->cells[i]) != 0 && shared->cells[i].counters.slot == slot) {
            return &shared->cells[i];
        }
    }
    return NULL;
}

pid_t workers_pid(unsigned slot)
{
    const struct cell *cell = cell_of_slot(slot);

    return cell == NULL ? 0 : pid_of(cell);
}

bool worker_counters(unsigned slot, struct slot_counters *out)
{
    const struct cell *cell = cell_of_slot(slot);

    if (cell == NULL) {
        return false;
    }
    *out = (struct slot_counters){.pid = (uint32_t) pid_of(cell), .slot = slot};
    add_totals(out, &cell->counters);
    add_open(out, &cell->counters);
    uint64_t busy = out->reading + out->writing;
    out->waiting = out->active > busy ? out->active - busy : 0;
    return true;
}

void counters_sum(struct slot_counters *sum)
{
    if (shared == NULL) { /* programs that are not the service */
        memset(sum, 0, sizeof(*sum));
        return;
    }
    for (int tries = 0; tries < 100; tries++) {
        uint64_t version = atomic_load_explicit(&shared->fold_version, memory_order_acquire);

        memset(sum, 0, sizeof(*sum));
        add_totals(sum, &shared->gone);
        add_open(sum, &shared->gone);
        uint64_t used = atomic_load_explicit(&shared->used, memory_order_acquire);
        for (uint64_t i = 0; i < used; i++) {
            add_totals(sum, &shared->cells[i].counters);
            add_open(sum, &shared->cells[i].counters);
        }
        atomic_thread_fence(memory_order_acquire);
        if ((version & 1) == 0 &&
            version == atomic_load_explicit(&shared->fold_version, memory_order_relaxed)) {
            break;
        }
    }
    uint64_t busy = sum->reading + sum->writing;
    sum->waiting = sum->active > busy ? sum->active - busy : 0;
}
