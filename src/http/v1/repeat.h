/* Header blocks that come again: clients send the same fields with request after request. */
#ifndef HTTP_V1_REPEAT_H
#define HTTP_V1_REPEAT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "http/fields.h"
#include "http/head_limits.h"

struct arena;

#define REPEAT_BYTES 1024 /* of the longest block that is remembered */
#define REPEAT_FIELDS 24  /* … and its most fields */

/*
 * A header block as it was parsed last: its bytes, from behind the request line to the empty line, and
 * where its fields lie in them. The same bytes under the same limits mean the same fields, so that a block
 * which equals it need not be parsed. All zero is empty.
 */
struct repeated {
    uint32_t len; /* bytes of the block; 0 = none */
    uint32_t count;
    struct head_limits limits;
    struct fields fields; /* items are not used */
    struct repeat_field {
        uint16_t name_start, name_len;
        uint16_t value_start, value_len;
        uint8_t id;
    } items[REPEAT_FIELDS];
    char bytes[REPEAT_BYTES];
};

/* Does the input begin with this block? Then its fields, as slices of the input; *used gets the block's
 * length. */
bool repeat_recall(const struct repeated *repeat, struct str input,
                   const struct head_limits *limits, struct arena *arena, struct fields *fields,
                   uint32_t *used);

/* Remembers a block that was parsed without a fault; one that is too long is forgotten. */
void repeat_keep(struct repeated *repeat, struct str block, const struct head_limits *limits,
                 const struct fields *fields);

#endif
