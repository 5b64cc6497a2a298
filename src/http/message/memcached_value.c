/* A value in an answer of memcached: the line before it, and the end after it. Pure functions. */
#include "http/message/memcached_value.h"

#include "base/parse.h"

const char *memcached_value_parse(struct str line, struct memcached_value *out)
{
    struct str rest = str_skip(line, sizeof("VALUE ") - 1);

    out->key = str_cut(&rest, ' ');
    struct str flags = str_cut(&rest, ' ');
    struct str length =
        rest.data == NULL ? STR_NONE : str_cut(&rest, ' '); /* there is no cas number */
    if (!parse_uint(flags, &out->flags)) {
        return "flags";
    }
    if (!parse_uint(length, &out->length) || out->length > INT64_MAX || rest.data != NULL) {
        return "length";
    }
    return NULL;
}

bool memcached_value_ends(struct str piece, unsigned *seen, size_t *used)
{
    struct str wanted = str_skip(STR(MEMCACHED_VALUE_END), *seen);
    size_t n = piece.len < wanted.len ? piece.len : wanted.len;

    *used = n;
    *seen += (unsigned) n;
    return n == 0 || memcmp(piece.data, wanted.data, n) == 0;
}
