/* Tengine's session_sticky: what its files share. */
#ifndef HTTP_MODULES_BACKENDS_SESSION_STICKY_H
#define HTTP_MODULES_BACKENDS_SESSION_STICKY_H

#include <stdbool.h>
#include <stdint.h>

#include "http/request/request.h"
#include "upstream/peer.h"

enum session_mode { MODE_INSERT, MODE_REWRITE, MODE_PREFIX };

#define PREFIX_END '~'  /* between our part of a cookie and the server's own */
#define TIMES_START '|' /* before each of the times in a cookie */

/* How far, in seconds, a time in a cookie may be ahead of our clock, and a limit of neither. */
#define TIMES_AHEAD_MOST 86400
#define TIMES_NO_LIMIT INT32_MAX

/* `session_sticky` of one group. */
struct session_sticky {
    struct str cookie; /* its name */
    struct str domain; /* empty = none is sent */
    struct str path;
    enum session_mode mode;
    bool has_maxage;
    uint64_t maxage_s;  /* of the cookie, for the client; not where it has times */
    bool has_times;     /* the cookie tells when it was used and given: maxidle, maxlife */
    uint64_t maxidle_s; /* a cookie that was not used for so long counts no more */
    uint64_t maxlife_s; /* a cookie that was given so long ago no longer counts */
    bool is_indirect;   /* the server does not see the cookie */
    bool falls_back;    /* another server may serve when the bound one cannot */
    bool is_plain;      /* the cookie names the server's address as it is */
};

/* What a request's cookie says. */
struct session_cookie {
    struct str server;        /* that it is bound to; empty = none */
    uint64_t used_s, begun_s; /* seconds since the epoch; 0 = not known */
};

static inline const struct session_sticky *session_settings(const struct upstream_group *group)
{
    return group->stickiness_settings;
}

/* ---- cookies (cookie.c) ---- */

/* "NAME=VALUE" with this name? Blanks around it do not count. */
bool session_is_cookie(struct str pair, struct str name, struct str *value);

/* What the request says; server stays empty when it is not bound, or its time is over. */
void session_read_cookie(const struct request *request, const struct session_sticky *settings,
                         struct session_cookie *cookie);

/* How cookies name a peer. */
struct str session_peer_name(const struct session_sticky *settings, struct peer *peer);

/* The value of a Set-Cookie field that binds to the peer (RFC 6265, 4.1). */
struct str session_make_cookie(const struct session_sticky *settings, struct peer *peer,
                               uint64_t begun_s, struct arena *arena);

/* ---- groups (session_sticky.c) ---- */

extern const struct stickiness session_sticky;

/* The peer that the request is bound to, or NULL: stickiness.find. */
struct peer *session_find(struct upstream_pick *pick);

/* ---- places (places.c) ---- */

/* session_sticky_hide_cookie and session_sticky_header. */
extern struct settings_key session_places_key;
extern const struct directive_table session_places_table;
extern const struct http_module session_places_hooks;

#endif
