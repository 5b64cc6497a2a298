/* What a fiber costs: nanoseconds for start and end, and for a switch there and back.
   bench_fiber [rounds [start|switch]] */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fiber/fiber.h"

static volatile unsigned runs;

static void run_nothing(void *arg)
{
    runs++;
}

static void run_waits(void *arg)
{
    while (fiber_wait(arg, FIBER_NEVER) == WAIT_READY) {
        runs++;
    }
}

static double now_ns(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double) time.tv_sec * 1e9 + (double) time.tv_nsec;
}

static void bench_start(unsigned long rounds)
{
    double begin = now_ns();

    for (unsigned long i = 0; i < rounds; i++) {
        fiber_start(run_nothing, NULL, NULL);
    }
    printf("start and end: %.1f ns\n", (now_ns() - begin) / (double) rounds);
}

static void bench_switch(unsigned long rounds, unsigned fibers)
{
    struct wait_point *points = calloc(fibers, sizeof(*points));

    if (points == NULL) {
        abort();
    }
    for (unsigned i = 0; i < fibers; i++) {
        fiber_start(run_waits, &points[i], NULL);
    }
    double begin = now_ns();
    unsigned next = 0;

    for (unsigned long i = 0; i < rounds; i++) {
        wait_signal(&points[next]);
        next = next + 1 < fibers ? next + 1 : 0;
    }
    printf("switch there and back, %u fibers: %.1f ns\n", fibers,
           (now_ns() - begin) / (double) rounds);
    for (unsigned i = 0; i < fibers; i++) {
        fiber_cancel(points[i].waiter);
    }
    fiber_run_ready();
    free(points);
}

int main(int argc, char **argv)
{
    unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 10000000;
    const char *what = argc > 2 ? argv[2] : "";
    struct fiber_options options = {.max_fibers = 100000};

    if (fiber_pool_init(&options) != 0) {
        perror("fiber_pool_init");
        return 1;
    }
    if (strcmp(what, "switch") != 0) {
        bench_start(rounds);
    }
    if (strcmp(what, "start") != 0) {
        bench_switch(rounds, 1);
        bench_switch(rounds, 100);
        bench_switch(rounds, 10000);
    }
    fiber_pool_destroy();
    return 0;
}
