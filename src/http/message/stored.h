/* A response as it is stored: a head of HTTP/1.1, and the body. */
#ifndef HTTP_MESSAGE_STORED_H
#define HTTP_MESSAGE_STORED_H

#include "base/arena.h"
#include "base/buf.h"
#include "http/message/fields.h"

#define STORED_HEAD_MAX 65536 /* bytes of a head's fields, and of a line of them */

/* One that was read; slices of the bytes. */
struct stored {
    unsigned status;
    struct str reason;    /* after the status, trimmed */
    struct fields fields; /* of the head; in the arena that was given */
    struct str body;      /* as much of the body as is there */
};

/* The first bytes of so many, the head among them: NULL, or what is wrong with them. */
const char *stored_parse(struct str bytes, uint64_t size, struct arena *arena, struct stored *out);

#endif
