/* The field If (RFC 4918, 10.4): lists of conditions about resources. A pure reader of a slice. */
#ifndef HTTP_MODULES_CONTENT_DAV_EXT_IF_HEADER_H
#define HTTP_MODULES_CONTENT_DAV_EXT_IF_HEADER_H

#include <stdbool.h>

#include "base/str.h"

enum if_event {
    IF_LIST,      /* a list of conditions begins, about `resource` */
    IF_CONDITION, /* one of them */
    IF_LIST_END,
    IF_END,  /* of the field: it is well formed */
    IF_ERROR /* it is not */
};

struct if_reader {
    struct str rest;
    struct str resource; /* URL or path of the lists; empty = what was requested */
    struct str value; /* of a condition: a state token (a URI), or an entity tag with its quotes */
    bool is_etag;
    bool is_not;
    bool is_tagged; /* lists name their resources */
    bool is_in_list;
    bool has_condition; /* of the list that is read */
    bool has_list;      /* one has begun, since the last tag */
};

void if_begin(struct if_reader *reader, struct str value);
enum if_event if_next(struct if_reader *reader);

#endif
