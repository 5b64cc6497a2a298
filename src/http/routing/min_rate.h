/* client_body_min_rate and send_min_rate. */
#ifndef HTTP_ROUTING_MIN_RATE_H
#define HTTP_ROUTING_MIN_RATE_H

#include <stdint.h>

/* Bytes a second that a client has to move at least, over each window of the time that it is waited
 * for. */
struct min_rate {
    uint64_t bytes; /* 0 = no rule */
    uint64_t window_ms;
};

#endif
