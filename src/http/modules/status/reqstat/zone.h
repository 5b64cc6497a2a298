/* Zones of reqstat: the counters of each key. */
#ifndef HTTP_MODULES_STATUS_REQSTAT_ZONE_H
#define HTTP_MODULES_STATUS_REQSTAT_ZONE_H

#include "base/shm_table.h"
#include "conf/directive.h"

/* The counters, in the order of output. */
#define REQSTAT_COUNTERS(X)                                                                        \
    X(BYTES_IN, "bytes_in")                                                                        \
    X(BYTES_OUT, "bytes_out")                                                                      \
    X(CONN_TOTAL, "conn_total")                                                                    \
    X(REQ_TOTAL, "req_total")                                                                      \
    X(HTTP_2XX, "http_2xx")                                                                        \
    X(HTTP_3XX, "http_3xx")                                                                        \
    X(HTTP_4XX, "http_4xx")                                                                        \
    X(HTTP_5XX, "http_5xx")                                                                        \
    X(HTTP_OTHER, "http_other_status")                                                             \
    X(RT, "rt")                                                                                    \
    X(UPS_REQ, "ups_req")                                                                          \
    X(UPS_RT, "ups_rt")                                                                            \
    X(UPS_TRIES, "ups_tries")                                                                      \
    X(HTTP_200, "http_200")                                                                        \
    X(HTTP_206, "http_206")                                                                        \
    X(HTTP_302, "http_302")                                                                        \
    X(HTTP_304, "http_304")                                                                        \
    X(HTTP_403, "http_403")                                                                        \
    X(HTTP_404, "http_404")                                                                        \
    X(HTTP_416, "http_416")                                                                        \
    X(HTTP_499, "http_499")                                                                        \
    X(HTTP_500, "http_500")                                                                        \
    X(HTTP_502, "http_502")                                                                        \
    X(HTTP_503, "http_503")                                                                        \
    X(HTTP_504, "http_504")                                                                        \
    X(HTTP_508, "http_508")                                                                        \
    X(HTTP_OTHER_DETAIL, "http_other_detail_status")                                               \
    X(UPS_4XX, "http_ups_4xx")                                                                     \
    X(UPS_5XX, "http_ups_5xx")

#define REQSTAT_NAME(name, text) REQSTAT_##name,
enum reqstat_counter { REQSTAT_COUNTERS(REQSTAT_NAME) REQSTAT_FIXED };
#undef REQSTAT_NAME

#define REQSTAT_MOST 50 /* counters of a key, including additional ones */

extern const struct str reqstat_names[REQSTAT_FIXED];

/* A `req_status_zone` of one configuration. */
struct reqstat_zone {
    struct reqstat_zone *next; /* of this configuration, in order */
    struct str name;
    struct template *key;
    uint64_t size;
    uint64_t key_length;      /* longer keys are truncated */
    uint64_t recycle_times;   /* if the zone is full, records with fewer requests than this may be
                                 replaced */
    uint64_t recycle_seconds; /* the period for these requests */
    struct vec indicators;    /* struct variable *: additional counters */
    struct shm_table *table;  /* NULL until the configuration was read */
};

/* A key. `counters` are followed by the bytes of the key. */
struct reqstat_record {
    struct shm_record head;
    uint32_t key_length;
    uint32_t rate;        /* requests in this period */
    uint32_t former_rate; /* requests in the previous period */
    uint32_t period;      /* number of this period: seconds divided by its length */
    uint64_t counters[];
};

/* Initializes its memory, or uses existing counters. False after conf_error. */
bool reqstat_zone_finish(struct conf *conf, struct reqstat_zone *zone,
                         const struct conf_node *node);

/* Adds to the counters of a key, additional ones included. False: the zone is full of keys with
 * more requests. */
bool reqstat_zone_add(struct reqstat_zone *zone, struct str key, const uint64_t *counts);

unsigned reqstat_zone_counters(const struct reqstat_zone *zone);

/* Visits a copy of each record: the key, and its counters. The lock is held for one record at a
 * time, so that no worker waits for the output. */
void reqstat_zone_each(struct reqstat_zone *zone,
                       void (*visit)(struct str key, const uint64_t *counters, void *arg),
                       void *arg);

#endif
