/* Passwords as a user file has them, and whether a given one is the same. */
#ifndef HTTP_MODULES_ACCESS_AUTH_BASIC_PASSWORD_H
#define HTTP_MODULES_ACCESS_AUTH_BASIC_PASSWORD_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/str.h"

/* Does the comparison take so long that a worker may not do it itself? {PLAIN}, {SHA} and {SSHA} do
 * not. */
bool password_is_costly(struct str stored);

/*
 * Is this the password? Of those that are not costly: {PLAIN}, {SHA} and {SSHA} (RFC 2307). What
 * cannot be understood is nobody's. Bytes are compared in constant time.
 */
bool password_matches(struct arena *arena, struct str stored, struct str given);

/*
 * The same of costly ones, on any thread: $apr1$ of htpasswd, and all that the system's crypt()
 * knows. Both texts are NUL-terminated (not counted). Without memory it is no match.
 */
bool password_matches_hash(struct str stored, struct str given);

#endif
