/* JSON objects (RFC 8259) of tokens, key sets and providers: jansson's, with bounds. */
#ifndef SHARED_JOSE_DOCUMENT_H
#define SHARED_JOSE_DOCUMENT_H

#include <jansson.h>

#include "base/arena.h"
#include "base/str.h"

#define JOSE_DEPTH_MAX 32 /* objects and arrays inside each other */

/*
 * The object that this text is; NULL: it is none, or has a name twice (RFC 8725, 2.6), a NUL, or
 * more depth than JOSE_DEPTH_MAX. The caller bounds its size, and gives it back with json_decref.
 */
json_t *jose_object(struct str text);
/* A string member, as a slice that lives as long as the object; data is NULL where there is none.
 */
struct str jose_string(const json_t *object, const char *name);
/* A number member as seconds since the epoch (RFC 7519, 2: NumericDate), cut to a whole one. 0:
 * none; -1: it is no number. */
int jose_time(const json_t *object, const char *name, int64_t *out);

/* A member by the name of a variable, in which letters have no case: the very name, else the only
 * one that differs in case alone. */
const json_t *jose_member(json_t *object, struct str name);

/*
 * A value as the text of a variable, in the arena: strings as they are, other values as JSON; with
 * as_list the values of an array are separated by commas. False for null. On the worker's own
 * stack.
 */
bool jose_text(const json_t *value, bool as_list, struct arena *arena, struct str *out);

#endif
