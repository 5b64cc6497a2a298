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
/* The inverse, with digits of either case: writes text.len / 2 bytes. False: an odd length, or
 * another character; some bytes may have been written then. */
bool hex_decode(struct str text, void *bytes);

/* base64 (RFC 4648); the url form has - and _ and no padding. decode gives false for any invalid
   byte. */
struct str base64_encode(struct arena *arena, struct str bytes, bool is_url);
bool base64_decode(struct arena *arena, struct str text, bool is_url, struct str *out);

/* Can it be the name of a JavaScript function, or a path to one ("a.b[0]")? Anything else that a
 * client sends as a JSONP callback would run as a script in the requesting page. */
bool text_is_function_name(struct str text);

/* Takes the next code point of UTF-8 (RFC 3629) off *s; UINT32_MAX for a malformed one (skips one
 * byte). */
uint32_t utf8_next(struct str *s);
size_t utf8_length(struct str s); /* code points; malformed bytes count one each */

/* Which bytes are escaped. nginx escapes differently in different parts of a message. */
enum escape_set {
    ESCAPE_URI,      /* a path: up to 32, above 126, and "#%<>?\^`{|} */
    ESCAPE_REDIRECT, /* the complete target of a redirect of rewrite: up to 32, above 126, " # % */
    ESCAPE_ARGS,     /* a capture in arguments: as ESCAPE_URI, and & + ; */
    ESCAPE_URI_COMPONENT, /* all but unreserved characters (RFC 3986, 2.3) */
    ESCAPE_JS_COMPONENT,  /* as JavaScript's encodeURIComponent: the same, but not !'()* */
    ESCAPE_FIELD_NAME,    /* the name of a header field: all but the characters of a token (RFC
                             9110, 5.6.2) */
    ESCAPE_FIELD_VALUE,   /* the value of a header field: below 32 except tabs, and 127 */
    ESCAPE_QUERY,         /* arguments that a script passes as a string: up to 32, and 127 */
    ESCAPE_CONTROLS,  /* below 32, and 127: text in a header field that is not escaped otherwise */
    ESCAPE_MEMCACHED, /* a key of memcached: up to 32, and % */
    ESCAPE_IN_PAGE,   /* a URL in an HTML page: as ESCAPE_URI, and ', but not ? */
    ESCAPE_HTML,      /* < > & " as entities */
    ESCAPE_JSON,      /* string contents of JSON (RFC 8259, 7): below 32, " and \ */
    ESCAPE_LOG,       /* access log default: below 32, above 126, " and \ as \xHH */
};

/* Length of the escaped form; equal to s.len when nothing has to be escaped. */
size_t escape_length(struct str s, enum escape_set set);
/* Writes the escaped form (escape_length bytes); gives its end. */
char *escape_write(char *at, struct str s, enum escape_set set);
/* s itself when nothing has to be escaped, else a copy. */
struct str escape_str(struct arena *arena, struct str s, enum escape_set set);
/* Writes the text as a quoted MySQL string, at most 2 * len + 2 bytes; gives its end. */
char *sql_quote(char *at, struct str text);

/* Decodes %XX; malformed sequences are kept. Gives s itself when there is no '%'. */
struct str percent_decode(struct arena *arena, struct str s);

#endif
