/* Frames: read from and written to slices. */
#include "net/quic/frame.h"

#include <assert.h>

#include "base/wire.h"

#define STREAMS_MOST (UINT64_C(1) << 60)

static bool read_piece(struct str *from, struct str *out)
{
    uint64_t size;

    return quic_varint_read(from, &size) && wire_bytes(from, size, out);
}

static bool read_two(struct str *from, uint64_t *one, uint64_t *other)
{
    return quic_varint_read(from, one) && quic_varint_read(from, other);
}

/* ---- ACK ---- */

/* Every range has to lie below the one before it, and none below zero. */
static bool look_through_ranges(struct str *from, struct quic_frame *out)
{
    uint64_t smallest, gap, length;
    const char *start = from->data;

    if (out->ack.first_range > out->ack.largest) {
        return false;
    }
    smallest = out->ack.largest - out->ack.first_range;
    for (uint64_t i = 0; i < out->ack.count; i++) {
        if (!read_two(from, &gap, &length) || smallest < gap + 2 || smallest - gap - 2 < length) {
            return false;
        }
        smallest -= gap + 2 + length;
    }
    out->ack.ranges = str_from(start, from->data);
    return true;
}

static bool read_ack(struct str *from, struct quic_frame *out)
{
    out->ack.has_ecn = out->type == QUIC_FRAME_ACK_ECN;
    if (!read_two(from, &out->ack.largest, &out->ack.delay) ||
        !read_two(from, &out->ack.count, &out->ack.first_range) ||
        !look_through_ranges(from, out)) {
        return false;
    }
    return !out->ack.has_ecn ||
           (read_two(from, &out->ack.ect0, &out->ack.ect1) && quic_varint_read(from, &out->ack.ce));
}

bool quic_ack_next(const struct quic_frame *ack, struct quic_ack_walk *walk,
                   struct quic_range *range)
{
    uint64_t gap, length;

    if (!walk->has_begun) {
        walk->has_begun = true;
        walk->rest = ack->ack.ranges;
        walk->left = ack->ack.count;
        range->end = ack->ack.largest + 1;
        range->start = walk->smallest = ack->ack.largest - ack->ack.first_range;
        return true;
    }
    if (walk->left == 0 || !read_two(&walk->rest, &gap, &length)) {
        return false;
    }
    walk->left--;
    range->end = walk->smallest - gap - 1;
    range->start = walk->smallest = range->end - 1 - length;
    return true;
}

/* ---- the others ---- */

static bool read_stream(struct str *from, unsigned bits, struct quic_frame *out)
{
    out->type = QUIC_FRAME_STREAM;
    out->stream.is_last = (bits & QUIC_STREAM_HAS_FIN) != 0;
    out->stream.has_length = (bits & QUIC_STREAM_HAS_LENGTH) != 0;
    out->stream.offset = 0;
    if (!quic_varint_read(from, &out->stream.id) ||
        ((bits & QUIC_STREAM_HAS_OFFSET) != 0 && !quic_varint_read(from, &out->stream.offset))) {
        return false;
    }
    if (out->stream.has_length) {
        if (!read_piece(from, &out->stream.data)) {
            return false;
        }
    } else {
        out->stream.data = *from;
        *from = str_skip(*from, from->len);
    }
    return out->stream.offset + out->stream.data.len <= QUIC_VARINT_MOST;
}

static bool read_crypto(struct str *from, struct quic_frame *out)
{
    return quic_varint_read(from, &out->stream.offset) && read_piece(from, &out->stream.data) &&
           out->stream.offset + out->stream.data.len <= QUIC_VARINT_MOST;
}

static bool read_new_id(struct str *from, struct quic_frame *out)
{
    return read_two(from, &out->new_id.number, &out->new_id.retire_before) &&
           out->new_id.retire_before <= out->new_id.number &&
           wire_piece(from, 1, &out->new_id.id) && out->new_id.id.len >= 1 &&
           out->new_id.id.len <= QUIC_CID_MOST &&
           wire_bytes(from, QUIC_RESET_TOKEN_SIZE, &out->new_id.reset_token);
}

static bool read_close(struct str *from, struct quic_frame *out)
{
    out->close.frame_type = 0;
    return quic_varint_read(from, &out->close.code) &&
           (out->type == QUIC_FRAME_APPLICATION_CLOSE ||
            quic_varint_read(from, &out->close.frame_type)) &&
           read_piece(from, &out->close.reason);
}

static bool read_padding(struct str *from, struct quic_frame *out)
{
    out->padding = 1;
    while (from->len != 0 && from->data[0] == QUIC_FRAME_PADDING) {
        out->padding++;
        *from = str_skip(*from, 1);
    }
    return true;
}

static bool read_datagram(struct str *from, bool has_length, struct quic_frame *out)
{
    out->type = QUIC_FRAME_DATAGRAM;
    return has_length ? read_piece(from, &out->data) : wire_bytes(from, from->len, &out->data);
}

static bool read_reset(struct str *from, struct quic_frame *out)
{
    return read_two(from, &out->reset.id, &out->reset.code) &&
           (out->type == QUIC_FRAME_STOP_SENDING || quic_varint_read(from, &out->reset.final_size));
}

static bool read_limit(struct str *from, struct quic_frame *out)
{
    switch (out->type) {
    case QUIC_FRAME_MAX_STREAM_DATA:
    case QUIC_FRAME_STREAM_DATA_BLOCKED:
        return read_two(from, &out->limit.id, &out->limit.limit);
    case QUIC_FRAME_MAX_STREAMS_BIDI:
    case QUIC_FRAME_MAX_STREAMS_UNI:
    case QUIC_FRAME_STREAMS_BLOCKED_BIDI:
    case QUIC_FRAME_STREAMS_BLOCKED_UNI:
        return quic_varint_read(from, &out->limit.limit) && out->limit.limit <= STREAMS_MOST;
    default:
        return quic_varint_read(from, &out->limit.limit);
    }
}

static bool read_ack_frequency(struct str *from, struct quic_frame *out)
{
    return read_two(from, &out->ack_frequency.number, &out->ack_frequency.threshold) &&
           read_two(from, &out->ack_frequency.delay_us, &out->ack_frequency.reordering);
}

static bool read_rest(struct str *from, struct quic_frame *out)
{
    switch (out->type) {
    case QUIC_FRAME_PADDING:
        return read_padding(from, out);
    case QUIC_FRAME_PING:
    case QUIC_FRAME_HANDSHAKE_DONE:
    case QUIC_FRAME_IMMEDIATE_ACK:
        return true;
    case QUIC_FRAME_ACK:
    case QUIC_FRAME_ACK_ECN:
        return read_ack(from, out);
    case QUIC_FRAME_RESET_STREAM:
    case QUIC_FRAME_STOP_SENDING:
        return read_reset(from, out);
    case QUIC_FRAME_CRYPTO:
        return read_crypto(from, out);
    case QUIC_FRAME_NEW_TOKEN:
        return read_piece(from, &out->token) && out->token.len != 0;
    case QUIC_FRAME_NEW_CONNECTION_ID:
        return read_new_id(from, out);
    case QUIC_FRAME_PATH_CHALLENGE:
    case QUIC_FRAME_PATH_RESPONSE:
        return wire_bytes(from, 8, &out->data);
    case QUIC_FRAME_CONNECTION_CLOSE:
    case QUIC_FRAME_APPLICATION_CLOSE:
        return read_close(from, out);
    case QUIC_FRAME_DATAGRAM:
    case QUIC_FRAME_DATAGRAM + 1:
        return read_datagram(from, out->type != QUIC_FRAME_DATAGRAM, out);
    case QUIC_FRAME_ACK_FREQUENCY:
        return read_ack_frequency(from, out);
    default:
        return out->type >= QUIC_FRAME_MAX_DATA && out->type <= QUIC_FRAME_RETIRE_CONNECTION_ID &&
               read_limit(from, out);
    }
}

bool quic_frame_read(struct str *payload, struct quic_frame *out)
{
    size_t before = payload->len;

    if (!quic_varint_read(payload, &out->type) ||
        before - payload->len != quic_varint_size(out->type)) {
        return false; /* a type in more bytes than it needs (RFC 9000, 12.4) */
    }
    if (out->type >= QUIC_FRAME_STREAM && out->type < QUIC_FRAME_MAX_DATA) {
        return read_stream(payload, (unsigned) out->type & 7, out);
    }
    return read_rest(payload, out);
}

bool quic_frame_is_allowed(uint64_t type, enum quic_packet_type packet)
{
    switch (type) {
    case QUIC_FRAME_PADDING:
    case QUIC_FRAME_PING:
    case QUIC_FRAME_CONNECTION_CLOSE:
        return true;
    case QUIC_FRAME_ACK:
    case QUIC_FRAME_ACK_ECN:
    case QUIC_FRAME_CRYPTO:
        return packet != QUIC_PACKET_0RTT;
    case QUIC_FRAME_NEW_TOKEN:
    case QUIC_FRAME_PATH_RESPONSE:
    case QUIC_FRAME_RETIRE_CONNECTION_ID:
    case QUIC_FRAME_HANDSHAKE_DONE:
        return packet == QUIC_PACKET_1RTT;
    default:
        return packet == QUIC_PACKET_1RTT || packet == QUIC_PACKET_0RTT;
    }
}

/* ---- writing ---- */

size_t quic_stream_head_size(uint64_t id, uint64_t offset)
{
    return 1 + quic_varint_size(id) + (offset == 0 ? 0 : quic_varint_size(offset)) + 2;
}

static void put_piece(struct quic_out *out, struct str piece)
{
    quic_put_varint(out, piece.len);
    quic_put_bytes(out, piece.data, piece.len);
}

static void put_stream(struct quic_out *out, const struct quic_frame *frame)
{
    unsigned bits = (frame->stream.offset == 0 ? 0 : QUIC_STREAM_HAS_OFFSET) |
                    (frame->stream.has_length ? QUIC_STREAM_HAS_LENGTH : 0) |
                    (frame->stream.is_last ? QUIC_STREAM_HAS_FIN : 0);

    quic_put_varint(out, QUIC_FRAME_STREAM | bits);
    quic_put_varint(out, frame->stream.id);
    if (frame->stream.offset != 0) {
        quic_put_varint(out, frame->stream.offset);
    }
    if (frame->stream.has_length) {
        quic_put_varint(out, frame->stream.data.len);
    }
    quic_put_bytes(out, frame->stream.data.data, frame->stream.data.len);
}

static void put_new_id(struct quic_out *out, const struct quic_frame *frame)
{
    quic_put_varint(out, frame->new_id.number);
    quic_put_varint(out, frame->new_id.retire_before);
    quic_put_number(out, frame->new_id.id.len, 1);
    quic_put_bytes(out, frame->new_id.id.data, frame->new_id.id.len);
    quic_put_bytes(out, frame->new_id.reset_token.data, frame->new_id.reset_token.len);
}

static void put_close(struct quic_out *out, const struct quic_frame *frame)
{
    quic_put_varint(out, frame->close.code);
    if (frame->type == QUIC_FRAME_CONNECTION_CLOSE) {
        quic_put_varint(out, frame->close.frame_type);
    }
    put_piece(out, frame->close.reason);
}

static void put_body(struct quic_out *out, const struct quic_frame *frame)
{
    switch (frame->type) {
    case QUIC_FRAME_PADDING:
    case QUIC_FRAME_PING:
    case QUIC_FRAME_HANDSHAKE_DONE:
    case QUIC_FRAME_IMMEDIATE_ACK:
        break;
    case QUIC_FRAME_RESET_STREAM:
    case QUIC_FRAME_STOP_SENDING:
        quic_put_varint(out, frame->reset.id);
        quic_put_varint(out, frame->reset.code);
        if (frame->type == QUIC_FRAME_RESET_STREAM) {
            quic_put_varint(out, frame->reset.final_size);
        }
        break;
    case QUIC_FRAME_CRYPTO:
        quic_put_varint(out, frame->stream.offset);
        put_piece(out, frame->stream.data);
        break;
    case QUIC_FRAME_NEW_TOKEN:
        put_piece(out, frame->token);
        break;
    case QUIC_FRAME_NEW_CONNECTION_ID:
        put_new_id(out, frame);
        break;
    case QUIC_FRAME_PATH_CHALLENGE:
    case QUIC_FRAME_PATH_RESPONSE:
        quic_put_bytes(out, frame->data.data, frame->data.len);
        break;
    case QUIC_FRAME_CONNECTION_CLOSE:
    case QUIC_FRAME_APPLICATION_CLOSE:
        put_close(out, frame);
        break;
    case QUIC_FRAME_MAX_STREAM_DATA:
    case QUIC_FRAME_STREAM_DATA_BLOCKED:
        quic_put_varint(out, frame->limit.id);
        quic_put_varint(out, frame->limit.limit);
        break;
    case QUIC_FRAME_ACK_FREQUENCY:
        quic_put_varint(out, frame->ack_frequency.number);
        quic_put_varint(out, frame->ack_frequency.threshold);
        quic_put_varint(out, frame->ack_frequency.delay_us);
        quic_put_varint(out, frame->ack_frequency.reordering);
        break;
    default:
        assert(frame->type >= QUIC_FRAME_MAX_DATA &&
               frame->type <= QUIC_FRAME_RETIRE_CONNECTION_ID);
        quic_put_varint(out, frame->limit.limit);
        break;
    }
}

void quic_frame_put(struct quic_out *out, const struct quic_frame *frame)
{
    unsigned char *start = out->at;

    if (frame->type == QUIC_FRAME_STREAM) {
        put_stream(out, frame);
    } else if (frame->type == QUIC_FRAME_DATAGRAM) {
        quic_put_varint(out, QUIC_FRAME_DATAGRAM + 1);
        put_piece(out, frame->data);
    } else {
        quic_put_varint(out, frame->type);
        put_body(out, frame);
    }
    if (out->is_short) {
        out->at = start;
    }
}

/* The further ranges that fit: their number, and in *size their bytes. */
static size_t count_ranges(const struct quic_ranges *numbers, size_t room, size_t *size)
{
    struct quic_range above = quic_ranges_at(numbers, numbers->count - 1);
    size_t fit = 0;

    *size = 0;
    for (uint32_t i = numbers->count - 1; i-- > 0; fit++) {
        struct quic_range range = quic_ranges_at(numbers, i);
        size_t more = quic_varint_size(above.start - range.end - 1) +
                      quic_varint_size(range.end - range.start - 1);

        if (*size + more > room || fit + 1 >= 64) {
            break;
        }
        *size += more;
        above = range;
    }
    return fit;
}

size_t quic_ack_put(struct quic_out *out, const struct quic_ranges *numbers, uint64_t delay,
                    const uint64_t *ecn)
{
    struct quic_range range = quic_ranges_at(numbers, numbers->count - 1);
    size_t fixed = 1 + quic_varint_size(range.end - 1) + quic_varint_size(delay) + 1 +
                   quic_varint_size(range.end - range.start - 1);
    size_t size, room = quic_out_left(out);

    for (unsigned i = 0; ecn != NULL && i < 3; i++) {
        fixed += quic_varint_size(ecn[i]);
    }
    if (fixed > room) {
        out->is_short = true;
        return 0;
    }
    size_t more = count_ranges(numbers, room - fixed, &size);
    quic_put_varint(out, ecn == NULL ? QUIC_FRAME_ACK : QUIC_FRAME_ACK_ECN);
    quic_put_varint(out, range.end - 1);
    quic_put_varint(out, delay);
    quic_put_varint(out, more);
    quic_put_varint(out, range.end - range.start - 1);
    for (uint32_t i = 0; i < more; i++) {
        struct quic_range next = quic_ranges_at(numbers, numbers->count - 2 - i);

        quic_put_varint(out, range.start - next.end - 1);
        quic_put_varint(out, next.end - next.start - 1);
        range = next;
    }
    for (unsigned i = 0; ecn != NULL && i < 3; i++) {
        quic_put_varint(out, ecn[i]);
    }
    return 1 + more;
}
