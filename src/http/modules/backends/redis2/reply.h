/* Finds the end of Redis' answers (RESP2). Pure functions. */
#ifndef HTTP_MODULES_BACKENDS_REDIS2_REPLY_H
#define HTTP_MODULES_BACKENDS_REDIS2_REPLY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

enum reply_result {
    REPLY_MORE, /* the answers are incomplete */
    REPLY_END,  /* the last answer is complete */
    REPLY_BAD,  /* malformed */
};

/* The state of parsing. */
struct reply {
    uint64_t left;   /* remaining values, including those nested in arrays that have begun */
    uint64_t skip;   /* remaining bytes of a string and its line end */
    uint64_t number; /* in the header line that is being read */
    char type; /* type of the value whose header line is being read; 0 = its first byte is next */
    bool is_negative;
    bool has_digit;
    bool has_cr; /* the CR of the line was read */
};

void reply_begin(struct reply *reply, uint64_t count);
/* Takes the bytes of a piece that belong to the answers; *used is their number. */
enum reply_result reply_take(struct reply *reply, struct str piece, size_t *used);

#endif
