/* The end of Redis' answers (RESP2). Pure functions. */
#ifndef HTTP_MODULES_BACKENDS_REDIS2_REPLY_H
#define HTTP_MODULES_BACKENDS_REDIS2_REPLY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

enum reply_result {
    REPLY_MORE, /* all bytes belong to answers that are not whole */
    REPLY_END,  /* the last one is whole */
    REPLY_BAD,  /* that is no answer */
};

/* Where the reading of answers stands. */
struct reply {
    uint64_t left;   /* values still to come, inner ones of those that were begun included */
    uint64_t skip;   /* bytes of a string, and its line end, still to come */
    uint64_t number; /* of the head that is being read */
    char type;       /* of the value whose head is being read; 0 = its first byte comes next */
    bool is_negative;
    bool has_digit;
    bool has_cr; /* the line's CR came */
};

void reply_begin(struct reply *reply, uint64_t count);
/* Takes the bytes of a piece that belong to the answers; *used says how many. */
enum reply_result reply_take(struct reply *reply, struct str piece, size_t *used);

#endif
