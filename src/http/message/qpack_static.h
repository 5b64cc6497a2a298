/* QPACK's static table (RFC 9204, appendix A). */
#ifndef HTTP_MESSAGE_QPACK_STATIC_H
#define HTTP_MESSAGE_QPACK_STATIC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "http/message/fields.h"

#define QPACK_STATIC_COUNT 99

struct qpack_static {
    struct str name, value;
};

/* The entry; NULL: there is none. */
const struct qpack_static *qpack_static_get(uint64_t index);
/* The id of the entry's name. */
enum field_id qpack_static_field(uint64_t index);
/* Finds the entry with this name, in lower case, and value: true. False: *index is an entry with
 * the same name, or QPACK_STATIC_COUNT if there is none. */
bool qpack_static_find(struct str name, struct str value, unsigned *index);

#endif
