/* Accept: which of several media types a client prefers (RFC 9110, 12.5.1). */
#ifndef HTTP_MESSAGE_ACCEPT_H
#define HTTP_MESSAGE_ACCEPT_H

#include "base/str.h"

/* The index of the preferred type; `count` if none is acceptable. Types may have parameters,
 * "text/plain; version=0.0.4": a range with another value of such a parameter does not match;
 * parameters of the range that the type does not have are ignored. The most specific range that
 * matches a type determines its weight. Of types with the same weight the one with the more
 * specific match wins, then the one that the client lists first, then the first in `types`. */
unsigned accept_choose(struct str accepted, const struct str *types, unsigned count);

#endif
