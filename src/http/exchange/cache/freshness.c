/* How long a response may be given from the cache: what its head says (RFC 9111, RFC 5861), and
 * what the configuration says where the head is silent. */
#include "base/clock.h"
#include "base/parse.h"
#include "http/exchange/cache/caching.h"
#include "http/message/cache_control.h"
#include "server/generation.h"

/* What the fields of a head say. */
struct reading {
    bool forbids; /* Cache-Control: no-store, private …, or a lifetime that is no number */
    bool has_max_age;
    int64_t max_age;                                /* seconds; s-maxage wins over max-age */
    bool is_shared;                                 /* s-maxage was there */
    int64_t stale_while_revalidate, stale_if_error; /* seconds */
    bool has_expires;
    time_t expires; /* -1 = not a date: expired */
    enum { ACCEL_NONE, ACCEL_FORBIDS, ACCEL_SECONDS, ACCEL_UNTIL } accel; /* X-Accel-Expires */
    int64_t accel_value;                                                  /* seconds, or a time */
};

static bool is_prohibition(struct str directive)
{
    return str_starts_nocase(directive, STR("no-cache")) ||
           str_starts_nocase(directive, STR("no-store")) ||
           str_starts_nocase(directive, STR("private"));
}

/* Where one is said twice the shorter holds (RFC 9111, 4.2.1). */
static void set_max_age(struct reading *reading, int64_t seconds, bool is_shared)
{
    if (reading->is_shared && !is_shared) {
        return;
    }
    if (!reading->has_max_age || reading->is_shared != is_shared || seconds < reading->max_age) {
        reading->max_age = seconds;
    }
    reading->has_max_age = true;
    reading->is_shared = is_shared;
}

static bool is_lifetime(struct str directive)
{
    return str_starts_nocase(directive, STR("max-age=")) ||
           str_starts_nocase(directive, STR("s-maxage="));
}

static void read_cache_control(struct str value, struct reading *reading)
{
    int64_t seconds;

    while (value.data != NULL) {
        struct str directive = str_trim(str_cut(&value, ','));

        if (is_prohibition(directive)) {
            reading->forbids = true;
        } else if (cache_control_seconds(directive, STR("s-maxage="), &seconds)) {
            set_max_age(reading, seconds, true);
        } else if (cache_control_seconds(directive, STR("max-age="), &seconds)) {
            set_max_age(reading, seconds, false);
        } else if (is_lifetime(directive)) {
            reading->forbids = true; /* RFC 9111, 4.2.1: what is not valid counts as stale */
        } else if (cache_control_seconds(directive, STR("stale-while-revalidate="), &seconds)) {
            reading->stale_while_revalidate = seconds;
        } else if (cache_control_seconds(directive, STR("stale-if-error="), &seconds)) {
            reading->stale_if_error = seconds;
        }
    }
}

/* "@1700000000" is a time, "300" are seconds, "0" forbids, what is neither says nothing. */
static void read_accel_expires(struct str value, struct reading *reading)
{
    bool is_time = value.len != 0 && value.data[0] == '@';

    if (!cache_seconds(is_time ? str_skip(value, 1) : value, &reading->accel_value)) {
        return;
    }
    reading->accel = is_time                     ? ACCEL_UNTIL
                     : reading->accel_value == 0 ? ACCEL_FORBIDS
                                                 : ACCEL_SECONDS;
}

static void read_fields(const struct exchange *x, struct reading *reading)
{
    unsigned ignored = x->settings->ignore_headers;

    fields_each(field, &x->response.fields) {
        if (field->is_removed) {
            continue;
        }
        switch (field->id) {
        case FIELD_CACHE_CONTROL:
            if ((ignored & IGNORE_CACHE_CONTROL) == 0) {
                read_cache_control(field->value, reading);
            }
            break;
        case FIELD_X_ACCEL_EXPIRES:
            if ((ignored & IGNORE_X_ACCEL_EXPIRES) == 0) {
                read_accel_expires(field->value, reading);
            }
            break;
        case FIELD_EXPIRES:
            if ((ignored & IGNORE_EXPIRES) == 0) {
                reading->has_expires = true;
                reading->expires = http_date_parse_loosely(field->value);
            }
            break;
        default:
            break;
        }
    }
}

/* Set-Cookie and `Vary: *` forbid whatever the lifetime is. */
static bool is_personal(const struct exchange *x)
{
    unsigned ignored = x->settings->ignore_headers;
    const struct field *vary = fields_get(&x->response.fields, FIELD_VARY);

    if ((ignored & IGNORE_SET_COOKIE) == 0 &&
        fields_get(&x->response.fields, FIELD_SET_COOKIE) != NULL) {
        return true;
    }
    return (ignored & IGNORE_VARY) == 0 && vary != NULL && str_is(str_trim(vary->value), "*");
}

/* Until when it is fresh, by the first that says something: X-Accel-Expires, Cache-Control,
 * Expires, the configuration. False: it is not to be stored. */
static bool find_lifetime(const struct exchange *x, unsigned status, const struct reading *reading,
                          time_t *until)
{
    time_t now = clock_now.seconds;

    if (reading->accel != ACCEL_NONE) {
        *until = reading->accel == ACCEL_UNTIL ? (time_t) reading->accel_value
                                               : now + reading->accel_value;
        return reading->accel != ACCEL_FORBIDS;
    }
    if (reading->forbids) {
        return false;
    }
    bool may_be_stale = reading->stale_while_revalidate != 0 || reading->stale_if_error != 0;
    if (reading->has_max_age) {
        *until = now + reading->max_age;
        return reading->max_age != 0 || may_be_stale;
    }
    if (reading->has_expires) {
        *until = reading->expires;
        return reading->expires > now;
    }
    uint64_t seconds = cache_valid_seconds(&x->settings->cache_valid, status);
    *until = now + (time_t) seconds;
    return seconds != 0;
}

void freshness_of(const struct exchange *x, unsigned status, struct freshness *out)
{
    struct reading reading = {0};

    *out = (struct freshness){.is_storable = false};
    read_fields(x, &reading);
    out->is_storable = !is_personal(x) && find_lifetime(x, status, &reading, &out->valid_until);
    if (reading.stale_while_revalidate != 0) {
        out->stale_while_updating_until = out->valid_until + reading.stale_while_revalidate;
    }
    if (reading.stale_if_error != 0) {
        out->stale_if_error_until = out->valid_until + reading.stale_if_error;
    }
}

/* The members of a list, so that spaces and empty ones make no difference (RFC 9110, 5.6.1). */
static void append_list(struct buf *text, struct str list, bool *is_first)
{
    while (list.data != NULL) {
        struct str member = str_trim(str_cut(&list, ','));

        if (member.len != 0) {
            buf_append(text, *is_first ? STR_NONE : STR(","));
            buf_append(text, member);
            *is_first = false;
        }
    }
}

/* Each name is looked for among the request's fields. */
#define VARY_NAMES_MAX 64

bool vary_variant(const struct exchange *x, struct str vary, uint8_t out[CACHE_KEY_SIZE])
{
    struct request *request = x->request;
    struct buf text = {0};
    unsigned names = 0;

    memset(out, 0xff, CACHE_KEY_SIZE);

    while (vary.data != NULL) {
        struct str name = str_trim(str_cut(&vary, ','));
        bool is_first = true;

        if (name.len == 0) {
            continue;
        }
        if (++names > VARY_NAMES_MAX) {
            counters_mine->limited++;
            log_warn(&request->log, 0,
                     "upstream sent \"Vary\" with more than %d names, the response is not cached",
                     VARY_NAMES_MAX);
        }
        if (str_is(name, "*") || names > VARY_NAMES_MAX) {
            buf_free(&text);
            return false;
        }
        for (size_t i = 0; i < name.len; i++) {
            buf_append_char(&text, (char) ascii_lower((unsigned char) name.data[i]));
        }
        buf_append_char(&text, ':');
        fields_each(field, &request->headers) {
            if (!field->is_removed && str_equal_nocase(field->name, name)) {
                append_list(&text, field->value, &is_first);
            }
        }
        buf_append_char(&text, '\n');
    }
    cache_variant(buf_str(&text), out);
    buf_free(&text);
    return true;
}
