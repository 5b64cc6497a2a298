/* expires: what its texts mean, and the two fields that come of it. */
#ifndef HTTP_EXPIRES_H
#define HTTP_EXPIRES_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "base/str.h"

enum expires_kind {
    EXPIRES_OFF,
    EXPIRES_EPOCH,    /* long ago: do not keep */
    EXPIRES_MAX,      /* far ahead */
    EXPIRES_AFTER,    /* seconds from now; negative: do not keep */
    EXPIRES_MODIFIED, /* seconds from the last modification */
    EXPIRES_DAILY,    /* next time that it is so many seconds after midnight, local time */
};

struct expires {
    enum expires_kind kind;
    int64_t seconds;
};

/*
 * "off", "epoch", "max", "[+-]time", "@time". NULL when it is good, else what is wrong with it: the
 * end of a message that begins `"expires" directive `.
 */
const char *expires_parse(struct str text, bool is_modified, struct expires *out);

/* The moment, and the seconds of max-age; negative: no-cache. Not for OFF, EPOCH and MAX. */
void expires_compute(const struct expires *expires, time_t now, time_t last_modified, time_t *when,
                     int64_t *max_age);

#endif
