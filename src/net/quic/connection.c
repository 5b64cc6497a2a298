/* Connections: their life, their deadlines, their end. */
#include "net/quic/private.h"

#include <openssl/rand.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fatal.h"

#define STREAMS_BIDI 128u
#define STREAMS_UNI 3u
#define STREAM_WINDOW 65536u
#define IDLE_TIMEOUT_MS 60000u
#define HANDSHAKE_TIMEOUT_MS 10000u
#define REFUSALS_MOST 3u /* in a row, from the address of an established connection */
#define BLACK_HOLE_PROBES                                                                          \
    3u /* without an answer, before larger datagrams are suspected (RFC 8899, 4.4) */

static uint64_t value_or(uint64_t value, uint64_t otherwise)
{
    return value == 0 ? otherwise : value;
}

static const struct conn_owner conn_owner = {.input = NULL};

/* ---- the beginning ---- */

static void own_parameters_init(struct quic_connection *c)
{
    const struct quic_settings *settings = c->settings;
    uint64_t window = value_or(settings->stream_window, STREAM_WINDOW);

    c->own = (struct quic_parameters){
        .max_idle_timeout_ms = value_or(settings->idle_timeout_ms, IDLE_TIMEOUT_MS),
        .max_udp_payload = 65527,
        .max_data = value_or(settings->connection_window, window * 3 / 2 + 65536),
        .max_stream_data_local = window,
        .max_stream_data_remote = window,
        .max_stream_data_uni = window,
        .max_streams_bidi =
            settings->refuses_bidi ? 0 : value_or(settings->max_streams_bidi, STREAMS_BIDI),
        .max_streams_uni = value_or(settings->max_streams_uni, STREAMS_UNI),
        .ack_delay_exponent = 3,
        .max_ack_delay_ms = 25,
        .min_ack_delay_us = QUIC_ACK_DELAY_LEAST_US,
        .active_connection_id_limit = value_or(settings->active_connection_id_limit, 2),
        .disables_migration = settings->disables_migration,
    };
    if (c->own.active_connection_id_limit > QUIC_PEER_CIDS) {
        c->own.active_connection_id_limit = QUIC_PEER_CIDS;
    }
}

static void peer_parameters_init(struct quic_connection *c)
{
    c->peer.ack_delay_exponent = 3;
    c->peer.max_ack_delay_ms = 25;
    c->peer.active_connection_id_limit = 2;
}

static const struct quic_congestion_control *congestion_control(
    const struct quic_settings *settings)
{
    return settings->uses_bbr ? &quic_bbr : &quic_cubic;
}

static void recovery_init(struct quic_connection *c, uint64_t now_us)
{
    uint64_t random = 0;

    RAND_bytes((unsigned char *) &random, sizeof(random));
    const struct quic_recovery_setup setup = {
        .pool = &quic_worker.sent,
        .events = quic_worker.recovery_events,
        .owner = c,
        .control = congestion_control(c->settings),
        .random = random,
        .datagram_size = QUIC_DATAGRAM_LEAST,
        .is_server = c->is_server,
        .has_ecn = true,
    };
    quic_recovery_init(&c->recovery, &setup, now_us);
}

static void timer_fired(struct timer *timer);

struct quic_connection *quic_connection_new(const struct quic_settings *settings,
                                            const struct quic_secrets *secrets, bool is_server,
                                            uint32_t version)
{
    struct quic_connection *c = calloc(1, sizeof(*c));
    uint64_t now_us = quic_now_us();

    if (c == NULL) {
        fatal_no_memory(sizeof(*c));
    }
    c->magic = QUIC_CONNECTION_MAGIC;
    c->version = version;
    c->is_server = is_server;
    c->settings = settings;
    c->secrets = secrets;
    c->source.fd = -1;
    list_push_back(&quic_worker.connections, &c->all);
    list_init(&c->dirty);
    timer_init(&c->timer, timer_fired);
    own_parameters_init(c);
    peer_parameters_init(c);
    quic_ack_rules_init(c);
    recovery_init(c, now_us);
    for (unsigned i = 0; i < QUIC_SPACES; i++) {
        quic_level_make(c, i);
    }
    quic_streams_init(c);
    c->idle_us = now_us;
    c->paced_us = QUIC_NEVER;
    c->handshake_until_us =
        now_us + 1000 * value_or(settings->handshake_timeout_ms, HANDSHAKE_TIMEOUT_MS);
    quic_worker.handshakes += is_server;
    c->is_handshake_counted = is_server;
    return c;
}

void quic_use_settings(struct quic_connection *c, const struct quic_settings *settings)
{
    struct quic_recovery *recovery = &c->recovery;

    if (settings == c->settings) {
        return;
    }
    c->settings = settings;
    own_parameters_init(c);
    quic_set_own_parameters(c);
    quic_streams_limit(c);
    if (recovery->congestion.in_flight == 0) { /* else a HelloRetryRequest is under way */
        recovery->congestion.control = congestion_control(settings);
        quic_congestion_init(&recovery->congestion, quic_now_us());
    }
}

struct conn *quic_conn_new(struct quic_connection *c, const struct addr *peer,
                           const struct listener *listener, struct log *log)
{
    struct conn *conn = conn_new(-1, peer, &conn_owner, log);

    if (conn != NULL) {
        conn->user = c;
        conn->listener = listener;
        conn->is_tcp = 0;
        c->conn = conn;
    }
    return conn;
}

/* ---- the end ---- */

/* What the log lines of the owner are made of stays while it is held. */
static void drop_conn(struct quic_connection *c)
{
    if (c->conn != NULL && !c->is_held) {
        conn_close(c->conn);
        c->conn = NULL;
    }
}

void quic_hold(struct quic_connection *c)
{
    c->is_held = true;
}

void quic_unhold(struct quic_connection *c)
{
    c->is_held = false;
    if (c->is_stripped) {
        drop_conn(c);
    }
    if (c->is_freed) {
        c->magic = 0;
        free(c);
    }
}

/* All but what is needed to say again that it is over. */
static void strip(struct quic_connection *c)
{
    if (c->is_stripped) {
        return;
    }
    c->is_stripped = true;
    quic_streams_free(c);
    quic_recovery_free(&c->recovery);
    free(c->own_bytes);
    c->own_bytes = NULL;
    drop_conn(c);
}

void quic_connection_free(struct quic_connection *c)
{
    quic_handshake_over(c);
    strip(c);
    if (c->source.fd != -1) {
        quic_udp_flush(); /* its last words */
    }
    quic_udp_forget(c);
    quic_cids_free(c);
    for (unsigned i = 0; i < QUIC_SPACES; i++) {
        quic_level_free(c, i);
    }
    if (c->phases != NULL) {
        quic_keys_free(&c->phases->next);
        quic_keys_free(&c->phases->former);
        free(c->phases);
    }
    free(c->retired);
    if (c->source.fd != -1) {
        event_forget(&c->source);
        close(c->source.fd);
    }
    free((void *) (uintptr_t) c->token.data);
    timer_remove(&c->timer);
    list_remove(&c->all);
    list_remove(&c->dirty);
    c->is_freed = true;
    if (!c->is_held) {
        c->magic = 0;
        free(c);
    }
}

void quic_handshake_over(struct quic_connection *c)
{
    if (c->is_handshake_counted) {
        c->is_handshake_counted = false;
        quic_worker.handshakes--;
        if (c->same_address != NULL) {
            (*c->same_address)--;
        }
    }
}

static void close_now(struct quic_connection *c, const struct quic_close *how)
{
    size_t n =
        how->reason.len < sizeof(c->close_reason) ? how->reason.len : sizeof(c->close_reason);

    quic_handshake_over(c);
    c->close = *how;
    if (n != 0) {
        memcpy(c->close_reason, how->reason.data, n);
    }
    c->close.reason = (struct str){c->close_reason, n};
    c->is_closed_due = c->is_adopted;
    c->end_us = quic_now_us() + 3 * quic_recovery_pto_us(&c->recovery);
    quic_wake(c);
}

void quic_close_by(struct quic_connection *c, const struct quic_close *how, uint64_t frame_type)
{
    if (quic_is_open(c)) {
        c->state = QUIC_CLOSING;
        c->close_frame_type = frame_type;
        c->is_close_to_send = true;
        close_now(c, how);
    }
}

void quic_refuse(struct quic_connection *c, uint64_t code, uint64_t frame_type, const char *reason)
{
    const struct quic_close how = {.end = QUIC_END_OWN, .code = code, .reason = str_of(reason)};

    if (quic_is_open(c) && c->conn != NULL) {
        log_info(c->conn->log, 0, "QUIC connection is closed with error 0x%lx: %s",
                 (unsigned long) code, reason);
    }
    quic_close_by(c, &how, frame_type);
}

void quic_end(struct quic_connection *c, enum quic_end how)
{
    quic_end_by_error(c, how, 0);
}

void quic_end_by_error(struct quic_connection *c, enum quic_end how, int error)
{
    const struct quic_close close = {.end = how, .error = error};

    if (quic_is_open(c)) {
        c->state = how == QUIC_END_RESET ? QUIC_DRAINING : QUIC_ENDED;
        close_now(c, &close);
    }
}

/*
 * ICMP says that nobody is there. While nothing was heard that is the answer; later it may be
 * forged, or concern a route that changes: probes go on, and it has to be said again.
 */
void quic_refused_by_socket(struct quic_connection *c, int error)
{
    if (quic_is_open(c) && (!c->has_heard || ++c->refusals == REFUSALS_MOST)) {
        quic_end_by_error(c, c->has_heard ? QUIC_END_RESET : QUIC_END_TIMEOUT, error);
    }
}

void quic_heard_close(struct quic_connection *c, const struct quic_frame *frame)
{
    const struct quic_close how = {.end = QUIC_END_PEER,
                                   .is_application = frame->type == QUIC_FRAME_APPLICATION_CLOSE,
                                   .code = frame->close.code,
                                   .reason = frame->close.reason};

    if (quic_is_open(c)) {
        c->state = QUIC_DRAINING;
        close_now(c, &how);
    } else if (c->state == QUIC_CLOSING) {
        c->state = QUIC_DRAINING;
    }
}

void quic_call_owner(struct quic_connection *c)
{
    if (c->is_closed_due) {
        c->is_closed_due = false;
        c->owner->closed(c, &c->close);
        c->is_adopted = false;
    }
    if (!quic_is_open(c)) {
        if (!c->is_close_to_send) {
            strip(c);
        }
        return;
    }
    if (!c->is_adopted) {
        return;
    }
    if (c->is_established_due) {
        c->is_established_due = false;
        if (c->owner->established != NULL) {
            c->owner->established(c);
        }
    }
    if (c->owner->stream_opened != NULL) {
        quic_streams_call(c);
    }
}

/* ---- deadlines ---- */

static uint64_t idle_deadline(const struct quic_connection *c)
{
    uint64_t least = 3 * quic_recovery_pto_us(&c->recovery);

    if (c->idle_timeout_us == 0) {
        return QUIC_NEVER;
    }
    return c->idle_us + (c->idle_timeout_us < least ? least : c->idle_timeout_us);
}

static uint64_t earliest(uint64_t one, uint64_t other)
{
    return one < other ? one : other;
}

void quic_arm(struct quic_connection *c)
{
    uint64_t due = c->end_us;

    if (quic_is_open(c)) {
        due = earliest(quic_recovery_deadline(&c->recovery), c->paced_us);
        due = earliest(due, idle_deadline(c));
        due = earliest(due, quic_path_deadline(c));
        if (!c->is_confirmed) {
            due = earliest(due, c->handshake_until_us);
        }
        if (c->keep_alive_us != 0) {
            due = earliest(due, c->idle_us + c->keep_alive_us);
        }
        for (unsigned i = 0; i < QUIC_SPACES; i++) {
            due = earliest(due, c->levels[i]->ack_due_us);
        }
    }
    if (due == QUIC_NEVER) {
        timer_clear(&c->timer);
    } else {
        timer_set(&c->timer, (due + 999) / 1000);
    }
}

static void look_at_acks(struct quic_connection *c, uint64_t now_us)
{
    for (unsigned i = 0; i < QUIC_SPACES; i++) {
        if (c->levels[i]->ack_due_us <= now_us) {
            c->levels[i]->is_ack_due = true;
            c->levels[i]->ack_due_us = QUIC_NEVER;
        }
    }
}

static void timer_fired(struct timer *timer)
{
    struct quic_connection *c = container_of(timer, struct quic_connection, timer);
    uint64_t now_us = quic_now_us();

    CHECK_MAGIC(c, QUIC_CONNECTION_MAGIC);
    if (!quic_is_open(c)) {
        if (c->end_us <= now_us) {
            c->state = QUIC_ENDED;
        }
    } else if (!c->is_confirmed && c->handshake_until_us <= now_us) {
        log_info(c->conn->log, 0, "QUIC handshake timed out");
        quic_end(c, QUIC_END_TIMEOUT);
    } else if (idle_deadline(c) <= now_us) {
        quic_end(c, QUIC_END_IDLE);
    } else {
        c->paced_us = QUIC_NEVER;
        look_at_acks(c, now_us);
        c->probes_before = c->recovery.pto_count;
        c->is_expiring = true;
        quic_recovery_expired(&c->recovery, now_us);
        c->is_expiring = false;
        quic_path_expired(c, now_us);
        if (c->recovery.pto_count >= BLACK_HOLE_PROBES) {
            quic_path_mtu_lost(c);
        }
        if (c->settings->probes_most != 0 && c->recovery.pto_count > c->settings->probes_most) {
            log_info(c->conn->log, 0, "the QUIC peer answers no more");
            quic_end(c, QUIC_END_IDLE);
        }
        if (c->keep_alive_us != 0 && c->idle_us + c->keep_alive_us <= now_us) {
            c->pending |= QUIC_PENDING_PING;
        }
    }
    quic_wake(c);
}

/* ---- what the peer's parameters change ---- */

void quic_parameters_known(struct quic_connection *c)
{
    uint64_t own = c->own.max_idle_timeout_ms, theirs = c->peer.max_idle_timeout_ms;

    c->has_peer_parameters = true;
    c->idle_timeout_us = 1000 * (own == 0 || (theirs != 0 && theirs < own) ? theirs : own);
    c->recovery.max_ack_delay_us = 1000 * c->peer.max_ack_delay_ms;
    quic_credit_raise(&c->credit, c->peer.max_data);
    c->own_limit[0] = c->peer.max_streams_bidi;
    c->own_limit[1] = c->peer.max_streams_uni;
    if (c->peer.has_reset_token) {
        c->peer_cids[0].has_token = true;
        memcpy(c->peer_cids[0].reset_token, c->peer.reset_token, QUIC_RESET_TOKEN_SIZE);
    }
}

/* ---- the interface ---- */

void *quic_user(const struct quic_connection *c)
{
    return c->user;
}

void quic_adopt(struct quic_connection *c, const struct quic_owner *owner, void *user)
{
    c->owner = owner;
    c->user = user;
    c->is_adopted = true;
    quic_wake(c);
}

struct conn *quic_conn(const struct quic_connection *c)
{
    return c->conn;
}

void quic_local(const struct quic_connection *c, struct addr *local)
{
    *local = quic_addr_get(&c->paths[0].local);
}

void quic_peer(const struct quic_connection *c, struct addr *peer)
{
    *peer = quic_addr_get(&c->paths[0].peer);
}

uint32_t quic_moves(const struct quic_connection *c)
{
    return c->moves;
}

struct str quic_alpn(const struct quic_connection *c)
{
    return c->conn == NULL ? STR_NONE : tls_alpn(c->conn);
}

bool quic_is_established(const struct quic_connection *c)
{
    return c->state == QUIC_ESTABLISHED;
}

bool quic_is_flushed(const struct quic_connection *c)
{
    return c->recovery.congestion.in_flight == 0 && c->schedule.present == 0;
}

void quic_close(struct quic_connection *c, uint64_t code, struct str reason)
{
    const struct quic_close how = {.end = QUIC_END_OWN,
                                   .is_application = true,
                                   .code = code,
                                   .reason = reason};

    quic_close_by(c, &how, 0);
}

void quic_abandon(struct quic_connection *c, uint64_t code)
{
    c->is_adopted = false;
    c->is_closed_due = false;
    quic_close(c, code, STR_NONE);
    quic_unhold(c);
}

uint64_t quic_idle_timeout_ms(const struct quic_connection *c)
{
    return c->idle_timeout_us / 1000;
}

uint64_t quic_heard_ms(const struct quic_connection *c)
{
    return c->heard_ms;
}

void quic_keep_alive(struct quic_connection *c, uint64_t every_ms)
{
    c->keep_alive_us = every_ms * 1000;
    quic_wake(c);
}

void quic_facts(const struct quic_connection *c, struct quic_facts *out)
{
    const struct quic_recovery *r = &c->recovery;

    *out = (struct quic_facts){
        .counts = c->counts,
        .version = c->version,
        .rtt_us = r->rtt.smoothed_us,
        .rtt_min_us = r->rtt.min_us,
        .rtt_var_us = r->rtt.variance_us,
        .window_bytes = r->congestion.window,
        .in_flight_bytes = r->congestion.in_flight,
        .rate = r->congestion.pacing_rate,
        .max_udp_payload = c->paths[0].mtu,
    };
    out->counts.packets_lost = r->packets_lost;
}
