/* Normalizes URIs: percent-decoding, dot segments, repeated slashes. Pure functions on slices. */
#ifndef HTTP_MESSAGE_URI_H
#define HTTP_MESSAGE_URI_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/str.h"

struct uri {
    struct str path; /* decoded and normalized; begins with '/' */
    struct str args; /* after the first '?' */
    bool has_args;   /* there is a '?' */
    bool was_quoted; /* there is a %XX */
};

/* Normalizes an origin-form target ("/a/../b?c"; RFC 9112, 3.2.1 and RFC 3986, 5.2.4). False if the
 * response must be 400: no leading slash, malformed or zero percent escapes, dot segments that
 * leave the root, a fragment, which is not allowed. A target that is already normalized is not
 * copied. */
bool uri_normalise(struct arena *arena, struct str target, bool merge_slashes, struct uri *out);

/* Does the text after a location's prefix lead upwards? "/files" of "/files../x" leaves "../x",
 * which, appended to a path with a trailing slash, is outside of it. */
bool uri_climbs(struct str rest);

/* Is this path, from a configuration or a backend, free of ".." segments and NUL bytes? */
bool uri_is_safe(struct str path);

/* The part after the last dot of the last segment, if the segment does not begin with that dot;
 * else empty. */
struct str uri_extension(struct str path);

#endif
