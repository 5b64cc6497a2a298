/* Header fields that WebDAV methods share (RFC 4918, 10). Pure functions. */
#ifndef HTTP_MESSAGE_DAV_FIELDS_H
#define HTTP_MESSAGE_DAV_FIELDS_H

#include "base/arena.h"
#include "base/str.h"
#include "http/message/fields.h"

enum dav_depth { DEPTH_INVALID, DEPTH_ABSENT, DEPTH_0, DEPTH_1, DEPTH_INFINITY };

/* Depth (10.2). */
enum dav_depth dav_depth_of(const struct fields *headers);

enum dav_overwrite { OVERWRITE_INVALID, OVERWRITE_NO, OVERWRITE_YES };

/* Overwrite (10.6): true if absent. */
enum dav_overwrite dav_overwrite_of(const struct fields *headers);

enum dav_destination { DESTINATION_GOOD, DESTINATION_INVALID, DESTINATION_FOREIGN };

/* The address of the request, which Destination must match. */
struct dav_origin {
    struct str scheme; /* in lower case */
    struct str host;   /* without port; empty: no URL matches */
    bool merge_slashes;
};

/* Destination (10.3): a path, or a URL with this scheme and host, and any port. *path is decoded
 * and normalized like that of a request. FOREIGN: a URL of another host. */
enum dav_destination dav_destination_parse(struct arena *arena, struct str value,
                                           const struct dav_origin *origin, struct str *path);

#endif
