/* What regex.c, regex_set.c and literal.c share. */
#ifndef CONF_REGEX_INTERNAL_H
#define CONF_REGEX_INTERNAL_H

#include "conf/regex.h"

bool regex_is_nocase(const struct regex *regex);

#define LITERALS_MAX 16 /* alternatives of one pattern that are looked for */
#define LITERAL_MIN 3   /* bytes; shorter ones say too little */

/*
 * Texts, in lower case, one of which occurs (in any case) in each subject that the pattern matches.
 */
struct literals {
    struct str items[LITERALS_MAX];
    unsigned count; /* 0 = nothing is known: any subject may match */
};

/* Reads the texts out of a pattern, cautiously: what it does not understand gives none. */
void literals_of_pattern(struct arena *arena, struct str pattern, struct literals *out);

#endif
