/* What comes: datagrams are taken apart into packets, packets are opened. */
#include <stdlib.h>

#include "base/fatal.h"
#include "base/wire.h"
#include "net/quic/private.h"

#define RESERVED_LONG 0x0cu
#define RESERVED_SHORT 0x18u
#define KEY_PHASE 0x04u

/* A packet that is being opened. */
struct packet_in {
    struct quic_header header;
    unsigned char *bytes; /* of the whole packet */
    enum quic_space space;
    struct quic_level *level;
    uint64_t number;
    unsigned number_size;
    unsigned ecn;
};

/* ---- acknowledgements that are due ---- */

static void note_received(struct quic_connection *c, const struct packet_in *packet,
                          bool is_eliciting)
{
    struct quic_level *level = packet->level;
    uint64_t now_us = quic_now_us();
    uint64_t before = level->largest;

    quic_received_add(&level->received, packet->number);
    level->has_received = true;
    if (packet->ecn != 0) {
        level->ecn[packet->ecn == 2 ? 0 : packet->ecn == 1 ? 1 : 2]++;
    }
    if (level->largest == QUIC_NUMBER_NONE || packet->number > level->largest) {
        level->largest = packet->number;
        level->largest_us = now_us;
    }
    if (!is_eliciting) {
        return;
    }
    level->unacknowledged++;
    if (packet->space != QUIC_SPACE_APPLICATION || packet->ecn == 3 ||
        quic_ack_is_due(c, level, packet->number, before)) {
        level->is_ack_due = true;
    } else if (level->ack_due_us == QUIC_NEVER) {
        level->ack_due_us = now_us + c->acks.delay_us;
    }
}

/* ---- keys ---- */

static bool make_next_read(struct quic_connection *c)
{
    if (c->phases == NULL) {
        c->phases = calloc(1, sizeof(*c->phases));
        if (c->phases == NULL) {
            fatal_no_memory(sizeof(*c->phases));
        }
    }
    if (!c->phases->has_next) {
        c->phases->has_next =
            quic_keys_make_next(&c->phases->next, &c->levels[QUIC_SPACE_APPLICATION]->read);
    }
    return c->phases->has_next;
}

/* The peer has gone over to the next phase: so do we (RFC 9001, 6.2). */
static void follow_update(struct quic_connection *c, const struct packet_in *packet)
{
    struct quic_level *level = c->levels[QUIC_SPACE_APPLICATION];
    struct quic_phases *phases = c->phases;
    struct quic_keys former = level->read, next;

    quic_keys_free(&phases->former);
    phases->former = former;
    phases->former.shares_protection = true;
    c->former_until_us = quic_now_us() + 3 * quic_recovery_pto_us(&c->recovery);
    level->read = phases->next;
    level->read.shares_protection = former.shares_protection;
    phases->next = (struct quic_keys){0};
    phases->has_next = false;
    c->phase_first = packet->number;
    c->counts.key_updates++;
    if (c->read_phase == c->uses_next_phase && quic_keys_make_next(&next, &level->write)) {
        quic_keys_replace(&level->write, &next);
        c->uses_next_phase = !c->uses_next_phase;
        c->is_phase_acked = false;
        c->phase_sent_first = c->recovery.spaces[QUIC_SPACE_APPLICATION].next_number;
    }
    c->read_phase = !c->read_phase;
}

static bool open_with(struct quic_keys *keys, const struct packet_in *packet)
{
    unsigned char *payload = packet->bytes + packet->header.number_at + packet->number_size;

    return quic_open(keys, packet->number, packet->bytes, payload,
                     packet->header.size - packet->header.number_at - packet->number_size);
}

/* A packet of 1-RTT has the keys of its phase. */
static bool open_by_phase(struct quic_connection *c, const struct packet_in *packet)
{
    struct quic_level *level = packet->level;
    bool phase = (packet->bytes[0] & KEY_PHASE) != 0;

    if (phase == c->read_phase) {
        return open_with(&level->read, packet);
    }
    if (c->phases != NULL && quic_keys_are_there(&c->phases->former) &&
        packet->number < c->phase_first) {
        return quic_now_us() < c->former_until_us && open_with(&c->phases->former, packet);
    }
    if (!c->is_confirmed || !make_next_read(c) || !open_with(&c->phases->next, packet)) {
        return false;
    }
    follow_update(c, packet);
    return true;
}

/* ---- packets ---- */

static bool find_level(struct quic_connection *c, struct packet_in *packet)
{
    switch (packet->header.type) {
    case QUIC_PACKET_INITIAL:
        packet->space = QUIC_SPACE_INITIAL;
        break;
    case QUIC_PACKET_HANDSHAKE:
        packet->space = QUIC_SPACE_HANDSHAKE;
        break;
    case QUIC_PACKET_1RTT:
        packet->space = QUIC_SPACE_APPLICATION;
        break;
    default:
        return false;
    }
    packet->level = c->levels[packet->space];
    return quic_keys_are_there(&packet->level->read) && !packet->level->is_discarded;
}

/* An Initial from before the client knew that its version was changed (RFC 9369, 4.1). */
static bool has_first_version(const struct quic_connection *c, const struct quic_header *header)
{
    return c->first_read != NULL && header->type == QUIC_PACKET_INITIAL &&
           header->version == c->first_version;
}

/* Takes off the protection and opens. False: it is dropped, or the connection closed. */
static bool open_packet(struct quic_connection *c, struct packet_in *packet)
{
    struct quic_level *level = packet->level;
    struct quic_keys *read = has_first_version(c, &packet->header) ? c->first_read : &level->read;
    struct quic_number number = {.at = packet->header.number_at};

    if (!quic_unprotect(read, packet->bytes, packet->header.size, &number)) {
        return false;
    }
    packet->number_size = number.size;
    packet->number = quic_number_decode(level->largest, number.truncated, number.size);
    if (packet->number > QUIC_VARINT_MOST || quic_received_has(&level->received, packet->number)) {
        return false;
    }
    bool is_open = packet->space == QUIC_SPACE_APPLICATION ? open_by_phase(c, packet)
                                                           : open_with(read, packet);
    if (!is_open) {
        if (read->uses >= quic_keys_fail_most(read)) {
            quic_refuse(c, QUIC_AEAD_LIMIT_REACHED, 0, "too many packets that are not authentic");
        }
        return false;
    }
    unsigned reserved = packet->space == QUIC_SPACE_APPLICATION ? RESERVED_SHORT : RESERVED_LONG;
    if ((packet->bytes[0] & reserved) != 0) {
        quic_refuse(c, QUIC_PROTOCOL_VIOLATION, 0, "reserved bits of a header are set");
        return false;
    }
    return true;
}

/* A side keeps the id that its first packet bore (RFC 9000, 7.2). */
static bool has_right_scid(const struct quic_connection *c, const struct packet_in *packet)
{
    return packet->header.type == QUIC_PACKET_1RTT || (!c->has_heard && !c->is_server) ||
           quic_cid_is(&c->peer_cids[0].cid, packet->header.scid);
}

static void note_authentic(struct quic_connection *c, const struct packet_in *packet,
                           struct quic_path *path)
{
    if (!c->has_heard && !c->is_server && packet->header.type != QUIC_PACKET_1RTT) {
        c->peer_cids[0].cid =
            quic_cid_of(packet->header.scid); /* so the server wants to be called */
    }
    c->has_heard = true;
    c->refusals = 0;
    c->counts.packets_received++;
    c->idle_us = quic_now_us();
    c->was_idle_restarted = false;
    if (c->is_server && packet->space == QUIC_SPACE_HANDSHAKE) {
        /* A client that can send this has got our answer (RFC 9000, 8.1). */
        path->is_validated = true;
        c->recovery.is_amplification_limited = false;
        quic_level_discard(c, QUIC_SPACE_INITIAL);
    }
}

/* False: it was not authentic. */
static bool packet_received(struct quic_connection *c, struct packet_in *packet,
                            struct quic_path **at)
{
    struct quic_path *path = *at;

    if (!find_level(c, packet) || !has_right_scid(c, packet) || !open_packet(c, packet)) {
        return false;
    }
    bool is_largest =
        packet->level->largest == QUIC_NUMBER_NONE || packet->number > packet->level->largest;
    size_t head = packet->header.number_at + packet->number_size;
    if (!path->is_there) {
        path = *at = quic_path_add(c, path);
    }
    struct quic_packet_in in = {
        .space = packet->space,
        .type = packet->header.type,
        .number = packet->number,
        .payload = {(const char *) packet->bytes + head,
                    packet->header.size - head - QUIC_TAG_SIZE},
        .dcid = packet->header.dcid,
        .path = path,
        .is_probing = true,
    };
    note_authentic(c, packet, path);
    if (!quic_frames_received(c, &in)) {
        return true; /* closed, or not to be acknowledged */
    }
    if (c->levels[packet->space]->is_discarded) {
        return true;
    }
    note_received(c, packet, in.is_eliciting);
    if (packet->space == QUIC_SPACE_APPLICATION && !in.is_probing && is_largest &&
        path != &c->paths[0]) {
        quic_path_moved(c, path);
    }
    return true;
}

/* ---- packets that come instead of an answer ---- */

static void retry_received(struct quic_connection *c, const struct quic_header *header,
                           struct str datagram)
{
    unsigned char tag[QUIC_TAG_SIZE];
    struct quic_level *level = c->levels[QUIC_SPACE_INITIAL];

    if (c->is_server || c->has_heard || c->was_retried || header->token.len == 0 ||
        quic_cid_is(&c->peer_cids[0].cid, header->scid) ||
        !quic_retry_tag(c->version, quic_cid_str(&c->original_dcid),
                        str_head(datagram, datagram.len - QUIC_TAG_SIZE), tag) ||
        memcmp(tag, header->payload.data, sizeof(tag)) != 0) {
        return;
    }
    c->was_retried = true;
    c->retry_scid = quic_cid_of(header->scid);
    c->peer_cids[0].cid = c->retry_scid;
    quic_set_token(c, header->token);
    quic_keys_free(&level->read);
    quic_keys_free(&level->write);
    quic_keys_make_initial(&level->read, c->version, header->scid, true, false);
    quic_keys_make_initial(&level->write, c->version, header->scid, false, true);
    quic_recovery_resend(&c->recovery, QUIC_SPACE_INITIAL);
}

static void negotiation_received(struct quic_connection *c, const struct quic_header *header)
{
    struct str versions = header->payload;
    size_t version;

    if (c->is_server || c->has_heard || c->was_retried) {
        return;
    }
    while (wire_number(&versions, 4, &version)) {
        if (version == c->version) {
            return; /* it has what we speak: not from the server */
        }
    }
    log_info(c->conn->log, 0, "the QUIC server does not speak version 0x%08x", c->version);
    const struct quic_close how = {.end = QUIC_END_PEER,
                                   .code = QUIC_VERSION_NEGOTIATION_ERROR,
                                   .version = c->was_negotiated
                                                  ? 0
                                                  : quic_version_choose(header->payload)};
    quic_close_by(c, &how, 0);
    c->is_close_to_send = false;
    c->state = QUIC_DRAINING;
}

/* ---- datagrams ---- */

static bool is_for(const struct quic_connection *c, struct str cid)
{
    return quic_find(cid) == c;
}

/* Gives how many packets of it were authentic. */
static unsigned packets_received(struct quic_connection *c, const struct datagram_packet *datagram,
                                 struct quic_path *path)
{
    struct str rest = datagram->bytes;
    struct packet_in packet = {.ecn = datagram->ecn};
    unsigned count = 0;

    while (rest.len != 0 && quic_is_open(c) &&
           quic_header_read(rest, c->secrets->cid_size, &packet.header)) {
        if (!is_for(c, packet.header.dcid)) {
            break;
        }
        packet.bytes = (unsigned char *) (uintptr_t) rest.data;
        if (packet.header.type == QUIC_PACKET_RETRY) {
            retry_received(c, &packet.header, rest);
        } else if (packet.header.type == QUIC_PACKET_NEGOTIATION) {
            negotiation_received(c, &packet.header);
        } else if (packet.header.type == QUIC_PACKET_1RTT || packet.header.version == c->version ||
                   has_first_version(c, &packet.header)) {
            count += packet_received(c, &packet, &path);
        }
        rest = str_skip(rest, packet.header.size);
    }
    return count;
}

static bool is_reset(const struct quic_connection *c, struct str datagram)
{
    return datagram.len >= QUIC_RESET_LEAST && ((unsigned char) datagram.data[0] & 0x80) == 0 &&
           quic_is_reset_token(c, str_skip(datagram, datagram.len - QUIC_RESET_TOKEN_SIZE));
}

/* The more comes, the less often it hears that it is over. */
static void say_it_again(struct quic_connection *c)
{
    c->closings++;
    if (c->state == QUIC_CLOSING && (c->closings & (c->closings - 1)) == 0) {
        c->is_close_to_send = true;
        quic_wake(c);
    }
}

void quic_datagram_received(struct quic_connection *c, const struct datagram_packet *datagram,
                            struct datagram_port *port)
{
    if (!quic_is_open(c)) {
        say_it_again(c);
        return;
    }
    struct quic_path fresh, *path = quic_path_of(c, datagram, port, &fresh);

    if (path == NULL) {
        return;
    }
    path->received += datagram->bytes.len;
    c->counts.bytes_received += datagram->bytes.len;
    if (path == &c->paths[0]) {
        c->recovery.is_amplification_limited =
            c->is_server && quic_path_room(path) < QUIC_DATAGRAM_LEAST;
    }
    /* A reset cannot be distinguished from a packet before it does not open, and opening changes
     * it. */
    bool may_be_reset = is_reset(c, datagram->bytes);
    if (packets_received(c, datagram, path) == 0 && may_be_reset) {
        log_info(c->conn->log, 0, "the peer has forgotten the QUIC connection");
        quic_end(c, QUIC_END_RESET);
    }
    quic_wake(c);
}
