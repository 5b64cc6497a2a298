/* XML bodies of requests: the properties that a PROPFIND requests, the lock that a LOCK requests.
 * Pure functions. */
#ifndef HTTP_MODULES_CONTENT_DAV_EXT_BODIES_H
#define HTTP_MODULES_CONTENT_DAV_EXT_BODIES_H

#include "http/message/xml.h"

#define BODY_MAX (64 * 1024)  /* bytes of a request body */
#define WANTED_UNKNOWN_MAX 64 /* unknown properties in one PROPFIND */
#define WANTED_NAMES_MAX                                                                           \
    8192 /* bytes of their names with namespaces; every resource of the response repeats them */

/* The live properties, in the order in which they are written. X(PROPERTY, "name") */
#define DAV_PROPERTIES(X)                                                                          \
    X(PROPERTY_DISPLAYNAME, "displayname")                                                         \
    X(PROPERTY_GETCONTENTLENGTH, "getcontentlength")                                               \
    X(PROPERTY_GETLASTMODIFIED, "getlastmodified")                                                 \
    X(PROPERTY_GETETAG, "getetag")                                                                 \
    X(PROPERTY_RESOURCETYPE, "resourcetype")                                                       \
    X(PROPERTY_LOCKDISCOVERY, "lockdiscovery")                                                     \
    X(PROPERTY_SUPPORTEDLOCK, "supportedlock")

enum dav_property {
#define PROPERTY_ENUM(property, name) property,
    DAV_PROPERTIES(PROPERTY_ENUM)
#undef PROPERTY_ENUM
        PROPERTY_COUNT
};
#define PROPERTY_BIT(property) (1u << (property))
#define PROPERTY_ALL (PROPERTY_BIT(PROPERTY_COUNT) - 1)

extern const struct str property_names[PROPERTY_COUNT];

/* What a PROPFIND requests (9.1). */
struct wanted {
    unsigned properties; /* PROPERTY_BIT of the live properties */
    bool names_only;     /* propname */
    struct vec unknown;  /* struct xml_name: requested names that are not live properties */
    size_t unknown_size; /* total bytes of these names */
};

/* Parses the body; an empty one requests all properties. False: it is malformed, or requests too
 * many. */
bool propfind_parse(struct arena *arena, struct str body, struct wanted *out);

/* What a LOCK requests (9.10). */
struct lock_info {
    bool is_shared;
    struct str owner; /* the text of <owner> */
};

bool lockinfo_parse(struct arena *arena, struct str body, struct lock_info *out);

#endif
