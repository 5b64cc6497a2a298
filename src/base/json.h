/* JSON (RFC 8259): writes a document, and reads a text value by value. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include "base/arena.h"
#include "base/buf.h"

/* ---- writing ---- */

/* A document that is being written. Commas are added before all members of an object, or items of a
   list, but the first. */
struct json {
    struct buf *out;
    struct arena *arena; /* temporary memory of the writing code; or NULL */
    bool has_member;     /* the open object or list has one */
};

/* Writes a string in quotes. Bytes that are not UTF-8 are left out. */
void json_put_text(struct json *json, struct str text);
/* Writes what comes before a value: a comma if necessary, and the name unless it is empty. */
void json_put_name(struct json *json, struct str name);
void json_put_number(struct json *json, const char *name, uint64_t number);
void json_put_string(struct json *json, const char *name, struct str text);
void json_put_flag(struct json *json, const char *name, bool flag);
void json_open(struct json *json, struct str name, char bracket);
void json_close(struct json *json, char bracket);

/* ---- reading ---- */

/* A text that is being read; strings with escapes are decoded into the arena, others are slices of
 * the text. */
struct json_text {
    const char *at;
    const char *end;
    struct arena *arena;
};

/* The type of the next value: '{', '[', '"', '0' (a number), 't', 'f', 'n'; 0: none. Skips white
 * space before it. */
char json_peek(struct json_text *text);
/* Skips white space and this byte. False: another byte comes next. */
bool json_skip(struct json_text *text, char byte);
/* A literal: "null", "true", "false". */
bool json_take_word(struct json_text *text, struct str word);
/* A whole number that is not negative. */
bool json_take_number(struct json_text *text, uint64_t *out);
/* A string, which must be UTF-8. */
bool json_take_string(struct json_text *text, struct str *out);
/*
 * The name of the next member of an object whose '{' was skipped; the value comes next. *is_first
 * is true before the first member and is cleared by this. *is_end: there is none, and the '}' was
 * skipped. False: malformed.
 */
bool json_next_member(struct json_text *text, bool *is_first, struct str *name, bool *is_end);
/* The same for the next value of a list whose '[' was skipped. */
bool json_next_item(struct json_text *text, bool *is_first, bool *is_end);
#define JSON_DEPTH_MOST 64
/* Skips the next value of any type. False: malformed, or deeper than JSON_DEPTH_MOST. */
bool json_skip_value(struct json_text *text);
/* Is there only white space left? */
bool json_is_over(struct json_text *text);

#endif
