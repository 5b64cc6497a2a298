/* Fields of requests and of responses, set, replaced and removed by whom the configuration tells
 * to. */
#ifndef HTTP_REQUEST_FIELD_CHANGE_H
#define HTTP_REQUEST_FIELD_CHANGE_H

#include "http/request/request.h"

/* Name and value live as long as the request, and nobody ends a field with them (field_value_safe).
 */
struct field_change {
    struct str name;
    enum field_id id;   /* of the name */
    struct str value;   /* empty = the field is removed */
    bool appends;       /* beside those that are there, which stay */
    bool only_existing; /* those that are there are replaced, none is added */
    bool is_prefix;     /* all that begin so are meant; they can be removed only */
};

/* Those that a response has once, whatever is said: nothing is put beside them. */
#define RESPONSE_FIELDS_ONCE                                                                       \
    (FIELDS_OF_CONNECTION | FIELD_BIT(FIELD_SERVER) | FIELD_BIT(FIELD_DATE) |                      \
     FIELD_BIT(FIELD_CONTENT_TYPE) | FIELD_BIT(FIELD_CONTENT_LENGTH) |                             \
     FIELD_BIT(FIELD_CONTENT_RANGE) | FIELD_BIT(FIELD_LOCATION) | FIELD_BIT(FIELD_LAST_MODIFIED) | \
     FIELD_BIT(FIELD_ETAG) | FIELD_BIT(FIELD_ACCEPT_RANGES) | FIELD_BIT(FIELD_EXPIRES) |           \
     FIELD_BIT(FIELD_REFRESH))

/*
 * A field of the response, wherever that has its place. How a body is framed is not for it to say:
 * Transfer-Encoding stays as it is, and a length can be removed, or set where no body follows.
 */
void response_change_field(struct request *request, const struct field_change *change);

/*
 * A field of the request. What a subrequest changes, its parents see: they share the fields, as
 * with nginx. The length of a body that is still to be read stays what the client said. False: the
 * value of Host is none, and nothing was changed.
 */
bool request_change_field(struct request *request, const struct field_change *change);

#endif
