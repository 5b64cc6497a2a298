/* Dead properties (RFC 4918, 4): what clients say of files, as the text that is kept with each.
 * Pure functions, but for the last three. */
#ifndef HTTP_MODULES_CONTENT_DAV_EXT_DEAD_H
#define HTTP_MODULES_CONTENT_DAV_EXT_DEAD_H

#include "base/buf.h"
#include "http/message/xml.h"

#define DEAD_MAX (32 * 1024)               /* bytes of all properties of a file */
#define DEAD_CHANGES_MAX 256               /* properties that one PROPPATCH sets or removes */
#define DEAD_ATTRIBUTE "user.portunus.dav" /* the extended attribute that has them */

/* One of a file. */
struct dead_property {
    struct xml_name name;
    struct str
        element; /* as it is written: an element by itself, with all that its prefixes stand for */
};

/* The properties (struct dead_property) of a text that was kept. What is no such text has none. */
void dead_parse(struct arena *arena, struct str text, struct vec *out);
/* Writes the properties as a string that dead_parse reads. */
void dead_write(struct buf *out, const struct vec *properties);

const struct dead_property *dead_find(const struct vec *properties, const struct xml_name *name);

/* One line of a PROPPATCH. */
struct dead_change {
    struct xml_name name;
    struct str element; /* empty: it is removed */
};

/* The changes (struct dead_change) that a PROPPATCH wants, in their order. False: the body is
 * malformed, or they are more than may be kept. */
bool proppatch_parse(struct arena *arena, struct str body, struct vec *out);
/* What a property list becomes by a change. */
void dead_apply(struct vec *properties, struct arena *arena, const struct dead_change *change);

/* "<local xmlns="space"/>" */
void dead_put_name(struct buf *out, const struct xml_name *name);

/* The text that is kept with an open file, empty where there is none. False with errno. */
bool dead_load(int fd, struct buf *out);
/* Keeps it; an empty one is removed. False with errno: EDQUOT, ENOSPC and E2BIG say that it is too
 * much, ENOTSUP that this file system keeps none. */
bool dead_store(int fd, struct str text);

#endif
