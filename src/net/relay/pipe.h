/* Pipes that hold bytes on their way between two plain sockets: a small pool of the worker. */
#ifndef NET_RELAY_PIPE_H
#define NET_RELAY_PIPE_H

#include <stdint.h>

/* A pipe: in use while a relay has one, and then with bytes in it, mostly. */
struct relay_pipe {
    int read_fd;
    int write_fd;
    uint32_t size; /* bytes that it has room for, at most: small packets take more of it than they
                      hold */
    uint32_t held; /* bytes in it; its user's to keep */
    struct relay_pipe *next_free; /* in the pool */
};

/* An empty one, or NULL: too many are in use, or there are no descriptors, or the user has too many
 * pages in pipes. */
struct relay_pipe *relay_pipe_take(void);

/* Back to the pool. What is left in it is lost. */
void relay_pipe_give(struct relay_pipe *pipe);

#endif
