/* What a client of TLS says first, read without an answer (RFC 8446, 4.1.2; RFC 5246, 7.4.1.2; RFC
 * 6066, 3; RFC 7301). */
#ifndef STREAM_MODULES_SSL_PREREAD_HELLO_H
#define STREAM_MODULES_SSL_PREREAD_HELLO_H

#include <stdint.h>

#include "base/arena.h"
#include "base/str.h"

/* A ClientHello in the making; all zero at first. */
struct hello {
    size_t walked;        /* bytes of the input whose records are whole */
    size_t gathered;      /* bytes of the message in these records */
    unsigned version;     /* the highest that the client speaks, as on the wire; 0 = not known */
    struct str name;      /* of the server, as the client wrote it; empty = none */
    struct str protocols; /* that it offers, joined by commas; empty = none */
};

enum hello_result {
    HELLO_MORE, /* it is not whole */
    HELLO_DONE, /* version, name and protocols are known; texts are in the arena */
    HELLO_NONE, /* this is no ClientHello, or a broken one */
};

/*
 * Looks at all that has come so far; asked again with more of the same input. What was seen to be
 * whole is not looked at again, and nothing is taken from the arena before the message is whole.
 */
enum hello_result hello_read(struct hello *hello, struct str input, struct arena *arena);

/* "TLSv1.3" and so on; empty: of none that is known. */
struct str hello_version_name(unsigned version);

#endif
