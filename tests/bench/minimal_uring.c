/* minimal_uring: minimal.c on io_uring instead of epoll, with all that saves calls: multishot
 * accept, a ring of buffers for what is received, sends and closes submitted by the call that
 * waits, completions run by it as well (DEFER_TASKRUN).
 *
 *   minimal_uring PORT
 *
 * It ends with status 3 where the kernel, or a filter of system calls, has no such io_uring. */

#define _GNU_SOURCE
#include <errno.h>
#include <linux/io_uring.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    ENTRIES = 1024,     /* submissions */
    COMPLETIONS = 8192, /* of the ring */
    BUFFERS = 64,       /* few, so that they stay in the processor's cache; a power of two */
    BUFFER_SIZE = 4096,
    NO_IO_URING = 3 /* exit status */
};

enum operation { ACCEPT, RECEIVE, SEND, CLOSE };

static const char answer[] =
    "HTTP/1.1 200 OK\r\nServer: minimal/1.0.00\r\nDate: Thu, 19 Nov 2026 12:00:00 GMT\r\n"
    "Content-Type: image/gif\r\nContent-Length: 43\r\nConnection: keep-alive\r\n"
    "Last-Modified: Mon, 28 Sep 1970 06:00:00 GMT\r\n\r\n"
    "0123456789012345678901234567890123456789012";

static int ring_fd, listener;
static struct io_uring_sqe *entries;
static _Atomic unsigned *sq_tail, *cq_head, *cq_tail;
static unsigned sq_mask, cq_mask, pending; /* pending: entries that were not submitted yet */
static struct io_uring_cqe *completions;
static struct io_uring_buf_ring *buffers;
static char memory[BUFFERS][BUFFER_SIZE];

static void *ring_map(size_t size, off_t offset)
{
    void *place =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring_fd, offset);

    if (place == MAP_FAILED) {
        perror("minimal_uring: mmap");
        exit(1);
    }
    return place;
}

static void buffer_give(unsigned index)
{
    struct io_uring_buf *slot = &buffers->bufs[buffers->tail & (BUFFERS - 1)];

    slot->addr = (uintptr_t) memory[index];
    slot->len = BUFFER_SIZE;
    slot->bid = (uint16_t) index;
    atomic_store_explicit((_Atomic uint16_t *) &buffers->tail, (uint16_t) (buffers->tail + 1),
                          memory_order_release);
}

static bool ring_make(void)
{
    struct io_uring_params params = {.flags = IORING_SETUP_SINGLE_ISSUER |
                                              IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_CQSIZE,
                                     .cq_entries = COMPLETIONS};
    struct io_uring_buf_reg registered = {.ring_entries = BUFFERS};

    ring_fd = (int) syscall(SYS_io_uring_setup, ENTRIES, &params);
    if (ring_fd < 0)
        return false;
    char *sq =
        ring_map(params.sq_off.array + params.sq_entries * sizeof(unsigned), IORING_OFF_SQ_RING);
    char *cq =
        ring_map(params.cq_off.cqes + params.cq_entries * sizeof *completions, IORING_OFF_CQ_RING);
    entries = ring_map(params.sq_entries * sizeof *entries, IORING_OFF_SQES);
    sq_tail = (_Atomic unsigned *) (void *) (sq + params.sq_off.tail);
    sq_mask = params.sq_entries - 1;
    for (unsigned i = 0; i < params.sq_entries; i++)
        ((unsigned *) (void *) (sq + params.sq_off.array))[i] = i;
    cq_head = (_Atomic unsigned *) (void *) (cq + params.cq_off.head);
    cq_tail = (_Atomic unsigned *) (void *) (cq + params.cq_off.tail);
    cq_mask = params.cq_entries - 1;
    completions = (void *) (cq + params.cq_off.cqes);
    buffers = mmap(NULL, BUFFERS * sizeof(struct io_uring_buf), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    registered.ring_addr = (uintptr_t) buffers;
    if (syscall(SYS_io_uring_register, ring_fd, IORING_REGISTER_PBUF_RING, &registered, 1) < 0)
        return false;
    for (unsigned i = 0; i < BUFFERS; i++)
        buffer_give(i);
    return true;
}

/* Submits what is pending; waits for a completion if that is asked for. */
static void ring_enter(bool waits)
{
    long done =
        syscall(SYS_io_uring_enter, ring_fd, pending, waits, IORING_ENTER_GETEVENTS, NULL, 0);

    if (done > 0)
        pending -= (unsigned) done;
}

/* A fresh entry; it is submitted with the next ring_enter. */
static struct io_uring_sqe *entry_take(enum operation operation, int fd, unsigned opcode)
{
    unsigned tail = atomic_load_explicit(sq_tail, memory_order_relaxed);
    struct io_uring_sqe *entry = &entries[tail & sq_mask];

    memset(entry, 0, sizeof *entry);
    entry->opcode = (uint8_t) opcode;
    entry->fd = fd;
    entry->user_data = (uint64_t) operation << 32 | (uint32_t) fd;
    atomic_store_explicit(sq_tail, tail + 1, memory_order_release);
    pending++;
    return entry;
}

static void want_connections(void)
{
    struct io_uring_sqe *entry = entry_take(ACCEPT, listener, IORING_OP_ACCEPT);

    entry->ioprio = IORING_ACCEPT_MULTISHOT;
}

static void want_input(int fd)
{
    struct io_uring_sqe *entry = entry_take(RECEIVE, fd, IORING_OP_RECV);

    entry->flags = IOSQE_BUFFER_SELECT;
}

static void close_later(int fd)
{
    entry_take(CLOSE, fd, IORING_OP_CLOSE)->flags = IOSQE_CQE_SKIP_SUCCESS;
}

static void respond(int fd, bool is_last)
{
    struct io_uring_sqe *entry = entry_take(SEND, fd, IORING_OP_SEND);

    entry->addr = (uintptr_t) answer;
    entry->len = sizeof answer - 1;
    /* What waits for more leaves with the FIN. */
    entry->msg_flags = MSG_NOSIGNAL | (is_last ? MSG_MORE : 0);
    entry->flags = IOSQE_CQE_SKIP_SUCCESS | (is_last ? IOSQE_IO_LINK : 0);
    if (is_last)
        close_later(fd);
    else
        want_input(fd);
}

static void received(int fd, const struct io_uring_cqe *done)
{
    unsigned index = done->flags >> IORING_CQE_BUFFER_SHIFT;
    bool is_last;

    if (done->res > 0) {
        is_last = memmem(memory[index], (size_t) done->res, "HTTP/1.0", 8) != NULL;
        buffer_give(index);
        respond(fd, is_last);
        return;
    }
    if (done->flags & IORING_CQE_F_BUFFER)
        buffer_give(index);
    if (done->res == -ENOBUFS)
        want_input(fd); /* all buffers were in use */
    else
        close_later(fd);
}

static void completed(const struct io_uring_cqe *done)
{
    int fd = (int) (uint32_t) done->user_data;

    switch ((enum operation)(done->user_data >> 32)) {
    case ACCEPT:
        if (done->res >= 0)
            want_input(done->res);
        if (!(done->flags & IORING_CQE_F_MORE))
            want_connections();
        break;
    case RECEIVE:
        received(fd, done);
        break;
    case SEND:
    case CLOSE:
        break; /* it failed: the client has gone, as the next recv tells */
    }
}

static int listener_make(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t) port)};
    int yes = 1;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes,
               sizeof yes); /* those that it accepts inherit it */
    if (bind(fd, (struct sockaddr *) &address, sizeof address) < 0 || listen(fd, 65535) < 0) {
        perror("minimal_uring: listen");
        exit(1);
    }
    return fd;
}

int main(int count, char **words)
{
    if (count != 2) {
        fprintf(stderr, "usage: minimal_uring PORT\n");
        return 1;
    }
    if (!ring_make()) {
        perror("minimal_uring: io_uring");
        return NO_IO_URING;
    }
    listener = listener_make(atoi(words[1]));
    want_connections();
    for (;;) {
        unsigned head = atomic_load_explicit(cq_head, memory_order_relaxed);

        if (head == atomic_load_explicit(cq_tail, memory_order_acquire)) {
            ring_enter(true);
            continue;
        }
        if (pending > ENTRIES - 4)
            ring_enter(false);
        completed(&completions[head & cq_mask]);
        atomic_store_explicit(cq_head, head + 1, memory_order_release);
    }
}
