/* Numbers, sizes, times and rates as users write them, and formatting. Implemented in parse.c and
 * http_date.c. */
#ifndef BASE_PARSE_H
#define BASE_PARSE_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "base/str.h"

/* Each gives false, and leaves *out unchanged, unless the whole of s is one valid value that
 * fits. */
bool parse_uint(struct str s, uint64_t *out);    /* decimal digits only */
bool parse_int(struct str s, int64_t *out);      /* with an optional minus */
bool parse_hex(struct str s, uint64_t *out);     /* at least one hex digit */
bool parse_size(struct str s, uint64_t *out);    /* bytes, with k K m M */
bool parse_offset(struct str s, int64_t *out);   /* as parse_size, and g G */
bool parse_msec(struct str s, uint64_t *out_ms); /* w d h m s ms; a bare number is seconds */
bool parse_sec(struct str s, uint64_t *out_s);   /* y M w d h m s; a bare number is seconds */
bool parse_fixed_point(struct str s, unsigned digits, uint64_t *out); /* "1.5", 3 -> 1500 */

/* Writes n in decimal digits (at most 20 bytes); gives the end. */
char *format_uint(char *at, uint64_t n);

/* HTTP dates (RFC 9110, 5.6.7). parse accepts all three forms and gives -1 for anything else. */
time_t http_date_parse(struct str s);
/* The same, ignoring case: for Expires, whose recipient should be lenient (RFC 9110, 5.6.7). */
time_t http_date_parse_loosely(struct str s);
#define HTTP_DATE_LENGTH 29
/* "Sun, 06 Nov 1994 08:49:37 GMT": 29 bytes, no NUL. */
char *http_date_format(char *at, time_t when);
/* "Sun, 06-Nov-94 08:49:37 GMT", nginx's format for cookies, with four-digit years after 2037: then
 * as long as an HTTP date. Gives the end, no NUL. */
char *cookie_date_format(char *at, time_t when);

#endif
