/* requests: the list of requests that the load generator sends, ready as bytes. */

#define _GNU_SOURCE
#include "requests.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char **uris;
static unsigned uri_count;
static unsigned uri_next;

/* The requests of the list one after the other, and again its first ones, so that any batch is one
 * piece: it starts at offset[first] and ends at offset[first + count]. */
static char *wire;
static size_t *offset;

static void *check(void *pointer, const char *what)
{
    if (pointer == NULL) {
        fprintf(stderr, "load: %s: %s\n", what, strerror(errno));
        exit(2);
    }
    return pointer;
}

void requests_add(const char *uri)
{
    uris = check(realloc(uris, (uri_count + 1) * sizeof *uris), "realloc");
    uris[uri_count++] = check(strdup(uri), "strdup");
}

void requests_add_file(const char *name)
{
    FILE *file = check(fopen(name, "r"), name);
    char *line = NULL;
    size_t size = 0;

    while (getline(&line, &size, file) >= 0) {
        line[strcspn(line, "\r\n")] = '\0';
        if (line[0] != '\0')
            requests_add(line);
    }
    free(line);
    fclose(file);
}

void requests_build(const char *host, const char *headers, unsigned depth)
{
    unsigned count;
    size_t size;
    FILE *stream = check(open_memstream(&wire, &size), "open_memstream");

    if (uri_count == 0)
        requests_add("/");
    count = uri_count + depth;
    offset = check(calloc(count + 1, sizeof *offset), "calloc");
    for (unsigned i = 0; i < count; i++) {
        fprintf(stream, "GET %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", uris[i % uri_count], host,
                headers);
        fflush(stream);
        offset[i + 1] = size;
    }
    fclose(stream);
}

const char *requests_take(unsigned count, size_t *size)
{
    unsigned first = uri_next;

    uri_next = (uri_next + count) % uri_count;
    *size = offset[first + count] - offset[first];
    return wire + offset[first];
}
