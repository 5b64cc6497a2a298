/* Pipes that hold bytes between two plain sockets: a small pool of the worker. */
#ifndef NET_RELAY_PIPE_H
#define NET_RELAY_PIPE_H

#include <stdint.h>

/* A pipe, in use while a relay has it. */
struct relay_pipe {
    int read_fd;
    int write_fd;
    uint32_t size; /* bytes that it holds at most; small packets use more of its space than their
                      length */
    uint32_t held; /* bytes in it; maintained by its user */
    struct relay_pipe *next_free; /* in the pool */
};

/* Takes an empty pipe, or NULL: too many are in use, there are no descriptors, or the user has too
 * many pages in pipes. */
struct relay_pipe *relay_pipe_take(void);

/* Returns a pipe to the pool. Bytes left in it are lost. */
void relay_pipe_give(struct relay_pipe *pipe);

#endif
