/* Shared by the files of session_sticky. */
#ifndef HTTP_MODULES_BACKENDS_SESSION_STICKY_H
#define HTTP_MODULES_BACKENDS_SESSION_STICKY_H

#include <stdbool.h>
#include <stdint.h>

#include "http/request/request.h"
#include "upstream/peer.h"

enum session_mode { MODE_INSERT, MODE_REWRITE, MODE_PREFIX };

#define PREFIX_END '~'  /* separates our part of a cookie from the server's */
#define TIMES_START '|' /* before each of the times in a cookie */

/* How far, in seconds, a time in a cookie may be ahead of our clock; and the value for no limit. */
#define TIMES_AHEAD_MOST 86400
#define TIMES_NO_LIMIT INT32_MAX

/* `session_sticky` of one group. */
struct session_sticky {
    struct str cookie; /* name of the cookie */
    struct str domain; /* its Domain attribute; empty = none */
    struct str path;
    enum session_mode mode;
    bool has_maxage;
    uint64_t maxage_s; /* its Max-Age; not used if it has times */
    bool has_times; /* with maxidle or maxlife: the cookie contains when it was used and created */
    uint64_t maxidle_s; /* a cookie that was not used for this long is invalid */
    uint64_t maxlife_s; /* a cookie that was created this long ago is invalid */
    bool is_indirect;   /* the server does not get the cookie */
    bool falls_back;    /* another server may be used if the bound one fails */
    bool is_plain;      /* the cookie contains the server's address in plain text */
};

/* The cookie of a request. */
struct session_cookie {
    struct str server;        /* the server it is bound to; empty = none */
    uint64_t used_s, begun_s; /* seconds since the epoch; 0 = unknown */
};

static inline const struct session_sticky *session_settings(const struct upstream_group *group)
{
    return group->stickiness_settings;
}

/* ---- cookies (cookie.c) ---- */

/* Is this "NAME=VALUE" with this name? Spaces around it are ignored. */
bool session_is_cookie(struct str pair, struct str name, struct str *value);

/* Reads the cookie of the request; `server` stays empty if there is none, or if it has expired. */
void session_read_cookie(const struct request *request, const struct session_sticky *settings,
                         struct session_cookie *cookie);

/* The name of a peer in cookies. */
struct str session_peer_name(const struct session_sticky *settings, struct peer *peer);

/* The value of a Set-Cookie field that binds the client to the peer (RFC 6265, 4.1). */
struct str session_make_cookie(const struct session_sticky *settings, struct peer *peer,
                               uint64_t begun_s, struct arena *arena);

/* ---- groups (session_sticky.c) ---- */

extern const struct stickiness session_sticky;

/* The peer that the request is bound to, or NULL: stickiness.find. */
struct peer *session_find(struct upstream_pick *pick);

/* ---- locations (location.c) ---- */

/* session_sticky_hide_cookie and session_sticky_header. */
extern struct settings_key sticky_location_key;
extern const struct directive_table sticky_location_table;
extern const struct http_module sticky_location_hooks;

#endif
