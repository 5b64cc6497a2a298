/* Names and numbers of methods. */
#ifndef HTTP_MESSAGE_METHODS_H
#define HTTP_MESSAGE_METHODS_H

#include "base/str.h"

/* Methods (RFC 9110, 9.3; RFC 4918, 9; RFC 5789), one bit each. One list for the enum and the
 * names. X(METHOD, "NAME", bit) */
#define KNOWN_METHODS(X)                                                                           \
    X(METHOD_GET, "GET", 0)                                                                        \
    X(METHOD_HEAD, "HEAD", 1)                                                                      \
    X(METHOD_POST, "POST", 2)                                                                      \
    X(METHOD_PUT, "PUT", 3)                                                                        \
    X(METHOD_DELETE, "DELETE", 4)                                                                  \
    X(METHOD_MKCOL, "MKCOL", 5)                                                                    \
    X(METHOD_COPY, "COPY", 6)                                                                      \
    X(METHOD_MOVE, "MOVE", 7)                                                                      \
    X(METHOD_OPTIONS, "OPTIONS", 8)                                                                \
    X(METHOD_PROPFIND, "PROPFIND", 9)                                                              \
    X(METHOD_PROPPATCH, "PROPPATCH", 10)                                                           \
    X(METHOD_LOCK, "LOCK", 11)                                                                     \
    X(METHOD_UNLOCK, "UNLOCK", 12)                                                                 \
    X(METHOD_PATCH, "PATCH", 13)                                                                   \
    X(METHOD_TRACE, "TRACE", 14)                                                                   \
    X(METHOD_CONNECT, "CONNECT", 15)

enum http_method {
    METHOD_OTHER = 0,
#define METHOD_ENUM(method, name, bit) method = 1 << (bit),
    KNOWN_METHODS(METHOD_ENUM)
#undef METHOD_ENUM
};

/* The number of a method; METHOD_OTHER if it is unknown. Names are case-sensitive (RFC 9110, 9.1),
 * except in configurations. */
unsigned method_named(struct str name);
unsigned method_named_nocase(struct str name);

#endif
