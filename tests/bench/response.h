/* answer: the head of an HTTP/1.1 response, as far as a load generator needs it. */

#ifndef BENCH_ANSWER_H
#define BENCH_ANSWER_H

#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>

enum { HEAD_MAX = 16 * 1024 }; /* longest response head, in bytes */

#define UNTIL_EOF (-1) /* length: the body ends with the connection */
#define CHUNKED (-2)   /* length: the body says by its chunks where it ends */

struct head {
    size_t size;    /* bytes with the empty line */
    int64_t length; /* bytes of body, or UNTIL_EOF, or CHUNKED */
    int status;
    bool closes; /* "Connection: close" */
};

/* Finds the response head at the start of data and reads it. Gives 1 when it is whole, 0 when more
 * is needed, -1 for what is no response, is longer than HEAD_MAX, or has another transfer coding
 * than chunked. Does not wait. Not for threads: it remembers the last head. RFC 9112, sections 2, 4
 * and 6. */
int head_find(const char *data, size_t size, struct head *head);

#endif
