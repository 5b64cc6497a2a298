/* How memcached gives a value: the line before it, and what follows it. Pure functions. */
#ifndef HTTP_MESSAGE_MEMCACHED_VALUE_H
#define HTTP_MESSAGE_MEMCACHED_VALUE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

struct memcached_value {
    struct str key;
    uint64_t flags;
    uint64_t length; /* bytes of the value, at most INT64_MAX */
};

/* "VALUE key flags length", without its end. NULL, or which part is wrong: "flags", "length". */
const char *memcached_value_parse(struct str line, struct memcached_value *out);

/* What has to follow the value: END_OF_VALUE, of which *seen bytes were taken. Takes more of them
 * off a piece and says how many; false: that is something else. */
#define MEMCACHED_VALUE_END "\r\nEND\r\n"
bool memcached_value_ends(struct str piece, unsigned *seen, size_t *used);

#endif
