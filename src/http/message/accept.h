/* Accept: which of several media types a client likes most (RFC 9110, 12.5.1). */
#ifndef HTTP_MESSAGE_ACCEPT_H
#define HTTP_MESSAGE_ACCEPT_H

#include "base/str.h"

/*
 * The place of the type that is liked most; `count`: none is acceptable. A type may have
 * parameters, "text/plain; version=0.0.4": a range that gives one of them another value does not
 * mean it, those that the type has not are passed over. The most exact range that names a type has
 * its weight. Of types that weigh the same the one that is named most exactly is taken, then the
 * one that the client names first, then the first of the list.
 */
unsigned accept_choose(struct str accepted, const struct str *types, unsigned count);

#endif
