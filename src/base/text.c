/* Encodings that turn text into other bytes: hex, base64, UTF-8. */
#include <string.h>

#include "base/text.h"

/* clang-format off */
const int8_t hex_value[256] = {
    [0 ... '0' - 1] = -1,
    ['0'] = 0, ['1'] = 1, ['2'] = 2, ['3'] = 3, ['4'] = 4,
    ['5'] = 5, ['6'] = 6, ['7'] = 7, ['8'] = 8, ['9'] = 9,
    ['9' + 1 ... 'A' - 1] = -1,
    ['A'] = 10, ['B'] = 11, ['C'] = 12, ['D'] = 13, ['E'] = 14, ['F'] = 15,
    ['F' + 1 ... 'a' - 1] = -1,
    ['a'] = 10, ['b'] = 11, ['c'] = 12, ['d'] = 13, ['e'] = 14, ['f'] = 15,
    ['f' + 1 ... 255] = -1,
};
/* clang-format on */

char *hex_encode(char *at, const void *bytes, size_t len)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *from = bytes;

    for (size_t i = 0; i < len; i++) {
        *at++ = digits[from[i] >> 4];
        *at++ = digits[from[i] & 15];
    }
    return at;
}

bool hex_decode(struct str text, void *bytes)
{
    unsigned char *to = bytes;

    for (size_t i = 0; i + 1 < text.len; i += 2) {
        int high = hex_value[(unsigned char) text.data[i]];
        int low = hex_value[(unsigned char) text.data[i + 1]];

        if (high < 0 || low < 0) {
            return false;
        }
        to[i / 2] = (unsigned char) (high << 4 | low);
    }
    return text.len % 2 == 0;
}

static const char base64_digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static const char base64url_digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

struct str base64_encode(struct arena *arena, struct str bytes, bool is_url)
{
    const char *digits = is_url ? base64url_digits : base64_digits;
    const unsigned char *from = (const unsigned char *) bytes.data;
    size_t left = bytes.len;
    char *start = arena_text(arena, left / 3 * 4 + 4);
    char *at = start;

    for (; left >= 3; left -= 3, from += 3) {
        *at++ = digits[from[0] >> 2];
        *at++ = digits[(from[0] & 3) << 4 | from[1] >> 4];
        *at++ = digits[(from[1] & 15) << 2 | from[2] >> 6];
        *at++ = digits[from[2] & 63];
    }
    if (left != 0) {
        unsigned second = left == 2 ? from[1] : 0;
        *at++ = digits[from[0] >> 2];
        *at++ = digits[(from[0] & 3) << 4 | second >> 4];
        if (left == 2) {
            *at++ = digits[(second & 15) << 2];
        } else if (!is_url) {
            *at++ = '=';
        }
        if (!is_url) {
            *at++ = '=';
        }
    }
    return str_from(start, at);
}

/* Value of a base64 digit, or -1. */
static int base64_value(unsigned char c, bool is_url)
{
    if ((unsigned char) (c - 'A') < 26) {
        return c - 'A';
    }
    if ((unsigned char) (c - 'a') < 26) {
        return c - 'a' + 26;
    }
    if (ascii_is_digit(c)) {
        return c - '0' + 52;
    }
    if (c == (is_url ? '-' : '+')) {
        return 62;
    }
    return c == (is_url ? '_' : '/') ? 63 : -1;
}

bool base64_decode(struct arena *arena, struct str text, bool is_url, struct str *out)
{
    /* Padding may be absent, but must not be wrong. */
    size_t len = text.len;
    for (int i = 0; i < 2 && len != 0 && text.data[len - 1] == '='; i++) {
        len--;
    }
    if ((len != text.len && text.len % 4 != 0) || len % 4 == 1) {
        return false;
    }
    char *start = arena_text(arena, len / 4 * 3 + 2);
    char *at = start;
    uint32_t bits = 0;
    for (size_t i = 0; i < len; i++) {
        int value = base64_value((unsigned char) text.data[i], is_url);
        if (value < 0) {
            return false;
        }
        bits = bits << 6 | (unsigned) value;
        switch (i % 4) {
        case 1:
            *at++ = (char) (bits >> 4);
            break;
        case 2:
            *at++ = (char) (bits >> 2);
            break;
        case 3:
            *at++ = (char) bits;
            break;
        default:
            break;
        }
    }
    *out = str_from(start, at);
    return true;
}

uint32_t utf8_next(struct str *s)
{
    const unsigned char *at = (const unsigned char *) s->data;
    unsigned char first = at[0];
    size_t more;    /* bytes after the first */
    uint32_t least; /* lowest code point that needs this many */
    uint32_t point;

    if (first < 0x80) {
        *s = str_skip(*s, 1);
        return first;
    }
    if (first >= 0xc2 && first <= 0xdf) {
        more = 1, least = 0x80, point = first & 0x1f;
    } else if (first >= 0xe0 && first <= 0xef) {
        more = 2, least = 0x800, point = first & 0x0f;
    } else if (first >= 0xf0 && first <= 0xf4) {
        more = 3, least = 0x10000, point = first & 0x07;
    } else {
        more = SIZE_MAX, least = 0, point = 0;
    }
    bool is_good = more < s->len;
    for (size_t i = 1; is_good && i <= more; i++) {
        is_good = (at[i] & 0xc0) == 0x80;
        point = point << 6 | (at[i] & 0x3f);
    }
    bool is_surrogate = point >= 0xd800 && point <= 0xdfff;
    if (!is_good || point < least || point > 0x10ffff || is_surrogate) {
        *s = str_skip(*s, 1);
        return UINT32_MAX;
    }
    *s = str_skip(*s, more + 1);
    return point;
}

size_t utf8_length(struct str s)
{
    size_t count = 0;

    while (s.len != 0) {
        utf8_next(&s);
        count++;
    }
    return count;
}

#define FUNCTION_NAME_MAX 256

bool text_is_function_name(struct str text)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char) text.data[i];
        unsigned char lower = ascii_lower(c);

        if (!ascii_is_digit(c) && (lower < 'a' || lower > 'z') && c != '_' && c != '$' &&
            c != '.' && c != '[' && c != ']') {
            return false;
        }
    }
    return text.len <= FUNCTION_NAME_MAX;
}
