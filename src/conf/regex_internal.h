/* Shared by regex.c, regex_set.c and literal.c. */
#ifndef CONF_REGEX_INTERNAL_H
#define CONF_REGEX_INTERNAL_H

#include "conf/regex.h"

bool regex_is_nocase(const struct regex *regex);

#define LITERALS_MAX 16 /* strings of one pattern */
#define LITERAL_MIN 3   /* bytes; shorter strings select too little */

/*
 * Lower-case strings, one of which occurs (in any case) in each subject that the pattern matches.
 */
struct literals {
    struct str items[LITERALS_MAX];
    unsigned count; /* 0 = nothing is known: any subject may match */
};

/* Extracts the strings from a pattern. If it has syntax that is not understood, there are none. */
void literals_of_pattern(struct arena *arena, struct str pattern, struct literals *out);

#endif
