/* client_body_min_rate and send_min_rate. */
#ifndef HTTP_ROUTING_MIN_RATE_H
#define HTTP_ROUTING_MIN_RATE_H

#include <stdint.h>

/* The least number of bytes per second that a client must transfer, in each window of the time that
 * the server waits for it. */
struct min_rate {
    uint64_t bytes; /* 0 = unlimited */
    uint64_t window_ms;
};

#endif
