/* Shared memory of all processes of the service: a cell for each, with counters and pulse.
 * Private. */
#ifndef SERVER_PROCESS_CELLS_H
#define SERVER_PROCESS_CELLS_H

#include <stdbool.h>

#include "event/loop.h"
#include "server/generation.h"

#define CELL_NONE UINT32_MAX

/* Maps the cells, and the serial number of connections; once, in the first process. False with
 * errno. */
bool cells_init(void);

/*
 * A cell for a process that is about to start, cleared; CELL_NONE when all are in use. It belongs
 * to the process, not to its slot: an old and a new worker of one slot have separate cells.
 */
uint32_t cell_take(void);

/* The process has ended: its totals are kept, its gauges of open connections are dropped. */
void cell_give_back(uint32_t cell);

struct slot_counters *cell_counters(uint32_t cell);
struct loop_pulse *cell_pulse(uint32_t cell);

#endif
