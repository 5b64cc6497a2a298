/* The URI normaliser: percent-decoding, dot segments, repeated slashes. A pure function on a slice.
 */
#ifndef HTTP_MESSAGE_URI_H
#define HTTP_MESSAGE_URI_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/str.h"

struct uri {
    struct str path; /* decoded and normalised; begins with '/' */
    struct str args; /* after the first '?' */
    bool has_args;   /* there was a '?' */
    bool was_quoted; /* there was a %XX */
};

/*
 * Normalises an origin-form target ("/a/../b?c"; RFC 9112, 3.2.1 and RFC 3986, 5.2.4). False for
 * what is answered with 400: no leading slash, bad or zero percent sequences, dot segments that
 * leave the root, a fragment, which no target has. Plain targets are not copied.
 */
bool uri_normalise(struct arena *arena, struct str target, bool merge_slashes, struct uri *out);

/*
 * Is what follows a location's prefix a way up? "/files" of "/files../x" leaves "../x", which after
 * another path with a slash at its end is outside of it.
 */
bool uri_climbs(struct str rest);

/* Is this path, written in a configuration or sent by a backend, free of ".." segments and zero
 * bytes? */
bool uri_is_safe(struct str path);

/* The part after the last dot of the last segment, which does not begin with it; empty when there
 * is none. */
struct str uri_extension(struct str path);

#endif
