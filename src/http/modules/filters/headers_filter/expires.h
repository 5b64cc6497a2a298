/* expires: parses its values, and computes the two fields. */
#ifndef HTTP_EXPIRES_H
#define HTTP_EXPIRES_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "base/str.h"

enum expires_kind {
    EXPIRES_OFF,
    EXPIRES_EPOCH,    /* a date in the past: do not cache */
    EXPIRES_MAX,      /* a date far in the future */
    EXPIRES_AFTER,    /* seconds from now; negative: do not cache */
    EXPIRES_MODIFIED, /* seconds from the last modification */
    EXPIRES_DAILY,    /* the next time that is this many seconds after midnight, local time */
};

struct expires {
    enum expires_kind kind;
    int64_t seconds;
};

/* Parses "off", "epoch", "max", "[+-]time", "@time". NULL, or the end of an error message that
 * begins `"expires" directive `. */
const char *expires_parse(struct str text, bool is_modified, struct expires *out);

/* Computes the date, and the seconds of max-age; negative: no-cache. Not for OFF, EPOCH and MAX. */
void expires_compute(const struct expires *expires, time_t now, time_t last_modified, time_t *when,
                     int64_t *max_age);

#endif
