/* One asks, others wait. */
#include "http/request/single_flight.h"

#include "base/clock.h"
#include "fiber/fiber.h"

/* On the frame of a request that waits. */
struct flight_waiter {
    struct list node;
    struct wait_point point;
};

void single_flight_init(struct single_flight *flight)
{
    *flight = (struct single_flight){.is_busy = false};
    list_init(&flight->waiters);
}

void single_flight_begin(struct single_flight *flight)
{
    flight->is_busy = true;
    flight->users++;
}

void single_flight_end(struct single_flight *flight)
{
    flight->is_busy = false;
    flight->users--;
    list_each(item, &flight->waiters) {
        wait_signal_later(&container_of(item, struct flight_waiter, node)->point);
    }
}

bool single_flight_wait(struct single_flight *flight)
{
    struct flight_waiter waiter = {.node = {NULL, NULL}};

    flight->users++;
    list_push_back(&flight->waiters, &waiter.node);
    enum wait_result result = fiber_wait(&waiter.point, FIBER_NEVER);
    list_remove(&waiter.node);
    flight->users--;
    return result == WAIT_READY;
}

bool single_flight_has_failed(const struct single_flight *flight, uint64_t within_ms)
{
    return flight->failed_ms != 0 && clock_now.now_ms < flight->failed_ms + within_ms;
}
