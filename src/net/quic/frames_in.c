/* The frames of a packet that was opened. */
#include "net/quic/private.h"

#define ACK_RANGES_MOST 128u
#define FRAMES_A_SECOND 20000u    /* of those that cost more than they bring */
#define CHALLENGES_A_SECOND 1000u /* PATH_CHALLENGE: each asks for a datagram of 1200 bytes */

static void refuse_frame(struct quic_connection *c, uint64_t type, const char *reason)
{
    quic_refuse(c, QUIC_PROTOCOL_VIOLATION, type, reason);
}

/* Keys of 1-RTT: something of the current phase has arrived. */
static void note_acked_phase(struct quic_connection *c, uint64_t largest)
{
    if (largest >= c->phase_sent_first) {
        c->is_phase_acked = true;
    }
}

static void ack_received(struct quic_connection *c, const struct quic_packet_in *packet,
                         const struct quic_frame *frame)
{
    struct quic_range ranges[ACK_RANGES_MOST];
    struct quic_ack_walk walk = {0};
    uint32_t count = 0;

    while (count < ACK_RANGES_MOST && quic_ack_next(frame, &walk, &ranges[count])) {
        count++;
    }
    const struct quic_ack ack = {
        .ranges = ranges,
        .count = count,
        .delay_us = packet->space != QUIC_SPACE_APPLICATION || frame->ack.delay > UINT32_MAX
                        ? 0
                        : frame->ack.delay << c->peer.ack_delay_exponent,
        .has_ecn = frame->ack.has_ecn,
        .ect0 = frame->ack.ect0,
        .ect1 = frame->ack.ect1,
        .ce = frame->ack.ce,
    };
    if (quic_recovery_ack(&c->recovery, packet->space, &ack, quic_now_us()) == QUIC_ACK_FORGED) {
        log_warn(c->conn->log, 0, "the QUIC peer acknowledged a packet that was never sent");
        refuse_frame(c, QUIC_FRAME_ACK, "a packet was acknowledged that was never sent");
        return;
    }
    if (!c->is_server && packet->space == QUIC_SPACE_HANDSHAKE) {
        c->recovery.is_peer_validated = true;
    }
    if (packet->space == QUIC_SPACE_APPLICATION) {
        note_acked_phase(c, frame->ack.largest);
        quic_ack_request(c, quic_now_us());
    }
}

static void max_stream_data(struct quic_connection *c, const struct quic_frame *frame)
{
    struct quic_stream_state *stream =
        quic_stream_for(c, frame->limit.id, false, QUIC_FRAME_MAX_STREAM_DATA);

    if (stream == NULL) {
        return;
    }
    stream->head.heard_ms = clock_now.now_ms;
    if (quic_credit_raise(&stream->send->credit, frame->limit.limit)) {
        quic_stream_reschedule(stream);
    }
}

static void max_data(struct quic_connection *c, uint64_t limit)
{
    c->heard_ms = clock_now.now_ms;
    if (quic_credit_raise(&c->credit, limit)) {
        quic_streams_credit(c);
    }
}

static void max_streams(struct quic_connection *c, unsigned kind, uint64_t limit)
{
    c->heard_ms = clock_now.now_ms;
    if (limit > c->own_limit[kind]) {
        c->own_limit[kind] = limit;
        c->has_more_streams |= kind == 0;
    }
}

static void new_token(struct quic_connection *c, const struct quic_frame *frame)
{
    if (c->is_server) {
        refuse_frame(c, QUIC_FRAME_NEW_TOKEN, "a client has sent a token");
    } else if (frame->data.len == 0) {
        quic_refuse(c, QUIC_FRAME_ENCODING_ERROR, QUIC_FRAME_NEW_TOKEN, "an empty token");
    } else if (c->token_key != 0) {
        quic_token_keep(c->token_key, frame->data);
    }
}

static void challenged(struct quic_connection *c, struct quic_path *path,
                       const struct quic_frame *frame)
{
    /* One answer a datagram at most: the last. */
    path->has_response = true;
    memcpy(path->response, frame->data.data, 8);
}

static void handshake_done(struct quic_connection *c)
{
    if (c->is_server) {
        refuse_frame(c, QUIC_FRAME_HANDSHAKE_DONE, "a client has said HANDSHAKE_DONE");
    } else {
        quic_confirm(c);
    }
}

/* Frames that make us work, and carry nothing: so many a second are no accident. False: closed. */
static bool guard(struct quic_connection *c, uint64_t type)
{
    struct quic_guards *guards = &c->guards;
    uint64_t now_us = quic_now_us();

    if (type == QUIC_FRAME_STREAM || type == QUIC_FRAME_CRYPTO || type == QUIC_FRAME_PADDING ||
        type == QUIC_FRAME_ACK || type == QUIC_FRAME_ACK_ECN || type == QUIC_FRAME_DATAGRAM) {
        return true;
    }
    if (now_us - guards->window_us > 1000000) {
        guards->window_us = now_us;
        guards->frames = guards->challenges = 0;
    }
    guards->challenges += type == QUIC_FRAME_PATH_CHALLENGE;
    if (++guards->frames <= FRAMES_A_SECOND && guards->challenges <= CHALLENGES_A_SECOND) {
        return true;
    }
    log_warn(c->conn->log, 0, "the QUIC peer floods us with %s frames",
             guards->challenges > CHALLENGES_A_SECOND ? "PATH_CHALLENGE" : "control");
    quic_worker.counts.floods++;
    quic_refuse(c, QUIC_INTERNAL_ERROR, type, "too many control frames");
    c->close.is_flood = true;
    return false;
}

/* False: the packet may not be acknowledged. */
static bool frame_received(struct quic_connection *c, struct quic_packet_in *packet,
                           const struct quic_frame *frame)
{
    switch (frame->type) {
    case QUIC_FRAME_ACK:
    case QUIC_FRAME_ACK_ECN:
        ack_received(c, packet, frame);
        break;
    case QUIC_FRAME_CRYPTO:
        return quic_crypto_received(c, packet->space, frame);
    case QUIC_FRAME_STREAM:
        return quic_stream_received(c, frame);
    case QUIC_FRAME_RESET_STREAM:
        quic_stream_was_reset(c, frame);
        break;
    case QUIC_FRAME_STOP_SENDING:
        quic_stream_was_stopped(c, frame);
        break;
    case QUIC_FRAME_PING:
        c->heard_ms = clock_now.now_ms;
        break;
    case QUIC_FRAME_MAX_DATA:
        max_data(c, frame->limit.limit);
        break;
    case QUIC_FRAME_MAX_STREAM_DATA:
        max_stream_data(c, frame);
        break;
    case QUIC_FRAME_MAX_STREAMS_BIDI:
    case QUIC_FRAME_MAX_STREAMS_UNI:
        max_streams(c, frame->type == QUIC_FRAME_MAX_STREAMS_UNI, frame->limit.limit);
        break;
    case QUIC_FRAME_STREAM_DATA_BLOCKED:
        quic_stream_for(c, frame->limit.id, true, frame->type);
        break;
    case QUIC_FRAME_NEW_TOKEN:
        new_token(c, frame);
        break;
    case QUIC_FRAME_NEW_CONNECTION_ID:
        quic_cid_received(c, frame);
        break;
    case QUIC_FRAME_RETIRE_CONNECTION_ID:
        quic_cid_retired(c, frame->limit.limit, packet->dcid);
        break;
    case QUIC_FRAME_PATH_CHALLENGE:
        challenged(c, packet->path, frame);
        break;
    case QUIC_FRAME_PATH_RESPONSE:
        quic_path_answered(c, frame->data);
        break;
    case QUIC_FRAME_ACK_FREQUENCY:
        quic_ack_frequency_received(c, frame);
        break;
    case QUIC_FRAME_IMMEDIATE_ACK:
        c->levels[packet->space]->is_ack_due = true;
        break;
    case QUIC_FRAME_CONNECTION_CLOSE:
    case QUIC_FRAME_APPLICATION_CLOSE:
        quic_heard_close(c, frame);
        break;
    case QUIC_FRAME_HANDSHAKE_DONE:
        handshake_done(c);
        break;
    case QUIC_FRAME_DATAGRAM:
        refuse_frame(c, frame->type, "DATAGRAM was not negotiated");
        break;
    default:
        break; /* PADDING, DATA_BLOCKED, STREAMS_BLOCKED */
    }
    return true;
}

bool quic_frames_received(struct quic_connection *c, struct quic_packet_in *packet)
{
    struct str rest = packet->payload;
    struct quic_frame frame;
    bool is_good = true;

    if (rest.len == 0) {
        refuse_frame(c, 0, "a packet without a frame");
    }
    while (rest.len != 0 && quic_is_open(c)) {
        if (!quic_frame_read(&rest, &frame)) {
            quic_refuse(c, QUIC_FRAME_ENCODING_ERROR, frame.type, "a frame that makes no sense");
            break;
        }
        if (!quic_frame_is_allowed(frame.type, packet->type)) {
            refuse_frame(c, frame.type, "a frame that its packet may not have");
            break;
        }
        packet->is_eliciting = packet->is_eliciting || quic_frame_is_eliciting(frame.type);
        packet->is_probing = packet->is_probing && quic_frame_is_probing(frame.type);
        if (!guard(c, frame.type)) {
            break;
        }
        is_good = frame_received(c, packet, &frame) && is_good;
    }
    return is_good && quic_is_open(c);
}
