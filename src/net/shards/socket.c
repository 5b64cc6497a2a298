/* Creates and binds listening sockets, and sets their options. */
#define _GNU_SOURCE
#include "net/shards/private.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef IPPROTO_MPTCP
#define IPPROTO_MPTCP 262
#endif

#define DEFAULT_BACKLOG 511
#define DEFER_SECONDS 1

/* An address as messages show it. */
struct addr_text {
    char bytes[ADDR_TEXT_MAX + 1];
};

static struct addr_text text_of(const struct addr *addr)
{
    struct addr_text text;

    text.bytes[addr_format(addr, true, text.bytes)] = '\0';
    return text;
}

static bool is_tcp(const struct addr *addr)
{
    return addr->any.sa_family == AF_INET || addr->any.sa_family == AF_INET6;
}

static int backlog_of(const struct listen_options *options)
{
    return options->backlog < 0 ? DEFAULT_BACKLOG : options->backlog;
}

struct socket_option {
    int level;
    int name;
    const char *label;
};

#define OPTION(level, name) ((struct socket_option){level, name, #name})

/* Sets an option that the service can do without: a failure is logged and ignored. */
static void set_option(int fd, struct socket_option option, int value, const struct addr *addr,
                       const struct log *log)
{
    if (setsockopt(fd, option.level, option.name, &value, sizeof(value)) == -1) {
        log_alert(log, errno, "setsockopt(%s, %d) %s failed, ignored", option.label, value,
                  text_of(addr).bytes);
    }
}

static void apply_buffers(int fd, const struct addr *addr, const struct listen_options *former,
                          const struct listen_options *options, const struct log *log)
{
    if (options->rcvbuf > 0 && (former == NULL || former->rcvbuf != options->rcvbuf)) {
        set_option(fd, OPTION(SOL_SOCKET, SO_RCVBUF), options->rcvbuf, addr, log);
    }
    if (options->sndbuf > 0 && (former == NULL || former->sndbuf != options->sndbuf)) {
        set_option(fd, OPTION(SOL_SOCKET, SO_SNDBUF), options->sndbuf, addr, log);
    }
}

static void apply_keepalive(int fd, const struct addr *addr, const struct listen_options *options,
                            const struct log *log)
{
    if (options->keepalive != 0) {
        set_option(fd, OPTION(SOL_SOCKET, SO_KEEPALIVE), options->keepalive == 1, addr, log);
    }
    if (!is_tcp(addr)) {
        return;
    }
    if (options->keepidle_s != 0) {
        set_option(fd, OPTION(IPPROTO_TCP, TCP_KEEPIDLE), options->keepidle_s, addr, log);
    }
    if (options->keepintvl_s != 0) {
        set_option(fd, OPTION(IPPROTO_TCP, TCP_KEEPINTVL), options->keepintvl_s, addr, log);
    }
    if (options->keepcnt != 0) {
        set_option(fd, OPTION(IPPROTO_TCP, TCP_KEEPCNT), options->keepcnt, addr, log);
    }
}

static void apply_tcp(int fd, const struct addr *addr, const struct listen_options *former,
                      const struct listen_options *options, const struct log *log)
{
    if (former == NULL) {
        /* Accepted connections inherit it, which saves a call for each. */
        set_option(fd, OPTION(IPPROTO_TCP, TCP_NODELAY), 1, addr, log);
    }
    if (former == NULL ? options->fastopen > 0 : options->fastopen != former->fastopen) {
        int queue = options->fastopen > 0 ? options->fastopen : 0;

        set_option(fd, OPTION(IPPROTO_TCP, TCP_FASTOPEN), queue, addr, log);
    }
    if (former == NULL ? options->is_deferred : options->is_deferred != former->is_deferred) {
        int seconds = options->is_deferred ? DEFER_SECONDS : 0;

        set_option(fd, OPTION(IPPROTO_TCP, TCP_DEFER_ACCEPT), seconds, addr, log);
    }
}

/* On a wildcard address each datagram reports its destination, from which the answer is sent. */
static void apply_datagram(int fd, const struct addr *addr, const struct log *log)
{
    if (addr_is_wildcard(addr) && addr->any.sa_family == AF_INET) {
        set_option(fd, OPTION(IPPROTO_IP, IP_PKTINFO), 1, addr, log);
    } else if (addr_is_wildcard(addr) && addr->any.sa_family == AF_INET6) {
        set_option(fd, OPTION(IPPROTO_IPV6, IPV6_RECVPKTINFO), 1, addr, log);
    }
}

void listen_options_apply(int fd, const struct addr *addr, const struct listen_options *former,
                          const struct listen_options *options, const struct log *log)
{
    apply_buffers(fd, addr, former, options, log);
    if (options->is_datagram) {
        apply_datagram(fd, addr, log);
        return;
    }
    apply_keepalive(fd, addr, options, log);
    if (is_tcp(addr)) {
        apply_tcp(fd, addr, former, options, log);
    }
    if (former != NULL && backlog_of(options) != backlog_of(former) &&
        listen(fd, backlog_of(options)) == -1) {
        log_alert(log, errno, "listen() to %s, backlog %d failed, ignored", text_of(addr).bytes,
                  backlog_of(options));
    }
}

void listen_share(int fd)
{
    int on = 1;

    /* It fails for a unix socket, which cannot share. */
    setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
}

static int socket_new(const struct addr *addr, const struct listen_options *options)
{
    int type = (options->is_datagram ? SOCK_DGRAM : SOCK_STREAM) | SOCK_NONBLOCK | SOCK_CLOEXEC;

    if (options->is_multipath && is_tcp(addr)) {
        int fd = socket(addr->any.sa_family, type, IPPROTO_MPTCP);

        if (fd != -1 || (errno != EPROTONOSUPPORT && errno != EINVAL && errno != ENOPROTOOPT)) {
            return fd;
        }
        /* A kernel without MPTCP serves plain TCP, to which MPTCP clients fall back. */
    }
    return socket(addr->any.sa_family, type, 0);
}

static bool socket_prepare(int fd, const struct addr *addr, const struct listen_options *options,
                           const struct log *log)
{
    int on = 1;

    if (!is_tcp(addr)) {
        return true;
    }
    /* Not for UDP: any user could then receive part of our datagrams, and UDP has no TIME_WAIT. */
    if (!options->is_datagram && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == -1) {
        log_emerg(log, errno, "setsockopt(SO_REUSEADDR) %s failed", text_of(addr).bytes);
        return false;
    }
    if (addr->any.sa_family == AF_INET6) {
        set_option(fd, OPTION(IPPROTO_IPV6, IPV6_V6ONLY), options->is_ipv6only, addr, log);
    }
    return true;
}

/* A unix socket is open to every user, like a TCP port. */
static bool open_to_all(const struct addr *addr, const struct log *log)
{
    const char *path = addr->un.sun_path;

    if (addr->any.sa_family != AF_UNIX || path[0] == '\0' || chmod(path, 0666) == 0) {
        return true;
    }
    log_emerg(log, errno, "chmod() \"%s\" failed", path);
    return false;
}

static enum open_result bind_and_listen(int fd, const struct addr *addr,
                                        const struct listen_options *options, bool is_alone,
                                        const struct log *log)
{
    if (!is_alone) {
        listen_share(fd);
    }
    if (bind(fd, &addr->any, addr->len) == -1) {
        int error = errno;

        log_emerg(log, error, "bind() to %s failed", text_of(addr).bytes);
        if (error != EADDRINUSE) {
            bind_hint(addr, options->is_datagram,
                      /* For that error shards_open gives the hint, after the last attempt. */
                      error);
        }
        return error == EADDRINUSE ? OPEN_BUSY : OPEN_FAILED;
    }
    if (is_alone) {
        /* Bound without sharing, so no other server has it; from now on our own sockets may
         * join. */
        listen_share(fd);
    }
    if (!open_to_all(addr, log)) {
        return OPEN_FAILED;
    }
    listen_options_apply(fd, addr, NULL, options, log);
    if (!options->is_datagram && listen(fd, backlog_of(options)) == -1) {
        int error = errno;

        log_emerg(log, error, "listen() to %s, backlog %d failed", text_of(addr).bytes,
                  backlog_of(options));
        return error == EADDRINUSE ? OPEN_BUSY : OPEN_FAILED;
    }
    return OPEN_DONE;
}

enum open_result listen_socket(const struct addr *addr, const struct listen_options *options,
                               bool is_alone, const struct log *log, int *out)
{
    int fd = socket_new(addr, options);

    if (fd == -1) {
        log_emerg(log, errno, "socket() %s failed", text_of(addr).bytes);
        return OPEN_FAILED;
    }
    enum open_result result = OPEN_FAILED;
    if (socket_prepare(fd, addr, options, log)) {
        result = bind_and_listen(fd, addr, options, is_alone, log);
    }
    if (result != OPEN_DONE) {
        close(fd);
        return result;
    }
    *out = fd;
    return OPEN_DONE;
}
