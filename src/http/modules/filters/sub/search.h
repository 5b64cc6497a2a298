/* Search for several texts at once, without case, in bytes that come in pieces. */
#ifndef HTTP_MODULES_FILTERS_SUB_SEARCH_H
#define HTTP_MODULES_FILTERS_SUB_SEARCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/str.h"

#define SEARCH_PATTERNS_MAX 255

/* What is searched for: an automaton (Aho and Corasick, 1975), never changed once it is made. */
struct search_set;

/*
 * Of `count` patterns, at most SEARCH_PATTERNS_MAX; ASCII case does not matter; empty ones match
 * nothing. Takes memory in proportion to their bytes, from the arena, where it lives; the texts are
 * not kept.
 */
struct search_set *search_set_make(struct arena *arena, const struct str *patterns, unsigned count);

/* How many of the patterns are not empty. */
unsigned search_set_count(const struct search_set *set);

/*
 * A search that is under way. The first match in the bytes is taken, of several that begin at one
 * place the one whose pattern comes first; the search continues after it. Of the bytes that were
 * fed no more are kept than the longest pattern has.
 */
struct search {
    const struct search_set *set;
    uint32_t node; /* of the automaton: the longest beginning of a pattern that ends at `at` */
    unsigned left; /* patterns that are searched for */
    uint64_t dropped[4]; /* bit n: pattern n is not searched for any more */
    char *held;          /* bytes of former pieces that are not decided on; owned by the arena */
    size_t held_len;
    struct str piece;  /* stands after the held bytes: together they are the window */
    size_t at;         /* in the window: the next byte to look at */
    size_t from;       /* in the window: the first byte that was not returned */
    size_t best_start; /* in the window: where the match that was found begins */
    size_t best_end;
    unsigned best;      /* its pattern, or SEARCH_PATTERNS_MAX: none */
    bool is_best_final; /* nothing that is still to come goes before it */
    bool is_last;       /* nothing comes after the piece */
};

/* Begins; the room for held bytes is taken from the arena. */
void search_begin(struct search *search, struct arena *arena, const struct search_set *set);

/* The next piece, which must stay where it is until search_next has said SEARCH_MORE. */
void search_feed(struct search *search, struct str piece, bool is_last);

enum search_event {
    SEARCH_TEXT,  /* *text belongs to no match; valid until the next call */
    SEARCH_MATCH, /* here stood what matches the pattern of number *pattern */
    SEARCH_MORE,  /* the piece is used up; after the last one: the end */
};
enum search_event search_next(struct search *search, struct str *text, unsigned *pattern);

/* From here on this pattern is not searched for. */
void search_drop(struct search *search, unsigned pattern);

#endif
