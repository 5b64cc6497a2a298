/* How much of what has arrived belongs to one receive: pure functions over slices. */
#ifndef LUA_SOCKETS_TAKE_H
#define LUA_SOCKETS_TAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

enum take_kind {
    TAKE_SIZE,  /* `rest` bytes */
    TAKE_LINE,  /* up to "\n", which goes, as does each "\r" */
    TAKE_ALL,   /* whatever comes, to the end */
    TAKE_ANY,   /* what there is, `rest` bytes at most */
    TAKE_UNTIL, /* up to a delimiter, or `rest` bytes before it */
};

#define TAKE_NO_LIMIT UINT64_MAX

/* A delimiter that is looked for. Lives from one receive to the next: what was seen of it is
 * remembered. */
struct delimiter {
    struct str text;   /* never empty */
    uint32_t *shorter; /* by length of a beginning of it: how long the longest one is that this ends
                          with, less than it */
    uint32_t seen;     /* bytes of it that have arrived last */
    bool is_included;  /* it is given with the rest … */
    bool is_apart;     /* the pattern was met by a call of its own, where a limited receive had got
                          something before it */
    bool was_met;      /* the pattern was met in a receive of limited size: the next one says so */
};

/* Fills `shorter`, which has text.len + 1 places. */
void delimiter_init(struct delimiter *delimiter, struct str text, uint32_t *shorter);

struct take {
    enum take_kind kind;
    uint64_t rest;               /* bytes that are still wanted; TAKE_NO_LIMIT */
    struct delimiter *delimiter; /* of TAKE_UNTIL */
    bool has_given;              /* something was received */
};

/* A step of it. */
struct taken {
    struct str bytes; /* that are received: part of the input, or of the delimiter; perhaps none */
    size_t used;      /* bytes of the input that were looked at, and are gone */
    bool is_done;     /* nothing more is wanted */
};

/* Takes a piece of the input, which is not empty. Not done and nothing used of a rest: call again.
 */
struct taken take_step(struct take *take, struct str input);

#endif
