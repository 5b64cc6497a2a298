/* Messages with idle connections from one worker to another: descriptors, and a few bytes of state
 * for each. */
#include "server/worker/batch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fatal.h"
#include "net/shards/listener.h"
#include "server/worker/handover.h"

/* The start of a message. `count` times a size (uint16_t) and that many bytes of state follow. */
struct batch_head {
    uint32_t magic;
    uint32_t count;   /* descriptors */
    struct addr addr; /* of their listener */
    uint32_t opening; /* of their listener, too */
};

struct batch *batch_new(struct listener *listener)
{
    struct batch *batch = malloc(sizeof(*batch));
    struct batch_head head = {.magic = HANDOVER_FORM};

    if (batch == NULL) {
        fatal_no_memory(sizeof(*batch));
    }
    batch->next = NULL;
    batch->listener = listener;
    batch->count = 0;
    head.addr = listener->addr;
    head.opening = listener->opening;
    memcpy(batch->data, &head, sizeof(head));
    batch->size = sizeof(head);
    return batch;
}

bool batch_takes(const struct batch *batch, const struct listener *listener, size_t size)
{
    return batch->listener == listener && batch->count < BATCH_MOST &&
           batch->size + sizeof(uint16_t) + size <= BATCH_SIZE;
}

void batch_add(struct batch *batch, int fd, const void *state, size_t size)
{
    uint16_t short_size = (uint16_t) size;

    memcpy(batch->data + batch->size, &short_size, sizeof(short_size));
    batch->size += sizeof(short_size);
    if (size != 0) {
        memcpy(batch->data + batch->size, state, size);
        batch->size += size;
    }
    batch->fds[batch->count++] = fd;
}

bool batch_send(struct batch *batch, int to)
{
    struct batch_head *head = (struct batch_head *) (void *) batch->data;
    union batch_control control;
    struct iovec part = {batch->data, batch->size};
    struct msghdr header = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = control.buffer,
                            .msg_controllen = CMSG_SPACE(batch->count * sizeof(int))};

    memset(&control, 0, sizeof(control));
    head->count = batch->count;
    struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(batch->count * sizeof(int));
    memcpy(CMSG_DATA(rights), batch->fds, batch->count * sizeof(int));
    ssize_t n;
    do {
        n = sendmsg(to, &header, MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
    return n >= 0;
}

static bool batch_read_head(const char *data, size_t size, struct batch_head *head)
{
    if (size < sizeof(*head)) {
        return false;
    }
    memcpy(head, data, sizeof(*head));
    return head->magic == HANDOVER_FORM;
}

unsigned batch_count(const char *data, size_t size)
{
    struct batch_head head;

    return !batch_read_head(data, size, &head) ? 0
           : head.count < BATCH_MOST           ? head.count
                                               : BATCH_MOST;
}

unsigned batch_peek(int from)
{
    char data[sizeof(struct batch_head)];
    ssize_t n = recv(from, data, sizeof(data), MSG_PEEK | MSG_DONTWAIT);

    return n < 0 ? 0 : batch_count(data, (size_t) n);
}

bool batch_listener(const char *data, size_t size, struct addr *addr, uint32_t *opening)
{
    struct batch_head head;

    if (!batch_read_head(data, size, &head)) {
        return false;
    }
    *addr = head.addr;
    *opening = head.opening;
    return true;
}

bool batch_next(const char *data, size_t size, size_t *at, struct str *state)
{
    uint16_t state_size;

    if (*at == 0) {
        *at = sizeof(struct batch_head);
    }
    if (*at > size || size - *at < sizeof(state_size)) {
        return false;
    }
    memcpy(&state_size, data + *at, sizeof(state_size));
    if (state_size > size - *at - sizeof(state_size)) {
        return false;
    }
    *state = (struct str){(char *) (uintptr_t) data + *at + sizeof(state_size), state_size};
    *at += sizeof(state_size) + state_size;
    return true;
}
