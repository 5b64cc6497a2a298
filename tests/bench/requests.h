/* requests: the list of requests that the load generator sends, ready as bytes. */

#ifndef BENCH_REQUESTS_H
#define BENCH_REQUESTS_H

#include <stddef.h>

/* Adds a URI to the list. Ends the program when memory is out. */
void requests_add(const char *uri);

/* Adds each line of a file. Ends the program if it cannot be read. */
void requests_add_file(const char *name);

/* Makes the bytes, once, after all URIs were added (none: "/"). `headers` are whole lines with
 * CRLF; `depth` is the most requests that will be taken at a time. */
void requests_build(const char *host, const char *headers, unsigned depth);

/* The bytes of the next `count` requests of the list, taken round robin, as one piece. */
const char *requests_take(unsigned count, size_t *size);

#endif
