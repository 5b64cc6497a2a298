/* The first message of a TLS client, read without a response to it (RFC 8446, 4.1.2; RFC 5246,
 * 7.4.1.2; RFC 6066, 3; RFC 7301). */
#ifndef STREAM_MODULES_SSL_PREREAD_HELLO_H
#define STREAM_MODULES_SSL_PREREAD_HELLO_H

#include <stdint.h>

#include "base/arena.h"
#include "base/str.h"

/* The state of parsing a ClientHello; all zero at first. */
struct hello {
    size_t walked;        /* bytes of the input that are complete records */
    size_t gathered;      /* bytes of the message in these records */
    unsigned version;     /* the highest version of the client, as on the wire; 0 = unknown */
    struct str name;      /* of the server, as the client sent it; empty = none */
    struct str protocols; /* offered by ALPN, joined by commas; empty = none */
};

enum hello_result {
    HELLO_MORE, /* the message is not complete */
    HELLO_DONE, /* version, name and protocols are known; strings are in the arena */
    HELLO_NONE, /* not a ClientHello, or malformed */
};

/*
 * Parses all input so far; call it again with more of the same input. Complete records are not
 * parsed again, and the arena is not used before the message is complete.
 */
enum hello_result hello_read(struct hello *hello, struct str input, struct arena *arena);

/* "TLSv1.3" and so on; empty: unknown version. */
struct str hello_version_name(unsigned version);

#endif
