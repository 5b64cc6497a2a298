/* UDP sessions and their backend: a connected socket for each, datagrams both ways without a fiber,
 * and how they end. */
#include "stream/modules/proxy/datagram.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "net/conn/own.h"
#include "net/conn/proxy_protocol.h"
#include "net/datagram/flow.h"
#include "server/generation.h"
#include "stream/session/story.h"
#include "upstream/peer.h"

/* The largest datagram over IPv4 and IPv6, in bytes. */
#define IP4_MOST (65535u - 20 - 8)
#define IP6_MOST (65535u - 8)

static struct datagram_proxying *datagrams_of(const struct session *session)
{
    return container_of((struct proxying *) session->content, struct datagram_proxying, base);
}

struct proxying *proxy_datagrams_new(void)
{
    struct datagram_proxying *proxying = calloc(1, sizeof(*proxying));

    if (proxying == NULL) {
        fatal_no_memory(sizeof(*proxying));
    }
    proxying->connection.source.fd = -1;
    return &proxying->base;
}

/* ---- datagrams that are kept ---- */

/* Keeps a datagram. False: there are too many. */
static bool held_add(struct datagram_proxying *proxying, struct str datagram)
{
    bool is_kept = datagram_list_add(&proxying->held, datagram);

    counters_mine->limited += !is_kept;
    return is_kept;
}

/* ---- the end ---- */

static void close_connection(struct datagram_proxying *proxying)
{
    struct addr peer = {.len = sizeof(peer.un)};

    if (proxying->is_noted) {
        proxying->is_noted = false;
        if (getpeername(proxying->connection.source.fd, &peer.any, &peer.len) == 0) {
            own_forget(proxying->connection.source.fd, &peer);
        }
    }
    datagram_connection_close(&proxying->connection);
}

void proxy_datagrams_let_go(struct proxying *base)
{
    struct datagram_proxying *proxying = container_of(base, struct datagram_proxying, base);

    close_connection(proxying);
    if (proxying->is_timed) {
        timer_remove(&proxying->timeout);
        timer_remove(&proxying->pace);
    }
    datagram_list_free(&proxying->held);
}

void proxy_datagrams_count(const struct proxying *base, uint64_t *received, uint64_t *sent)
{
    const struct datagram_proxying *proxying =
        container_of(base, const struct datagram_proxying, base);

    *received = proxying->received;
    *sent = proxying->sent;
}

static void stream_proxy_datagram_finish(struct datagram_proxying *proxying, unsigned status)
{
    struct session *session = proxying->base.session;
    struct attempt *attempt = proxying->base.attempt;

    attempt->bytes_received = proxying->received;
    attempt->bytes_sent = proxying->sent;
    attempt->response_ms = clock_now.now_ms - proxying->base.attempt_ms;
    proxy_let_go(&proxying->base, proxying->is_refused ? PEER_FAILED : PEER_SERVED);
    session_end(session, status);
}

/* Logs "udp done, packets from/to client:…" without a context, as nginx does. */
static void log_end(const struct datagram_proxying *proxying, const char *how)
{
    const struct session *session = proxying->base.session;
    struct log log = session->log;

    log.describe = NULL;
    log.action = NULL;
    log_info(&log, 0,
             "udp %s, packets from/to client:%" PRIu64 "/%" PRIu64 ", bytes from/to client:%" PRIu64
             "/%" PRIu64 ", bytes from/to upstream:%" PRIu64 "/%" PRIu64,
             how, proxying->requests, proxying->responses, session->received, session->sent,
             proxying->received, proxying->sent);
}

static bool has_all_responses(const struct datagram_proxying *proxying)
{
    int64_t wanted = proxying->base.settings->responses;

    return wanted >= 0 && proxying->responses >= (uint64_t) wanted * proxying->requests;
}

/* Ends the session if all requests and responses have passed. True: it is over and freed. */
static bool end_if_done(struct datagram_proxying *proxying)
{
    uint64_t most = (uint64_t) proxying->base.settings->requests;

    if ((most != 0 && proxying->requests < most) || proxying->held_waits ||
        !has_all_responses(proxying)) {
        return false;
    }
    log_end(proxying, "done");
    stream_proxy_datagram_finish(proxying, SESSION_OK);
    return true;
}

static void time_is_up(struct timer *timer)
{
    struct datagram_proxying *proxying = container_of(timer, struct datagram_proxying, timeout);

    if (proxying->base.settings->responses < 0 || has_all_responses(proxying)) {
        log_end(proxying, "timed out");
        stream_proxy_datagram_finish(proxying, SESSION_OK);
        return;
    }
    log_error(&proxying->base.session->log, ETIMEDOUT, "upstream timed out");
    proxying->is_refused = true;
    stream_proxy_datagram_finish(proxying, SESSION_BAD_GATEWAY);
}

static void something_moved(struct datagram_proxying *proxying)
{
    timer_set(&proxying->timeout, clock_now.now_ms + proxying->base.settings->timeout_ms);
}

/* proxy_session_drop: ends the session if its peer is gone. True: it is over and freed. */
static bool drop_if_gone(struct datagram_proxying *proxying)
{
    if (!proxy_is_dropped(&proxying->base)) {
        return false;
    }
    log_end(proxying, "session dropped");
    stream_proxy_datagram_finish(proxying, SESSION_BAD_GATEWAY);
    return true;
}

/* ---- the next peer ---- */

/* The peer's port is closed, and it has not answered: the next peer gets the client's datagrams so
 * far. */
static enum session_step go_to_next(struct session *session)
{
    struct datagram_proxying *proxying = datagrams_of(session);

    proxying->received = proxying->sent = 0;
    proxying->is_refused = false;
    proxying->has_header = false;
    return proxy_next_peer(&proxying->base);
}

/* Handles an error of the socket. True: the session continues with another peer, or is over. */
static bool refused(struct datagram_proxying *proxying, int error, bool is_send)
{
    struct session *session = proxying->base.session;

    session->log.action =
        is_send ? "proxying and sending to upstream" : "proxying and reading from upstream";
    log_error(&session->log, error, "%s() failed", is_send ? "send" : "recv");
    session->log.action = "proxying connection";
    proxying->is_refused = true;
    if (proxying->keeps && proxying->responses == 0 && proxy_may_try_next(&proxying->base)) {
        proxying->base.attempt->bytes_sent = proxying->sent;
        proxying->base.attempt->response_ms = clock_now.now_ms - proxying->base.attempt_ms;
        timer_clear(&proxying->timeout);
        close_connection(proxying);
        upstream_pick_done(&proxying->base.pick, PEER_FAILED);
        session_content(session, go_to_next);
        return true;
    }
    if (error != ECONNREFUSED || proxying->base.settings->responses > 0) {
        stream_proxy_datagram_finish(proxying,
                                     proxying->received == 0 ? SESSION_BAD_GATEWAY : SESSION_OK);
        return true;
    }
    return false; /* the peer may come back while the session lasts */
}

/* ---- from the client ---- */

/* The datagram, after the PROXY header if it is the first of a connection; valid until the next
 * call. */
static struct str with_header(struct datagram_proxying *proxying, struct str datagram)
{
    static char buffer[PROXY_HEADER_V1_MAX + DATAGRAM_MOST];
    unsigned version = proxying->base.settings->proxy_protocol;

    if (proxying->has_header || version == PROXY_PROTOCOL_OFF) {
        return datagram;
    }
    if (proxying->header.len == 0) {
        proxying->header = proxy_header(proxying->base.session, version);
    }
    char *end = str_put(str_put(buffer, proxying->header), datagram);
    return str_from(buffer, end);
}

/* Is the datagram, with its header, too long for the peer's address family? Sending it would look
 * like an error of the peer. */
static bool is_too_long(struct datagram_proxying *proxying, struct str datagram)
{
    size_t most = proxying->base.pick.peer->addr.any.sa_family == AF_INET ? IP4_MOST : IP6_MOST;

    return __builtin_expect(datagram.len > most - PROXY_HEADER_V1_MAX, 0) &&
           with_header(proxying, datagram).len > most;
}

static void drop_long(const struct datagram_proxying *proxying, size_t size)
{
    counters_mine->limited++;
    log_info(&proxying->base.session->log, EMSGSIZE, "a datagram of %zu bytes is dropped", size);
}

/* Sends a datagram to the backend. Gives whether the session still uses this connection. */
static bool forward(struct datagram_proxying *proxying, struct str datagram)
{
    struct str bytes = with_header(proxying, datagram);

    for (unsigned tries = 0; !datagram_connection_send(&proxying->connection, bytes); tries++) {
        if (errno == EAGAIN || errno == ENOBUFS) {
            return true; /* lost, as in a network */
        }
        if (errno == EMSGSIZE) {
            drop_long(proxying, bytes.len);
            return true;
        }
        /* ECONNREFUSED belongs to an earlier datagram, and this one was not sent. */
        int error = errno;
        if (refused(proxying, error, error != ECONNREFUSED)) {
            return false;
        }
        if (tries == 1) {
            return true;
        }
    }
    proxying->has_header = true;
    proxying->sent += bytes.len;
    proxying->forwarded += datagram.len;
    return true;
}

/* Milliseconds until a rate allows more after so many bytes; 0 = now. */
static uint64_t pause_of(const struct datagram_proxying *proxying, uint64_t rate, uint64_t bytes)
{
    uint64_t due_ms = rate == 0 || bytes < rate ? 0 : (bytes - rate + 1) * 1000 / rate + 1;
    uint64_t elapsed_ms = clock_now.now_ms - proxying->began_ms;

    return due_ms <= elapsed_ms ? 0 : due_ms - elapsed_ms;
}

/* Sends the datagrams that the rate held back, as far as it allows. */
static void forward_held(struct datagram_proxying *proxying)
{
    struct session *session = proxying->base.session;

    while (proxying->held.count != 0) {
        uint64_t wait_ms = pause_of(proxying, proxying->upload_rate, proxying->forwarded);

        if (wait_ms != 0) {
            timer_set(&proxying->pace, clock_now.now_ms + wait_ms);
            return;
        }
        struct datagram_node *one = datagram_list_take(&proxying->held);
        bool is_here = forward(proxying, (struct str){one->bytes, one->len});
        free(one);
        if (!is_here || session->content == NULL) {
            return;
        }
    }
    proxying->held_waits = false;
    end_if_done(proxying);
}

static void from_client(struct session *session, struct str datagram)
{
    struct datagram_proxying *proxying = datagrams_of(session);
    uint64_t most = (uint64_t) proxying->base.settings->requests;
    bool must_wait =
        proxying->held_waits || pause_of(proxying, proxying->upload_rate, proxying->forwarded) != 0;

    if (drop_if_gone(proxying)) {
        return;
    }
    something_moved(proxying);
    if (is_too_long(proxying, datagram)) {
        drop_long(proxying, datagram.len);
        end_if_done(proxying);
        return;
    }
    proxying->requests++;
    if (proxying->requests == most) {
        datagram_unbind(session->flow);
    }
    if (must_wait) {
        if (held_add(proxying, datagram) && !proxying->held_waits) {
            proxying->held_waits = true;
            forward_held(proxying);
        }
        return;
    }
    /* Kept for another peer, if this one does not answer. */
    proxying->keeps = proxying->keeps && held_add(proxying, datagram);
    if (forward(proxying, datagram)) {
        end_if_done(proxying);
    }
}

/* ---- from the backend ---- */

static void from_backend(struct datagram_connection *connection, struct str datagram)
{
    struct datagram_proxying *proxying =
        container_of(connection, struct datagram_proxying, connection);
    struct session *session = proxying->base.session;

    if (drop_if_gone(proxying)) {
        return;
    }
    if (proxying->received == 0 && proxying->base.attempt->first_byte_ms == UINT64_MAX) {
        proxying->base.attempt->first_byte_ms = clock_now.now_ms - proxying->base.attempt_ms;
        upstream_pick_responded(&proxying->base.pick);
    }
    if (proxying->keeps) {
        proxying->keeps = false;
        datagram_list_free(&proxying->held);
    }
    something_moved(proxying);
    proxying->is_refused = false;
    proxying->received += datagram.len;
    proxying->responses++;
    session_send_datagram(session, datagram);
    if (end_if_done(proxying)) {
        return;
    }
    uint64_t wait_ms = pause_of(proxying, proxying->download_rate, proxying->received);
    if (wait_ms != 0) {
        datagram_connection_pause(connection);
        timer_set(&proxying->pace, clock_now.now_ms + wait_ms);
    }
}

static void backend_failed(struct datagram_connection *connection, int error, bool is_send)
{
    refused(container_of(connection, struct datagram_proxying, connection), error, is_send);
}

static const struct datagram_connection_owner proxy_backend_owner = {from_backend, backend_failed};

static void pace_is_due(struct timer *timer)
{
    struct datagram_proxying *proxying = container_of(timer, struct datagram_proxying, pace);

    if (!datagram_connection_resume(&proxying->connection)) {
        log_alert(&proxying->base.session->log, errno, "epoll_ctl() failed");
        stream_proxy_datagram_finish(proxying, SESSION_INTERNAL_ERROR);
    } else if (proxying->held_waits) {
        forward_held(proxying);
    }
}

/* ---- the beginning ---- */

enum upstream_connect_result proxy_datagrams_connect(struct proxying *base,
                                                     const struct addr *local, unsigned hops)
{
    struct datagram_proxying *proxying = container_of(base, struct datagram_proxying, base);
    const struct proxy_settings *settings = base->settings;

    if (base->pick.tries <= 1) {
        proxying->upload_rate = proxy_rate(base->session, settings->upload_rate);
        proxying->download_rate = proxy_rate(base->session, settings->download_rate);
    }
    const struct datagram_connection_options options = {
        .bind = local,
        .is_transparent = local != NULL && settings->bind->is_transparent,
        .is_slow = proxying->download_rate != 0,
    };
    const char *what;

    proxying->connection.owner = &proxy_backend_owner;
    if (datagram_connection_open(&proxying->connection, &base->pick.peer->addr, &options, &what)) {
        const struct addr *peer = &base->pick.peer->addr;
        proxying->is_noted = own_may_take_datagrams(peer) &&
                             own_note_at_home(proxying->connection.source.fd, peer, hops + 1);
        base->attempt->connect_ms = 0;
        upstream_pick_connected(&base->pick);
        return UPSTREAM_CONNECT_OK;
    }
    int error = errno;
    bool is_ours = !str_is(str_of(what), "connect()");
    log_at(&base->session->log, is_ours ? LOG_ALERT : LOG_ERROR, error, "%s failed", what);
    return is_ours ? UPSTREAM_CONNECT_ERROR : UPSTREAM_CONNECT_FAILED;
}

int proxy_datagrams_fd(const struct proxying *base)
{
    return container_of(base, const struct datagram_proxying, base)->connection.source.fd;
}

static void abort_session(struct session *session)
{
    stream_proxy_datagram_finish(datagrams_of(session), SESSION_OK);
}

static void count_nothing(const struct session *session, uint64_t *received, uint64_t *sent)
{
    *received = *sent = 0;
}

static const struct session_holder holder = {
    .abort = abort_session,
    .count = count_nothing,
    .received = from_client,
    .describe = proxy_describe,
};

/* Sends the kept datagrams to the next peer, after the first one refused them. */
static void forward_again(struct datagram_proxying *proxying)
{
    struct session *session = proxying->base.session;

    for (struct datagram_node *one = proxying->held.first, *next; one != NULL; one = next) {
        next = one->next;
        if (!forward(proxying, (struct str){one->bytes, one->len}) || session->content == NULL) {
            return;
        }
    }
    session_take_datagrams(session);
}

enum session_step proxy_datagrams_carry(struct proxying *base)
{
    struct datagram_proxying *proxying = container_of(base, struct datagram_proxying, base);
    struct session *session = base->session;
    bool is_first = !proxying->is_timed;

    session->log.action = "proxying connection";
    if (is_first) {
        timer_init(&proxying->timeout, time_is_up);
        timer_init(&proxying->pace, pace_is_due);
        proxying->is_timed = true;
        proxying->began_ms = clock_now.now_ms;
        proxying->keeps = proxying->upload_rate == 0 && proxy_may_try_next(base);
    }
    something_moved(proxying);
    enum session_step step = session_carry(session, &holder);
    if (is_first) {
        session_take_datagrams(session); /* the session may be over and freed after this */
    } else {
        forward_again(proxying);
    }
    return step;
}
