/* The field If (RFC 4918, 10.4): lists of conditions about resources. A pure reader of a slice. */
#ifndef HTTP_MODULES_CONTENT_DAV_EXT_IF_HEADER_H
#define HTTP_MODULES_CONTENT_DAV_EXT_IF_HEADER_H

#include <stdbool.h>

#include "base/str.h"

enum if_event {
    IF_LIST,      /* a list of conditions about `resource` begins */
    IF_CONDITION, /* one condition of the list */
    IF_LIST_END,
    IF_END,  /* the end of the field: it is well formed */
    IF_ERROR /* the field is malformed */
};

struct if_reader {
    struct str rest;
    struct str resource; /* URL or path that the list is about; empty = the requested resource */
    struct str value; /* of a condition: a state token (a URI), or an entity tag with its quotes */
    bool is_etag;
    bool is_not;
    bool is_tagged; /* the lists have tags that name their resources */
    bool is_in_list;
    bool has_condition; /* the current list has a condition */
    bool has_list;      /* a list has begun since the last tag */
};

void if_begin(struct if_reader *reader, struct str value);
enum if_event if_next(struct if_reader *reader);

#endif
