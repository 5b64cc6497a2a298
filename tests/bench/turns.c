/* turns: loaded into a server (LD_PRELOAD), counts what its workers' turns of the loop were for.
 * The counts lie in the file that TURNS_FILE names, as six 64-bit numbers in the order of `struct
 * counts`, and are the sum over all processes that the server forks. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

struct counts {
    _Atomic uint64_t turns;    /* epoll_wait gave events */
    _Atomic uint64_t timeouts; /* it gave none */
    _Atomic uint64_t accepts;  /* connections accepted */
    _Atomic uint64_t refused;  /* accept4 gave none */
    _Atomic uint64_t
        empty; /* turns in which accept4 was called and gave none, and nothing was received */
    _Atomic uint64_t
        idle; /* turns in which neither accept4 nor anything that receives was called */
};

static struct counts unused, *counts = &unused;
static __thread bool is_in_turn; /* epoll_wait gave events, and was not called since */
static __thread unsigned tried, accepted,
    received; /* calls of accept4 and of what receives, in this turn */

static int (*next_wait)(int, struct epoll_event *, int, int);
static int (*next_accept)(int, struct sockaddr *, socklen_t *, int);
static ssize_t (*next_recv)(int, void *, size_t, int);
static ssize_t (*next_read)(int, void *, size_t);
static ssize_t (*next_readv)(int, const struct iovec *, int);
static ssize_t (*next_recvmsg)(int, struct msghdr *, int);

static void count(_Atomic uint64_t *what)
{
    atomic_fetch_add_explicit(what, 1, memory_order_relaxed);
}

/* Finds what is called through; before the constructors of other libraries call it, or with ours.
 */
static void next_find(void)
{
    if (next_recvmsg != NULL)
        return;
    next_wait = dlsym(RTLD_NEXT, "epoll_wait");
    next_accept = dlsym(RTLD_NEXT, "accept4");
    next_recv = dlsym(RTLD_NEXT, "recv");
    next_read = dlsym(RTLD_NEXT, "read");
    next_readv = dlsym(RTLD_NEXT, "readv");
    next_recvmsg = dlsym(RTLD_NEXT, "recvmsg");
}

__attribute__((constructor)) static void turns_start(void)
{
    const char *name = getenv("TURNS_FILE");
    int fd = name != NULL ? open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
    void *place;

    next_find();
    if (fd < 0 || ftruncate(fd, sizeof *counts) < 0)
        return;
    place = mmap(NULL, sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (place != MAP_FAILED)
        counts = place;
    close(fd);
}

/* What the turn that ends now was for. */
static void turn_end(void)
{
    if (!is_in_turn)
        return;
    if (tried == 0 && received == 0)
        count(&counts->idle);
    else if (accepted == 0 && received == 0)
        count(&counts->empty);
    is_in_turn = false;
}

int epoll_wait(int fd, struct epoll_event *events, int size, int timeout)
{
    int found;

    turn_end();
    found = next_wait(fd, events, size, timeout);
    if (found > 0) {
        is_in_turn = true;
        tried = accepted = received = 0;
        count(&counts->turns);
    } else if (found == 0 && timeout != 0) {
        count(&counts->timeouts);
    }
    return found;
}

int accept4(int fd, struct sockaddr *address, socklen_t *size, int flags)
{
    int taken = next_accept(fd, address, size, flags);

    tried++;
    accepted += taken >= 0;
    count(taken >= 0 ? &counts->accepts : &counts->refused);
    return taken;
}

ssize_t recv(int fd, void *data, size_t size, int flags)
{
    received++;
    next_find();
    return next_recv(fd, data, size, flags);
}

ssize_t read(int fd, void *data, size_t size)
{
    received++;
    next_find();
    return next_read(fd, data, size);
}

ssize_t readv(int fd, const struct iovec *pieces, int size)
{
    received++;
    next_find();
    return next_readv(fd, pieces, size);
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
    received++;
    next_find();
    return next_recvmsg(fd, message, flags);
}
