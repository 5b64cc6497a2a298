/* Shared memory of all processes of the service: a cell for each, with counters and pulse. */
#include "server/cells.h"

#include <string.h>

#include "base/shm.h"
#include "net/conn.h"
#include "net/own.h"

enum { CELLS = 4096 };

/* Written by one process; its own cache lines. Only pages of cells in use have memory. */
struct cell {
    struct slot_counters counters;
    struct loop_pulse pulse;
    char pad[64 - sizeof(struct loop_pulse)];
};

/* What all processes share. */
struct shared {
    uint64_t connection_serial;
    char pad[56];
    uint64_t fold_version;     /* odd while a cell is being folded into `gone` */
    struct slot_counters gone; /* totals of processes that have ended */
    char pad2[56];
    uint64_t used; /* cells that were ever used: the sum goes no further */
    char pad3[56];
    struct cell cells[CELLS];
};

_Static_assert(sizeof(struct cell) % 64 == 0, "a cell fills whole cache lines");

static struct shared *shared;
static bool is_taken[CELLS]; /* the master's */

struct slot_counters *counters_mine;

bool cells_init(void)
{
    shared = shm_map(sizeof(*shared));
    if (shared == NULL || !own_init()) {
        return false;
    }
    conn_serial = &shared->connection_serial;
    counters_mine = &shared->gone;
    return true;
}

uint32_t cell_take(void)
{
    for (uint32_t i = 0; i < CELLS; i++) {
        if (!is_taken[i]) {
            is_taken[i] = true;
            if (shared->used < i + 1) {
                __atomic_store_n(&shared->used, i + 1, __ATOMIC_RELEASE);
            }
            return i;
        }
    }
    return CELL_NONE;
}

static void add_totals(struct slot_counters *sum, const struct slot_counters *from)
{
    sum->accepted += __atomic_load_n(&from->accepted, __ATOMIC_RELAXED);
    sum->handled += __atomic_load_n(&from->handled, __ATOMIC_RELAXED);
    sum->requests += __atomic_load_n(&from->requests, __ATOMIC_RELAXED);
    sum->request_time_ms += __atomic_load_n(&from->request_time_ms, __ATOMIC_RELAXED);
    sum->limited += __atomic_load_n(&from->limited, __ATOMIC_RELAXED);
}

static void add_open(struct slot_counters *sum, const struct slot_counters *from)
{
    sum->active += __atomic_load_n(&from->active, __ATOMIC_RELAXED);
    sum->reading += __atomic_load_n(&from->reading, __ATOMIC_RELAXED);
    sum->writing += __atomic_load_n(&from->writing, __ATOMIC_RELAXED);
}

void cell_give_back(uint32_t cell)
{
    if (cell == CELL_NONE) {
        return;
    }
    __atomic_add_fetch(&shared->fold_version, 1, __ATOMIC_ACQ_REL);
    add_totals(&shared->gone, &shared->cells[cell].counters);
    memset(&shared->cells[cell], 0, sizeof(struct cell));
    __atomic_add_fetch(&shared->fold_version, 1, __ATOMIC_ACQ_REL);
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

void counters_sum(struct slot_counters *sum)
{
    for (int tries = 0; tries < 100; tries++) {
        uint64_t version = __atomic_load_n(&shared->fold_version, __ATOMIC_ACQUIRE);

        memset(sum, 0, sizeof(*sum));
        add_totals(sum, &shared->gone);
        add_open(sum, &shared->gone);
        uint64_t used = __atomic_load_n(&shared->used, __ATOMIC_ACQUIRE);
        for (uint64_t i = 0; i < used; i++) {
            add_totals(sum, &shared->cells[i].counters);
            add_open(sum, &shared->cells[i].counters);
        }
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if ((version & 1) == 0 &&
            version == __atomic_load_n(&shared->fold_version, __ATOMIC_RELAXED)) {
            break;
        }
    }
    uint64_t busy = sum->reading + sum->writing;
    sum->waiting = sum->active > busy ? sum->active - busy : 0;
}
