/* Connection ids (RFC 9000, 5.1): ours, by which datagrams find their connection, and those of the
 * peer. */
#include "net/quic/private.h"

#include <openssl/rand.h>
#include <stdlib.h>

#include "base/checksum.h"
#include "base/fatal.h"

/* ---- ours ---- */

void quic_cid_register(struct quic_own_cid *own)
{
    own->is_used = true;
    hashed_add(&quic_worker.cids, &own->entry, keyed_hash(quic_cid_str(&own->cid)));
}

void quic_cid_unregister(struct quic_own_cid *own)
{
    if (own->is_used) {
        own->is_used = false;
        hashed_remove(&quic_worker.cids, &own->entry);
    }
}

void quic_original_forget(struct quic_connection *c)
{
    if (c->original.is_used && c->was_retried) {
        datagram_unnote(c->original.entry.hash);
    }
    quic_cid_unregister(&c->original);
}

void quic_cid_make(struct quic_connection *c, struct quic_own_cid *own)
{
    uint8_t random[8];
    struct quic_cid_names names = {.worker = (uint16_t) datagram_worker()};

    RAND_bytes(random, sizeof(random));
    if (c->paths[0].port != NULL) {
        names.slot = (uint16_t) datagram_port_slot(c->paths[0].port);
    }
    *own = (struct quic_own_cid){.connection = c, .number = c->next_own_number++};
    quic_cid_encode(c->secrets, names, random, &own->cid);
    quic_cid_register(own);
}

void quic_cids_supply(struct quic_connection *c)
{
    uint64_t most = c->peer.active_connection_id_limit;
    uint64_t used = 0;

    most = most < QUIC_OWN_CIDS ? most : QUIC_OWN_CIDS;
    for (unsigned i = 0; i < QUIC_OWN_CIDS; i++) {
        used += c->own_cids[i].is_used;
    }
    for (unsigned i = 0; i < QUIC_OWN_CIDS && used < most; i++) {
        if (!c->own_cids[i].is_used) {
            quic_cid_make(c, &c->own_cids[i]);
            c->own_cids[i].is_to_send = true;
            c->pending |= QUIC_PENDING_NEW_CIDS;
            used++;
        }
    }
}

void quic_cids_free(struct quic_connection *c)
{
    quic_original_forget(c);
    for (unsigned i = 0; i < QUIC_OWN_CIDS; i++) {
        quic_cid_unregister(&c->own_cids[i]);
    }
}

void quic_cid_retired(struct quic_connection *c, uint64_t number, struct str used_by)
{
    if (number >= c->next_own_number) {
        quic_refuse(c, QUIC_PROTOCOL_VIOLATION, QUIC_FRAME_RETIRE_CONNECTION_ID,
                    "an id is retired that was not given");
        return;
    }
    for (unsigned i = 0; i < QUIC_OWN_CIDS; i++) {
        struct quic_own_cid *own = &c->own_cids[i];

        if (!own->is_used || own->number != number) {
            continue;
        }
        if (quic_cid_is(&own->cid, used_by)) {
            quic_refuse(c, QUIC_PROTOCOL_VIOLATION, QUIC_FRAME_RETIRE_CONNECTION_ID,
                        "the id of its own packet is retired");
            return;
        }
        quic_cid_unregister(own);
        quic_cids_supply(c);
        return;
    }
}

/* ---- the peer's ---- */

static void retire(struct quic_connection *c, uint64_t number)
{
    if (c->retired == NULL) {
        c->retired = calloc(1, sizeof(*c->retired));
        if (c->retired == NULL) {
            fatal_no_memory(sizeof(*c->retired));
        }
    }
    if (c->retired->count == QUIC_RETIRED_MOST) {
        quic_refuse(c, QUIC_CONNECTION_ID_LIMIT_ERROR, QUIC_FRAME_NEW_CONNECTION_ID,
                    "too many ids are retired at a time");
        return;
    }
    c->retired->is_sent[c->retired->count] = false;
    c->retired->numbers[c->retired->count++] = number;
    c->pending |= QUIC_PENDING_RETIRED;
}

void quic_cid_retirement_known(struct quic_connection *c, uint64_t number, bool has_arrived)
{
    struct quic_retired *retired = c->retired;
    unsigned i = 0;

    while (retired != NULL && i < retired->count && retired->numbers[i] != number) {
        i++;
    }
    if (retired == NULL || i == retired->count) {
        return;
    }
    if (!has_arrived) {
        retired->is_sent[i] = false;
        c->pending |= QUIC_PENDING_RETIRED;
        return;
    }
    retired->count--;
    retired->numbers[i] = retired->numbers[retired->count];
    retired->is_sent[i] = retired->is_sent[retired->count];
    if (retired->count == 0) {
        free(retired);
        c->retired = NULL;
    }
}

static void peer_cid_drop(struct quic_connection *c, struct quic_peer_cid *peer)
{
    peer->is_used = false;
    retire(c, peer->number);
}

void quic_cid_give_up(struct quic_connection *c, unsigned place)
{
    /* Another path may use it, where there was no spare one. */
    for (unsigned i = 0; i < 2; i++) {
        if (c->paths[i].is_there && c->paths[i].cid == place) {
            return;
        }
    }
    if (c->peer_cids[place].is_used && c->peer_cids[place].cid.len != 0) {
        peer_cid_drop(c, &c->peer_cids[place]);
    }
}

static bool is_taken(const struct quic_connection *c, unsigned place)
{
    return (c->paths[0].is_there && c->paths[0].cid == place) ||
           (c->paths[1].is_there && c->paths[1].cid == place);
}

bool quic_cid_take(struct quic_connection *c, struct quic_path *path)
{
    for (unsigned i = 0; i < QUIC_PEER_CIDS; i++) {
        if (c->peer_cids[i].is_used && !is_taken(c, i)) {
            path->cid = i;
            return true;
        }
    }
    return false;
}

/* Ids below the peer's "retire prior to" are retired, and paths go over to others. */
static void retire_old(struct quic_connection *c)
{
    for (unsigned i = 0; i < QUIC_PEER_CIDS; i++) {
        struct quic_peer_cid *peer = &c->peer_cids[i];

        if (!peer->is_used || peer->number >= c->retire_before) {
            continue;
        }
        peer->is_used = false;
        for (unsigned p = 0; p < 2; p++) {
            if (c->paths[p].is_there && c->paths[p].cid == i && !quic_cid_take(c, &c->paths[p])) {
                c->paths[p].is_there = p == 0; /* the current one waits for another id */
            }
        }
        retire(c, peer->number);
    }
}

static struct quic_peer_cid *find_number(struct quic_connection *c, uint64_t number)
{
    for (unsigned i = 0; i < QUIC_PEER_CIDS; i++) {
        if (c->peer_cids[i].is_used && c->peer_cids[i].number == number) {
            return &c->peer_cids[i];
        }
    }
    return NULL;
}

static bool add_peer_cid(struct quic_connection *c, const struct quic_frame *frame)
{
    uint64_t used = 0;
    struct quic_peer_cid *free_one = NULL;

    for (unsigned i = 0; i < QUIC_PEER_CIDS; i++) {
        if (!c->peer_cids[i].is_used) {
            free_one = free_one == NULL ? &c->peer_cids[i] : free_one;
        } else if (c->peer_cids[i].number >= frame->new_id.retire_before) {
            used++;
        }
    }
    if (used >= c->own.active_connection_id_limit || free_one == NULL) {
        return false;
    }
    *free_one = (struct quic_peer_cid){.cid = quic_cid_of(frame->new_id.id),
                                       .number = frame->new_id.number,
                                       .has_token = true,
                                       .is_used = true};
    memcpy(free_one->reset_token, frame->new_id.reset_token.data, QUIC_RESET_TOKEN_SIZE);
    return true;
}

void quic_cid_received(struct quic_connection *c, const struct quic_frame *frame)
{
    const struct quic_peer_cid *known = find_number(c, frame->new_id.number);

    if (c->peer_cids[c->paths[0].cid].cid.len == 0) {
        quic_refuse(c, QUIC_PROTOCOL_VIOLATION, frame->type, "an id of a peer that has none");
        return;
    }
    if (known != NULL && !quic_cid_is(&known->cid, frame->new_id.id)) {
        quic_refuse(c, QUIC_PROTOCOL_VIOLATION, frame->type, "two ids of one number");
        return;
    }
    if (known != NULL) {
        return;
    }
    if (frame->new_id.number < c->retire_before) {
        retire(c, frame->new_id.number);
        return;
    }
    if (!add_peer_cid(c, frame)) {
        quic_refuse(c, QUIC_CONNECTION_ID_LIMIT_ERROR, frame->type, "too many ids");
        return;
    }
    if (frame->new_id.retire_before > c->retire_before) {
        c->retire_before = frame->new_id.retire_before;
        retire_old(c);
    }
}

bool quic_is_reset_token(const struct quic_connection *c, struct str token)
{
    for (unsigned i = 0; i < QUIC_PEER_CIDS; i++) {
        const struct quic_peer_cid *peer = &c->peer_cids[i];

        if (peer->is_used && peer->has_token &&
            secret_equal(token, (struct str){(char *) peer->reset_token, QUIC_RESET_TOKEN_SIZE})) {
            return true;
        }
    }
    return false;
}
