/* Encodings for Lua: percent, base64, SQL. */
#include "base/text.h"
#include "lua/values/ffi.h"

/* ---- percent ---- */

/* Bit `kind` of escapes[c] says that ngx.escape_uri encodes the byte where it is asked for that
 * kind. */
#define ALL 0x7f
#define KINDS 7
#define TEXT_KINDS 0x1f /* all but those of memcached */

static const uint8_t escapes[256] = {
    [0 ... 32] = ALL,
    ['!'] = 0,
    ['"'] = 1 << 2 | 1 << 3 | 1 << 4,
    ['#'] = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 3,
    ['$'] = 1 << 2,
    ['%'] = ALL & ~(1 << 4),
    ['&'] = 1 << 2,
    ['\''] = 1 << 3 | 1 << 4,
    ['+'] = 1 << 1 | 1 << 2,
    [','] = 1 << 2,
    ['/'] = 1 << 2,
    [':'] = 1 << 2,
    [';'] = 1 << 2,
    ['<'] = 1 << 2,
    ['='] = 1 << 2,
    ['>'] = 1 << 2,
    ['?'] = 1 << 0 | 1 << 1 | 1 << 2,
    ['@'] = 1 << 2,
    ['['] = 1 << 2,
    ['\\'] = 1 << 2,
    [']'] = 1 << 2,
    ['^'] = 1 << 2,
    ['`'] = 1 << 2,
    ['{'] = 1 << 2,
    ['|'] = 1 << 2,
    ['}'] = 1 << 2,
    [127 ... 255] = TEXT_KINDS,
};

static char *escape(char *out, const unsigned char *data, size_t len, unsigned kind)
{
    static const char digits[] = "0123456789ABCDEF";

    for (size_t i = 0; i < len; i++) {
        unsigned char c = data[i];

        if ((escapes[c] >> kind & 1) == 0) {
            *out++ = (char) c;
        } else {
            *out++ = '%';
            *out++ = digits[c >> 4];
            *out++ = digits[c & 15];
        }
    }
    return out;
}

int script_ffi_escape_uri(const char *data, size_t len, int kind, char *out)
{
    return (int) (escape(out, (const unsigned char *) data, len, (unsigned) kind) - out);
}

uintptr_t ngx_escape_uri(unsigned char *out, const unsigned char *data, size_t len, uintptr_t kind)
{
    unsigned known = kind < KINDS ? (unsigned) kind : 0;
    uintptr_t count = 0;

    if (out != NULL) {
        return (uintptr_t) escape((char *) out, data, len, known);
    }
    for (size_t i = 0; i < len; i++) {
        count += escapes[data[i]] >> known & 1;
    }
    return count;
}

int script_ffi_unescape_uri(const char *data, size_t len, char *out)
{
    char *at = out;

    for (size_t i = 0; i < len; i++) {
        char c = data[i];

        if (c == '%' && len - i > 2) {
            int high = hex_value[(unsigned char) data[i + 1]],
                low = hex_value[(unsigned char) data[i + 2]];

            if (high >= 0 && low >= 0) {
                c = (char) (high << 4 | low);
                i += 2;
            }
        } else if (c == '+') {
            c = ' ';
        }
        *at++ = c;
    }
    return (int) (at - out);
}

/* ---- base64 ---- */

int script_ffi_encode_base64(const char *data, size_t len, int how, char *out)
{
    static const char digits[2][65] =
        {"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
         "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"};
    const char *digit = digits[(how & SCRIPT_BASE64_URL) != 0];
    const unsigned char *from = (const unsigned char *) data;
    char *at = out;

    for (; len >= 3; len -= 3, from += 3) {
        *at++ = digit[from[0] >> 2];
        *at++ = digit[(from[0] & 3) << 4 | from[1] >> 4];
        *at++ = digit[(from[1] & 15) << 2 | from[2] >> 6];
        *at++ = digit[from[2] & 63];
    }
    if (len != 0) {
        unsigned second = len == 2 ? from[1] : 0;

        *at++ = digit[from[0] >> 2];
        *at++ = digit[(from[0] & 3) << 4 | second >> 4];
        if (len == 2) {
            *at++ = digit[(second & 15) << 2];
        }
        for (size_t i = len; i < 3 && (how & SCRIPT_BASE64_NO_PADDING) == 0; i++) {
            *at++ = '=';
        }
    }
    return (int) (at - out);
}

/* Value of a digit, or -1. */
static int base64_value(unsigned char c, int how)
{
    if (c >= 'A' && c <= 'Z') {
        return c - 'A';
    }
    if (c >= 'a' && c <= 'z') {
        return c - 'a' + 26;
    }
    if (ascii_is_digit(c)) {
        return c - '0' + 52;
    }
    if (c == ((how & SCRIPT_BASE64_URL) != 0 ? '-' : '+')) {
        return 62;
    }
    return c == ((how & SCRIPT_BASE64_URL) != 0 ? '_' : '/') ? 63 : -1;
}

int script_ffi_decode_base64(const char *data, size_t len, int how, char *out)
{
    char *at = out;
    uint32_t bits = 0;
    unsigned digits = 0;

    for (size_t i = 0; i < len && data[i] != '='; i++) {
        int value = base64_value((unsigned char) data[i], how);

        if (value < 0) {
            if ((how & SCRIPT_BASE64_MIME) == 0) {
                return -1;
            }
            continue;
        }
        bits = bits << 6 | (uint32_t) value;
        if (++digits % 4 == 0) {
            *at++ = (char) (bits >> 16);
            *at++ = (char) (bits >> 8);
            *at++ = (char) bits;
        }
    }
    if (digits % 4 == 1) {
        return -1;
    }
    if (digits % 4 == 2) {
        *at++ = (char) (bits >> 4);
    } else if (digits % 4 == 3) {
        *at++ = (char) (bits >> 10);
        *at++ = (char) (bits >> 2);
    }
    return (int) (at - out);
}

/* ---- SQL ---- */

int script_ffi_quote_sql(const char *data, size_t len, char *out)
{
    return (int) (sql_quote(out, (struct str){data, len}) - out);
}

/* ---- single characters ---- */

void script_ffi_replace_char(const char *data, size_t len, int from, int to, char *out)
{
    for (size_t i = 0; i < len; i++) {
        out[i] = data[i] == (char) from ? (char) to : data[i];
    }
}
