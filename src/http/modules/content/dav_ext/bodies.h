/* The XML that clients send: what PROPFIND asks for, and what LOCK wants. Pure functions. */
#ifndef HTTP_MODULES_CONTENT_DAV_EXT_BODIES_H
#define HTTP_MODULES_CONTENT_DAV_EXT_BODIES_H

#include "http/message/xml.h"

#define BODY_MAX (64 * 1024)  /* bytes of a body */
#define WANTED_UNKNOWN_MAX 64 /* properties that we do not have, of one PROPFIND */
#define WANTED_NAMES_MAX                                                                           \
    8192 /* bytes of these names with namespaces, which every resource of the answer repeats */

/* The properties that files have, in the order in which they are given. X(PROPERTY, "name") */
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

/* What a PROPFIND wants to know (9.1). */
struct wanted {
    unsigned properties; /* PROPERTY_BIT of those that we have */
    bool names_only;     /* propname */
    struct vec unknown;  /* struct xml_name: that no resource has, for the answer */
    size_t unknown_size; /* bytes of those */
};

/* No body asks for all. False: it is malformed, or asks for too many. */
bool propfind_parse(struct arena *arena, struct str body, struct wanted *out);

/* What a LOCK wants (9.10). */
struct lock_info {
    bool is_shared;
    struct str owner; /* the text in it */
};

bool lockinfo_parse(struct arena *arena, struct str body, struct lock_info *out);

#endif
