/* Compares a password with an entry of a user file. */
#ifndef HTTP_MODULES_ACCESS_AUTH_BASIC_PASSWORD_H
#define HTTP_MODULES_ACCESS_AUTH_BASIC_PASSWORD_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/str.h"

/* Does the comparison take too long for the worker's own thread? False for {PLAIN}, {SHA} and
 * {SSHA}. */
bool password_is_costly(struct str stored);

/* Compares in the worker: {PLAIN}, {SHA} and {SSHA} (RFC 2307). Malformed entries never match.
 * Bytes are compared in constant time. */
bool password_matches(struct arena *arena, struct str stored, struct str given);

/* Compares on any thread: $apr1$ of htpasswd, and all schemes of the system's crypt(). Both strings
 * have a NUL after their end. Without memory there is no match. */
bool password_matches_hash(struct str stored, struct str given);

#endif
