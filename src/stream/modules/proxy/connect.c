/* From a session to a connected backend: the target, attempts with peers, TLS and the PROXY
 * header. */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/fatal.h"
#include "net/conn/own.h"
#include "net/conn/proxy_protocol.h"
#include "server/generation.h"
#include "shared/metrics/counters.h"
#include "shared/upstream/target.h"
#include "stream/modules/proxy/datagram.h"
#include "upstream/balancer_decision.h"
#include "upstream/peer.h"

#define ALPN_MAX 255     /* bytes of one name (RFC 7301, 3.1) */
#define FIRST_WORDS 4096 /* bytes of the client that may be sent with the connect */

/* ---- the target ---- */

/* Finds the group of the target. NULL: the session's status has the reason. MAY WAIT. */
static struct upstream_group *find_group(struct session *session,
                                         const struct proxy_settings *settings, struct str *name)
{
    struct upstream_group *group = settings->group;

    if (group != NULL) {
        *name = group->name;
        return group;
    }
    *name = template_text(settings->target, &session->env);
    const struct target_options options = {.subsystem = &upstream_stream,
                                           .text = *name,
                                           .resolver = session->server->resolver,
                                           .resolver_timeout_ms =
                                               session->server->resolver_timeout_ms,
                                           .log = &session->log};

    switch (target_find(&options, &group)) {
    case TARGET_FOUND:
        return group;
    case TARGET_BAD:
    case TARGET_UNRESOLVED:
        session_fail(session, SESSION_INTERNAL_ERROR);
        break;
    case TARGET_CANCELLED:
        session_fail(session, SESSION_OK);
        break;
    }
    return NULL;
}

/* ---- one peer ---- */

/* Most sessions have one attempt: it needs no memory of the arena, and shares the peer's name. */
static void attempt_begin(struct proxying *proxying, struct str name)
{
    struct session *session = proxying->session;
    struct vec *attempts = &session->attempts;

    if (attempts->count == 0) {
        proxying->first = attempt_of(name);
        *attempts = (struct vec){&proxying->first, 1, 1};
        proxying->attempt = &proxying->first;
    } else {
        if (attempts->items == &proxying->first) {
            proxying->first.peer = arena_dup(&session->arena, proxying->first.peer);
        }
        proxying->attempt = attempts_add(attempts, &session->arena, name);
    }
    const struct upstream_group *group =
        proxying->pick.decision != NULL ? proxying->pick.decision->director : proxying->pick.group;
    proxying->attempt->is_at_run_time = group->is_at_run_time;
    proxying->attempt->group = group->is_at_run_time ? STR("") : group->name;
    if (metrics_is_on) {
        /* The target may be chosen by a client: such attempts are counted together. */
        bool is_chosen = group->is_at_run_time;
        proxying->attempt->series =
            1 + metrics_begin_peer(SERIES_STREAM_PEER,
                                   is_chosen ? STR("") : upstream_shown_name(group),
                                   is_chosen ? STR("(any)") : name);
    }
    proxying->attempt_ms = clock_now.now_ms;
}

static void attempt_end(struct proxying *proxying)
{
    proxying->attempt->response_ms = clock_now.now_ms - proxying->attempt_ms;
}

struct str proxy_header(struct session *session, unsigned version)
{
    char *at = arena_text(&session->arena, PROXY_HEADER_V1_MAX);
    struct addr client, local;

    session_client(session, &client);
    if (!session_local(session, &local)) {
        local.len = 0;
    }
    size_t size = version == PROXY_PROTOCOL_V2 ? proxy_header_write_v2(&client, &local, at)
                                               : proxy_header_write(&client, &local, at);
    return (struct str){at, size};
}

/* The names of proxy_ssl_alpn in TLS wire format; empty ones, and those longer than TLS allows, are
 * left out. */
static struct str alpn_of(struct session *session, const struct proxy_settings *settings)
{
    struct str wire = STR_NONE;

    vec_each(struct template *, template, &settings->ssl_alpn) {
        struct str name = template_text(*template, &session->env);
        char length = (char) name.len;

        if (name.len != 0 && name.len <= ALPN_MAX) {
            const struct str parts[] = {wire, {&length, 1}, name};
            wire = arena_join(&session->arena, parts, 3);
        }
    }
    return wire;
}

/* Memory for options of a connection while it is opened. */
struct upstream_connection_way {
    struct addr local;
    struct upstream_connection_tls tls;
};

static void choose_way(struct proxying *proxying, struct str target,
                       struct upstream_connection_way *way,
                       struct upstream_connection_options *options)
{
    const struct proxy_settings *settings = proxying->settings;
    const struct balancer_decision *decision = proxying->pick.decision;
    struct session *session = proxying->session;

    way->local.len = 0;
    if (decision != NULL && decision->has_local) {
        options->local = &decision->local;
    } else if (settings->bind != NULL && bind_address(settings->bind, &session->env, &way->local) &&
               way->local.len != 0) {
        options->local = &way->local;
        options->is_transparent = settings->bind->is_transparent;
    }
    if (settings->ssl && !session->listen->is_udp) {
        tls_client_link(&settings->tls, &session->env, target, alpn_of(session, settings),
                        &way->tls);
        /* TLS sessions are resumed within a group. */
        if (decision != NULL && decision->host.len != 0) {
            way->tls.options.name = decision->host;
            way->tls.options.identity = tls_client_identity(way->tls.context, &way->tls.options);
        }
        way->tls.options.identity ^= keyed_hash(proxying->pick.group->name) << 1;
        if (session->server->backend_hooks != NULL) {
            way->tls.options.hooks = session->server->backend_hooks(session);
            way->tls.options.reuses_session = false;
        }
        if (settings->proxy_protocol != PROXY_PROTOCOL_OFF) {
            way->tls.preface = proxy_header(session, settings->proxy_protocol);
        }
        way->tls.timeout_is_info = true; /* as in nginx, whose stream module logs nothing */
        options->tls = &way->tls;
    }
}

/* ---- loops ---- */

/* How many times the session has passed through this service, if the backend may be this service,
 * too. */
static unsigned hops_of(const struct proxying *proxying)
{
    const struct session *session = proxying->session;
    const struct addr *backend = &proxying->pick.peer->addr;
    struct addr local;
    struct addr peer;

    if (!session->listen->is_udp) {
        return own_may_be(backend) ? conn_hops(session->conn) : 0;
    }
    if (!own_may_take_datagrams(backend) || !session_local(session, &local)) {
        return 0;
    }
    session_peer(session, &peer);
    return own_hops_at(&local, &peer);
}

/* Is that more than allowed? Logged. */
static bool came_round(const struct proxying *proxying, unsigned hops)
{
    const struct session *session = proxying->session;

    if (__builtin_expect(hops <= session->server->max_self_hops, 1)) {
        return false;
    }
    counters_mine->limited++;
    log_error(
        &session->log, 0,
        "the session has passed through this server %u times: one of its backends is this server "
        "itself (max_self_hops)",
        hops);
    return true;
}

/*
 * Checks the hops again after connecting: a client that sends nothing may have been accepted before
 * the worker that connected had recorded the connection. By now it has. Gives whether the session
 * may continue.
 */
static bool is_no_circle(struct proxying *proxying, unsigned hops_then)
{
    unsigned hops = hops_of(proxying);

    if (hops > hops_then) {
        own_note(proxying->connection->conn->source.fd, &proxying->pick.peer->addr, hops + 1);
    }
    return hops == hops_then || !came_round(proxying, hops);
}

/*
 * The first bytes for the backend: the PROXY header, or what the client has sent so far, unless a
 * rate limit may hold that back.
 */
static struct str first_words(struct proxying *proxying)
{
    const struct proxy_settings *settings = proxying->settings;
    struct session *session = proxying->session;

    if (settings->proxy_protocol != PROXY_PROTOCOL_OFF) {
        return proxy_header(session, settings->proxy_protocol);
    }
    if (!settings->upload_rate->is_constant || !str_is(settings->upload_rate->constant, "0")) {
        return STR_NONE;
    }
    if (session_input(session).len == 0 && conn_expects_input()) {
        conn_fill(session->conn, FIRST_WORDS, FIRST_WORDS);
    }
    return str_head(session_input(session), (size_t) settings->buffer_size);
}

/* Connects to the picked peer. MAY WAIT. */
static enum upstream_connect_result connect_peer(struct proxying *proxying, struct str target)
{
    const struct proxy_settings *settings = proxying->settings;
    struct upstream_connection_options options = {
        .keepalive = settings->socket_keepalive,
        .send_buffer = settings->socket_sndbuf,
        .receive_buffer = settings->socket_rcvbuf,
        .wants_fresh = true,
        .is_alone = true,
    };
    struct upstream_connection_way way;
    int error;

    choose_way(proxying, target, &way, &options);
    unsigned hops = options.hops = hops_of(proxying);
    if (came_round(proxying, hops)) {
        return UPSTREAM_CONNECT_ERROR;
    }
    if (proxying->session->listen->is_udp) {
        return proxy_datagrams_connect(proxying, options.local, hops);
    }
    if (options.tls == NULL) {
        options.first = first_words(proxying);
    }
    enum upstream_connect_result result =
        upstream_connection_open(&proxying->pick, &options, settings->connect_timeout_ms,
                                 &proxying->connection, &error);
    if (result == UPSTREAM_CONNECT_OK && !is_no_circle(proxying, hops)) {
        return UPSTREAM_CONNECT_ERROR;
    }
    if (result == UPSTREAM_CONNECT_OK) {
        proxying->attempt->connect_ms = clock_now.now_ms - proxying->attempt_ms;
        if (settings->proxy_protocol == PROXY_PROTOCOL_OFF) {
            proxying->first_sent = (uint32_t) options.first.len;
        }
    }
    return result;
}

/* ---- attempts with further peers ---- */

bool proxy_may_try_next(const struct proxying *proxying)
{
    const struct proxy_settings *settings = proxying->settings;

    return settings->next_upstream &&
           (settings->next_upstream_tries == 0 ||
            proxying->pick.tries < (uint64_t) settings->next_upstream_tries) &&
           (settings->next_upstream_timeout_ms == 0 ||
            clock_now.now_ms - proxying->start_ms < settings->next_upstream_timeout_ms) &&
           upstream_pick_has_next(&proxying->pick);
}

/* Applies the decision of the group's balancer (a script) for the next attempt. A session has one
 * timeout for both directions. */
static void take_decision(struct proxying *proxying)
{
    const struct balancer_decision *decision = proxying->pick.decision;
    struct proxy_settings *own;

    if (decision->connect_timeout_ms == 0 && decision->read_timeout_ms == 0) {
        return;
    }
    own = arena_alloc(&proxying->session->arena, sizeof(*own));
    *own = *proxying->settings;
    own->connect_timeout_ms =
        decision->connect_timeout_ms != 0 ? decision->connect_timeout_ms : own->connect_timeout_ms;
    own->timeout_ms = decision->read_timeout_ms != 0 ? decision->read_timeout_ms : own->timeout_ms;
    proxying->settings = own;
}

/* Connects to one peer after another until one accepts. False: the session's status has the result.
 * MAY WAIT. */
static bool find_peer(struct proxying *proxying, struct str target)
{
    struct session *session = proxying->session;

    for (;;) {
        session->log.action = "connecting to upstream";
        switch (upstream_pick_next(&proxying->pick)) {
        case PICK_OK:
            break;
        case PICK_NONE:
            attempt_begin(proxying, proxying->pick.group->name);
            attempt_end(proxying);
            session_fail(session, SESSION_BAD_GATEWAY);
            return false;
        case PICK_REFUSED:
            session_fail(session, proxying->pick.decision->refusal);
            return false;
        case PICK_CANCELLED:
            session_fail(session, SESSION_OK);
            return false;
        }
        if (__builtin_expect(proxying->pick.decision != NULL, 0)) {
            take_decision(proxying);
        }
        attempt_begin(proxying, proxying->pick.peer->name);
        switch (connect_peer(proxying, target)) {
        case UPSTREAM_CONNECT_OK:
            upstream_pick_connected(&proxying->pick);
            return true;
        case UPSTREAM_CONNECT_FAILED:
        case UPSTREAM_CONNECT_TIMED_OUT:
            break;
        case UPSTREAM_CONNECT_ERROR:
            attempt_end(proxying);
            session_fail(session, SESSION_INTERNAL_ERROR);
            return false;
        case UPSTREAM_CONNECT_CANCELLED:
            attempt_end(proxying);
            session_fail(session, SESSION_OK);
            return false;
        }
        attempt_end(proxying);
        bool goes_on = proxy_may_try_next(proxying);
        balancer_decision_failed(proxying->pick.decision, 0, false);
        upstream_pick_done(&proxying->pick, PEER_FAILED);
        if (!goes_on) {
            session_fail(session, SESSION_BAD_GATEWAY);
            return false;
        }
    }
}

static void log_connected(const struct proxying *proxying)
{
    bool is_udp = proxying->session->listen->is_udp;
    int fd = is_udp ? proxy_datagrams_fd(proxying) : proxying->connection->conn->source.fd;
    struct log log = proxying->session->log;
    struct str peer = proxying->pick.peer->name;
    struct addr local = {.len = 0};
    socklen_t len = sizeof(local) - offsetof(struct addr, any);
    char buffer[ADDR_TEXT_MAX];

    if (log.level < LOG_INFO) {
        return;
    }
    if (getsockname(fd, &local.any, &len) == 0) {
        local.len = len;
    }
    struct str text = local.len == 0 || local.any.sa_family == AF_UNIX
                          ? STR("unix:")
                          : (struct str){buffer, addr_format(&local, true, buffer)};
    log.describe = NULL;
    log.action = NULL;
    log_info(&log, 0, "%sproxy %.*s connected to %.*s", is_udp ? "udp " : "", STR_ARG(text),
             STR_ARG(peer));
}

static enum session_step go_to_peer(struct proxying *proxying, struct str target)
{
    bool is_udp = proxying->session->listen->is_udp;

    if (!find_peer(proxying, target)) {
        proxy_let_go(proxying, PEER_UNTRIED);
        return SESSION_ENDED;
    }
    log_connected(proxying);
    return is_udp ? proxy_datagrams_carry(proxying) : proxy_carry(proxying);
}

enum session_step proxy_next_peer(struct proxying *proxying)
{
    /* Only TLS uses the target, and these sessions are UDP. */
    return go_to_peer(proxying, STR_NONE);
}

enum session_step proxy_pass_session(struct session *session)
{
    const struct proxy_settings *settings = stream_settings(session->server, &proxy_key);
    struct proxying *proxying =
        session->listen->is_udp ? proxy_datagrams_new() : calloc(1, sizeof(*proxying));
    struct str target;

    if (proxying == NULL) {
        fatal_no_memory(sizeof(*proxying));
    }
    proxying->session = session;
    proxying->settings = settings;
    session->content = proxying;
    session->holder = &proxy_holder;
    struct upstream_group *group = find_group(session, settings, &target);
    if (group == NULL) {
        proxy_let_go(proxying, PEER_UNTRIED);
        return SESSION_ENDED;
    }
    proxying->pick.env = &session->env;
    proxying->pick.arena = &session->arena;
    proxying->pick.log = &session->log;
    proxying->pick.subject = session;
    proxying->start_ms = clock_now.now_ms;
    upstream_pick_begin(&proxying->pick, group);
    if (__builtin_expect(proxying->pick.decision != NULL, 0)) {
        proxying->pick.decision->tries_most = (uint64_t) settings->next_upstream_tries;
    }
    return go_to_peer(proxying, target);
}
