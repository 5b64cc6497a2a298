/* JSON (RFC 8259): a document as it is written, and a text as it is read, value by value. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include "base/arena.h"
#include "base/buf.h"

/* ---- writing ---- */

/* A document on its way. A comma stands before all members but the first of an object, or a list.
 */
struct json {
    struct buf *out;
    struct arena *arena; /* of who writes it, for what it needs on the way; or NULL */
    bool has_member;     /* the object, or the list, that is open */
};

/* A string in quotes. Bytes that are no UTF-8 are left out. */
void json_put_text(struct json *json, struct str text);
/* What comes before a value: its name, where it has one. */
void json_put_name(struct json *json, struct str name);
void json_put_number(struct json *json, const char *name, uint64_t number);
void json_put_string(struct json *json, const char *name, struct str text);
void json_put_flag(struct json *json, const char *name, bool flag);
void json_open(struct json *json, struct str name, char bracket);
void json_close(struct json *json, char bracket);

/* ---- reading ---- */

/* A text that is being read; strings with escapes are decoded to the arena, others are slices of
 * the text. */
struct json_text {
    const char *at;
    const char *end;
    struct arena *arena;
};

/* What the next value is: '{', '[', '"', '0' (a number), 't', 'f', 'n'; 0: none. Blanks before it
 * are passed over. */
char json_peek(struct json_text *text);
/* Passes this byte, after spaces. False: another one is there. */
bool json_skip(struct json_text *text, char byte);
/* A literal: "null", "true", "false". */
bool json_take_word(struct json_text *text, struct str word);
/* A whole number that is not negative. */
bool json_take_number(struct json_text *text, uint64_t *out);
/* A string of UTF-8. */
bool json_take_string(struct json_text *text, struct str *out);
/*
 * The next member of an object whose '{' was passed: its name; its value stands next. *is_first is
 * true before the first and cleared by this. *is_end: there is none, and the '}' was passed. False:
 * malformed.
 */
bool json_next_member(struct json_text *text, bool *is_first, struct str *name, bool *is_end);
/* The same for the next value of a list whose '[' was passed. */
bool json_next_item(struct json_text *text, bool *is_first, bool *is_end);
#define JSON_DEPTH_MOST 64
/* Passes the next value, whatever it is. False: malformed, or deeper than JSON_DEPTH_MOST. */
bool json_skip_value(struct json_text *text);
/* Nothing but blanks is left. */
bool json_is_over(struct json_text *text);

#endif
