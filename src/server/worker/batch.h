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
    BATCH_MOST = 64,    /* descriptors in one message; the kernel takes 253 */
    STATE_MOST = 1024,  /* bytes with one descriptor */
    BATCH_SIZE = 16384, /* bytes of one message */
};

/* A message that is being gathered or waits to be sent. */
struct batch {
    struct batch *next;
    struct listener *listener; /* of all in it */
    unsigned count;            /* descriptors, owned by the owner of the batch */
    int fds[BATCH_MOST];
    size_t size; /* bytes of data in use */
    char data[BATCH_SIZE];
};

/* Room for the descriptors of a message, aligned as the kernel wants it. */
union batch_control {
    struct cmsghdr header;
    char room[CMSG_SPACE(BATCH_MOST * sizeof(int))];
};

/* An empty one on the heap, for connections of a listener. Never NULL. */
struct batch *batch_new(struct listener *listener);
/* Is there room for one more connection of that listener, with so many bytes of state? */
bool batch_takes(const struct batch *batch, const struct listener *listener, size_t size);
/* Adds a descriptor, which the batch owns from now on; at most STATE_MOST bytes of state. */
void batch_add(struct batch *batch, int fd, const void *state, size_t size);
/* Sends it in one message, without waiting; the descriptors remain the batch's. False with errno.
 */
bool batch_send(struct batch *batch, int to);

/* How many descriptors the next message brings; 0 = none, or there is no message. It is not taken,
 * nor are they. */
unsigned batch_peek(int from);

/* ---- a message that came: `size` bytes of data */

/* How many descriptors were sent with it. */
unsigned batch_count(const char *data, size_t size);

/* Whose connections they are. False: it is none of ours. */
bool batch_listener(const char *data, size_t size, struct addr *addr, uint32_t *opening);
/* The state that came with the next descriptor; *at is 0 at first. False: there is none. */
bool batch_next(const char *data, size_t size, size_t *at, struct str *state);

#endif
