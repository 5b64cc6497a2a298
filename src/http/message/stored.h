/* A stored response: an HTTP/1.1 header, and the body. */
#ifndef HTTP_MESSAGE_STORED_H
#define HTTP_MESSAGE_STORED_H

#include "base/arena.h"
#include "base/buf.h"
#include "http/message/fields.h"

#define STORED_HEAD_MAX 65536 /* bytes of all fields, and of one line */

/* A parsed response; slices of the bytes. */
struct stored {
    unsigned status;
    struct str reason;    /* text after the status, trimmed */
    struct fields fields; /* in the arena */
    struct str body;      /* the part of the body in `bytes` */
};

/* Parses the beginning of a stored response of `size` bytes, including the whole header. NULL, or
 * an error message. */
const char *stored_parse(struct str bytes, uint64_t size, struct arena *arena, struct stored *out);

#endif
