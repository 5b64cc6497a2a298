/* Messages with idle connections from one worker to another. Private to this package. */
#ifndef SERVER_WORKER_BATCH_H
#define SERVER_WORKER_BATCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/str.h"
#include "net/addr/addr.h"

struct listener;

enum {
    BATCH_MOST = 64,    /* descriptors in one message; the kernel allows 253 */
    STATE_MOST = 1024,  /* bytes of state for one descriptor */
    BATCH_SIZE = 16384, /* bytes of one message */
};

/* A message that is being filled or waits to be sent. */
struct batch {
    struct batch *next;
    struct listener *listener; /* of all connections in it */
    unsigned count;            /* descriptors, owned by the owner of the batch */
    int fds[BATCH_MOST];
    size_t size; /* bytes of data in use */
    char data[BATCH_SIZE];
};

/* Buffer for the descriptors of a message, aligned as the kernel requires. */
union batch_control {
    struct cmsghdr header;
    char buffer[CMSG_SPACE(BATCH_MOST * sizeof(int))];
};

/* A new, empty batch on the heap, for connections of a listener. Never NULL. */
struct batch *batch_new(struct listener *listener);
/* Does one more connection of that listener, with this much state, fit? */
bool batch_takes(const struct batch *batch, const struct listener *listener, size_t size);
/* Adds a descriptor, which the batch owns from now on, with at most STATE_MOST bytes of state. */
void batch_add(struct batch *batch, int fd, const void *state, size_t size);
/* Sends the batch in one message, without waiting; the batch keeps its descriptors. False with
   errno. */
bool batch_send(struct batch *batch, int to);

/* How many descriptors the next message brings; 0 = none, or there is no message. The message is
 * not consumed. */
unsigned batch_peek(int from);

/* ---- a received message: `size` bytes of data */

/* How many descriptors were sent with it. */
unsigned batch_count(const char *data, size_t size);

/* The listener of its connections. False: not a message of ours. */
bool batch_listener(const char *data, size_t size, struct addr *addr, uint32_t *opening);
/* The state of the next descriptor; *at is 0 at first. False: there is none. */
bool batch_next(const char *data, size_t size, size_t *at, struct str *state);

#endif
