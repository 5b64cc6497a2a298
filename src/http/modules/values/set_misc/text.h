/* Quotes and base32. Pure functions. */
#ifndef HTTP_MODULES_VALUES_SET_MISC_TEXT_H
#define HTTP_MODULES_VALUES_SET_MISC_TEXT_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/str.h"

/* 'text', with what ends or changes a literal of MySQL after a backslash; with `prefix` in front of
 * it. */
struct str quote_sql(struct arena *arena, struct str text, struct str prefix);
/* "text" as JSON has it (RFC 8259, 7); null when it is empty. */
struct str quote_json(struct arena *arena, struct str text);

/* Base32 (RFC 4648, 6) with an alphabet of 32 characters. Decoding takes letters of either case
 * where the alphabet has only one, with padding or without; false on anything else. */
struct str base32_encode(struct arena *arena, struct str bytes, struct str alphabet,
                         bool is_padded);
bool base32_decode(struct arena *arena, struct str text, struct str alphabet, struct str *out);
/* False: two characters are the same, or there are not 32. */
bool base32_is_alphabet(struct str alphabet);

/* Hex digits of either case; false on anything else. */
bool set_misc_hex_decode(struct arena *arena, struct str text, struct str *out);

#endif
