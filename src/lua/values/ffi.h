/*
 * What library/values calls, by FFI. None of these waits. Bytes that come out are written to a
 * buffer of the caller, which has to have room for the most that there may be; functions that
 * return int give their number (library/buffer.lua says why).
 */
#ifndef LUA_VALUES_FFI_H
#define LUA_VALUES_FFI_H

#include <stddef.h>
#include <stdint.h>

/* ---- hashes (hash.c) */

void script_ffi_md5(const char *data, size_t len, char *out);      /* 32 hex digits */
void script_ffi_md5_bin(const char *data, size_t len, char *out);  /* 16 bytes */
void script_ffi_sha1_bin(const char *data, size_t len, char *out); /* 20 bytes */
/* Two hex digits for each byte, at `out`; gives their end. Libraries call it by this name. */
unsigned char *ngx_hex_dump(unsigned char *out, const unsigned char *data, size_t len);
/* The number in these digits; -1: it is none, or too large. Libraries call it by this name. */
intptr_t ngx_atoi(const unsigned char *digits, size_t len);
/* The same of hexadecimal digits. */
intptr_t ngx_hextoi(const unsigned char *digits, size_t len);
/* A text as nginx has it. */
struct script_ngx_str {
    size_t len;
    const unsigned char *data;
};
/* A time such as 1m30s, in seconds, or in milliseconds; -1: it is none. */
intptr_t ngx_parse_time(const struct script_ngx_str *text, uintptr_t in_seconds);
double script_ffi_crc32(const char *data, size_t len);

/* ---- encodings (encode.c) */

/*
 * Percent-encodes for a kind, 0 to 6 as above, and gives the end of what it wrote; without `out`
 * the number of bytes that it would encode. Libraries call it by this name.
 */
uintptr_t ngx_escape_uri(unsigned char *out, const unsigned char *data, size_t len, uintptr_t kind);

/* Every byte `from` becomes `to`. */
void script_ffi_replace_char(const char *data, size_t len, int from, int to, char *out);

/* Percent-encodes what the kind wants; kinds are 0 to 6, as ngx.escape_uri counts them. */
int script_ffi_escape_uri(const char *data, size_t len, int kind, char *out); /* at most 3 * len */
int script_ffi_unescape_uri(const char *data, size_t len, char *out);         /* at most len */
enum { SCRIPT_BASE64_URL = 1, SCRIPT_BASE64_NO_PADDING = 2, SCRIPT_BASE64_MIME = 4 };
/* At most (len + 2) / 3 * 4 bytes. */
int script_ffi_encode_base64(const char *data, size_t len, int how, char *out);
/* At most len bytes. -1: it is none. */
int script_ffi_decode_base64(const char *data, size_t len, int how, char *out);
int script_ffi_quote_sql(const char *data, size_t len, char *out); /* at most 2 * len + 2 */

/* ---- times (time.c) */

void script_ffi_update_time(void);
double script_ffi_monotonic_ms(void);
enum { SCRIPT_TODAY, SCRIPT_LOCALTIME, SCRIPT_UTCTIME };
int script_ffi_clock_text(int which, char *out);                    /* at most 64 */
int script_ffi_http_time(double seconds, int is_cookie, char *out); /* at most HTTP_DATE_LENGTH */
double script_ffi_parse_http_time(const char *data, size_t len);    /* -1: it is none */

/* ---- regular expressions (regex.c) */

/* A pattern, compiled. What Lua sees is above `code`. */
struct script_regex {
    int *captures;  /* of the last match: begin and end of each group, from 0; -1 where it took no
                       part */
    int groups;     /* without $0 */
    int name_count; /* named groups */
    int name_size;  /* bytes of an entry in names: number (two bytes), name, NUL */
    int replaced;   /* matches that the last replacement replaced */
    const unsigned char *names;
    void *code;           /* pcre2_code */
    void *data;           /* pcre2_match_data */
    uint32_t match_limit; /* steps; 0 = as PCRE2 has it */
    uint32_t match_options;
    int is_dfa;
    int is_utf;
    int is_fast; /* pcre2_jit_match may be called */
};

/* What an option letter means; library/values/regex.lua has the same. */
enum {
    SCRIPT_REGEX_CASELESS = 1 << 0,
    SCRIPT_REGEX_MULTILINE = 1 << 1,
    SCRIPT_REGEX_DOTALL = 1 << 2,
    SCRIPT_REGEX_EXTENDED = 1 << 3,
    SCRIPT_REGEX_ANCHORED = 1 << 4,
    SCRIPT_REGEX_UTF = 1 << 5,
    SCRIPT_REGEX_NO_UTF_CHECK = 1 << 6,
    SCRIPT_REGEX_DUPNAMES = 1 << 7,
    SCRIPT_REGEX_JAVASCRIPT = 1 << 8,
    SCRIPT_REGEX_DFA = 1 << 9,
    SCRIPT_REGEX_JIT = 1 << 10,
};

enum { SCRIPT_REGEX_ERROR = 1024 }; /* bytes of a message, without the pattern */
/*
 * Compiles a pattern. 0: that was made; or the bytes of a message that says why not, at most
 * SCRIPT_REGEX_ERROR + 2 * len. Needs 32 KB of stack.
 */
int script_ffi_regex_new(const char *pattern, size_t len, int flags, double match_limit,
                         struct script_regex **made, char *message);
void script_ffi_regex_free(struct script_regex *regex);
/* Above 0: a match, in captures; 0: none; below: an error of PCRE2. */
int script_ffi_regex_match(struct script_regex *regex, const char *subject, size_t len,
                           size_t from);
/* A text with groups of a match in it, taken apart. Lua owns what it points to. */
struct script_template {
    const char *text; /* the whole */
    const int *list;  /* a pair for each part: a place in text and a length, or -1 and a group */
    int count;        /* parts */
};
/*
 * Replaces matches, so many at most, by what the template makes of them. Gives the bytes of the
 * whole text, which is only complete if it has no more than `size` of them; without a match 0; or
 * an error of PCRE2 below 0.
 */
int script_ffi_regex_replace(struct script_regex *regex, const char *subject, size_t len,
                             const struct script_template *template, int most, char *out, int size);
/* The stack of matches with JIT; 0: there is no memory. */
int script_ffi_regex_jit_stack(size_t size);

/* ---- others (values.c) */

/* What works is done for; NULL where nothing runs, or in init_by_lua. */
void *script_ffi_request(void);

#endif
