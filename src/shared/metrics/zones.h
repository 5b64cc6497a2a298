/* Whether requests and sessions are counted in a reading, where, and the `status_zone`
   directives. */
#ifndef SHARED_METRICS_ZONES_H
#define SHARED_METRICS_ZONES_H

#include "conf/conf.h"
#include "shared/metrics/counters.h"

struct metrics_form;

struct status_zones {
    bool is_wanted;    /* some directive shows the numbers, so they are counted */
    struct zone *zone; /* where they are counted; NULL: not counted */
    struct vec zones;  /* struct status_zone; each name and kind once */
    /* Writes all numbers, for other modules than the one that counts; NULL: nothing is counted.
     * Memory comes from the arena. */
    void (*write)(struct buf *out, struct arena *arena, struct conf *conf,
                  const struct metrics_form *form);
};

/* A `status_zone`. */
struct status_zone {
    enum series_kind kind;
    struct str name;
};

struct status_zones *status_zones_of(struct conf *conf);

/* Adds a `status_zone`, in the arena of the reading. */
void status_zone_add(struct conf *conf, enum series_kind kind, struct str name);

/* From now on this worker counts, in cells of its own; may be called again. False: nothing is
 * counted. */
bool status_zones_start(struct conf *conf);

#endif
