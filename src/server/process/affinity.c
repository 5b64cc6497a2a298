/* Which CPU a worker runs on. */
#define _GNU_SOURCE
#include "server/process/affinity.h"

#include <errno.h>

#include "base/log.h"

bool affinity_parse(struct str mask, cpu_set_t *out, char *bad)
{
    CPU_ZERO(out);
    *bad = '\0';
    for (size_t i = 0; i < mask.len; i++) {
        size_t cpu = mask.len - 1 - i;

        if (mask.data[i] != '0' && mask.data[i] != '1') {
            *bad = mask.data[i];
            return false;
        }
        if (mask.data[i] == '1') {
            if (cpu >= CPU_SETSIZE) {
                return false;
            }
            CPU_SET(cpu, out);
        }
    }
    return true;
}

/* The n-th CPU of a set, modulo the size of the set. */
static bool nth_cpu(const cpu_set_t *set, unsigned n, cpu_set_t *out)
{
    int count = CPU_COUNT(set);

    CPU_ZERO(out);
    if (count == 0) {
        return false;
    }
    n %= (unsigned) count;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, set) && n-- == 0) {
            CPU_SET(cpu, out);
            return true;
        }
    }
    return false;
}

bool affinity_choose(const struct core_settings *core, unsigned n, const cpu_set_t *allowed,
                     cpu_set_t *out)
{
    const struct vec *masks = &core->affinity;
    cpu_set_t set = *allowed;

    switch (core->affinity_mode) {
    case AFFINITY_AUTO:
        if (masks->count != 0) {
            CPU_AND(&set, allowed, vec_at(masks, cpu_set_t, 0));
        }
        return nth_cpu(&set, n, out);
    case AFFINITY_MASKS:
        *out = *vec_at(masks, cpu_set_t, n < masks->count ? n : masks->count - 1);
        return CPU_COUNT(out) != 0;
    default:
        return false;
    }
}

void affinity_set(const cpu_set_t *cpus)
{
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, cpus)) {
            log_notice(log_main, 0, "sched_setaffinity(): using cpu #%d", cpu);
        }
    }
    if (sched_setaffinity(0, sizeof(*cpus), cpus) != 0) {
        log_alert(log_main, errno, "sched_setaffinity() failed");
    }
}
