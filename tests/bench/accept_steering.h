/* accept_steering: BPF programs that choose among the sockets of SO_REUSEPORT, for accept_ways. */

#ifndef BENCH_ACCEPT_STEERING_H
#define BENCH_ACCEPT_STEERING_H

#include <stdint.h>

/* What renewing the classic program cost. */
struct steering_costs {
    uint64_t renewals;
    uint64_t total_ns, longest_ns; /* of setsockopt, all addresses of a renewal together */
    uint64_t cpu_ns;               /* of the watcher thread */
};

/* Starts a thread that looks at the pulses five times a millisecond and attaches a classic BPF
 * program that leaves out the workers that are busy, whenever those are others than before. Ends
 * the program if it cannot. */
void steering_watch(int (*listeners)[ADDRESSES_MAX]);

/* Ends that thread; what it cost. */
struct steering_costs steering_unwatch(void);

/* Makes the map of pulses, shared with the kernel's programs, and sets `pulses`. Before the workers
 * are forked. Ends the program with the call's error where it may not. */
void steering_map(void);

/* Attaches to each address the eBPF program that chooses by the pulses. After listen(). */
void steering_attach(int (*listeners)[ADDRESSES_MAX]);

#endif
