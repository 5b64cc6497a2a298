/* Dead properties (RFC 4918, 4): properties that clients set, stored with the file as XML text.
 * Pure functions except for the last three. */
#ifndef HTTP_MODULES_CONTENT_DAV_EXT_DEAD_H
#define HTTP_MODULES_CONTENT_DAV_EXT_DEAD_H

#include "base/buf.h"
#include "http/message/xml.h"

#define DEAD_MAX (32 * 1024)               /* bytes of all properties of a file */
#define DEAD_CHANGES_MAX 256               /* properties that one PROPPATCH sets or removes */
#define DEAD_ATTRIBUTE "user.portunus.dav" /* the extended attribute that stores them */

/* A dead property of a file. */
struct dead_property {
    struct xml_name name;
    struct str element; /* the element as XML text that declares all its namespaces itself */
};

/* Parses stored text to properties (struct dead_property). Malformed text has none. */
void dead_parse(struct arena *arena, struct str text, struct vec *out);
/* Writes the properties as a string that dead_parse reads. */
void dead_write(struct buf *out, const struct vec *properties);

const struct dead_property *dead_find(const struct vec *properties, const struct xml_name *name);

/* One change of a PROPPATCH. */
struct dead_change {
    struct xml_name name;
    struct str element; /* empty: the property is removed */
};

/* Parses the changes (struct dead_change) of a PROPPATCH, in order. False: the body is malformed,
 * or exceeds the limits. */
bool proppatch_parse(struct arena *arena, struct str body, struct vec *out);
/* Applies one change to a list of properties. */
void dead_apply(struct vec *properties, struct arena *arena, const struct dead_change *change);

/* "<local xmlns="space"/>" */
void dead_put_name(struct buf *out, const struct xml_name *name);

/* Reads the stored text of an open file; empty if there is none. False with errno. */
bool dead_load(int fd, struct buf *out);
/* Stores the text; an empty one removes the attribute. False with errno: EDQUOT, ENOSPC and E2BIG
 * mean that it is too large, ENOTSUP that the file system has no extended attributes. */
bool dead_store(int fd, struct str text);

#endif
