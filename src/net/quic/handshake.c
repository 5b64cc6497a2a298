/* The handshake: between CRYPTO frames and TLS; keys that come and go. */
#include "net/quic/private.h"

#include <openssl/rand.h>
#include <stdlib.h>

#include "base/fatal.h"
#include "base/wire.h"

#define PARAMETERS_MOST 512u

static const enum quic_space spaces[TLS_LEVELS] = {
    [TLS_LEVEL_INITIAL] = QUIC_SPACE_INITIAL,
    [TLS_LEVEL_EARLY] = QUIC_SPACE_APPLICATION,
    [TLS_LEVEL_HANDSHAKE] = QUIC_SPACE_HANDSHAKE,
    [TLS_LEVEL_APPLICATION] = QUIC_SPACE_APPLICATION,
};
static const enum tls_level levels[QUIC_SPACES] = {TLS_LEVEL_INITIAL, TLS_LEVEL_HANDSHAKE,
                                                   TLS_LEVEL_APPLICATION};

/* ---- what TLS asks ---- */

static bool on_secret(void *arg, enum tls_level at, bool is_for_sending, unsigned suite,
                      struct str secret)
{
    struct quic_connection *c = arg;
    struct quic_level *level = c->levels[spaces[at]];
    const struct tls_suite *known = tls_suite_of(suite);

    if (at == TLS_LEVEL_EARLY || known == NULL || level->is_discarded) {
        return known != NULL;
    }
    if (at == TLS_LEVEL_HANDSHAKE && is_for_sending) {
        c->recovery.has_handshake_keys = true;
    }
    return quic_keys_make(is_for_sending ? &level->write : &level->read, known, c->version, secret,
                          is_for_sending);
}

static void on_send(void *arg, enum tls_level at, struct str bytes)
{
    struct quic_connection *c = arg;

    if (!c->levels[spaces[at]]->is_discarded) {
        quic_send_copy(&c->levels[spaces[at]]->crypto_out, bytes);
        quic_wake(c);
    }
}

/* The ids that were used have to be those that the peer means (RFC 9000, 7.3). */
static bool ids_fit(const struct quic_connection *c, const struct quic_parameters *peer)
{
    if (!peer->has_initial_scid ||
        !quic_cid_is(&c->peer_cids[0].cid, quic_cid_str(&peer->initial_scid))) {
        return false;
    }
    if (c->is_server) {
        return true;
    }
    return peer->has_original_dcid &&
           quic_cid_is(&c->original_dcid, quic_cid_str(&peer->original_dcid)) &&
           peer->has_retry_scid == c->was_retried &&
           (!c->was_retried || quic_cid_is(&c->retry_scid, quic_cid_str(&peer->retry_scid)));
}

/*
 * The peer is authentic now: the version that it takes for the chosen one has to be that of the
 * packets, or somebody has changed something on the way. The server of a connection that followed
 * Version Negotiation has to confirm that it speaks no version that we prefer (RFC 9368, 4).
 */
static bool version_is_confirmed(const struct quic_connection *c)
{
    struct str versions = c->peer.versions;
    size_t chosen;

    if (!wire_number(&versions, 4, &chosen)) {
        return !c->was_negotiated;
    }
    if (c->first_read != NULL && chosen == c->first_version) {
        return true; /* after a HelloRetryRequest the client says again what it began with */
    }
    return chosen == c->version &&
           (!c->was_negotiated || quic_version_choose(versions) == c->version);
}

/* The first of the versions that a client has which is ours, too; 0: it names none. False: it does
 * not name the one it chose. */
static bool version_preferred(struct str versions, uint32_t *preferred)
{
    size_t chosen, version;
    bool is_listed = versions.len == 0;

    *preferred = 0;
    wire_number(&versions, 4, &chosen);
    while (wire_number(&versions, 4, &version)) {
        is_listed = is_listed || version == chosen;
        if (*preferred == 0 && quic_version_is_ours((uint32_t) version)) {
            *preferred = (uint32_t) version;
        }
    }
    return is_listed;
}

/*
 * The version of a client is changed to one that it prefers and we have, without a round trip: the
 * versions are compatible (RFC 9368, 2.3; RFC 9369, 4). Its Initials may have the former version
 * until it has seen one of ours.
 */
static bool version_change(struct quic_connection *c, uint32_t version)
{
    struct quic_level *level = c->levels[QUIC_SPACE_INITIAL];
    const struct quic_cid *dcid = c->was_retried ? &c->retry_scid : &c->original_dcid;
    struct quic_keys read, write;

    if (!quic_keys_make_initial(&read, version, quic_cid_str(dcid), false, false)) {
        return false;
    }
    if (!quic_keys_make_initial(&write, version, quic_cid_str(dcid), true, true)) {
        quic_keys_free(&read);
        return false;
    }
    if ((c->first_read = malloc(sizeof(*c->first_read))) == NULL) {
        fatal_no_memory(sizeof(*c->first_read));
    }
    *c->first_read = level->read;
    quic_keys_free(&level->write);
    level->read = read;
    level->write = write;
    c->first_version = c->version;
    c->version = version;
    return quic_set_own_parameters(c);
}

/* False: the connection is refused. */
static bool versions_received(struct quic_connection *c)
{
    uint32_t preferred = 0;

    if (c->is_server && !version_preferred(c->peer.versions, &preferred)) {
        quic_refuse(c, QUIC_TRANSPORT_PARAMETER_ERROR, QUIC_FRAME_CRYPTO,
                    "the version that was chosen is not available");
        return false;
    }
    if (!version_is_confirmed(c)) {
        quic_refuse(c, QUIC_VERSION_NEGOTIATION_ERROR, QUIC_FRAME_CRYPTO,
                    c->was_negotiated ? "the server does not confirm the version that it asked for"
                                      : "the version that was chosen is not that of the packets");
        return false;
    }
    if (c->is_server && c->first_read == NULL && preferred != 0 && preferred != c->version &&
        !version_change(c, preferred)) {
        quic_refuse(c, QUIC_INTERNAL_ERROR, QUIC_FRAME_CRYPTO, "no keys");
        return false;
    }
    return true;
}

static bool on_parameters(void *arg, struct str bytes)
{
    struct quic_connection *c = arg;

    if (!quic_parameters_read(bytes, !c->is_server, &c->peer) || !ids_fit(c, &c->peer)) {
        quic_refuse(c, QUIC_TRANSPORT_PARAMETER_ERROR, QUIC_FRAME_CRYPTO,
                    "transport parameters that make no sense");
        return false;
    }
    if (!versions_received(c)) {
        return false;
    }
    c->peer.preferred_address = c->peer.versions = STR_NONE; /* they lie in what was read */
    quic_parameters_known(c);
    return true;
}

static struct str on_own_parameters(void *arg)
{
    struct quic_connection *c = arg;

    if (c->is_server && c->service->chosen != NULL) {
        quic_use_settings(c,
                          c->service->chosen((struct listener *) (uintptr_t) c->conn->listener, c));
    }
    return (struct str){(const char *) c->own_bytes, c->own_bytes_size};
}

static void on_resume(void *arg)
{
    struct quic_connection *c = arg;

    if (quic_is_open(c)) {
        quic_shake_hands(c);
        quic_wake(c);
    }
}

const struct tls_messages_owner quic_tls_owner = {on_secret, on_send, on_parameters,
                                                  on_own_parameters, on_resume};

/* RFC 9000, 18.2: both addresses, and the id with number 1. Gives its size. */
static size_t preferred_put(struct quic_connection *c, unsigned char *room, size_t size)
{
    static const struct addr none;
    const struct quic_preferred *preferred = c->settings->preferred;
    const struct addr *v4 = preferred->has_v4 ? &preferred->v4 : &none;
    const struct addr *v6 = preferred->has_v6 ? &preferred->v6 : &none;
    struct quic_out out = {room, room + size, false};
    uint8_t token[QUIC_RESET_TOKEN_SIZE];

    if (!c->own_cids[1].is_used) {
        quic_cid_make(c, &c->own_cids[1]);
    }
    quic_put_bytes(&out, &v4->v4.sin_addr, sizeof(v4->v4.sin_addr));
    quic_put_number(&out, preferred->has_v4 ? addr_port(v4) : 0, 2);
    quic_put_bytes(&out, &v6->v6.sin6_addr, sizeof(v6->v6.sin6_addr));
    quic_put_number(&out, preferred->has_v6 ? addr_port(v6) : 0, 2);
    quic_put_number(&out, c->own_cids[1].cid.len, 1);
    quic_put_bytes(&out, c->own_cids[1].cid.bytes, c->own_cids[1].cid.len);
    quic_reset_token(c->secrets, quic_cid_str(&c->own_cids[1].cid), token);
    quic_put_bytes(&out, token, sizeof(token));
    return (size_t) (out.at - room);
}

bool quic_set_own_parameters(struct quic_connection *c)
{
    unsigned char versions[3 * 4], preferred[4 + 2 + 16 + 2 + 1 + QUIC_CID_MOST + 16];
    struct quic_out version_out = {versions, versions + sizeof(versions), false};
    uint32_t random = 0;

    if (c->own_bytes == NULL && (c->own_bytes = malloc(PARAMETERS_MOST)) == NULL) {
        fatal_no_memory(PARAMETERS_MOST);
    }
    RAND_bytes((unsigned char *) &random, sizeof(random));
    c->own.has_initial_scid = true;
    c->own.initial_scid = c->own_cids[0].cid;
    if (c->is_server) {
        c->own.has_original_dcid = true;
        c->own.original_dcid = c->original_dcid;
        c->own.has_retry_scid = c->was_retried;
        c->own.retry_scid = c->retry_scid;
        c->own.has_reset_token = true;
        quic_reset_token(c->secrets, quic_cid_str(&c->own_cids[0].cid), c->own.reset_token);
    }
    if (c->is_server && c->settings->preferred != NULL) {
        c->own.preferred_address =
            (struct str){(const char *) preferred, preferred_put(c, preferred, sizeof(preferred))};
    }
    /* Chosen, then available. A client of ours has its version changed by nobody. */
    quic_put_number(&version_out, c->version, 4);
    quic_put_number(&version_out, c->is_server ? QUIC_VERSION_1 : c->version, 4);
    if (c->is_server) {
        quic_put_number(&version_out, QUIC_VERSION_2, 4);
    }
    c->own.versions = str_from((const char *) versions, (const char *) version_out.at);
    struct quic_out out = {c->own_bytes, c->own_bytes + PARAMETERS_MOST, false};
    quic_parameters_put(&out, &c->own, random);
    c->own.versions = c->own.preferred_address = STR_NONE;
    c->own_bytes_size = (size_t) (out.at - c->own_bytes);
    return !out.is_short;
}

/* ---- steps ---- */

/* The server has chosen and answered: the protocol above may speak (0.5-RTT). */
static void accept_connection(struct quic_connection *c)
{
    c->is_accepted = true;
    if (tls_alpn(c->conn).len == 0) {
        quic_refuse(c, QUIC_CRYPTO_ERROR + TLS_ALERT_NO_APPLICATION_PROTOCOL, QUIC_FRAME_CRYPTO,
                    "no application protocol");
    } else if (!c->service->accepted((struct listener *) (uintptr_t) c->conn->listener, c)) {
        quic_refuse(c, QUIC_CONNECTION_REFUSED, 0, "");
    }
}

static void established(struct quic_connection *c)
{
    if (!c->is_server && !tls_messages_verify(c->conn, c->tls_options)) {
        quic_refuse(c, QUIC_CRYPTO_ERROR + 42, QUIC_FRAME_CRYPTO, "bad certificate");
        return;
    }
    c->tls_options = NULL; /* they are as long-lived as the handshake */
    c->state = QUIC_ESTABLISHED;
    c->is_established_due = true;
    quic_handshake_over(c);
    if (c->is_server) {
        c->pending |= QUIC_PENDING_HANDSHAKE_DONE | QUIC_PENDING_NEW_TOKEN;
        quic_confirm(c);
        quic_original_forget(c);
        if (c->own_cids[1].is_used && c->settings->preferred == NULL) {
            /* Made for the default server's address, which the server that was chosen does not
             * have. */
            c->own_cids[1].is_to_send = true;
            c->pending |= QUIC_PENDING_NEW_CIDS;
        }
    }
    quic_cids_supply(c);
}

void quic_shake_hands(struct quic_connection *c)
{
    enum tls_progress progress = tls_messages_step(c->conn);

    if (!quic_is_open(c)) {
        return;
    }
    if (progress == TLS_FAILED) {
        quic_refuse(c, QUIC_CRYPTO_ERROR + tls_messages_alert(c->conn), QUIC_FRAME_CRYPTO,
                    "the TLS handshake failed");
        return;
    }
    if (c->is_server && !c->is_accepted &&
        quic_keys_are_there(&c->levels[QUIC_SPACE_APPLICATION]->write)) {
        accept_connection(c);
    }
    if (progress == TLS_DONE && c->state == QUIC_HANDSHAKING) {
        established(c);
    }
}

/* False: refused. */
static bool give_to_tls(struct quic_connection *c, enum quic_space space, struct str bytes)
{
    if (!tls_messages_input(c->conn, levels[space], bytes)) {
        quic_refuse(c, QUIC_CRYPTO_ERROR + tls_messages_alert(c->conn), QUIC_FRAME_CRYPTO,
                    "a handshake message out of place");
        return false;
    }
    quic_receive_consume(&c->levels[space]->crypto_in, NULL, bytes.len);
    quic_shake_hands(c);
    return quic_is_open(c);
}

bool quic_crypto_received(struct quic_connection *c, enum quic_space space,
                          const struct quic_frame *frame)
{
    struct quic_receive *receive = &c->levels[space]->crypto_in;
    const struct quic_arrival arrival = {frame->stream.offset, frame->stream.data, false};
    struct quic_arrival now;
    struct str input;

    /* What TLS has taken makes room. */
    if (quic_window_is_due(&receive->window)) {
        quic_window_update(&receive->window, quic_now_us(), UINT64_MAX / 4);
    }
    switch (quic_receive_take(receive, NULL, &arrival, &now)) {
    case QUIC_RECEIVED:
        break;
    case QUIC_RECEIVED_SCATTERED:
        return false;
    default:
        quic_refuse(c, QUIC_CRYPTO_BUFFER_EXCEEDED, QUIC_FRAME_CRYPTO, "too much of a handshake");
        return true;
    }
    if (now.bytes.len != 0 && !give_to_tls(c, space, now.bytes)) {
        return true;
    }
    while (!c->levels[space]->is_discarded && (input = quic_receive_input(receive)).len != 0) {
        if (!give_to_tls(c, space, input)) {
            return true;
        }
    }
    return true;
}

/* ---- keys ---- */

struct quic_level quic_level_none = {.largest = QUIC_NUMBER_NONE,
                                     .reported = QUIC_NUMBER_NONE,
                                     .ack_due_us = QUIC_NEVER,
                                     .is_discarded = true};

void quic_level_make(struct quic_connection *c, enum quic_space space)
{
    struct quic_level *level = calloc(1, sizeof(*level));

    if (level == NULL) {
        fatal_no_memory(sizeof(*level));
    }
    quic_received_init(&level->received, QUIC_RANGES_MOST);
    quic_send_init(&level->crypto_out, UINT64_MAX);
    quic_receive_init(&level->crypto_in, QUIC_CRYPTO_MOST, QUIC_CRYPTO_MOST);
    level->largest = level->reported = QUIC_NUMBER_NONE;
    level->ack_due_us = QUIC_NEVER;
    c->levels[space] = level;
}

void quic_level_free(struct quic_connection *c, enum quic_space space)
{
    struct quic_level *level = c->levels[space];

    if (level->is_discarded) {
        return;
    }
    c->levels[space] = &quic_level_none;
    quic_keys_free(&level->read);
    quic_keys_free(&level->write);
    if (space == QUIC_SPACE_INITIAL && c->first_read != NULL) {
        quic_keys_free(c->first_read);
        free(c->first_read);
        c->first_read = NULL;
    }
    quic_send_free(&level->crypto_out);
    quic_receive_free(&level->crypto_in);
    quic_received_free(&level->received);
    free(level);
}

void quic_level_discard(struct quic_connection *c, enum quic_space space)
{
    if (!c->levels[space]->is_discarded) {
        quic_recovery_discard(&c->recovery, space);
        quic_level_free(c, space);
    }
}

void quic_confirm(struct quic_connection *c)
{
    if (!c->is_confirmed) {
        c->is_confirmed = true;
        c->recovery.is_handshake_confirmed = true;
        c->recovery.is_peer_validated = true;
        quic_level_discard(c, QUIC_SPACE_INITIAL);
        quic_level_discard(c, QUIC_SPACE_HANDSHAKE);
        free(c->own_bytes);
        c->own_bytes = NULL;
        c->own_bytes_size = 0;
    }
}

void quic_update_keys(struct quic_connection *c)
{
    struct quic_level *level = c->levels[QUIC_SPACE_APPLICATION];
    struct quic_keys next;

    /* Not before something of this phase was acknowledged, and the peer has followed (RFC
     * 9001, 6.1). */
    if (!c->is_confirmed || !c->is_phase_acked || c->uses_next_phase != c->read_phase ||
        !quic_keys_make_next(&next, &level->write)) {
        return;
    }
    quic_keys_replace(&level->write, &next);
    c->uses_next_phase = !c->uses_next_phase;
    c->is_phase_acked = false;
    c->phase_sent_first = c->recovery.spaces[QUIC_SPACE_APPLICATION].next_number;
    c->counts.key_updates++;
}
