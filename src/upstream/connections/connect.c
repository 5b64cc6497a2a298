/* Fresh connections to peers. */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/conn/own.h"
#include "net/shards/listener.h"
#include "upstream/connections/connections.h"

/* ---- the socket ---- */

struct socket_option {
    int level;
    int name;
    const char *label;
};

#define OPTION(level, name) ((struct socket_option){level, name, #name})

static bool set_option(int fd, struct socket_option option, int value, const struct log *log)
{
    if (setsockopt(fd, option.level, option.name, &value, sizeof(value)) == -1) {
        log_alert(log, errno, "setsockopt(%s) failed", option.label);
        return false;
    }
    return true;
}

static bool set_transparent(int fd, const struct addr *local, const struct log *log)
{
    if (local->any.sa_family == AF_INET6) {
        return set_option(fd, OPTION(IPPROTO_IPV6, IPV6_TRANSPARENT), 1, log);
    }
    return set_option(fd, OPTION(IPPROTO_IP, IP_TRANSPARENT), 1, log);
}

static bool bind_local(int fd, const struct upstream_connection_options *options,
                       const struct log *log)
{
    const struct addr *local = options->local;
    int on = 1;

    if (options->is_transparent && !set_transparent(fd, local, log)) {
        return false;
    }
    if (addr_port(local) == 0) {
        /* The port is chosen by connect(): one serves many peers then. An optimisation only. */
        setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
    }
    if (bind(fd, &local->any, local->len) == -1) {
        int error = errno;
        char text[ADDR_TEXT_MAX];
        size_t length = addr_format(local, addr_port(local) != 0, text);

        log_crit(log, error, "bind(%.*s) failed", (int) length, text);
        errno = error;
        return false;
    }
    return true;
}

/* False when the connection cannot be made; failures to tune it are logged only, as with nginx. */
bool backend_socket_prepare(int fd, const struct upstream_connection_options *options,
                            const struct log *log)
{
    if (options->receive_buffer != 0) {
        set_option(fd, OPTION(SOL_SOCKET, SO_RCVBUF), (int) options->receive_buffer, log);
    }
    if (options->send_buffer != 0) {
        set_option(fd, OPTION(SOL_SOCKET, SO_SNDBUF), (int) options->send_buffer, log);
    }
    if (options->keepalive) {
        set_option(fd, OPTION(SOL_SOCKET, SO_KEEPALIVE), 1, log);
    }
    return options->local == NULL || bind_local(fd, options, log);
}

static int socket_for(const struct addr *addr, bool is_datagram)
{
    return socket(addr->any.sa_family,
                  (is_datagram ? SOCK_DGRAM : SOCK_STREAM) | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

/* A socket; idle connections give way when descriptors ran out. -1 after a message. */
int backend_socket_open(const struct addr *addr, bool is_datagram, const struct log *log)
{
    int fd = socket_for(addr, is_datagram);

    if (fd == -1 && (errno == EMFILE || errno == ENFILE) && acceptors_make_room()) {
        fd = socket_for(addr, is_datagram);
    }
    if (fd == -1) {
        int error = errno;

        log_alert(log, error, "socket() failed");
        errno = error;
    }
    return fd;
}

/* Not called while it connects: code that waits for it calls conn_wait_connected. */
static void ignore_input(struct conn *conn)
{
}

static const struct conn_owner connecting_owner = {.input = ignore_input};

bool backend_conn_has_room(const struct log *log)
{
    if (!conn_pool_has_room(false)) {
        log_alert(log, 0, "%u worker_connections are not enough, a quarter is kept for clients",
                  conn_pool.limit);
        return false;
    }
    return true;
}

static struct conn *conn_open(int fd, const struct addr *addr, const struct log *log)
{
    if (!backend_conn_has_room(log)) {
        return NULL;
    }
    struct conn *conn = conn_new(fd, addr, &connecting_owner, log_main);
    if (conn == NULL && acceptors_make_room()) {
        conn = conn_new(fd, addr, &connecting_owner, log_main);
    }
    if (conn == NULL) {
        log_alert(log, 0, "%u worker_connections are not enough", conn_pool.limit);
        return NULL;
    }
    conn_backend_is_busy(conn, true);
    return conn;
}

/* ---- connecting ---- */

/* What is likely to pass by itself is an error; the rest is critical, as with nginx. */
static enum log_level level_of(int error)
{
    switch (error) {
    case ECONNREFUSED:
    case EAGAIN:
    case ECONNRESET:
    case EPIPE:
    case ETIMEDOUT:
    case ENETDOWN:
    case ENETUNREACH:
    case EHOSTDOWN:
    case EHOSTUNREACH:
        return LOG_ERROR;
    default:
        return LOG_CRIT;
    }
}

enum upstream_connect_result backend_refused(const struct upstream_target *target, int error,
                                             bool is_at_once)
{
    if (is_at_once) {
        log_at(target->log, level_of(error), error, "connect() to %.*s failed",
               STR_ARG(target->name));
    } else {
        log_at(target->log, level_of(error), error, "connect() failed");
    }
    return UPSTREAM_CONNECT_FAILED;
}

enum upstream_connect_result backend_timed_out(const struct upstream_target *target,
                                               const struct upstream_connection_options *options,
                                               int *error)
{
    *error = ETIMEDOUT;
    if (!options->tells_timeout) {
        log_error(target->log, ETIMEDOUT, "upstream timed out");
    }
    return UPSTREAM_CONNECT_TIMED_OUT;
}

/* The handshake's last segment waits for the first bytes. An optimisation only. */
static void hold_last_segment(int fd)
{
    int off = 0;

    setsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, &off, sizeof(off));
}

/*
 * Over loopback the handshake is done by the time that connect() returns. What is said first tells,
 * and leaves, as far as the socket takes it; else the socket is asked.
 */
static bool is_up_already(struct conn *conn, const struct addr *addr, struct str *first)
{
    struct pollfd waited = {.fd = conn->source.fd, .events = POLLOUT};

    if (!addr_is_loopback(addr)) {
        return false;
    }
    if (first->len == 0) {
        return poll(&waited, 1, 0) == 1 && waited.revents == POLLOUT;
    }
    size_t n = conn_offer(conn, *first);
    *first = str_skip(*first, n);
    return n != 0;
}

static enum upstream_connect_result await(const struct upstream_target *target,
                                          const struct upstream_connection_options *options,
                                          struct conn *conn, uint64_t deadline_ms, int *error)
{
    switch (conn_wait_connected(conn, deadline_ms)) {
    case WAIT_CANCELLED:
        return UPSTREAM_CONNECT_CANCELLED;
    case WAIT_TIMED_OUT:
        return backend_timed_out(target, options, error);
    default:
        break;
    }
    if (conn->is_broken) {
        *error = conn->error;
        return backend_refused(target, conn->error, false);
    }
    return UPSTREAM_CONNECT_OK;
}

/* The peer may be this service itself: it will see how often what we send has come round. */
static enum upstream_connect_result note_own(struct conn *conn, const struct addr *addr,
                                             unsigned hops, const struct log *log, int *error)
{
    if (conn_note_own(conn, addr, hops + 1)) {
        return UPSTREAM_CONNECT_OK;
    }
    log_alert(log, 0,
              "%u worker_connections are not enough for more connections of this server to itself",
              conn_pool.limit);
    *error = EMFILE;
    return UPSTREAM_CONNECT_ERROR;
}

/* MAY WAIT. */
static enum upstream_connect_result secure(const struct upstream_target *target,
                                           const struct upstream_connection_options *options,
                                           struct conn *conn, uint64_t deadline_ms, int *error)
{
    const struct upstream_connection_tls *tls = options->tls;

    conn_set_nodelay(conn, true); /* there will be several writes */
    if (tls->preface.len != 0) {
        conn_write(conn, tls->preface);
        switch (conn_wait_output(conn, 1, deadline_ms)) {
        case WAIT_READY:
            break;
        case WAIT_TIMED_OUT:
            return backend_timed_out(target, options, error);
        case WAIT_CANCELLED:
            *error = conn->error;
            return conn->is_broken ? backend_refused(target, conn->error, false)
                                   : UPSTREAM_CONNECT_CANCELLED;
        }
    }
    const struct tls_connecting connecting = {.context = tls->context,
                                              .options = &tls->options,
                                              .deadline_ms = deadline_ms,
                                              .log = target->log,
                                              .action = "SSL handshaking to upstream",
                                              .tells_timeout = tls->timeout_is_info};
    switch (tls_connect(conn, &connecting, error)) {
    case TLS_CONNECTED:
        return UPSTREAM_CONNECT_OK;
    case TLS_CONNECT_TIMED_OUT:
        if (tls->timeout_is_info) {
            log_info(target->log, ETIMEDOUT, "upstream timed out in SSL handshake");
        }
        return UPSTREAM_CONNECT_TIMED_OUT;
    case TLS_CONNECT_CANCELLED:
        return UPSTREAM_CONNECT_CANCELLED;
    case TLS_CONNECT_ERROR:
        return UPSTREAM_CONNECT_ERROR;
    case TLS_CONNECT_FAILED:
        break;
    }
    return UPSTREAM_CONNECT_FAILED;
}

enum upstream_connect_result upstream_connection_reach(
    const struct upstream_target *target, const struct upstream_connection_options *options,
    uint64_t deadline_ms, struct conn **out, int *error)
{
    const struct addr addr = target->addr;
    struct str none = STR_NONE;
    enum upstream_connect_result result = UPSTREAM_CONNECT_OK;

    if (options->quic != NULL) {
        return quic_backend_reach(target, options, deadline_ms, out, error);
    }
    int fd = backend_socket_open(&addr, options->is_datagram, target->log);

    if (fd == -1) {
        *error = errno;
        return UPSTREAM_CONNECT_ERROR;
    }
    if (!backend_socket_prepare(fd, options, target->log)) {
        *error = errno;
        close(fd);
        return UPSTREAM_CONNECT_ERROR;
    }
    bool may_be_own = !options->is_datagram && own_may_be(&addr);
    struct str first = options->first;
    if (may_be_own) {
        own_name(fd, &addr);
    } else if (first.len != 0 && addr.any.sa_family != AF_UNIX) {
        hold_last_segment(fd);
    }
    bool is_pending = connect(fd, &addr.any, addr.len) == -1;
    if (is_pending && errno != EINPROGRESS) {
        *error = errno;
        close(fd);
        return backend_refused(target, *error, true);
    }
    struct conn *conn = conn_open(fd, &addr, target->log);
    if (conn == NULL) {
        *error = EMFILE;
        close(fd);
        return UPSTREAM_CONNECT_ERROR;
    }
    conn->is_tcp = conn->is_tcp && !options->is_datagram;
    conn->is_readable = 0; /* the loop tells when there is something */
    /* One that is ourselves is to find the note first. */
    if (is_pending && !is_up_already(conn, &addr, may_be_own ? &none : &first)) {
        result = await(target, options, conn, deadline_ms, error);
    } else if (!conn_watch(conn)) {
        *error = errno;
        log_alert(target->log, errno, "epoll_ctl() failed");
        result = UPSTREAM_CONNECT_ERROR;
    }
    if (result == UPSTREAM_CONNECT_OK && may_be_own) {
        result = note_own(conn, &addr, options->hops, target->log, error);
    }
    if (result == UPSTREAM_CONNECT_OK && options->tls != NULL) {
        result = secure(target, options, conn, deadline_ms, error);
    }
    if (result != UPSTREAM_CONNECT_OK) {
        conn_close(conn);
        return result;
    }
    if (first.len != 0) {
        conn_write_now(conn, first); /* who gets it finds out whether it broke */
    }
    *out = conn;
    return UPSTREAM_CONNECT_OK;
}

enum upstream_connect_result upstream_connect(struct upstream_pick *pick,
                                              const struct upstream_connection_options *options,
                                              uint64_t deadline_ms, struct conn **out, int *error)
{
    const struct upstream_target target = {.addr = pick->peer->addr,
                                           .name = pick->peer->name,
                                           .log = pick->log};

    return upstream_connection_reach(&target, options, deadline_ms, out, error);
}
