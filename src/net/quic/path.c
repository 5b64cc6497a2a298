/* Paths (RFC 9000, 8 and 9): the limit before an address is proved, validation, migration, and the
 * size of datagrams. */
#include "net/quic/private.h"

#include <openssl/rand.h>

#define CHALLENGES_MOST 3u
#define MTU_TRIES 3u

void quic_path_init(struct quic_path *path, const struct addr *peer, const struct addr *local)
{
    *path = (struct quic_path){.peer = quic_addr_of(peer),
                               .local = quic_addr_of(local),
                               .fd = -1,
                               .challenge_due_us = QUIC_NEVER,
                               .give_up_us = QUIC_NEVER,
                               .mtu = QUIC_DATAGRAM_LEAST,
                               .mtu_failed = QUIC_DATAGRAM_MOST + 1};
}

/* As addr_equal. */
static bool is_addr(const struct quic_addr *one, const struct addr *other)
{
    if (one->len == 0 || other->len == 0) {
        return one->len == other->len;
    }
    if (one->any.sa_family != other->any.sa_family || one->v4.sin_port != other->v4.sin_port) {
        return false; /* both families have the port in one place */
    }
    return one->any.sa_family == AF_INET ? one->v4.sin_addr.s_addr == other->v4.sin_addr.s_addr
                                         : one->v6.sin6_scope_id == other->v6.sin6_scope_id &&
                                               memcmp(&one->v6.sin6_addr, &other->v6.sin6_addr,
                                                      sizeof(one->v6.sin6_addr)) == 0;
}

static bool quic_path_is_same(const struct quic_path *path, const struct datagram_packet *datagram)
{
    return path->is_there && is_addr(&path->peer, &datagram->peer) &&
           is_addr(&path->local, &datagram->local);
}

struct quic_path *quic_path_of(struct quic_connection *c, const struct datagram_packet *datagram,
                               struct datagram_port *port, struct quic_path *fresh)
{
    if (!c->is_server || quic_path_is_same(&c->paths[0], datagram)) {
        return &c->paths[0];
    }
    if (quic_path_is_same(&c->paths[1], datagram)) {
        return &c->paths[1];
    }
    /* A move is under way: the address from which the peer was last known is not abandoned for one
     * that anybody may have put on a packet of the peer's. */
    if (!c->is_confirmed ||
        (c->paths[1].is_there && c->paths[1].is_validated && !c->paths[0].is_validated)) {
        return NULL;
    }
    quic_path_init(fresh, &datagram->peer, &datagram->local);
    fresh->port = port; /* another one than before at a preferred address */
    return fresh;
}

struct quic_path *quic_path_add(struct quic_connection *c, const struct quic_path *fresh)
{
    struct quic_path *path = &c->paths[1];
    unsigned former = path->cid;
    bool was_there = path->is_there;

    *path = *fresh;
    if (!quic_cid_take(c, path)) {
        path->cid = c->paths[0].cid; /* it may be a NAT that changed its mind */
    }
    path->is_there = true;
    if (was_there && former != path->cid) {
        quic_cid_give_up(c, former);
    }
    return path;
}

void quic_path_drop(struct quic_connection *c, struct quic_path *path)
{
    path->is_there = false;
    path->port = NULL;
    quic_cid_give_up(c, path->cid);
}

void quic_path_challenge(struct quic_connection *c, struct quic_path *path)
{
    uint64_t now_us = quic_now_us(), wait_us = 3 * quic_recovery_pto_us(&c->recovery);

    RAND_bytes(path->challenge, sizeof(path->challenge));
    path->is_challenge_due = true;
    path->challenges = 1;
    path->challenge_due_us = now_us + wait_us / 3;
    path->give_up_us = now_us + (wait_us < 1000000 ? 1000000 : wait_us);
}

/* What asks the connection for the client's address gets the new one: not before it is proved,
 * since access is granted by it. */
static void tell_conn(struct quic_connection *c)
{
    const struct quic_addr *peer = &c->paths[0].peer;

    if (c->conn->address_length == peer->len) {
        c->moves += memcmp(&c->conn->peer, &peer->any, peer->len) != 0;
        memcpy(&c->conn->peer, &peer->any, peer->len);
    }
}

static bool has_same_ip(const struct quic_addr *one, const struct quic_addr *other)
{
    struct addr a = quic_addr_get(one), b = quic_addr_get(other);

    addr_set_port(&a, 0);
    addr_set_port(&b, 0);
    return addr_equal(&a, &b);
}

static void swap_paths(struct quic_connection *c)
{
    struct quic_path former = c->paths[0];

    former.mtu_probe =
        0; /* its fate is not known there: it may come back, and is asked again then */
    c->paths[0] = c->paths[1];
    c->paths[1] = former;
    if (!has_same_ip(&c->paths[0].peer, &former.peer) ||
        !has_same_ip(&c->paths[0].local, &former.local)) {
        quic_recovery_new_path(&c->recovery, quic_now_us());
    }
    quic_recovery_datagram_size(&c->recovery, c->paths[0].mtu);
    c->recovery.is_amplification_limited = quic_path_room(&c->paths[0]) < QUIC_DATAGRAM_LEAST;
    if (c->paths[0].is_validated) {
        tell_conn(c);
    }
}

void quic_path_moved(struct quic_connection *c, struct quic_path *path)
{
    char was[ADDR_TEXT_MAX], is[ADDR_TEXT_MAX];

    if (path != &c->paths[1]) {
        return;
    }
    const struct addr from = quic_addr_get(&c->paths[0].peer), to = quic_addr_get(&path->peer);
    size_t was_len = addr_format(&from, true, was);
    size_t is_len = addr_format(&to, true, is);
    if (addr_equal(&from, &to)) {
        log_info(c->conn->log, 0, "the QUIC client uses another address of the server");
    } else {
        log_info(c->conn->log, 0, "the QUIC client moved from %.*s to %.*s", (int) was_len, was,
                 (int) is_len, is);
    }
    swap_paths(c);
    c->counts.migrations++;
    if (!c->paths[0].is_validated) {
        quic_path_challenge(c, &c->paths[0]);
    }
}

void quic_path_validated(struct quic_connection *c, struct quic_path *path)
{
    path->is_validated = true;
    path->is_challenge_due = false;
    path->challenge_due_us = path->give_up_us = QUIC_NEVER;
    if (path == &c->paths[0]) {
        c->recovery.is_amplification_limited = false;
        tell_conn(c);
        /* The one before is of no use any more. */
        if (c->paths[1].is_there) {
            quic_path_drop(c, &c->paths[1]);
        }
    }
}

void quic_path_answered(struct quic_connection *c, struct str response)
{
    for (unsigned i = 0; i < 2; i++) {
        struct quic_path *path = &c->paths[i];

        if (path->is_there && path->give_up_us != QUIC_NEVER &&
            memcmp(path->challenge, response.data, sizeof(path->challenge)) == 0) {
            quic_path_validated(c, path);
            return;
        }
    }
}

size_t quic_path_room(const struct quic_path *path)
{
    if (path->is_validated) {
        return 65527;
    }
    return path->sent >= 3 * path->received ? 0 : 3 * path->received - path->sent;
}

uint64_t quic_path_deadline(const struct quic_connection *c)
{
    uint64_t due = QUIC_NEVER;

    for (unsigned i = 0; i < 2; i++) {
        const struct quic_path *path = &c->paths[i];

        if (path->is_there) {
            due = path->challenge_due_us < due ? path->challenge_due_us : due;
            due = path->give_up_us < due ? path->give_up_us : due;
        }
    }
    return due;
}

/* Nobody answered there. */
static void path_failed(struct quic_connection *c, struct quic_path *path)
{
    path->challenge_due_us = path->give_up_us = QUIC_NEVER;
    path->is_challenge_due = false;
    if (path == &c->paths[0]) {
        if (!c->paths[1].is_there || !c->paths[1].is_validated) {
            quic_end(c, QUIC_END_IDLE);
            return;
        }
        log_info(c->conn->log, 0, "the QUIC client did not answer at its new address");
        swap_paths(c);
    }
    quic_path_drop(c, &c->paths[1]);
}

void quic_path_expired(struct quic_connection *c, uint64_t now_us)
{
    for (unsigned i = 0; i < 2 && quic_is_open(c); i++) {
        struct quic_path *path = &c->paths[i];

        if (!path->is_there) {
            continue;
        }
        if (path->give_up_us <= now_us) {
            path_failed(c, path);
        } else if (path->challenge_due_us <= now_us) {
            path->is_challenge_due = true;
            path->challenge_due_us = ++path->challenges >= CHALLENGES_MOST
                                         ? QUIC_NEVER
                                         : now_us + quic_recovery_pto_us(&c->recovery);
        }
    }
}

/* ---- the size of datagrams (RFC 8899) ---- */

unsigned quic_path_mtu_next(const struct quic_connection *c)
{
    static const unsigned sizes[] = {QUIC_DATAGRAM_MOST, 1420, 1380, 1280};
    const struct quic_path *path = &c->paths[0];
    uint64_t most = c->peer.max_udp_payload;

    if (!c->is_confirmed || !path->is_validated || path->mtu_probe != 0) {
        return 0;
    }
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        if (sizes[i] <= path->mtu) {
            return 0;
        }
        if (sizes[i] < path->mtu_failed && sizes[i] <= most) {
            return sizes[i];
        }
    }
    return 0;
}

void quic_path_mtu_known(struct quic_connection *c, unsigned size, bool has_arrived)
{
    struct quic_path *path = &c->paths[0];

    if (size != path->mtu_probe) {
        return; /* of the path before */
    }
    path->mtu_probe = 0;
    if (has_arrived) {
        path->mtu = size;
        path->mtu_tries = 0;
        quic_recovery_datagram_size(&c->recovery, size);
    } else if (++path->mtu_tries >= MTU_TRIES) {
        path->mtu_tries = 0;
        path->mtu_failed = size;
    }
}

void quic_path_mtu_lost(struct quic_connection *c)
{
    struct quic_path *path = &c->paths[0];

    if (path->mtu > QUIC_DATAGRAM_LEAST) {
        log_info(c->conn->log, 0, "datagrams of %u bytes do not reach the QUIC peer any more",
                 path->mtu);
        path->mtu_failed = path->mtu;
        path->mtu = QUIC_DATAGRAM_LEAST;
        path->mtu_probe = 0;
        quic_recovery_datagram_size(&c->recovery, path->mtu);
    }
}
