/* Frames into packets: acknowledgements, handshake, control, streams. */
#include "net/quic/packer.h"

#include <assert.h>

#include "net/quic/reads.h"

static void carry(struct packer *p, const struct quic_carried *carried)
{
    p->packet->is_eliciting = true;
    quic_sent_carry(&p->c->recovery, p->packet->sent, carried);
}

/* False: there is no room. */
static bool payload_put(struct packer *p, const struct quic_frame *frame,
                        struct quic_carried carried)
{
    quic_frame_put(&p->out, frame);
    if (p->out.is_short) {
        p->out.is_short = false;
        return false;
    }
    carry(p, &carried);
    return true;
}

void quic_put_ack(struct packer *p)
{
    struct quic_level *level = p->packet->level;
    uint64_t delay = 0;

    if (!level->has_received || level->received.ranges.count == 0) {
        return;
    }
    if (p->packet->space == QUIC_SPACE_APPLICATION) {
        delay = (p->now_us - level->largest_us) >> p->c->own.ack_delay_exponent;
    }
    bool has_ecn = (level->ecn[0] | level->ecn[1] | level->ecn[2]) != 0;
    if (quic_ack_put(&p->out, &level->received.ranges, delay, has_ecn ? level->ecn : NULL) == 0) {
        p->out.is_short = false;
        return;
    }
    level->is_ack_due = level->has_received = false;
    level->reported = level->largest;
    level->unacknowledged = 0;
    level->ack_due_us = QUIC_NEVER;
    quic_sent_carry(&p->c->recovery, p->packet->sent,
                    &(struct quic_carried){.kind = QUIC_CARRIED_ACK, .id = level->largest});
}

/* CRYPTO and STREAM frames have a length of two bytes, which is known after their head. */
void quic_put_crypto(struct packer *p)
{
    struct quic_send *send = &p->packet->level->crypto_out;
    struct quic_send_chunk chunk;

    while (quic_out_left(&p->out) > QUIC_LEAST_STREAM_ROOM &&
           quic_send_next(send, NULL, (uint32_t) quic_out_left(&p->out) - 11, &chunk)) {
        quic_put_varint(&p->out, QUIC_FRAME_CRYPTO);
        quic_put_varint(&p->out, chunk.offset);
        quic_put_varint_sized(&p->out, chunk.len, 2);
        quic_send_read(send, chunk.offset, (char *) p->out.at, chunk.len);
        p->out.at += chunk.len;
        quic_send_commit(send, NULL, &chunk);
        carry(p, &(struct quic_carried){.kind = QUIC_CARRIED_CRYPTO,
                                        .offset = chunk.offset,
                                        .len = chunk.len});
    }
}

/* ---- … of the application: control ---- */

static bool put_limit(struct packer *p, uint64_t type, uint64_t id, uint64_t limit,
                      struct quic_carried carried)
{
    const struct quic_frame frame = {.type = type, .limit = {id, limit}};

    return payload_put(p, &frame, carried);
}

static bool put_max_data(struct packer *p)
{
    struct quic_connection *c = p->c;
    uint64_t limit = quic_window_is_due(&c->window)
                         ? quic_window_update(&c->window, p->now_us, c->recovery.rtt.smoothed_us)
                         : c->window.limit;

    return put_limit(p, QUIC_FRAME_MAX_DATA, 0, limit,
                     (struct quic_carried){.kind = QUIC_CARRIED_MAX_DATA, .offset = limit});
}

static bool put_max_streams(struct packer *p, unsigned kind)
{
    struct quic_peer_streams *streams = &p->c->peer_streams[kind];
    uint64_t limit =
        quic_peer_streams_is_due(streams) ? quic_peer_streams_update(streams) : streams->limit;

    return put_limit(p, kind == 0 ? QUIC_FRAME_MAX_STREAMS_BIDI : QUIC_FRAME_MAX_STREAMS_UNI, 0,
                     limit,
                     (struct quic_carried){.kind = QUIC_CARRIED_MAX_STREAMS,
                                           .id = kind,
                                           .offset = limit});
}

static bool put_streams_blocked(struct packer *p, unsigned kind)
{
    uint64_t limit = p->c->own_limit[kind];

    return put_limit(p,
                     kind == 0 ? QUIC_FRAME_STREAMS_BLOCKED_BIDI : QUIC_FRAME_STREAMS_BLOCKED_UNI,
                     0, limit,
                     (struct quic_carried){.kind = QUIC_CARRIED_STREAMS_BLOCKED,
                                           .id = kind,
                                           .offset = limit});
}

static bool put_data_blocked(struct packer *p)
{
    struct quic_credit *credit = &p->c->credit;

    return !quic_credit_blocked(credit) ||
           put_limit(p, QUIC_FRAME_DATA_BLOCKED, 0, credit->limit,
                     (struct quic_carried){.kind = QUIC_CARRIED_DATA_BLOCKED,
                                           .offset = credit->limit});
}

static bool put_new_token(struct packer *p)
{
    unsigned char bytes[QUIC_TOKEN_MOST];
    const struct quic_token token = {.is_retry = false, .made_s = (uint64_t) clock_now.seconds};
    const struct addr peer = quic_addr_get(&p->path->peer);
    size_t size = quic_token_put(p->c->secrets, &token, &peer, bytes);
    const struct quic_frame frame = {.type = QUIC_FRAME_NEW_TOKEN,
                                     .token = {(const char *) bytes, size}};

    return size == 0 ||
           payload_put(p, &frame, (struct quic_carried){.kind = QUIC_CARRIED_NEW_TOKEN});
}

static bool put_cid(struct packer *p, struct quic_own_cid *own)
{
    uint8_t token[QUIC_RESET_TOKEN_SIZE];
    const struct quic_frame frame = {.type = QUIC_FRAME_NEW_CONNECTION_ID,
                                     .new_id = {own->number, p->c->own_retire_before,
                                                quic_cid_str(&own->cid),
                                                (struct str){(const char *) token, sizeof(token)}}};

    quic_reset_token(p->c->secrets, quic_cid_str(&own->cid), token);
    own->is_to_send = !payload_put(p, &frame,
                                   (struct quic_carried){.kind = QUIC_CARRIED_NEW_CONNECTION_ID,
                                                         .id = own->number});
    return !own->is_to_send;
}

static bool put_cids(struct packer *p)
{
    for (unsigned i = 0; i < QUIC_OWN_CIDS; i++) {
        struct quic_own_cid *own = &p->c->own_cids[i];

        if (own->is_used && own->is_to_send && !put_cid(p, own)) {
            return false;
        }
    }
    return true;
}

static bool put_retired(struct packer *p)
{
    struct quic_retired *retired = p->c->retired;

    for (unsigned i = 0; retired != NULL && i < retired->count; i++) {
        if (!retired->is_sent[i]) {
            retired->is_sent[i] =
                put_limit(p, QUIC_FRAME_RETIRE_CONNECTION_ID, 0, retired->numbers[i],
                          (struct quic_carried){.kind = QUIC_CARRIED_RETIRE_CONNECTION_ID,
                                                .id = retired->numbers[i]});
            if (!retired->is_sent[i]) {
                return false;
            }
        }
    }
    return true;
}

static bool put_ack_frequency(struct packer *p)
{
    const struct quic_ack_rule *asked = &p->c->asked;
    const struct quic_frame frame = {.type = QUIC_FRAME_ACK_FREQUENCY,
                                     .ack_frequency = {asked->number, asked->threshold,
                                                       asked->delay_us, asked->reordering}};

    return payload_put(p, &frame,
                       (struct quic_carried){.kind = QUIC_CARRIED_ACK_FREQUENCY,
                                             .id = asked->number});
}

static bool put_pending(struct packer *p, unsigned what)
{
    static const struct quic_frame done = {.type = QUIC_FRAME_HANDSHAKE_DONE};
    static const struct quic_frame ping = {.type = QUIC_FRAME_PING};

    switch (what) {
    case QUIC_PENDING_HANDSHAKE_DONE:
        return payload_put(p, &done, (struct quic_carried){.kind = QUIC_CARRIED_HANDSHAKE_DONE});
    case QUIC_PENDING_MAX_DATA:
        return put_max_data(p);
    case QUIC_PENDING_MAX_STREAMS_BIDI:
    case QUIC_PENDING_MAX_STREAMS_UNI:
        return put_max_streams(p, what == QUIC_PENDING_MAX_STREAMS_UNI);
    case QUIC_PENDING_DATA_BLOCKED:
        return put_data_blocked(p);
    case QUIC_PENDING_STREAMS_BLOCKED_BIDI:
    case QUIC_PENDING_STREAMS_BLOCKED_UNI:
        return put_streams_blocked(p, what == QUIC_PENDING_STREAMS_BLOCKED_UNI);
    case QUIC_PENDING_NEW_TOKEN:
        return put_new_token(p);
    case QUIC_PENDING_NEW_CIDS:
        return put_cids(p);
    case QUIC_PENDING_RETIRED:
        return put_retired(p);
    case QUIC_PENDING_ACK_FREQUENCY:
        return put_ack_frequency(p);
    default:
        return payload_put(p, &ping, (struct quic_carried){.kind = QUIC_CARRIED_PING});
    }
}

static void put_all_pending(struct packer *p)
{
    for (unsigned left = p->c->pending; left != 0;) {
        unsigned what = left & -left;

        left &= ~what;
        if (!put_pending(p, what)) {
            return;
        }
        p->c->pending &= ~what;
    }
}

void quic_put_path(struct packer *p)
{
    struct quic_path *path = p->path;

    if (path->has_response) {
        const struct quic_frame frame = {.type = QUIC_FRAME_PATH_RESPONSE,
                                         .data = {(const char *) path->response, 8}};
        path->has_response =
            !payload_put(p, &frame, (struct quic_carried){.kind = QUIC_CARRIED_PATH_RESPONSE});
        p->needs_padding = true;
    }
    if (path->is_challenge_due) {
        const struct quic_frame frame = {.type = QUIC_FRAME_PATH_CHALLENGE,
                                         .data = {(const char *) path->challenge, 8}};
        path->is_challenge_due =
            !payload_put(p, &frame, (struct quic_carried){.kind = QUIC_CARRIED_PATH_CHALLENGE});
        p->needs_padding = true;
    }
}

/* ---- … streams ---- */

static bool put_stream_limits(struct packer *p, struct quic_stream_state *stream)
{
    uint64_t id = stream->head.id;

    if (stream->receive != NULL && stream->receive->wants_stop) {
        const struct quic_frame frame = {.type = QUIC_FRAME_STOP_SENDING,
                                         .reset = {id, stream->receive->stop_code, 0}};
        if (!payload_put(p, &frame,
                         (struct quic_carried){.kind = QUIC_CARRIED_STOP_SENDING, .id = id})) {
            return false;
        }
        quic_receive_stop_sent(stream->receive);
    }
    if (stream->receive != NULL && quic_receive_is_window_due(stream->receive)) {
        uint64_t limit =
            quic_window_update(&stream->receive->window, p->now_us, p->c->recovery.rtt.smoothed_us);
        stream->is_window_lost =
            !put_limit(p, QUIC_FRAME_MAX_STREAM_DATA, id, limit,
                       (struct quic_carried){.kind = QUIC_CARRIED_MAX_STREAM_DATA,
                                             .id = id,
                                             .offset = limit});
        quic_window_at_least(&p->c->window, stream->receive->window.size / 2 * 3);
    } else if (stream->is_window_lost) {
        uint64_t limit = stream->receive->window.limit;
        stream->is_window_lost =
            !put_limit(p, QUIC_FRAME_MAX_STREAM_DATA, id, limit,
                       (struct quic_carried){.kind = QUIC_CARRIED_MAX_STREAM_DATA,
                                             .id = id,
                                             .offset = limit});
    }
    return !stream->is_window_lost;
}

static bool put_stream_control(struct packer *p, struct quic_stream_state *stream)
{
    uint64_t id = stream->head.id;

    if (stream->send != NULL && stream->send->wants_reset) {
        const struct quic_frame frame = {.type = QUIC_FRAME_RESET_STREAM,
                                         .reset = {id, stream->send->reset_code,
                                                   quic_send_final_size(stream->send)}};
        if (!payload_put(p, &frame,
                         (struct quic_carried){.kind = QUIC_CARRIED_RESET_STREAM, .id = id})) {
            return false;
        }
        quic_send_reset_sent(stream->send);
    }
    if (stream->send != NULL &&
        quic_send_need(stream->send, &p->c->credit) == QUIC_SEND_BLOCKED_STREAM &&
        quic_credit_blocked(&stream->send->credit) &&
        !put_limit(p, QUIC_FRAME_STREAM_DATA_BLOCKED, id, stream->send->credit.limit,
                   (struct quic_carried){.kind = QUIC_CARRIED_STREAM_DATA_BLOCKED,
                                         .id = id,
                                         .offset = stream->send->credit.limit})) {
        return false;
    }
    return put_stream_limits(p, stream);
}

static void put_streams_control(struct packer *p)
{
    list_each(link, &p->c->control_streams) {
        struct quic_stream_state *stream = container_of(link, struct quic_stream_state, control);

        if (!put_stream_control(p, stream)) {
            return;
        }
        list_remove(&stream->control);
    }
}

/* The bytes of a chunk, at once, or when the train is whole. False: its file cannot be read any
 * more. */
static bool put_data(struct packer *p, struct quic_stream_state *stream,
                     const struct quic_send_chunk *chunk, unsigned char *frame)
{
    struct quic_file_part part;

    if (chunk->len != 0 && quic_send_is_in_file(stream->send, chunk->offset, chunk->len, &part)) {
        quic_read_later(&(struct quic_read){.stream = stream,
                                            .frame = frame,
                                            .end = p->out.at + chunk->len,
                                            .len = chunk->len,
                                            .fd = part.fd,
                                            .offset = part.offset});
        return true;
    }
    if (quic_send_read(stream->send, chunk->offset, (char *) p->out.at, chunk->len)) {
        return true;
    }
    quic_reads_finish(); /* the stream is going to be reset, which releases its files */
    return false;
}

/* False: as put_data. */
static bool put_chunk(struct packer *p, struct quic_stream_state *stream,
                      const struct quic_send_chunk *chunk)
{
    unsigned char *start = p->out.at;

    quic_put_varint(&p->out, QUIC_FRAME_STREAM | QUIC_STREAM_HAS_LENGTH |
                                 (chunk->offset == 0 ? 0 : QUIC_STREAM_HAS_OFFSET) |
                                 (chunk->is_fin ? QUIC_STREAM_HAS_FIN : 0));
    quic_put_varint(&p->out, stream->head.id);
    if (chunk->offset != 0) {
        quic_put_varint(&p->out, chunk->offset);
    }
    quic_put_varint_sized(&p->out, chunk->len, 2);
    assert(quic_out_left(&p->out) >= chunk->len);
    if (!put_data(p, stream, chunk, start)) {
        p->out.at = start;
        return false;
    }
    p->out.at += chunk->len;
    quic_send_commit(stream->send, &p->c->credit, chunk);
    if (chunk->is_again) {
        p->c->counts.retransmitted_bytes += chunk->len;
    }
    carry(p, &(struct quic_carried){.kind = QUIC_CARRIED_STREAM,
                                    .is_fin = chunk->is_fin,
                                    .len = chunk->len,
                                    .id = stream->head.id,
                                    .offset = chunk->offset});
    return true;
}

static void put_streams(struct packer *p)
{
    struct quic_connection *c = p->c;
    struct quic_turn *turn;

    while (quic_out_left(&p->out) >= QUIC_LEAST_STREAM_ROOM) {
        quic_reads_make_room();
        turn = quic_schedule_first(&c->schedule);
        if (turn == NULL) {
            break;
        }
        struct quic_stream_state *stream = container_of(turn, struct quic_stream_state, turn);
        uint64_t offset = stream->send->credit.used;
        uint32_t head = (uint32_t) quic_stream_head_size(stream->head.id, offset == 0 ? 1 : offset);
        struct quic_send_chunk chunk;

        if (quic_send_next(stream->send, &c->credit, (uint32_t) quic_out_left(&p->out) - head,
                           &chunk)) {
            if (!put_chunk(p, stream, &chunk)) {
                quic_stream_reset(&stream->head, c->settings->file_error);
                continue;
            }
            quic_schedule_sent(&c->schedule, turn, chunk.len);
            quic_stream_sent_some(stream);
        }
        quic_stream_reschedule(stream);
    }
}

void quic_put_application(struct packer *p)
{
    quic_put_path(p);
    if (p->needs_padding) {
        return; /* what a path is asked goes alone: it may be all that may be sent there */
    }
    put_all_pending(p);
    put_streams_control(p);
    put_streams(p);
}

void quic_put_ping(struct packer *p, struct quic_carried carried)
{
    /* A peer that was asked for fewer ACKs is to send one now. */
    bool is_late = p->packet->space == QUIC_SPACE_APPLICATION && p->c->asked.threshold > 1;

    quic_put_varint(&p->out, is_late ? QUIC_FRAME_IMMEDIATE_ACK : QUIC_FRAME_PING);
    carry(p, &carried);
}
