/* What became of the frames that were sent: acknowledged or lost. */
#include "net/quic/private.h"

static struct quic_send_chunk chunk_of(const struct quic_carried *frame)
{
    return (struct quic_send_chunk){.offset = frame->offset,
                                    .len = frame->len,
                                    .is_fin = frame->is_fin};
}

static void stream_frame_acked(struct quic_connection *c, const struct quic_carried *frame)
{
    struct quic_stream_state *stream = quic_stream_find(c, frame->id);
    struct quic_send_chunk chunk = chunk_of(frame);

    if (stream == NULL || stream->send == NULL) {
        return;
    }
    if (frame->kind == QUIC_CARRIED_STREAM) {
        quic_send_acked(stream->send, &chunk);
    } else {
        quic_send_reset_acked(stream->send);
    }
    quic_stream_settle(stream);
}

static void frame_acked(void *owner, enum quic_space space, const struct quic_carried *frame)
{
    struct quic_connection *c = owner;
    struct quic_send_chunk chunk = chunk_of(frame);

    switch (frame->kind) {
    case QUIC_CARRIED_ACK:
        quic_received_reported(&c->levels[space]->received, frame->id);
        break;
    case QUIC_CARRIED_CRYPTO:
        quic_send_acked(&c->levels[space]->crypto_out, &chunk);
        break;
    case QUIC_CARRIED_STREAM:
    case QUIC_CARRIED_RESET_STREAM:
        stream_frame_acked(c, frame);
        break;
    case QUIC_CARRIED_MTU_PROBE:
        quic_path_mtu_known(c, frame->len, true);
        break;
    case QUIC_CARRIED_RETIRE_CONNECTION_ID:
        quic_cid_retirement_known(c, frame->id, true);
        break;
    default:
        break;
    }
}

static void stream_frame_lost(struct quic_connection *c, const struct quic_carried *frame)
{
    struct quic_stream_state *stream = quic_stream_find(c, frame->id);
    struct quic_send_chunk chunk = chunk_of(frame);

    if (stream == NULL) {
        return;
    }
    switch (frame->kind) {
    case QUIC_CARRIED_STREAM:
        quic_send_lost(stream->send, &chunk);
        quic_stream_reschedule(stream);
        return;
    case QUIC_CARRIED_RESET_STREAM:
        quic_send_reset_lost(stream->send);
        break;
    case QUIC_CARRIED_STOP_SENDING:
        quic_receive_stop_lost(stream->receive);
        break;
    case QUIC_CARRIED_MAX_STREAM_DATA:
        stream->is_window_lost = frame->offset == stream->receive->window.limit &&
                                 stream->receive->state == QUIC_RECEIVE_OPEN;
        break;
    default:
        quic_credit_blocked_lost(&stream->send->credit, frame->offset);
        break;
    }
    quic_stream_control(stream);
}

static void cid_lost(struct quic_connection *c, uint64_t number)
{
    for (unsigned i = 0; i < QUIC_OWN_CIDS; i++) {
        if (c->own_cids[i].is_used && c->own_cids[i].number == number) {
            c->own_cids[i].is_to_send = true;
            c->pending |= QUIC_PENDING_NEW_CIDS;
        }
    }
}

/* Nothing is known to be lost: it is only what a probe could carry. */
static bool is_probed(const struct quic_connection *c)
{
    return c->is_expiring && c->recovery.pto_count > c->probes_before;
}

static void frame_lost(void *owner, enum quic_space space, const struct quic_carried *frame)
{
    struct quic_connection *c = owner;
    struct quic_send_chunk chunk = chunk_of(frame);

    switch (frame->kind) {
    case QUIC_CARRIED_CRYPTO:
        if (space == QUIC_SPACE_APPLICATION && is_probed(c)) {
            break; /* a ticket can wait: clients would hear it twice */
        }
        quic_send_lost(&c->levels[space]->crypto_out, &chunk);
        break;
    case QUIC_CARRIED_STREAM:
    case QUIC_CARRIED_RESET_STREAM:
    case QUIC_CARRIED_STOP_SENDING:
    case QUIC_CARRIED_MAX_STREAM_DATA:
    case QUIC_CARRIED_STREAM_DATA_BLOCKED:
        stream_frame_lost(c, frame);
        break;
    case QUIC_CARRIED_MAX_DATA:
        c->pending |= frame->offset == c->window.limit ? QUIC_PENDING_MAX_DATA : 0;
        break;
    case QUIC_CARRIED_MAX_STREAMS:
        c->pending |= frame->offset != c->peer_streams[frame->id].limit ? 0
                      : frame->id == 0 ? QUIC_PENDING_MAX_STREAMS_BIDI
                                       : QUIC_PENDING_MAX_STREAMS_UNI;
        break;
    case QUIC_CARRIED_DATA_BLOCKED:
        quic_credit_blocked_lost(&c->credit, frame->offset);
        c->pending |= QUIC_PENDING_DATA_BLOCKED;
        break;
    case QUIC_CARRIED_STREAMS_BLOCKED:
        c->pending |=
            frame->id == 0 ? QUIC_PENDING_STREAMS_BLOCKED_BIDI : QUIC_PENDING_STREAMS_BLOCKED_UNI;
        break;
    case QUIC_CARRIED_NEW_TOKEN:
        c->pending |= QUIC_PENDING_NEW_TOKEN;
        break;
    case QUIC_CARRIED_NEW_CONNECTION_ID:
        cid_lost(c, frame->id);
        break;
    case QUIC_CARRIED_RETIRE_CONNECTION_ID:
        quic_cid_retirement_known(c, frame->id, false);
        break;
    case QUIC_CARRIED_ACK_FREQUENCY:
        quic_ack_request_lost(c, frame->id);
        break;
    case QUIC_CARRIED_HANDSHAKE_DONE:
        c->pending |= QUIC_PENDING_HANDSHAKE_DONE;
        break;
    case QUIC_CARRIED_MTU_PROBE:
        quic_path_mtu_known(c, frame->len, false);
        break;
    default:
        break;
    }
}

const struct quic_recovery_owner quic_recovery_events = {frame_acked, frame_lost};
