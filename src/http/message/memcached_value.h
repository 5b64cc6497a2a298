/* A value in an answer of memcached: the line before it, and the end after it. Pure functions. */
#ifndef HTTP_MESSAGE_MEMCACHED_VALUE_H
#define HTTP_MESSAGE_MEMCACHED_VALUE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

struct memcached_value {
    struct str key;
    uint64_t flags;
    uint64_t length; /* of the value in bytes, at most INT64_MAX */
};

/* Parses "VALUE key flags length", without the line end. NULL, or the malformed part: "flags",
 * "length". */
const char *memcached_value_parse(struct str line, struct memcached_value *out);

/* Matches MEMCACHED_VALUE_END after the value, of which *seen bytes were matched before; *used is
 * the number of bytes of the piece that belong to it. False: it does not match. */
#define MEMCACHED_VALUE_END "\r\nEND\r\n"
bool memcached_value_ends(struct str piece, unsigned *seen, size_t *used);

#endif
