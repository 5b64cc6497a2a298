/* Encodings of text: hex, base64, UTF-8, percent, JSON and HTML escapes.
 * Implemented in text.c and escape.c. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/str.h"

/* Value of a hex digit, or -1. */
extern const int8_t hex_value[256];

/* Two lower-case hex digits for each byte; gives the end. */
char *hex_encode(char *at, const void *bytes, size_t len);
/* The other way, with digits of either case: text.len / 2 bytes at `bytes`. False: an odd length,
 * or what is no digit; some bytes may have been written then. */
bool hex_decode(struct str text, void *bytes);

/* base64 (RFC 4648); the url form has - and _ and no padding. decode gives false on any bad byte.
 */
struct str base64_encode(struct arena *arena, struct str bytes, bool is_url);
bool base64_decode(struct arena *arena, struct str text, bool is_url, struct str *out);

/* Could it be the name of a function of JavaScript, or the way to one ("a.b[0]")? What else a
 * client sends as the callback of JSONP would run as a script in the page that asks. */
bool text_is_function_name(struct str text);

/* Next code point of UTF-8 (RFC 3629) at *s, which moves on; UINT32_MAX for a malformed one (one
 * byte skipped). */
uint32_t utf8_next(struct str *s);
size_t utf8_length(struct str s); /* code points; malformed bytes count one each */

/* What percent-encoding leaves alone. nginx escapes differently by place. */
enum escape_set {
    ESCAPE_URI,           /* a path: up to 32, above 126, and "#%<>?\^`{|} */
    ESCAPE_REDIRECT,      /* the whole target of a rewrite's redirect: up to 32, above 126, " # % */
    ESCAPE_ARGS,          /* a capture put into arguments: as ESCAPE_URI, and & + ; */
    ESCAPE_URI_COMPONENT, /* all but unreserved characters (RFC 3986, 2.3) */
    ESCAPE_JS_COMPONENT,  /* as JavaScript's encodeURIComponent: the same, but not !'()* */
    ESCAPE_FIELD_NAME,    /* the name of a header field: all but the characters of a token (RFC
                             9110, 5.6.2) */
    ESCAPE_FIELD_VALUE,   /* the value of a header field: below 32 but for tabs, and 127 */
    ESCAPE_QUERY,         /* arguments that a script gives as a text: up to 32, and 127 */
    ESCAPE_CONTROLS,  /* below 32, and 127: a text that goes into a header field as it is else */
    ESCAPE_MEMCACHED, /* a key of memcached: up to 32, and % */
    ESCAPE_IN_PAGE,   /* a URL that is put into a page: as ESCAPE_URI, and ', but not ? */
    ESCAPE_HTML,      /* < > & " as entities */
    ESCAPE_JSON,      /* string contents of JSON (RFC 8259, 7): below 32, " and \ */
    ESCAPE_LOG,       /* access log default: below 32, above 126, " and \ as \xHH */
};

/* Bytes that the escaped form needs; equal to s.len when nothing has to be escaped. */
size_t escape_length(struct str s, enum escape_set set);
/* Writes the escaped form (escape_length bytes); gives the end. */
char *escape_write(char *at, struct str s, enum escape_set set);
/* s itself when nothing has to be escaped, else a copy. */
struct str escape_str(struct arena *arena, struct str s, enum escape_set set);
/* Writes it as a quoted text of MySQL, 2 * len + 2 bytes at most; gives the end. */
char *sql_quote(char *at, struct str text);

/* %XX decoded; malformed sequences stay as they are. Gives s itself when there is no '%'. */
struct str percent_decode(struct arena *arena, struct str s);

#endif
