/* What is sent: packets are made of what waits, datagrams of packets, and trains of datagrams of
 * one size. */
#include "net/quic/packer.h"
#include "net/quic/reads.h"

#define LEAST_ROOM 64u      /* bytes for one more packet in a datagram */
#define FIRST_FLIGHT 14720u /* bytes: the first window (RFC 9002, 7.2) */

/* Packets of the train that are not sealed yet: their data may still be in files. All are of one
 * set of keys. */
static struct unsealed {
    struct quic_keys *keys;
    unsigned count;
    struct unsealed_packet {
        unsigned char *start, *number_at, *payload;
        unsigned char *end; /* where the tag is to be */
        uint64_t number;
    } packets[QUIC_MASKS_MOST];
} unsealed;

/* ---- sealing ---- */

static void seal_all(void)
{
    unsigned char samples[QUIC_MASKS_MOST * QUIC_SAMPLE_SIZE];
    unsigned char masks[QUIC_MASKS_MOST * QUIC_MASK_SIZE];

    quic_reads_finish();
    for (unsigned i = 0; i < unsealed.count; i++) {
        const struct unsealed_packet *packet = &unsealed.packets[i];
        quic_seal(unsealed.keys, packet->number, packet->start, packet->payload,
                  (size_t) (packet->end - packet->payload));
        memcpy(samples + i * QUIC_SAMPLE_SIZE, packet->number_at + 4, QUIC_SAMPLE_SIZE);
    }
    if (unsealed.count != 0 && quic_masks(unsealed.keys, samples, unsealed.count, masks)) {
        for (unsigned i = 0; i < unsealed.count; i++) {
            const struct unsealed_packet *packet = &unsealed.packets[i];
            quic_mask_apply(packet->start, packet->number_at,
                            (unsigned) (packet->payload - packet->number_at),
                            masks + i * QUIC_MASK_SIZE);
        }
    }
    unsealed.count = 0;
}

static void seal_later(const struct packet_out *packet)
{
    if (unsealed.keys != &packet->level->write || unsealed.count == QUIC_MASKS_MOST) {
        seal_all();
        unsealed.keys = &packet->level->write;
    }
    unsealed.packets[unsealed.count++] =
        (struct unsealed_packet){packet->start, packet->number_at, packet->payload, packet->end,
                                 packet->number};
}

/* ---- packets ---- */

static bool has_control(const struct quic_connection *c)
{
    return c->pending != 0 || !list_is_empty(&c->control_streams) || c->schedule.present != 0;
}

/* Has this space something to send now? */
static bool wants_packet(const struct packer *p, enum quic_space space)
{
    const struct quic_connection *c = p->c;
    const struct quic_level *level = c->levels[space];

    if (!quic_keys_are_there(&level->write) || level->is_discarded) {
        return false;
    }
    if (space == QUIC_SPACE_APPLICATION) {
        if (p->path->has_response || p->path->is_challenge_due || p->probe != 0) {
            return true;
        }
        if (p->path != &c->paths[0]) {
            return false;
        }
    }
    if (level->is_ack_due || quic_recovery_probes(&c->recovery, space) != 0) {
        return true;
    }
    return p->may_elicit && ((space == QUIC_SPACE_APPLICATION && has_control(c)) ||
                             quic_send_need(&level->crypto_out, NULL) != QUIC_SEND_NOTHING);
}

static void begin_packet(struct packer *p, enum quic_space space, unsigned char *at)
{
    static const enum quic_packet_type types[] = {QUIC_PACKET_INITIAL, QUIC_PACKET_HANDSHAKE};
    struct quic_connection *c = p->c;
    struct packet_out *packet = &p->packets[p->count++];
    uint64_t acked = c->recovery.spaces[space].largest_acked;

    *packet = (struct packet_out){.space = space, .level = c->levels[space], .start = at};
    packet->number = quic_recovery_number(&c->recovery, space);
    packet->number_size =
        quic_number_size(packet->number, acked == QUIC_NEVER ? QUIC_NUMBER_NONE : acked);
    packet->sent = quic_sent_new(&c->recovery);
    p->packet = packet;
    p->out = (struct quic_out){at, p->end - QUIC_TAG_SIZE, false};
    const struct quic_cid *dcid = &c->peer_cids[p->path->cid].cid;
    if (space == QUIC_SPACE_APPLICATION) {
        const struct quic_short head = {dcid, packet->number, packet->number_size,
                                        c->uses_next_phase};
        quic_short_put(&p->out, &head, &packet->number_at);
    } else {
        const struct quic_long head = {types[space],        c->version, dcid,
                                       &c->own_cids[0].cid, c->token,   packet->number,
                                       packet->number_size};
        quic_long_put(&p->out, &head, &packet->length_at, &packet->number_at);
    }
    packet->payload = p->out.at;
}

static void fill_packet(struct packer *p)
{
    struct quic_connection *c = p->c;
    struct packet_out *packet = p->packet;
    bool is_probe = quic_recovery_probes(&c->recovery, packet->space) != 0;

    if (p->path == &c->paths[0] && p->probe == 0) {
        quic_put_ack(p);
    }
    if (p->path != &c->paths[0]) {
        quic_put_path(p);
    } else if (p->probe != 0) {
        quic_put_ping(p, (struct quic_carried){.kind = QUIC_CARRIED_MTU_PROBE, .len = p->probe});
    } else if (p->may_elicit || is_probe) {
        quic_put_crypto(p);
        if (packet->space == QUIC_SPACE_APPLICATION) {
            quic_put_application(p);
        }
        if (is_probe && (!packet->is_eliciting || c->asked.threshold > 1) &&
            quic_out_left(&p->out) != 0) {
            quic_put_ping(p, (struct quic_carried){.kind = QUIC_CARRIED_PING});
        }
    } else if (packet->space == QUIC_SPACE_APPLICATION) {
        quic_put_path(p);
    }
    packet->end = p->out.at;
    if (packet->space == QUIC_SPACE_INITIAL && (!c->is_server || packet->is_eliciting)) {
        p->needs_padding = true;
    }
}

static void pad(struct packet_out *packet, size_t size)
{
    memset(packet->end, 0, size);
    packet->end += size;
}

/* All of it is there but data of files. */
static void finish_packet(struct packer *p, struct packet_out *packet)
{
    size_t size;

    if (packet->payload + 4 > packet->end + packet->number_size) {
        pad(packet, 4); /* so that there is a sample */
    }
    size = (size_t) (packet->end - packet->payload);
    if (packet->length_at != NULL) {
        quic_length_set(packet->length_at, packet->number_size + size + QUIC_TAG_SIZE);
    }
    seal_later(packet);
    packet->end += QUIC_TAG_SIZE;
    packet->level->has_sent = true;
    p->c->counts.packets_sent++;
}

/* The bits of ECN in the IP header. */
static unsigned mark_of(const struct quic_connection *c)
{
    return quic_recovery_marks(&c->recovery) ? 2 : 0;
}

static void note_sent(struct packer *p, struct packet_out *packet)
{
    struct quic_connection *c = p->c;
    struct quic_sent *sent = packet->sent;

    if (!packet->is_eliciting) {
        quic_sent_drop(&c->recovery, sent);
        return;
    }
    sent->number = packet->number;
    sent->size = (uint16_t) (packet->end - packet->start);
    sent->is_ect = p->path == &c->paths[0] && mark_of(c) != 0;
    quic_recovery_sent(&c->recovery, packet->space, sent, p->now_us);
    if (!c->was_idle_restarted) {
        c->was_idle_restarted = true;
        c->idle_us = p->now_us;
    }
}

/* The packets are there: padding, sizes. Gives the size of the datagram. */
static size_t finish_datagram(struct packer *p)
{
    struct packet_out *last = &p->packets[p->count - 1];
    size_t size = (size_t) (last->end - p->start) + QUIC_TAG_SIZE;
    size_t room = (size_t) (p->end - p->start);
    size_t wanted = p->probe != 0 ? p->probe : p->needs_padding ? QUIC_DATAGRAM_LEAST : 0;

    /* With more to come the datagrams of a train are of one size. */
    if (last->space == QUIC_SPACE_APPLICATION && p->c->schedule.present != 0 &&
        p->path == &p->c->paths[0] && room - size < QUIC_LEAST_STREAM_ROOM) {
        wanted = room;
    }
    if (wanted > room) {
        wanted = room; /* the path's limit of three times */
    }
    if (size < wanted) {
        pad(last, wanted - size);
    }
    for (unsigned i = 0; i < p->count; i++) {
        finish_packet(p, &p->packets[i]);
        note_sent(p, &p->packets[i]);
    }
    return (size_t) (last->end - p->start);
}

/* Of at most `room` bytes; 0: there is nothing to send. */
static size_t make_datagram(struct packer *p, unsigned char *at, size_t room)
{
    unsigned char *next = at;

    p->start = at;
    p->end = at + room;
    p->count = 0;
    p->needs_padding = false;
    for (enum quic_space space = QUIC_SPACE_INITIAL; space < QUIC_SPACES; space++) {
        if ((size_t) (p->end - next) < LEAST_ROOM + QUIC_TAG_SIZE ||
            (p->probe != 0 && space != QUIC_SPACE_APPLICATION) || !wants_packet(p, space)) {
            continue;
        }
        begin_packet(p, space, next);
        fill_packet(p);
        if (p->out.at == p->packet->payload) {
            quic_sent_drop(&p->c->recovery, p->packet->sent);
            p->count--;
            continue;
        }
        next = p->packet->end + QUIC_TAG_SIZE;
        if (space != QUIC_SPACE_APPLICATION && next - p->packet->payload < 4 + QUIC_TAG_SIZE) {
            pad(p->packet, 4);
            next += 4;
        }
    }
    return p->count == 0 ? 0 : finish_datagram(p);
}

/* ---- trains ---- */

static void count_sent(struct quic_path *path, struct quic_connection *c, size_t size)
{
    path->sent += size;
    c->counts.bytes_sent += size;
    if (path == &c->paths[0]) {
        c->recovery.is_amplification_limited =
            c->is_server && quic_path_room(path) < QUIC_DATAGRAM_LEAST;
    }
}

/* Datagrams of one size, until there is no more to send or a limit is met. False: nothing was sent.
 */
static bool send_train(struct packer *p)
{
    struct quic_connection *c = p->c;
    struct quic_train train = {.ecn = mark_of(c)};
    unsigned char *room = quic_udp_room();
    unsigned count = 0;

    while (count < QUIC_TRAIN_DATAGRAMS) {
        size_t most = quic_path_room(p->path);

        most = most < p->path->mtu ? most : p->path->mtu;
        if (train.size + most > QUIC_TRAIN_MOST || (count != 0 && most < train.segment)) {
            break;
        }
        most = count == 0 ? most : train.segment; /* the kernel cuts all alike */
        p->may_elicit = quic_recovery_allowance(&c->recovery, p->now_us) != 0;
        size_t size = make_datagram(p, room + train.size, most);
        if (size == 0) {
            break;
        }
        count_sent(p->path, c, size);
        train.segment = count == 0 ? size : train.segment;
        train.size += size;
        count++;
        if (size < train.segment) {
            break;
        }
    }
    seal_all();
    if (count != 0) {
        quic_udp_queue(c, p->path, &train);
    }
    return count != 0;
}

static void send_mtu_probe(struct packer *p)
{
    struct quic_connection *c = p->c;
    struct quic_train train = {.ecn = mark_of(c)};

    p->probe = quic_path_mtu_next(c);
    if (p->probe == 0 || quic_recovery_allowance(&c->recovery, p->now_us) < p->probe) {
        p->probe = 0;
        return;
    }
    c->paths[0].mtu_probe = p->probe;
    train.size = train.segment = make_datagram(p, quic_udp_room(), p->probe);
    seal_all();
    p->probe = 0;
    if (train.size != 0) {
        quic_udp_queue(c, p->path, &train);
    }
}

/* A long response fills the window for as long as it lasts: then the probe would never leave. The
 * first flight has priority. */
static bool mtu_probe_goes_first(const struct quic_connection *c)
{
    return c->recovery.congestion.delivered > FIRST_FLIGHT;
}

static void send_all(struct packer *p)
{
    struct quic_connection *c = p->c;

    if (mtu_probe_goes_first(c)) {
        send_mtu_probe(p);
    }
    for (unsigned i = 0; i < 16 && send_train(p); i++) {
    }
    if (c->paths[1].is_there) {
        struct packer other = {.c = c, .path = &c->paths[1], .now_us = p->now_us};

        send_train(&other);
    }
    send_mtu_probe(p);
}

/* Why did it end: the window, the pacer, or was there nothing more? */
static void note_limits(struct quic_connection *c, uint64_t now_us)
{
    bool has_more =
        c->schedule.present != 0 || !list_is_empty(&c->control_streams) || c->pending != 0;

    c->paced_us = QUIC_NEVER;
    if (!has_more) {
        if (quic_recovery_allowance(&c->recovery, now_us) != 0) {
            quic_recovery_app_limited(&c->recovery);
        }
        return;
    }
    if (quic_recovery_allowance(&c->recovery, now_us) == 0) {
        c->paced_us = quic_recovery_paced_until(&c->recovery, now_us);
    } else if (!c->recovery.is_amplification_limited) {
        c->paced_us = now_us; /* others have their turn */
    }
}

/* ---- the end ---- */

static void put_close(struct packer *p)
{
    struct quic_connection *c = p->c;
    struct quic_frame frame = {.type = QUIC_FRAME_CONNECTION_CLOSE,
                               .close = {c->close.code, c->close_frame_type, c->close.reason}};

    if (c->close.is_application && p->packet->space == QUIC_SPACE_APPLICATION) {
        frame.type = QUIC_FRAME_APPLICATION_CLOSE;
    } else if (c->close.is_application) {
        frame.close.code = QUIC_APPLICATION_ERROR; /* what it says is for the peer alone */
        frame.close.reason = STR_NONE;
    }
    quic_frame_put(&p->out, &frame);
    p->packet->end = p->out.at;
}

/* CONNECTION_CLOSE with every key that the peer may have. */
static void send_close(struct packer *p)
{
    struct quic_connection *c = p->c;
    struct quic_train train = {.size = 0};
    size_t most = quic_path_room(p->path);
    unsigned char *room = quic_udp_room(), *next = room;

    p->start = room;
    p->end = room + (most < QUIC_DATAGRAM_LEAST ? most : QUIC_DATAGRAM_LEAST);
    for (enum quic_space space = QUIC_SPACE_INITIAL; space < QUIC_SPACES; space++) {
        if (!quic_keys_are_there(&c->levels[space]->write) ||
            (c->is_confirmed && space != QUIC_SPACE_APPLICATION) ||
            (size_t) (p->end - next) < 128) {
            continue;
        }
        begin_packet(p, space, next);
        put_close(p);
        p->needs_padding = p->needs_padding || (space == QUIC_SPACE_INITIAL && !c->is_server);
        next = p->packet->end + QUIC_TAG_SIZE;
    }
    if (p->count != 0) {
        train.size = train.segment = finish_datagram(p);
        seal_all();
        count_sent(p->path, c, train.size);
        quic_udp_queue(c, p->path, &train);
    }
}

void quic_flush(struct quic_connection *c)
{
    struct packer p = {.c = c, .path = &c->paths[0], .now_us = quic_now_us()};

    if (c->is_close_to_send) {
        c->is_close_to_send = false;
        if (!c->is_stripped || c->closings != 0) {
            send_close(&p);
        }
        return;
    }
    if (!quic_is_open(c)) {
        return;
    }
    struct quic_keys *keys = &c->levels[QUIC_SPACE_APPLICATION]->write;
    if (quic_keys_are_there(keys) && keys->uses > quic_keys_seal_most(keys) / 2) {
        quic_update_keys(c);
    }
    if (quic_udp_is_blocked()) {
        c->paced_us = p.now_us + 1000;
        return;
    }
    send_all(&p);
    note_limits(c, p.now_us);
    if (!c->is_server && !c->levels[QUIC_SPACE_INITIAL]->is_discarded &&
        c->levels[QUIC_SPACE_HANDSHAKE]->has_sent) {
        quic_level_discard(c, QUIC_SPACE_INITIAL);
    }
}
