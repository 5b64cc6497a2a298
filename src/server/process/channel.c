/* Messages between the master and a worker, one descriptor each at most. */
#define _GNU_SOURCE
#include "server/process/channel.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Buffer for one descriptor, aligned as the kernel requires. */
union control {
    struct cmsghdr header;
    char buffer[CMSG_SPACE(sizeof(int))];
};

bool channel_open(int ends[2])
{
    return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0;
}

bool channel_send(int channel, const struct channel_message *message, int fd)
{
    struct iovec part = {(void *) message, sizeof(*message)};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    union control control;

    if (fd >= 0) {
        memset(&control, 0, sizeof(control));
        header.msg_control = control.buffer;
        header.msg_controllen = sizeof(control.buffer);
        struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(rights), &fd, sizeof(int));
    }
    ssize_t n;
    do {
        n = sendmsg(channel, &header, MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
    return n == (ssize_t) sizeof(*message);
}

/* The descriptor that came with the message, or -1. */
static int take_descriptor(struct msghdr *header)
{
    for (struct cmsghdr *part = CMSG_FIRSTHDR(header); part != NULL;
         part = CMSG_NXTHDR(header, part)) {
        if (part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_RIGHTS &&
            part->cmsg_len >= CMSG_LEN(sizeof(int))) {
            int fd;

            memcpy(&fd, CMSG_DATA(part), sizeof(fd));
            return fd;
        }
    }
    return -1;
}

enum channel_result channel_receive(int channel, struct channel_message *message, int *fd)
{
    struct iovec part = {message, sizeof(*message)};
    union control control;
    ssize_t n;

    *fd = -1;
    for (;;) {
        struct msghdr header = {.msg_iov = &part,
                                .msg_iovlen = 1,
                                .msg_control = control.buffer,
                                .msg_controllen = sizeof(control.buffer)};

        n = recvmsg(channel, &header, MSG_CMSG_CLOEXEC);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return errno == EAGAIN || errno == EWOULDBLOCK ? CHANNEL_EMPTY : CHANNEL_CLOSED;
        }
        if (n == 0) {
            return CHANNEL_CLOSED;
        }
        *fd = take_descriptor(&header);
        if (n == (ssize_t) sizeof(*message)) {
            return CHANNEL_MESSAGE;
        }
        if (*fd >= 0) { /* not a message of ours: drop it */
            close(*fd);
            *fd = -1;
        }
    }
}
