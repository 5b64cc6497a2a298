/* Orders of certificates, as metrics show them. A module that orders has the counts in shared
 * memory of its own, and a pointer to them here. Implemented in zones.c. */
#ifndef SHARED_METRICS_ORDERS_H
#define SHARED_METRICS_ORDERS_H

#include <stdatomic.h>

#include "conf/conf.h"

enum order_count {
    ORDERS_STARTED,
    ORDERS_ISSUED,
    ORDERS_LIMITED, /* failed: the CA has a limit */
    ORDERS_REFUSED, /* failed: it answered with another error */
    ORDERS_FAILED,  /* failed: otherwise, as with a challenge or a connection */
    ORDER_COUNTS
};
struct order_counts {
    _Atomic uint64_t of[ORDER_COUNTS];
    _Atomic uint64_t next_s; /* when the next order is due; seconds since the epoch; 0: not known */
};

/* Of one issuer. */
struct issuer_counts {
    struct str name;
    const struct order_counts *counts;
};
/* struct issuer_counts of a reading: added before workers start. */
struct vec *issuer_counts_of(struct conf *conf);

#endif
