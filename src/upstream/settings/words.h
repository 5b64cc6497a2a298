/* Words of the form "name=value" in the rows of a group. */
#ifndef UPSTREAM_SETTINGS_WORDS_H
#define UPSTREAM_SETTINGS_WORDS_H

#include "base/parse.h"
#include "base/str.h"

/* Is it the parameter of that name (with its "=")? Gives the value, which may be empty. */
static inline bool word_is_parameter(struct str word, struct str name, struct str *value)
{
    if (!str_starts(word, name)) {
        return false;
    }
    *value = str_skip(word, name.len);
    return true;
}

/* A number within these bounds; false, and *out as it was, for everything else. */
static inline bool word_read_number(struct str value, unsigned least, unsigned most, unsigned *out)
{
    uint64_t n;

    if (!parse_uint(value, &n) || n < least || n > most) {
        return false;
    }
    *out = (unsigned) n;
    return true;
}

#endif
