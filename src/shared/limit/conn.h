/* limit_conn: how many requests, or sessions, of a key may be under way at one time. */
#ifndef SHARED_LIMIT_CONN_H
#define SHARED_LIMIT_CONN_H

#include "shared/limit/counts.h"
#include "shared/limit/zone.h"

/* A zone, in this process. */
struct conn_zone {
    struct limit_zone limit;
    unsigned holder; /* that this worker is, of count_join */
};

/* One `limit_conn`. */
struct conn_limit {
    struct conn_zone *zone;
    uint32_t most; /* at one time */
};

/* The zones of one module; STATE names it. */
#define CONN_ZONES(STATE)                                                                          \
    {                                                                                              \
        .state = STATE, .directive = "limit_conn_zone", .label = "limit_conn_zone",                \
        .size = sizeof(struct conn_zone), .record_size = COUNT_RECORD_SIZE,                        \
        .head_size = sizeof(struct count_head)                                                     \
    }

/* Each reads one line. False after conf_error. */

/* limit_conn_zone KEY zone=NAME:SIZE; */
bool conn_zone_read(struct conf *conf, struct conf_node *node, const struct limit_kind *kind);
/* limit_zone NAME $VARIABLE SIZE; */
bool conn_zone_read_old(struct conf *conf, struct conf_node *node, const struct limit_kind *kind);
/* limit_conn ZONE NUMBER; to a struct conn_limit more. */
bool conn_limit_read(struct conf *conf, struct conf_node *node, const struct limit_kind *kind,
                     struct vec *limits);

/* This worker begins to count in all zones, and ends. */
void conn_zones_join(struct conf *conf, const struct limit_kind *kind);
void conn_zones_leave(struct conf *conf, const struct limit_kind *kind);

#endif
