/* Quotes and base32. Pure functions. */
#ifndef HTTP_MODULES_VALUES_SET_MISC_TEXT_H
#define HTTP_MODULES_VALUES_SET_MISC_TEXT_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/str.h"

/* Makes 'text', with a backslash before characters that are special in a MySQL literal, and
 * `prefix` before the quote. */
struct str quote_sql(struct arena *arena, struct str text, struct str prefix);
/* Makes a JSON string (RFC 8259, 7); null if the text is empty. */
struct str quote_json(struct arena *arena, struct str text);

/* Base32 (RFC 4648, 6) with an alphabet of 32 characters. Decoding is case-insensitive if the
 * alphabet has each letter in one case only, and accepts missing padding; false on anything
 * else. */
struct str base32_encode(struct arena *arena, struct str bytes, struct str alphabet,
                         bool is_padded);
bool base32_decode(struct arena *arena, struct str text, struct str alphabet, struct str *out);
/* False: a character is repeated, or there are not 32. */
bool base32_is_alphabet(struct str alphabet);

/* Decodes hex digits of either case; false on anything else. */
bool set_misc_hex_decode(struct arena *arena, struct str text, struct str *out);

#endif
