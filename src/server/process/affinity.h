/* Which CPU a worker runs on. */
#ifndef SERVER_PROCESS_AFFINITY_H
#define SERVER_PROCESS_AFFINITY_H

#include <sched.h>
#include <stdbool.h>

#include "base/str.h"
#include "server/generation.h"

/* "0110": the last digit is CPU 0. False: *bad is the invalid character, or 0 when there are too
 * many digits. */
bool affinity_parse(struct str mask, cpu_set_t *out, char *bad);

/* The CPUs of worker n, out of `allowed`, which the process may use. False: no preference. */
bool affinity_choose(const struct core_settings *core, unsigned n, const cpu_set_t *allowed,
                     cpu_set_t *out);

/* Binds this process; failures are alerts. */
void affinity_set(const cpu_set_t *cpus);

#endif
