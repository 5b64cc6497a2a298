/* Listening sockets from an older binary or from systemd, and those passed to a newer binary. */
#define _GNU_SOURCE
#include "net/shards/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/parse.h"
#include "net/shards/private.h"

#define SYSTEMD_FIRST_FD 3
#define FD_MOST (1 << 26) /* more than any kernel gives */

/* Does the socket listen, or is it UDP? */
static bool serves(int fd, bool *is_datagram)
{
    int type = 0, is_listening = 0;
    socklen_t len = sizeof(type);

    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == -1) {
        return false;
    }
    *is_datagram = type == SOCK_DGRAM;
    len = sizeof(is_listening);
    return *is_datagram ||
           (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &len) == 0 && is_listening);
}

/*
 * Adds one descriptor; further ones of the same address are its next slots. False: it is not a
 * socket.
 */
static bool inherit_fd(int fd, bool is_lent, const struct log *log)
{
    struct addr addr = {.len = sizeof(addr.un)};
    bool is_datagram = false;

    if (getsockname(fd, &addr.any, &addr.len) == -1) {
        log_crit(log, errno, "getsockname() of the inherited socket #%d failed", fd);
        return false;
    }
    if (!serves(fd, &is_datagram) ||
        (addr.any.sa_family != AF_INET && addr.any.sa_family != AF_INET6 &&
         addr.any.sa_family != AF_UNIX)) {
        log_crit(log, 0, "the inherited socket #%d does not listen, ignored", fd);
        return true;
    }
    struct shard_set *set = shard_set_find(&addr, is_datagram);
    if (set == NULL) {
        set = shard_set_new(&addr, is_datagram);
        set->was_inherited = true;
        set->is_lent = is_lent;
        /* Their options are unknown, so whatever is configured counts as a change. */
        set->options.backlog = 0;
        set->options.fastopen = -1;
    }
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    int flags = fcntl(fd, F_GETFL);
    if (flags != -1 && !(flags & O_NONBLOCK)) {
        fcntl(fd, F_SETFL, flags | O_NONBLOCK);
    }
    int on = 1;
    if (addr.any.sa_family != AF_UNIX && !is_datagram) {
        /* As on our own sockets: accepted connections inherit it. */
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    }
    shard_set_push(set, fd);
    set->is_sharded = set->count > 1 || is_datagram;
    set->wanted = set->count;
    return true;
}

bool shards_inherit(struct str list, const struct log *log)
{
    struct str rest = list;

    log_notice(log, 0, "using inherited sockets from \"%.*s\"", STR_ARG(list));
    while (rest.len != 0) {
        size_t n = 0;
        uint64_t fd;

        while (n < rest.len && rest.data[n] != ';' && rest.data[n] != ':') {
            n++;
        }
        struct str word = str_head(rest, n);
        /* Each entry ends with a separator. */
        if (n == rest.len || !parse_uint(word, &fd) || fd > FD_MOST) {
            log_emerg(log, 0,
                      "invalid socket number \"%.*s\" in NGINX environment variable, ignoring the "
                      "rest of the variable",
                      STR_ARG(word));
            return true;
        }
        inherit_fd((int) fd, false, log);
        rest = str_skip(rest, n + 1);
    }
    return true;
}

bool shards_inherit_systemd(const struct log *log)
{
    const char *pid_text = getenv("LISTEN_PID");
    const char *count_text = getenv("LISTEN_FDS");
    uint64_t pid;
    uint64_t count;

    if (pid_text == NULL || count_text == NULL || !parse_uint(str_of(pid_text), &pid) ||
        pid != (uint64_t) getpid() || !parse_uint(str_of(count_text), &count) || count == 0 ||
        count > FD_MOST) {
        return false;
    }
    log_notice(log, 0, "using %u sockets from systemd", (unsigned) count);
    for (int fd = SYSTEMD_FIRST_FD; fd < SYSTEMD_FIRST_FD + (int) count; fd++) {
        if (!inherit_fd(fd, true, log) && errno == EBADF) {
            break;
        }
    }
    /* They were meant for this process only. */
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
    return true;
}

struct str shards_export(struct arena *arena)
{
    struct str list = STR("");

    for (const struct shard_set *set = shard_sets(); set != NULL; set = set->next) {
        for (unsigned slot = 0; slot < set->count; slot++) {
            fcntl(set->fds[slot], F_SETFD, 0);
            list = arena_printf(arena, "%.*s%d;", STR_ARG(list), set->fds[slot]);
        }
    }
    return list;
}
