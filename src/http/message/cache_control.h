/* Directives of Cache-Control (RFC 9111, 5.2). */
#ifndef HTTP_MESSAGE_CACHE_CONTROL_H
#define HTTP_MESSAGE_CACHE_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

/* The longest lifetime; larger numbers are reduced to it (RFC 9111, 1.2.2). */
#define CACHE_LIFETIME_MAX INT32_MAX

/* Parses seconds, digits only; a number that is too large becomes CACHE_LIFETIME_MAX. */
bool cache_seconds(struct str text, int64_t *out);
/* The number of a directive with this name: for "max-age=", that of max-age=12 or max-age="12". */
bool cache_control_seconds(struct str directive, struct str name, int64_t *out);

#endif
