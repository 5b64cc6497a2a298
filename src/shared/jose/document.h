/* JSON objects (RFC 8259) of tokens, key sets and providers, parsed by jansson, with limits. */
#ifndef SHARED_JOSE_DOCUMENT_H
#define SHARED_JOSE_DOCUMENT_H

#include <jansson.h>

#include "base/arena.h"
#include "base/str.h"

#define JOSE_DEPTH_MAX 32 /* nested objects and arrays */

/*
 * Parses an object. NULL: the text is not an object, or has a duplicate name (RFC 8725, 2.6), a
 * NUL, or is nested deeper than JOSE_DEPTH_MAX. The caller limits its size, and frees it with
 * json_decref.
 */
json_t *jose_object(struct str text);
/* A string member, as a slice that lives as long as the object; data is NULL if there is none. */
struct str jose_string(const json_t *object, const char *name);
/* A number member as seconds since the epoch (RFC 7519, 2: NumericDate), truncated to an integer.
 * 0: there is none; -1: it is not a number. */
int jose_time(const json_t *object, const char *name, int64_t *out);

/* A member by the name of a variable, which is case-insensitive: the exact name, else the only one
 * that differs in case only. */
const json_t *jose_member(json_t *object, struct str name);

/*
 * A value as text for a variable, in the arena: strings as they are, other values as JSON; with
 * as_list the values of an array are separated by commas. False for null. On the worker's own
 * stack.
 */
bool jose_text(const json_t *value, bool as_list, struct arena *arena, struct str *out);

#endif
