/* The protocol of Redis, RESP2 and RESP3: the end of a reply, its values, and commands. Pure
   functions. */
#ifndef STORE_RESP_H
#define STORE_RESP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/str.h"

#define RESP_VALUES_MAX 1048576 /* most values of one reply, including nested ones */
#define RESP_LINE_MAX 65536     /* most bytes of a line */

enum resp_result {
    RESP_MORE,  /* the reply is not complete */
    RESP_WHOLE, /* complete */
    RESP_BAD,   /* not a reply, or larger than allowed */
};

/*
 * How far a reply was scanned. All zero before its first byte. Each byte is scanned once, however
 * many pieces the reply comes in. Nesting needs no memory: only the number of missing values is
 * kept.
 */
struct resp_scan {
    size_t at;        /* bytes of the reply that were scanned */
    size_t searched;  /* bytes without a line end in the line that begins at `at` */
    uint64_t left;    /* values that are missing */
    bool has_begun;   /* `left` is valid */
    bool ends_string; /* `at` is after a string, whose line end must be checked */
};

/*
 * Continues with `input`, which has all bytes of the reply so far. RESP_WHOLE: the reply is the
 * first scan->at bytes. size_max: most bytes of a reply. Streamed strings and aggregates, which
 * Redis does not send, are RESP_BAD.
 */
enum resp_result resp_scan(struct resp_scan *scan, struct str input, size_t size_max);

enum resp_type {
    RESP_STRING,  /* simple, bulk and verbatim strings, doubles and big numbers, as text */
    RESP_ERROR,   /* text: "CODE message" */
    RESP_INTEGER, /* number */
    RESP_NULL,
    RESP_BOOLEAN, /* number: 0 or 1 */
    RESP_LIST,    /* number: values that follow and belong to it; for a map, its keys and values
                     alternate */
    RESP_PUSH,    /* the same; not the reply to a command */
};

struct resp_value {
    enum resp_type type;
    struct str text; /* a slice of the reply */
    int64_t number;
};

/*
 * Takes the head of the next value off *reply, which must be complete (resp_scan); skips
 * attributes. False: there is none. The values of a list come after it.
 */
bool resp_next(struct str *reply, struct resp_value *value);
/* Skips `count` values with all nested ones. False: there are fewer. */
bool resp_skip(struct str *reply, uint64_t count);
/* Takes the next value, which must be a list; gives the number of its values, else -1. */
int64_t resp_next_list(struct str *reply);
/* Takes the next value, which must be a string or an integer in decimal digits. */
bool resp_next_string(struct str *reply, struct str *text);
bool resp_next_integer(struct str *reply, int64_t *number);

/* A command with these words, as bytes in the arena. */
struct str resp_command(struct arena *arena, const struct str *words, size_t count);

#endif
