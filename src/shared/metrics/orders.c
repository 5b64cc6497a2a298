/* The list of issuers whose orders are counted. */
#include "shared/metrics/orders.h"

struct vec *issuer_counts_of(struct conf *conf)
{
    return conf_state(conf, "issuer counts", sizeof(struct vec));
}
