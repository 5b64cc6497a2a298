/* Orders of certificates, for metrics. A module that orders certificates has the counts in its own
 * shared memory, and adds a pointer to them here. Implemented in zones.c. */
#ifndef SHARED_METRICS_ORDERS_H
#define SHARED_METRICS_ORDERS_H

#include <stdatomic.h>

#include "conf/conf.h"

enum order_count {
    ORDERS_STARTED,
    ORDERS_ISSUED,
    ORDERS_LIMITED, /* failed: rate limit of the CA */
    ORDERS_REFUSED, /* failed: another error of the CA */
    ORDERS_FAILED,  /* failed: other reasons, such as a challenge or a connection */
    ORDER_COUNTS
};
struct order_counts {
    _Atomic uint64_t of[ORDER_COUNTS];
    _Atomic uint64_t next_s; /* time of the next order in seconds since the epoch; 0: not known */
};

/* The counts of one issuer. */
struct issuer_counts {
    struct str name;
    const struct order_counts *counts;
};
/* struct issuer_counts of a reading; they are added before workers start. */
struct vec *issuer_counts_of(struct conf *conf);

#endif
