/* Case-insensitive search for several strings at once in bytes that come in pieces. */
#ifndef HTTP_MODULES_FILTERS_SUB_SEARCH_H
#define HTTP_MODULES_FILTERS_SUB_SEARCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/str.h"

#define SEARCH_PATTERNS_MAX 255

/* The strings: an automaton (Aho and Corasick, 1975), never changed after construction. */
struct search_set;

/* Makes the automaton for `count` patterns, at most SEARCH_PATTERNS_MAX. ASCII case does not
 * matter; empty patterns match nothing. It is in the arena and uses memory in proportion to the
 * patterns' bytes; the strings are not referenced. */
struct search_set *search_set_make(struct arena *arena, const struct str *patterns, unsigned count);

/* The number of patterns that are not empty. */
unsigned search_set_count(const struct search_set *set);

/* A search in progress. It finds the leftmost match, of several that begin at one byte the pattern
 * with the lowest number, and continues after it. It buffers at most as many bytes as the longest
 * pattern has. */
struct search {
    const struct search_set *set;
    uint32_t node;       /* of the automaton: the longest prefix of a pattern that ends at `at` */
    unsigned left;       /* patterns still searched for */
    uint64_t dropped[4]; /* bit n: pattern n is no longer searched for */
    char *held;          /* undecided bytes of earlier pieces; owned by the arena */
    size_t held_len;
    struct str piece;  /* follows the held bytes: together they are the window */
    size_t at;         /* in the window: the next byte to scan */
    size_t from;       /* in the window: the first byte that was not returned yet */
    size_t best_start; /* in the window: the beginning of the match */
    size_t best_end;
    unsigned best;      /* its pattern; SEARCH_PATTERNS_MAX: none */
    bool is_best_final; /* no later match can precede it */
    bool is_last;       /* the piece is the last one */
};

/* Begins a search; the buffer for held bytes is from the arena. */
void search_begin(struct search *search, struct arena *arena, const struct search_set *set);

/* Sets the next piece, which must not be changed or freed until search_next has returned
 * SEARCH_MORE. */
void search_feed(struct search *search, struct str piece, bool is_last);

enum search_event {
    SEARCH_TEXT,  /* *text belongs to no match; valid until the next call */
    SEARCH_MATCH, /* a match of pattern number *pattern */
    SEARCH_MORE,  /* the piece is used up; after the last piece: the end */
};
enum search_event search_next(struct search *search, struct str *text, unsigned *pattern);

/* Stops searching for this pattern. */
void search_drop(struct search *search, unsigned pattern);

#endif
