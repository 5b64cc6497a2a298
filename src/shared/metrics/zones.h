/* Whether requests and sessions are counted in a reading, where, and by which `status_zone`. */
#ifndef SHARED_METRICS_ZONES_H
#define SHARED_METRICS_ZONES_H

#include "conf/conf.h"
#include "shared/metrics/counters.h"

struct metrics_form;

struct status_zones {
    bool is_wanted;    /* something shows the numbers: so they are counted */
    struct zone *zone; /* where they are counted; NULL: they are not */
    struct vec zones;  /* struct status_zone, each name and kind once */
    /* Writes all numbers, for modules other than the one that counts; NULL: nothing is counted.
     * Memory from the arena. */
    void (*write)(struct buf *out, struct arena *arena, struct conf *conf,
                  const struct metrics_form *form);
};

/* A `status_zone`. */
struct status_zone {
    enum series_kind kind;
    struct str name;
};

struct status_zones *status_zones_of(struct conf *conf);

/* Notes a `status_zone`, in the arena of the reading. */
void status_zone_add(struct conf *conf, enum series_kind kind, struct str name);

/* Counts from here on in this worker, with cells of its own; again is fine. False: nothing is
 * counted. */
bool status_zones_start(struct conf *conf);

#endif
