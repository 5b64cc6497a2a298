/* Quotes and base32. Pure functions. */
#include "http/modules/values/set_misc/text.h"

#include <stdint.h>
#include <string.h>

#include "base/text.h"

struct str quote_sql(struct arena *arena, struct str text, struct str prefix)
{
    if (text.len == 0) {
        return STR("''");
    }
    char *buffer = arena_text(arena, prefix.len + 2 * text.len + 2);

    return str_from(buffer, sql_quote(str_put(buffer, prefix), text));
}

struct str quote_json(struct arena *arena, struct str text)
{
    if (text.len == 0) {
        return STR("null");
    }
    char *buffer = arena_text(arena, escape_length(text, ESCAPE_JSON) + 2);
    char *at = buffer;
    *at++ = '"';
    at = escape_write(at, text, ESCAPE_JSON);
    *at++ = '"';
    return str_from(buffer, at);
}

/* ---- base32 ---- */

struct str base32_encode(struct arena *arena, struct str bytes, struct str alphabet, bool is_padded)
{
    char *buffer = arena_text(arena, (bytes.len + 4) / 5 * 8);
    char *at = buffer;
    uint64_t bits = 0;
    unsigned count = 0; /* number of pending bits */

    for (size_t i = 0; i < bytes.len; i++) {
        bits = bits << 8 | (unsigned char) bytes.data[i];
        for (count += 8; count >= 5; count -= 5) {
            *at++ = alphabet.data[bits >> (count - 5) & 31];
        }
    }
    if (count != 0) {
        *at++ = alphabet.data[bits << (5 - count) & 31];
    }
    while (is_padded && (at - buffer) % 8 != 0) {
        *at++ = '=';
    }
    return str_from(buffer, at);
}

/* The value of each character: 0 to 31, or -1 if it is not in the alphabet. */
static void read_alphabet(struct str alphabet, int8_t values[256])
{
    memset(values, -1, 256);
    for (unsigned i = 0; i < 32; i++) {
        unsigned char c = (unsigned char) alphabet.data[i];
        values[c] = (int8_t) i;
    }
    for (unsigned i = 0; i < 32; i++) {
        unsigned char c = (unsigned char) alphabet.data[i];
        unsigned char other = ascii_lower(c) != c    ? ascii_lower(c)
                              : c >= 'a' && c <= 'z' ? (unsigned char) (c - 32)
                                                     : c;
        if (values[other] == -1) {
            values[other] = (int8_t) i;
        }
    }
}

bool base32_decode(struct arena *arena, struct str text, struct str alphabet, struct str *out)
{
    int8_t values[256];
    uint64_t bits = 0;
    unsigned count = 0;

    read_alphabet(alphabet, values);
    for (unsigned i = 0; i < 6 && text.len != 0 && text.data[text.len - 1] == '='; i++) {
        text.len--;
    }
    char *buffer = arena_text(arena, text.len / 8 * 5 + 5);
    char *at = buffer;
    for (size_t i = 0; i < text.len; i++) {
        int8_t value = values[(unsigned char) text.data[i]];
        if (value == -1) {
            return false;
        }
        bits = bits << 5 | (unsigned) value;
        count += 5;
        if (count >= 8) {
            count -= 8;
            *at++ = (char) (bits >> count);
        }
    }
    *out = str_from(buffer, at);
    return count < 5;
}

bool base32_is_alphabet(struct str alphabet)
{
    bool seen[256] = {false};

    for (size_t i = 0; i < alphabet.len; i++) {
        unsigned char c = (unsigned char) alphabet.data[i];
        if (seen[c]) {
            return false;
        }
        seen[c] = true;
    }
    return alphabet.len == 32;
}

bool set_misc_hex_decode(struct arena *arena, struct str text, struct str *out)
{
    char *buffer = arena_text(arena, text.len / 2);

    *out = (struct str){buffer, text.len / 2};
    return hex_decode(text, buffer);
}
