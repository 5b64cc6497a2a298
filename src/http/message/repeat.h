/* Reuses the parse of repeated header blocks: clients send the same fields with each request,
 * backends with each response. */
#ifndef HTTP_MESSAGE_REPEAT_H
#define HTTP_MESSAGE_REPEAT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "http/message/fields.h"
#include "http/message/head_limits.h"

struct field_reading;

#define REPEAT_BYTES 1024 /* longest block that is stored */
#define REPEAT_FIELDS 24  /* most fields of a stored block */

/* The last parsed header block: its bytes, from after the request line to the empty line, and the
 * offsets of its fields. The same lines under the same limits give the same fields, so that equal
 * lines at the beginning of another block need not be parsed. All zero is empty. */
struct repeated {
    uint32_t len; /* bytes of the block; 0 = none */
    uint32_t count;
    struct head_limits limits;
    struct fields fields; /* its `items` are not used */
    struct repeat_field {
        uint16_t name_start, name_len;
        uint16_t value_start, value_len;
        uint8_t id;
    } items[REPEAT_FIELDS];
    char bytes[REPEAT_BYTES];
};

/* Restores the fields of all lines at the beginning of the input that equal those in
 * reading->repeat, as slices of the input; *used is their length. True: the whole block is equal,
 * including its empty line. room: limit of its size. False: parse the remaining input (all of it if
 * *used is 0). */
bool repeat_recall(const struct field_reading *reading, uint32_t space, struct str input,
                   uint32_t *used);

/* Stores a block that was parsed without errors; nothing is stored if it is too long. */
void repeat_keep(struct repeated *repeat, struct str block, const struct head_limits *limits,
                 const struct fields *fields);

#endif
