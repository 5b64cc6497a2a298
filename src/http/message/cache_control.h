/* Directives of Cache-Control (RFC 9111, 5.2). */
#ifndef HTTP_MESSAGE_CACHE_CONTROL_H
#define HTTP_MESSAGE_CACHE_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

/* The longest lifetime; larger numbers are taken as this one (RFC 9111, 1.2.2). */
#define CACHE_LIFETIME_MAX INT32_MAX

/* Digits alone, as seconds; what does not fit is the longest. */
bool cache_seconds(struct str text, int64_t *out);
/* The number of a directive that begins with the name: of "max-age=", max-age=12 or max-age="12".
 */
bool cache_control_seconds(struct str directive, struct str name, int64_t *out);

#endif
