/* Cookies of session_sticky, in requests and for responses. */
#include "base/buf.h"
#include "base/clock.h"
#include "base/parse.h"
#include "http/modules/backends/session_sticky/session_sticky.h"
#include "upstream/picking/choose.h"

/* ---- the cookie in a request ---- */

bool session_is_cookie(struct str pair, struct str name, struct str *value)
{
    pair = str_trim(pair);
    if (!str_starts(pair, name) || pair.len <= name.len || pair.data[name.len] != '=') {
        return false;
    }
    *value = str_skip(pair, name.len + 1);
    return true;
}

/* Finds the first cookie of this name. Fields that hide_cookies removed from the request are
 * searched as well, because the client sent them. */
static bool find_cookie(const struct request *request, struct str name, struct str *value)
{
    bool is_removed_only = false;

    fields_each(field, &request->headers) {
        is_removed_only |= field->id == FIELD_COOKIE && field->is_removed;
    }
    fields_each(field, &request->headers) {
        struct str rest = field->value;

        if (field->id != FIELD_COOKIE || field->is_removed != is_removed_only) {
            continue;
        }
        while (rest.data != NULL) {
            if (session_is_cookie(str_cut(&rest, ';'), name, value)) {
                return true;
            }
        }
    }
    return false;
}

/* Seconds since then; 0 if it is slightly in the future, as clocks differ. UINT64_MAX: too far in
 * the future. */
static uint64_t age(uint64_t then_s)
{
    uint64_t now_s = (uint64_t) clock_now.seconds;

    if (then_s > now_s) {
        return then_s - now_s <= TIMES_AHEAD_MOST ? 0 : UINT64_MAX;
    }
    return now_s - then_s;
}

/* Parses the times of "SERVER|USED|BEGUN". False: malformed, or one of the limits has passed. */
static bool read_times(const struct session_sticky *settings, struct str times,
                       struct session_cookie *cookie)
{
    if (!settings->has_times) {
        return true;
    }
    return times.data != NULL && parse_uint(str_cut(&times, TIMES_START), &cookie->used_s) &&
           times.data != NULL && parse_uint(times, &cookie->begun_s) &&
           age(cookie->used_s) <= settings->maxidle_s &&
           age(cookie->begun_s) <= settings->maxlife_s;
}

void session_read_cookie(const struct request *request, const struct session_sticky *settings,
                         struct session_cookie *cookie)
{
    struct str value;

    *cookie = (struct session_cookie){0};
    if (!find_cookie(request, settings->cookie, &value)) {
        return;
    }
    if (settings->mode == MODE_PREFIX) {
        const char *end = str_find_char(value, PREFIX_END);

        cookie->server = end == NULL ? STR_NONE : str_from(value.data, end);
    } else if (settings->mode == MODE_REWRITE) {
        cookie->server = value;
    } else {
        struct str server = str_cut(&value, TIMES_START);

        cookie->server = read_times(settings, value, cookie) ? server : STR_NONE;
    }
}

/* ---- cookies for a response ---- */

struct str session_peer_name(const struct session_sticky *settings, struct peer *peer)
{
    if (peer->server->id.len != 0) {
        return peer->server->id;
    }
    return settings->is_plain ? peer->name : peer_digest(peer);
}

struct str session_make_cookie(const struct session_sticky *settings, struct peer *peer,
                               uint64_t begun_s, struct arena *arena)
{
    struct buf text = {0};
    struct str out, name = session_peer_name(settings, peer);

    buf_printf(&text, "%.*s=%.*s", STR_ARG(settings->cookie), STR_ARG(name));
    if (settings->has_times) {
        buf_printf(&text, "%c%llu%c%llu", TIMES_START, (unsigned long long) clock_now.seconds,
                   TIMES_START, (unsigned long long) begun_s);
    }
    if (settings->domain.len != 0) {
        buf_printf(&text, "; Domain=%.*s", STR_ARG(settings->domain));
    }
    if (settings->path.len != 0) {
        buf_printf(&text, "; Path=%.*s", STR_ARG(settings->path));
    }
    if (settings->has_maxage && !settings->has_times) {
        char date[HTTP_DATE_LENGTH];

        http_date_format(date, clock_now.seconds + (time_t) settings->maxage_s);
        buf_printf(&text, "; Max-Age=%llu; Expires=%.*s", (unsigned long long) settings->maxage_s,
                   HTTP_DATE_LENGTH, date);
    }
    out = arena_dup(arena, buf_str(&text));
    buf_free(&text);
    return out;
}
