/* Strings: a pointer and a length, read-only, never NUL-terminated by promise. */
#ifndef BASE_STR_H
#define BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A slice of bytes that somebody else owns. An empty one may have a NULL pointer. */
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

/* For printf's "%.*s" of a NUL-terminated string or a slice: str_of() makes a slice of the former.
 */
static inline struct str str_of(const char *text)
{
    return (struct str){text, text == NULL ? 0 : strlen(text)};
}

static inline struct str str_from(const char *start, const char *end)
{
    return (struct str){start, (size_t) (end - start)};
}

/* Writes the bytes to `at`, where there is room for them; gives the place after them. */
static inline char *str_put(char *at, struct str s)
{
    if (s.len != 0) {
        memcpy(at, s.data, s.len);
    }
    return at + s.len;
}

/* The same of a string literal. `at` is evaluated twice. */
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

/* The part after the first n bytes; n may not exceed the length. */
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

/* ASCII lower case of one byte, and of no other locale. */
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

/* Blank, or the end of a line. */
static inline bool ascii_is_space(char c)
{
    return ascii_is_blank(c) || c == '\r' || c == '\n';
}

/* Comparisons that ignore ASCII case. */
bool str_equal_nocase(struct str a, struct str b);
bool str_starts_nocase(struct str s, struct str prefix);

/* Order of bytes, a shorter string before a longer one that begins with it; as qsort wants it. */
int str_compare(struct str a, struct str b);

/* The first place of a byte, or of a string; NULL when absent. */
const char *str_find_char(struct str s, char c);
const char *str_find_last_char(struct str s, char c);
const char *str_find(struct str s, struct str needle);

/* Without leading and trailing blanks and tabs. */
struct str str_trim(struct str s);

/*
 * Cuts the part before the separator off *rest and gives it; the separator is dropped. When there
 * is none, the whole of *rest is given and *rest becomes empty with a NULL pointer. So the loop
 * `while (rest.data != NULL) { part = str_cut(&rest, ','); … }` sees every part, empty ones too.
 */
struct str str_cut(struct str *rest, char separator);

/* 32-bit hash of bytes (not for untrusted keys without a seed) and of ASCII lower-cased bytes. */
uint32_t str_hash(struct str s);
uint32_t str_hash_nocase(struct str s);

#endif
