/* Parses values of expires, and computes their times. Pure functions. */
#include "http/modules/filters/headers_filter/expires.h"

#include "base/parse.h"

/* Keeps the year within the four digits of an HTTP date. */
#define SECONDS_MAX (INT64_C(1000) * 365 * 86400)
#define DAY 86400

static const char invalid[] = "invalid value";

static bool parse_word(struct str text, struct expires *out)
{
    if (str_is(text, "off")) {
        out->kind = EXPIRES_OFF;
    } else if (str_is(text, "epoch")) {
        out->kind = EXPIRES_EPOCH;
    } else if (str_is(text, "max")) {
        out->kind = EXPIRES_MAX;
    } else {
        return false;
    }
    return true;
}

const char *expires_parse(struct str text, bool is_modified, struct expires *out)
{
    bool is_negative = false;
    uint64_t seconds;

    *out = (struct expires){EXPIRES_OFF, 0};
    if (!is_modified && parse_word(text, out)) {
        return NULL;
    }
    if (text.len == 0) {
        return invalid;
    }
    out->kind = is_modified ? EXPIRES_MODIFIED : EXPIRES_AFTER;
    if (*text.data == '@') {
        if (is_modified) {
            return "daily time cannot be used with \"modified\" parameter";
        }
        out->kind = EXPIRES_DAILY;
        text = str_skip(text, 1);
    } else if (*text.data == '+' || *text.data == '-') {
        is_negative = *text.data == '-';
        text = str_skip(text, 1);
    }
    if (!parse_sec(text, &seconds) || seconds > SECONDS_MAX) {
        return invalid;
    }
    if (out->kind == EXPIRES_DAILY && seconds > DAY) {
        return "daily time value must be less than 24 hours";
    }
    out->seconds = is_negative ? -(int64_t) seconds : (int64_t) seconds;
    return NULL;
}

/* The next time at which it is this late in the day. */
static time_t next_daily(time_t now, int64_t seconds)
{
    struct tm day;

    if (localtime_r(&now, &day) == NULL) {
        return now;
    }
    day.tm_hour = (int) (seconds / 3600);
    day.tm_min = (int) (seconds / 60 % 60);
    day.tm_sec = (int) (seconds % 60);
    day.tm_isdst = -1;
    struct tm next = day;
    next.tm_mday++;
    time_t when = mktime(&day);
    return when > now ? when : mktime(&next);
}

void expires_compute(const struct expires *expires, time_t now, time_t last_modified, time_t *when,
                     int64_t *max_age)
{
    if (expires->kind == EXPIRES_DAILY) {
        *when = next_daily(now, expires->seconds);
        *max_age = *when - now;
    } else if (expires->kind == EXPIRES_MODIFIED && last_modified != -1) {
        *when = last_modified + expires->seconds;
        *max_age = *when - now;
    } else {
        *when = now + expires->seconds;
        *max_age = expires->seconds;
    }
}
