/* Escapes: percent-encoding for different parts of a URI, HTML entities, JSON and access log
 * forms. */
#include <string.h>

#include "base/text.h"

_Static_assert(ESCAPE_LOG < 16, "the sets of a byte fit in its class");

/* If bit `set` of classes[c] is set, byte c is escaped in that set. */
#define U (1 << ESCAPE_URI)
#define R (1 << ESCAPE_REDIRECT)
#define A (1 << ESCAPE_ARGS)
#define C (1 << ESCAPE_URI_COMPONENT)
#define M (1 << ESCAPE_MEMCACHED)
#define P (1 << ESCAPE_IN_PAGE)
#define H (1 << ESCAPE_HTML)
#define J (1 << ESCAPE_JSON)
#define L (1 << ESCAPE_LOG)
#define N (1 << ESCAPE_CONTROLS)
#define S (1 << ESCAPE_JS_COMPONENT)
#define T (1 << ESCAPE_FIELD_NAME)
#define V (1 << ESCAPE_FIELD_VALUE)
#define B (1 << ESCAPE_QUERY)

static const uint16_t classes[256] = {
    [0 ... 8] = B | U | R | A | C | S | M | J | L | N | P | T | V,
    ['\t'] = B | U | R | A | C | S | M | J | L | N | P | T,
    [10 ... 31] = B | U | R | A | C | S | M | J | L | N | P | T | V,
    [' '] = B | U | R | A | C | S | M | P | T,
    ['!'] = C,
    ['"'] = U | R | A | C | S | H | J | L | P | T,
    ['#'] = U | R | A | C | S | P,
    ['$'] = C | S,
    ['%'] = U | R | A | C | S | M | P,
    ['&'] = A | C | S | H,
    ['\''] = C | P,
    ['('] = C | T,
    [')'] = C | T,
    ['*'] = C,
    ['+'] = A | C | S,
    [','] = C | S | T,
    ['/'] = C | S | T,
    [':'] = C | S | T,
    [';'] = A | C | S | T,
    ['<'] = U | A | C | S | H | P | T,
    ['='] = C | S | T,
    ['>'] = U | A | C | S | H | P | T,
    ['?'] = U | A | C | S | T,
    ['@'] = C | S | T,
    ['['] = C | S | T,
    ['\\'] = U | A | C | S | J | L | P | T,
    [']'] = C | S | T,
    ['^'] = U | A | C | S | P,
    ['`'] = U | A | C | S | P,
    ['{'] = U | A | C | S | P | T,
    ['|'] = U | A | C | S | P,
    ['}'] = U | A | C | S | P | T,
    [127] = B | U | R | A | C | S | L | N | P | T | V,
    [128 ... 255] = U | R | A | C | S | L | P | T,
};

static const char upper_digits[] = "0123456789ABCDEF";

static struct str html_entity(unsigned char c)
{
    switch (c) {
    case '<':
        return STR("&lt;");
    case '>':
        return STR("&gt;");
    case '&':
        return STR("&amp;");
    default:
        return STR("&quot;");
    }
}

/* The letter of a short JSON escape, or 0. */
static char json_letter(unsigned char c)
{
    switch (c) {
    case '"':
    case '\\':
        return (char) c;
    case '\n':
        return 'n';
    case '\r':
        return 'r';
    case '\t':
        return 't';
    case '\b':
        return 'b';
    case '\f':
        return 'f';
    default:
        return 0;
    }
}

/* Bytes that an escaped byte needs. */
static size_t length_of(unsigned char c, enum escape_set set)
{
    switch (set) {
    case ESCAPE_HTML:
        return html_entity(c).len;
    case ESCAPE_JSON:
        return json_letter(c) != 0 ? 2 : 6;
    case ESCAPE_LOG:
        return 4;
    default:
        return 3;
    }
}

static char *write_one(char *at, unsigned char c, enum escape_set set)
{
    char letter;

    switch (set) {
    case ESCAPE_HTML: {
        struct str entity = html_entity(c);
        memcpy(at, entity.data, entity.len);
        return at + entity.len;
    }
    case ESCAPE_JSON:
        letter = json_letter(c);
        *at++ = '\\';
        if (letter != 0) {
            *at++ = letter;
            return at;
        }
        memcpy(at, "u00", 3);
        at += 3;
        break;
    case ESCAPE_LOG:
        memcpy(at, "\\x", 2);
        at += 2;
        break;
    default:
        *at++ = '%';
        break;
    }
    *at++ = upper_digits[c >> 4];
    *at++ = upper_digits[c & 15];
    return at;
}

size_t escape_length(struct str s, enum escape_set set)
{
    size_t len = s.len;

    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char) s.data[i];
        if (classes[c] >> set & 1) {
            len += length_of(c, set) - 1;
        }
    }
    return len;
}

char *escape_write(char *at, struct str s, enum escape_set set)
{
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char) s.data[i];
        if (classes[c] >> set & 1) {
            at = write_one(at, c, set);
        } else {
            *at++ = (char) c;
        }
    }
    return at;
}

struct str escape_str(struct arena *arena, struct str s, enum escape_set set)
{
    size_t len = escape_length(s, set);

    if (len == s.len) {
        return s;
    }
    char *start = arena_text(arena, len);
    escape_write(start, s, set);
    return (struct str){start, len};
}

struct str percent_decode(struct arena *arena, struct str s)
{
    if (str_find_char(s, '%') == NULL) {
        return s;
    }
    char *start = arena_text(arena, s.len);
    char *at = start;
    for (size_t i = 0; i < s.len; i++) {
        char c = s.data[i];
        if (c == '%' && s.len - i > 2) {
            int high = hex_value[(unsigned char) s.data[i + 1]];
            int low = hex_value[(unsigned char) s.data[i + 2]];
            if (high >= 0 && low >= 0) {
                c = (char) (high << 4 | low);
                i += 2;
            }
        }
        *at++ = c;
    }
    return str_from(start, at);
}

/* The character after the backslash for this byte; 0 = the byte is not escaped. */
static char sql_letter(char c)
{
    switch (c) {
    case '\0':
        return '0';
    case '\b':
        return 'b';
    case '\n':
        return 'n';
    case '\r':
        return 'r';
    case '\t':
        return 't';
    case '\x1a':
        return 'Z';
    case '\\':
    case '\'':
    case '"':
        return c;
    default:
        return '\0';
    }
}

char *sql_quote(char *at, struct str text)
{
    *at++ = '\'';
    for (size_t i = 0; i < text.len; i++) {
        char letter = sql_letter(text.data[i]);

        if (letter != '\0') {
            *at++ = '\\';
        }
        *at++ = letter != '\0' ? letter : text.data[i];
    }
    *at++ = '\'';
    return at;
}
