/* Redis' protocol, RESP2 and RESP3: where a reply ends, its values, and commands. Pure functions.
 */
#ifndef STORE_RESP_H
#define STORE_RESP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/str.h"

#define RESP_VALUES_MAX 1048576 /* values of one reply at most, nested ones included */
#define RESP_LINE_MAX 65536     /* bytes of a line at most */

enum resp_result {
    RESP_MORE,  /* the reply is not complete */
    RESP_WHOLE, /* it is complete */
    RESP_BAD,   /* that is no reply, or a larger one than allowed */
};

/*
 * How far a reply was scanned. All zero before its first byte. Each byte is looked at once, in
 * however many pieces the reply comes. Nesting needs no memory: only the number of values that are
 * still to come is kept.
 */
struct resp_scan {
    size_t at;        /* bytes of the reply that were scanned */
    size_t searched;  /* of the line that begins at `at`: bytes without a line end */
    uint64_t left;    /* values still to come */
    bool has_begun;   /* `left` is valid */
    bool ends_string; /* `at` is after a string, whose line end is to be checked */
};

/*
 * Continues with `input`, which begins with the reply and has all bytes that came so far.
 * RESP_WHOLE: the reply is the first scan->at bytes. size_max: bytes of a reply at most. Streamed
 * strings and aggregates, which Redis does not send, are RESP_BAD.
 */
enum resp_result resp_scan(struct resp_scan *scan, struct str input, size_t size_max);

enum resp_type {
    RESP_STRING,  /* simple, bulk and verbatim strings, doubles and big numbers, as text */
    RESP_ERROR,   /* text: "CODE message" */
    RESP_INTEGER, /* number */
    RESP_NULL,
    RESP_BOOLEAN, /* number: 0 or 1 */
    RESP_LIST, /* number: values that follow and belong to it; of a map, its keys and values in turn
                */
    RESP_PUSH, /* the same; not the reply to a command */
};

struct resp_value {
    enum resp_type type;
    struct str text; /* in the reply */
    int64_t number;
};

/*
 * Takes the head of the next value off *reply, which resp_scan found to be whole; attributes are
 * skipped. False: there is none. The values of a list come after it.
 */
bool resp_next(struct str *reply, struct resp_value *value);
/* Skips so many values with all that belongs to them. False: there are not so many. */
bool resp_skip(struct str *reply, uint64_t count);
/* The next value, if it is a list; gives the number of its values, else -1. */
int64_t resp_next_list(struct str *reply);
/* The next value, if it is a string or an integer in decimal digits. */
bool resp_next_string(struct str *reply, struct str *text);
bool resp_next_integer(struct str *reply, int64_t *number);

/* A command of these words, as bytes in the arena. */
struct str resp_command(struct arena *arena, const struct str *words, size_t count);

#endif
