/* Strings: comparisons, searches, cuts and hashes of slices. */
#define _GNU_SOURCE
#include <string.h>

#include "base/str.h"

bool str_equal_nocase(struct str a, struct str b)
{
    return a.len == b.len && str_starts_nocase(a, b);
}

bool str_starts_nocase(struct str s, struct str prefix)
{
    if (s.len < prefix.len) {
        return false;
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

/*
 * FNV-1a with a final mix, since the maps take the low bits. Names are short: a byte at a time is
 * as fast as anything wider.
 */
static inline uint32_t hash_finish(uint32_t hash)
{
    hash ^= hash >> 16;
    hash *= 0x7feb352dU;
    hash ^= hash >> 15;
    return hash;
}

uint32_t str_hash(struct str s)
{
    uint32_t hash = 2166136261U;

    for (size_t i = 0; i < s.len; i++) {
        hash = (hash ^ (unsigned char) s.data[i]) * 16777619U;
    }
    return hash_finish(hash);
}

uint32_t str_hash_nocase(struct str s)
{
    uint32_t hash = 2166136261U;

    for (size_t i = 0; i < s.len; i++) {
        hash = (hash ^ ascii_lower((unsigned char) s.data[i])) * 16777619U;
    }
    return hash_finish(hash);
}
