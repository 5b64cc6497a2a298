/* Connections to peers by QUIC: the handshake, awaited by a fiber, and the end. */
#include <errno.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/conn/own.h"
#include "net/shards/listener.h"
#include "net/tls/messages.h"
#include "upstream/connections/connections.h"

/* A fiber that waits for the end of a handshake; on its stack. */
struct handshake_wait {
    struct wait_point wake;
    struct quic_close how; /* of one that failed; its reason is gone */
    bool is_over;
    bool has_failed;
};

static void on_established(struct quic_connection *quic)
{
    struct handshake_wait *wait = quic_user(quic);

    wait->is_over = true;
    wait_signal_later(&wait->wake);
}

static void on_closed(struct quic_connection *quic, const struct quic_close *how)
{
    struct handshake_wait *wait = quic_user(quic);

    wait->how = *how;
    wait->how.reason = STR_NONE;
    wait->is_over = wait->has_failed = true;
    wait_signal_later(&wait->wake);
}

/* Streams wait for the protocol, which adopts the connection next. */
static const struct quic_owner waiting_owner = {.established = on_established, .closed = on_closed};

/* Why the handshake failed, where TLS or QUIC has not logged it. */
static enum upstream_connect_result failed(const struct upstream_target *target,
                                           const struct upstream_connection_options *options,
                                           const struct quic_close *how, int *error)
{
    if (how->version != 0) {
        return UPSTREAM_CONNECT_FAILED; /* it is attempted once more */
    }
    if (how->error != 0) {
        *error = how->error;
        return backend_refused(target, how->error, false);
    }
    switch (how->end) {
    case QUIC_END_TIMEOUT:
    case QUIC_END_IDLE:
        return backend_timed_out(target, options, error);
    case QUIC_END_PEER:
        log_error(target->log, 0, "peer closed connection in QUIC handshake, code 0x%llx",
                  (unsigned long long) how->code);
        break;
    default:
        log_error(target->log, 0, "QUIC handshake failed, code 0x%llx",
                  (unsigned long long) how->code);
        break;
    }
    return UPSTREAM_CONNECT_FAILED;
}

/* MAY WAIT. */
static enum upstream_connect_result await(struct handshake_wait *wait,
                                          const struct upstream_target *target,
                                          const struct upstream_connection_options *options,
                                          uint64_t deadline_ms, int *error)
{
    while (!wait->is_over) {
        switch (fiber_wait(&wait->wake, deadline_ms)) {
        case WAIT_CANCELLED:
            return UPSTREAM_CONNECT_CANCELLED;
        case WAIT_TIMED_OUT:
            return backend_timed_out(target, options, error);
        case WAIT_READY:
            break;
        }
    }
    return wait->has_failed ? failed(target, options, &wait->how, error) : UPSTREAM_CONNECT_OK;
}

/* A socket that QUIC may have; -1 after a message, with *error. */
static int open_socket(const struct upstream_target *target,
                       const struct upstream_connection_options *options, int *error)
{
    struct upstream_connection_options large = *options;
    int fd = -1;

    if (target->addr.any.sa_family == AF_UNIX) {
        log_error(target->log, 0, "QUIC is not possible over the unix domain socket %.*s",
                  STR_ARG(target->name));
        errno = EAFNOSUPPORT;
    } else if (!backend_conn_has_room(target->log)) {
        errno = EMFILE;
    } else {
        fd = backend_socket_open(&target->addr, true, target->log);
    }
    large.keepalive = false; /* it is TCP's */
    if (large.receive_buffer == 0) {
        large.receive_buffer = QUIC_CLIENT_BUFFER;
    }
    if (fd != -1 && !backend_socket_prepare(fd, &large, target->log)) {
        *error = errno;
        close(fd);
        return -1;
    }
    *error = fd == -1 ? errno : 0;
    return fd;
}

/* The peer may be this service itself: it will see how often what we send has come round. */
static bool note_own(struct quic_connection *quic, int fd, const struct upstream_target *target,
                     unsigned hops)
{
    if (!own_may_take_datagrams(&target->addr) ||
        conn_note_own_by(quic_conn(quic), fd, &target->addr, hops + 1)) {
        return true;
    }
    log_alert(target->log, 0,
              "%u worker_connections are not enough for more connections of this server to itself",
              conn_pool.limit);
    return false;
}

static void forget_own(struct quic_connection *quic, const struct addr *peer)
{
    struct addr local;

    if (own_may_take_datagrams(peer)) {
        quic_local(quic, &local);
        own_forget_at(&local, peer);
    }
}

/* Nothing of the conn is reported to anyone from now on, until QUIC closes it. */
static void leave_conn(struct conn *conn)
{
    static const struct conn_owner nobody = {.input = NULL};

    conn->owner = &nobody;
    conn->log = log_main;
    loop_undefer(&conn->flush);
    timer_remove(&conn->timer);
    conn_backend_is_busy(conn, false);
}

/* One handshake, in a version of QUIC; 0 = the usual one. *version becomes the one that the server
 * wants instead, or 0. */
static enum upstream_connect_result attempt(const struct upstream_target *target,
                                            const struct upstream_connection_options *options,
                                            uint64_t deadline_ms, uint32_t *version,
                                            struct conn **out, int *error)
{
    struct handshake_wait wait = {.is_over = false};
    struct log log = *target->log;
    int fd = open_socket(target, options, error);

    if (fd == -1) {
        return UPSTREAM_CONNECT_ERROR;
    }
    log.action = "QUIC handshaking to upstream";
    const struct quic_connecting connecting = {
        .settings = &options->quic->settings,
        .context = options->tls->context,
        .options = &options->tls->options,
        .peer = target->addr,
        .fd = fd,
        .version = *version,
        .was_negotiated = *version != 0,
        .secrets = options->quic->secrets,
        .log = &log,
    };
    struct quic_connection *quic = quic_connect(&connecting, &waiting_owner, &wait);
    *version = 0;
    if (quic == NULL) {
        *error = errno;
        return *error != 0 ? backend_refused(target, *error, true) : UPSTREAM_CONNECT_ERROR;
    }
    struct conn *conn = quic_conn(quic);
    quic_hold(quic);
    conn_backend_is_busy(conn, true);
    conn->is_readable = 0;
    enum upstream_connect_result result = UPSTREAM_CONNECT_ERROR;
    if (note_own(quic, fd, target, options->hops)) {
        result = await(&wait, target, options, deadline_ms, error);
    }
    conn->log = log_main;
    *version = wait.how.version;
    if (result != UPSTREAM_CONNECT_OK) {
        forget_own(quic, &target->addr);
        tls_messages_stop(conn);
        leave_conn(conn);
        quic_abandon(quic, 0);
        return result;
    }
    *out = conn;
    return UPSTREAM_CONNECT_OK;
}

enum upstream_connect_result quic_backend_reach(const struct upstream_target *target,
                                                const struct upstream_connection_options *options,
                                                uint64_t deadline_ms, struct conn **out, int *error)
{
    uint32_t version = 0;
    enum upstream_connect_result result =
        attempt(target, options, deadline_ms, &version, out, error);

    if (version != 0) { /* of another version, which the handshake has to confirm */
        result = attempt(target, options, deadline_ms, &version, out, error);
    }
    return result;
}

void quic_backend_close(struct upstream_connection *connection)
{
    forget_own(connection->quic, &connection->addr);
    leave_conn(connection->conn);
    quic_abandon(connection->quic, connection->quic_code);
    connection->quic = NULL;
}
