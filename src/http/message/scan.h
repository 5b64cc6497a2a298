/* Scans request headers for line ends, ends of names and spaces, sixteen bytes at a time where the
 * CPU supports it. */
#ifndef HTTP_MESSAGE_SCAN_H
#define HTTP_MESSAGE_SCAN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

/* The input of a scan: bytes before `start` or from `end` on are not read. */
struct scan {
    const char *start;
    const char *end;
};

/*
 * Each of these returns the first byte of its kind from `at` on, or scan->end.
 *   scan_control: below 32, or 127
 *   scan_name_end: neither letter, digit nor hyphen
 *   scan_blank: space or tab
 */

static inline const char *scan_control_slowly(const char *at, const char *end)
{
    while (at < end && (unsigned char) *at >= 32 && *at != 127) {
        at++;
    }
    return at;
}

static inline const char *scan_name_end_slowly(const char *at, const char *end)
{
    while (at < end) {
        unsigned char c = (unsigned char) *at;
        unsigned char lower = c | 0x20;
        if ((unsigned char) (lower - 'a') > 25 && (unsigned char) (c - '0') > 9 && c != '-') {
            break;
        }
        at++;
    }
    return at;
}

static inline const char *scan_blank_slowly(const char *at, const char *end)
{
    while (at < end && *at != ' ' && *at != '\t') {
        at++;
    }
    return at;
}

#if defined(__SSE2__)

static inline unsigned control_bits(__m128i bytes)
{
    /* Unsigned maximum: it equals the byte unless the byte is below 32. */
    __m128i text = _mm_cmpeq_epi8(_mm_max_epu8(bytes, _mm_set1_epi8(32)), bytes);
    __m128i control = _mm_or_si128(_mm_cmpeq_epi8(text, _mm_setzero_si128()),
                                   _mm_cmpeq_epi8(bytes, _mm_set1_epi8(127)));
    return (unsigned) _mm_movemask_epi8(control);
}

static inline __m128i is_at_most(__m128i bytes, char limit)
{
    return _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(limit)), bytes);
}

static inline unsigned name_end_bits(__m128i bytes)
{
    __m128i lower = _mm_or_si128(bytes, _mm_set1_epi8(0x20));
    __m128i letter = is_at_most(_mm_sub_epi8(lower, _mm_set1_epi8('a')), 25);
    __m128i digit = is_at_most(_mm_sub_epi8(bytes, _mm_set1_epi8('0')), 9);
    __m128i hyphen = _mm_cmpeq_epi8(bytes, _mm_set1_epi8('-'));
    __m128i name = _mm_or_si128(_mm_or_si128(letter, digit), hyphen);
    return (unsigned) _mm_movemask_epi8(name) ^ 0xffff;
}

static inline unsigned blank_bits(__m128i bytes)
{
    return (unsigned) _mm_movemask_epi8(_mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(' ')),
                                                     _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\t'))));
}

/* Scans whole blocks first; then a last block that ends at the end and overlaps the one before.
 * Only an input shorter than a block is scanned byte by byte. */
#define SCAN_FUNCTION(name, bits)                                                                  \
    static inline const char *name(const struct scan *scan, const char *at)                        \
    {                                                                                              \
        const char *end = scan->end;                                                               \
                                                                                                   \
        while (end - at >= 16) {                                                                   \
            unsigned found = bits(_mm_loadu_si128((const __m128i *) (const void *) at));           \
            if (found != 0) {                                                                      \
                return at + __builtin_ctz(found);                                                  \
            }                                                                                      \
            at += 16;                                                                              \
        }                                                                                          \
        if (end - scan->start < 16) {                                                              \
            return name##_slowly(at, end);                                                         \
        }                                                                                          \
        unsigned left = (unsigned) (end - at);                                                     \
        unsigned found = bits(_mm_loadu_si128((const __m128i *) (const void *) (end - 16)));       \
        found >>= 16 - left;                                                                       \
        return found != 0 ? at + __builtin_ctz(found) : end;                                       \
    }

#else

#define SCAN_FUNCTION(name, bits)                                                                  \
    static inline const char *name(const struct scan *scan, const char *at)                        \
    {                                                                                              \
        return name##_slowly(at, scan->end);                                                       \
    }

#endif

SCAN_FUNCTION(scan_control, control_bits)
SCAN_FUNCTION(scan_name_end, name_end_bits)
SCAN_FUNCTION(scan_blank, blank_bits)

#endif
