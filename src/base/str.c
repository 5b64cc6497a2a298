/* Strings: comparing, searching, cutting and hashing slices. */
#define _GNU_SOURCE
#include <string.h>

#include "base/str.h"

bool str_equal_nocase(struct str a, struct str b)
{
    size_t len = a.len;

    /* Strings of the same length differ at the end more often than at the beginning. */
    return len == b.len && (len == 0 || (ascii_lower((unsigned char) a.data[len - 1]) ==
                                             ascii_lower((unsigned char) b.data[len - 1]) &&
                                         str_starts_nocase(a, b)));
}

bool str_starts_nocase(struct str s, struct str prefix)
{
    if (s.len < prefix.len) {
        return false;
    }
    if (prefix.len == 0) {
        return true;
    }
    /* The common case: equal in case as well. */
    if (*s.data == *prefix.data && memcmp(s.data, prefix.data, prefix.len) == 0) {
        return true;
    }
    for (size_t i = 0; i < prefix.len; i++) {
        unsigned char a = (unsigned char) s.data[i];
        unsigned char b = (unsigned char) prefix.data[i];
        if (a != b && ascii_lower(a) != ascii_lower(b)) {
            return false;
        }
    }
    return true;
}

int str_compare(struct str a, struct str b)
{
    size_t n = a.len < b.len ? a.len : b.len;
    int order = n == 0 ? 0 : memcmp(a.data, b.data, n);

    if (order != 0) {
        return order;
    }
    return (a.len > b.len) - (a.len < b.len);
}

const char *str_find_char(struct str s, char c)
{
    return s.len == 0 ? NULL : memchr(s.data, (unsigned char) c, s.len);
}

const char *str_find_last_char(struct str s, char c)
{
    return s.len == 0 ? NULL : memrchr(s.data, (unsigned char) c, s.len);
}

const char *str_find(struct str s, struct str needle)
{
    if (needle.len == 0) {
        return s.data;
    }
    return s.len < needle.len ? NULL : memmem(s.data, s.len, needle.data, needle.len);
}

struct str str_trim(struct str s)
{
    while (s.len != 0 && ascii_is_blank(s.data[0])) {
        s = str_skip(s, 1);
    }
    while (s.len != 0 && ascii_is_blank(s.data[s.len - 1])) {
        s.len--;
    }
    return s;
}

struct str str_cut(struct str *rest, char separator)
{
    struct str whole = *rest;
    const char *found = str_find_char(whole, separator);

    if (found == NULL) {
        *rest = STR_NONE;
        return whole;
    }
    *rest = str_from(found + 1, whole.data + whole.len);
    return str_from(whole.data, found);
}

/* ---- hashes: eight bytes at a time, combined by multiplication ---- */

#define HASH_FACTOR UINT64_C(0x9e3779b97f4a7c15)

static inline uint64_t load8(const char *at)
{
    uint64_t word;

    memcpy(&word, at, sizeof(word));
    return word;
}

/* Fewer than eight bytes, by overlapping loads. */
static inline uint64_t load_few(const char *at, size_t len)
{
    uint32_t first, last;

    if (len >= 4) {
        memcpy(&first, at, sizeof(first));
        memcpy(&last, at + len - 4, sizeof(last));
        return first | (uint64_t) last << (8 * (len - 4));
    }
    if (len == 0) {
        return 0;
    }
    return (unsigned char) at[0] | (uint64_t) (unsigned char) at[len / 2] << (8 * (len / 2)) |
           (uint64_t) (unsigned char) at[len - 1] << (8 * (len - 1));
}

/* ASCII lower case of eight bytes. */
static inline uint64_t lower8(uint64_t word)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    uint64_t low = word & (0x7f * ones);
    uint64_t is_from_a = low + (0x80 - 'A') * ones;
    uint64_t is_behind_z = low + (0x7f - 'Z') * ones;
    uint64_t is_upper = (is_from_a ^ is_behind_z) & ~word & (0x80 * ones);

    return word | is_upper >> 2;
}

static inline uint64_t mixed(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * HASH_FACTOR;
    return hash ^ hash >> 32;
}

static inline uint32_t str_hash_of(struct str s, bool is_nocase)
{
    uint64_t hash = s.len;

    for (; s.len >= 8; s = str_skip(s, 8)) {
        hash = mixed(hash, is_nocase ? lower8(load8(s.data)) : load8(s.data));
    }
    uint64_t rest = load_few(s.data, s.len);
    return (uint32_t) mixed(mixed(hash, is_nocase ? lower8(rest) : rest), 0);
}

uint32_t str_hash(struct str s)
{
    return str_hash_of(s, false);
}

uint32_t str_hash_nocase(struct str s)
{
    return str_hash_of(s, true);
}
