/* Header blocks that come again: clients send the same fields with request after request, backends
 * with answer after answer. */
#ifndef HTTP_MESSAGE_REPEAT_H
#define HTTP_MESSAGE_REPEAT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "http/message/fields.h"
#include "http/message/head_limits.h"

struct field_reading;

#define REPEAT_BYTES 1024 /* of the longest block that is remembered */
#define REPEAT_FIELDS 24  /* most fields of a block that is remembered */

/*
 * A header block as it was parsed last: its bytes, from after the request line to the empty line,
 * and where its fields lie in them. The same lines under the same limits mean the same fields, so
 * that those which equal it from the first on need not be parsed. All zero is empty.
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

/*
 * The lines that the input has in common with reading->repeat, from the first on, as fields that
 * are slices of the input; *used gets their length. True: it is the whole block, to its empty line.
 * room: bytes that it may have. False: what follows is to be parsed (from the start of the input,
 * when *used is 0).
 */
bool repeat_recall(const struct field_reading *reading, uint32_t room, struct str input,
                   uint32_t *used);

/* Remembers a block that was parsed without a fault; one that is too long is forgotten. */
void repeat_keep(struct repeated *repeat, struct str block, const struct head_limits *limits,
                 const struct fields *fields);

#endif
