/* Steering: which sockets of a group get new connections, by a classic BPF program. */
#include "net/shards/private.h"

#include <errno.h>
#include <linux/filter.h>
#include <sys/socket.h>

#include "net/shards/slots.h"

#ifndef SO_DETACH_REUSEPORT_BPF
#define SO_DETACH_REUSEPORT_BPF 68
#endif

/*
 * A number that the program returns is a place in the group. Sockets join it in the order of their
 * slots, and leave it from the top only, so that slot and place are the same.
 */

/* The place is random % n. */
static bool attach(int fd, unsigned n)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t) (SKF_AD_OFF + SKF_AD_RANDOM)),
        BPF_STMT(BPF_ALU | BPF_MOD | BPF_K, n),
        BPF_STMT(BPF_RET | BPF_A, 0),
    };
    struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};

    if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof(program)) != 0) {
        return false;
    }
    shard_steered();
    return true;
}

static bool detach(int fd)
{
    int unused = 0;

    /* ENOENT: there is none. ENOPROTOOPT: a kernel before 5.3, which never had to detach one. */
    return setsockopt(fd, SOL_SOCKET, SO_DETACH_REUSEPORT_BPF, &unused, sizeof(unused)) == 0 ||
           errno == ENOENT;
}

/* is_to_last: keep a program although it names the whole group, which is about to grow. */
static bool steer(const struct shard_set *set, unsigned active, bool is_to_last,
                  const struct log *log)
{
    if (set->count == 0 || set->addr.any.sa_family == AF_UNIX || set->fds[0] == -1) {
        return true;
    }
    unsigned n = active < set->count ? active : set->count;
    bool is_steered = false;
    errno = EINVAL;
    if (n == set->count && !is_to_last) {
        is_steered = detach(set->fds[0]);
    } else if (n != 0) {
        is_steered = attach(set->fds[0], n);
        log_info(log, 0, "new connections go to %u of %u sockets", n, set->count);
    }
    /* EINVAL for one socket: it was made without SO_REUSEPORT and is no group yet. */
    if (!is_steered && (set->count > 1 || errno != EINVAL)) {
        log_alert(log, errno, "could not steer connections to %u of %u sockets", n, set->count);
    }
    return is_steered || set->count == 1;
}

bool shard_steer(struct shard_set *set, unsigned active, const struct log *log)
{
    return steer(set, active, false, log);
}

void shard_hold_growth(const struct shard_set *set, const struct log *log)
{
    steer(set, set->count, true, log);
}
