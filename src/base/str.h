/* Strings: a pointer and a length, read-only, not NUL-terminated. */
#ifndef BASE_STR_H
#define BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A slice of bytes that it does not own. An empty one may have a NULL pointer. */
struct str {
    const char *data; /* first byte; valid for len bytes */
    size_t len;       /* bytes */
};

/* A slice made of a string literal, at compile time. */
#define STR(literal) ((struct str){"" literal, sizeof(literal) - 1})
#define STR_INIT(literal)                                                                          \
    {                                                                                              \
        "" literal, sizeof(literal) - 1                                                            \
    }
#define STR_NONE ((struct str){NULL, 0})

/* For printf's "%.*s". */
#define STR_ARG(s) (int) (s).len, (s).data

/* A slice of a NUL-terminated string, without the NUL; NULL gives an empty one. */
static inline struct str str_of(const char *text)
{
    return (struct str){text, text == NULL ? 0 : strlen(text)};
}

static inline struct str str_from(const char *start, const char *end)
{
    return (struct str){start, (size_t) (end - start)};
}

/* Copies the bytes to `at`, where they must fit; gives the position after them. */
static inline char *str_put(char *at, struct str s)
{
    if (s.len != 0) {
        memcpy(at, s.data, s.len);
    }
    return at + s.len;
}

/* The same for a string literal. `at` is evaluated twice. */
#define STR_PUT(at, literal) (memcpy(at, literal, sizeof(literal) - 1), (at) + sizeof(literal) - 1)

static inline bool str_is_empty(struct str s)
{
    return s.len == 0;
}

static inline bool str_equal(struct str a, struct str b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

static inline bool str_is(struct str a, const char *text)
{
    return str_equal(a, str_of(text));
}

/* The part after the first n bytes; n must not exceed the length. */
static inline struct str str_skip(struct str s, size_t n)
{
    return (struct str){s.data + n, s.len - n};
}

static inline struct str str_head(struct str s, size_t n)
{
    return (struct str){s.data, n < s.len ? n : s.len};
}

static inline bool str_starts(struct str s, struct str prefix)
{
    return s.len >= prefix.len && (prefix.len == 0 || memcmp(s.data, prefix.data, prefix.len) == 0);
}

static inline bool str_ends(struct str s, struct str suffix)
{
    return s.len >= suffix.len &&
           (suffix.len == 0 || memcmp(s.data + s.len - suffix.len, suffix.data, suffix.len) == 0);
}

/* ASCII lower case of one byte, in any locale. */
static inline unsigned char ascii_lower(unsigned char c)
{
    return (unsigned char) (c - 'A') < 26 ? (unsigned char) (c | 0x20) : c;
}

static inline bool ascii_is_digit(unsigned char c)
{
    return (unsigned char) (c - '0') < 10;
}

/* A space or a tab. */
static inline bool ascii_is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* Space, tab, CR or LF. */
static inline bool ascii_is_space(char c)
{
    return ascii_is_blank(c) || c == '\r' || c == '\n';
}

/* Comparisons that ignore ASCII case. */
bool str_equal_nocase(struct str a, struct str b);
bool str_starts_nocase(struct str s, struct str prefix);

/* Compares bytes; a shorter string comes before a longer one that begins with it. The order is that
   of qsort. */
int str_compare(struct str a, struct str b);

/* The first (last) position of a byte, or of a string; NULL when absent. */
const char *str_find_char(struct str s, char c);
const char *str_find_last_char(struct str s, char c);
const char *str_find(struct str s, struct str needle);

/* The string without leading and trailing spaces and tabs. */
struct str str_trim(struct str s);

/*
 * Takes the part before the separator off *rest and gives it; the separator is dropped. When there
 * is none, gives the whole of *rest, which becomes empty with a NULL pointer. So the loop `while
 * (rest.data != NULL) { part = str_cut(&rest, ','); … }` sees every part, empty ones too.
 */
struct str str_cut(struct str *rest, char separator);

/* 32-bit hash of the bytes, or of the bytes in ASCII lower case. Not for keys that a peer
 * chooses. */
uint32_t str_hash(struct str s);
uint32_t str_hash_nocase(struct str s);

#endif
