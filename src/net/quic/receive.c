/* The receiving half of a stream: bytes that came too early wait in blocks. */
#include "net/quic/receive.h"

#include <stdlib.h>

#include "base/fatal.h"

#define BLOCK_BYTES 4080u /* of a stream, in one block */

struct quic_block {
    struct quic_block *next;
    uint64_t offset;   /* of its first byte in the stream; a multiple of BLOCK_BYTES */
    uint32_t capacity; /* BLOCK_BYTES; less where the stream is known to end before */
    char bytes[];
};

static uint32_t receive_gaps_most(uint64_t window)
{
    return QUIC_RECEIVE_GAPS + (uint32_t) (window / 1024 < 65536 ? window / 1024 : 65536);
}

void quic_receive_init(struct quic_receive *receive, uint64_t size, uint64_t most)
{
    *receive = (struct quic_receive){.state = QUIC_RECEIVE_OPEN, .final_size = QUIC_SIZE_UNKNOWN};
    quic_window_init(&receive->window, size, most);
    quic_ranges_init(&receive->kept, receive_gaps_most(receive->window.most) + 2);
}

/* All below `offset` has come, or is not wanted any more, and what is kept right after it. */
static void receive_reach(struct quic_receive *receive, uint64_t offset)
{
    if (offset > receive->whole) {
        receive->whole = offset;
    }
    if (receive->kept.count != 0) {
        receive->whole = quic_ranges_gap(&receive->kept, receive->whole);
        quic_ranges_drop_below(&receive->kept, receive->whole);
    }
}

/* Frees the blocks that end at `offset` or before, of which the reader has had all. */
static void receive_drop_below(struct quic_receive *receive, uint64_t offset)
{
    bool is_empty;

    receive_reach(receive, offset);
    is_empty = receive->whole <= offset && receive->kept.count == 0;
    while (receive->first != NULL && (is_empty || receive->first->offset + BLOCK_BYTES <= offset)) {
        struct quic_block *block = receive->first;
        receive->first = block->next;
        if (receive->recent == block) {
            receive->recent = NULL;
        }
        free(block);
    }
}

void quic_receive_free(struct quic_receive *receive)
{
    quic_ranges_free(&receive->kept);
    receive_drop_below(receive, UINT64_MAX);
}

/* ---- blocks ---- */

/* A block from `start`, at most as large as the stream: a request without a body comes in one
 * packet, with its end. */
static struct quic_block *block_new(const struct quic_receive *receive, uint64_t start)
{
    uint64_t left = receive->final_size - start; /* much where the size is unknown */
    uint32_t capacity = left < BLOCK_BYTES ? (uint32_t) left : BLOCK_BYTES;
    struct quic_block *block = malloc(sizeof(*block) + capacity);

    if (block == NULL) {
        fatal_no_memory(sizeof(*block) + capacity);
    }
    block->offset = start;
    block->capacity = capacity;
    return block;
}

/* The block of a byte, made if it is not there. */
static struct quic_block *receive_block(struct quic_receive *receive, uint64_t offset)
{
    uint64_t start = offset - offset % BLOCK_BYTES;
    struct quic_block **at = &receive->first;

    if (receive->recent != NULL && receive->recent->offset <= start) {
        if (receive->recent->offset == start) {
            return receive->recent;
        }
        at = &receive->recent->next;
    }
    while (*at != NULL && (*at)->offset < start) {
        at = &(*at)->next;
    }
    if (*at == NULL || (*at)->offset != start) {
        struct quic_block *block = block_new(receive, start);
        block->next = *at;
        *at = block;
    }
    receive->recent = *at;
    return *at;
}

static void receive_copy(struct quic_receive *receive, uint64_t offset, struct str bytes)
{
    if (bytes.len == 0) {
        return;
    }
    if (offset <= receive->whole) {
        receive_reach(receive, offset + bytes.len);
    } else {
        quic_ranges_add(&receive->kept, offset, offset + bytes.len);
    }
    while (bytes.len != 0) {
        struct quic_block *block = receive_block(receive, offset);
        size_t from = (size_t) (offset - block->offset);
        size_t n = BLOCK_BYTES - from < bytes.len ? BLOCK_BYTES - from : bytes.len;
        memcpy(block->bytes + from, bytes.data, n);
        offset += n;
        bytes = str_skip(bytes, n);
    }
}

/* ---- frames ---- */

/* Counts bytes up to `end`, in the stream and the connection. Both or none. */
static bool receive_count(struct quic_receive *receive, struct quic_window *connection,
                          uint64_t end)
{
    if (end <= receive->window.received) {
        return true;
    }
    uint64_t more = end - receive->window.received;
    if (connection != NULL && connection->limit - connection->received < more) {
        return false;
    }
    if (!quic_window_receive(&receive->window, more)) {
        return false;
    }
    if (connection != NULL) {
        quic_window_receive(connection, more);
    }
    return true;
}

/* All that has come counts as consumed, and its memory is given back. */
static void receive_drop_all(struct quic_receive *receive, struct quic_window *connection)
{
    uint64_t n = receive->window.received - receive->window.consumed;

    quic_window_consume(&receive->window, n);
    if (connection != NULL) {
        quic_window_consume(connection, n);
    }
    receive_drop_below(receive, UINT64_MAX);
}

/* Where the half is, once the final size is known. */
static void receive_settle(struct quic_receive *receive)
{
    if (receive->state > QUIC_RECEIVE_COMPLETE || receive->final_size == QUIC_SIZE_UNKNOWN) {
        return;
    }
    if (receive->window.consumed == receive->final_size) {
        receive->state = QUIC_RECEIVE_READ;
    } else if (receive->whole == receive->final_size) {
        receive->state = QUIC_RECEIVE_COMPLETE;
    } else {
        receive->state = QUIC_RECEIVE_SIZED;
    }
}

/* Whether a frame that ends there agrees with what is known of the size (RFC 9000, 4.5). */
static bool receive_fits_size(const struct quic_receive *receive, uint64_t end, bool is_fin)
{
    if (receive->final_size != QUIC_SIZE_UNKNOWN) {
        return is_fin ? end == receive->final_size : end <= receive->final_size;
    }
    return !is_fin || end >= receive->window.received;
}

/* Divides a frame into what the reader can have at once, and what is copied. */
static void receive_divide(struct quic_receive *receive, uint64_t at, struct str bytes,
                           struct quic_arrival *now)
{
    if (at == receive->window.consumed && receive->whole <= at) {
        uint64_t kept = quic_ranges_next(&receive->kept, at);
        now->offset = at;
        now->bytes = kept - at < bytes.len ? str_head(bytes, (size_t) (kept - at)) : bytes;
        bytes = str_skip(bytes, now->bytes.len);
        at += now->bytes.len;
    }
    receive_copy(receive, at, bytes);
}

enum quic_received_result quic_receive_take(struct quic_receive *receive,
                                            struct quic_window *connection,
                                            const struct quic_arrival *frame,
                                            struct quic_arrival *now)
{
    uint64_t end = frame->offset + frame->bytes.len;
    uint64_t consumed = receive->window.consumed;

    *now = (struct quic_arrival){.offset = consumed};
    if (!receive_fits_size(receive, end, frame->is_fin)) {
        return QUIC_RECEIVED_FINAL_SIZE_ERROR;
    }
    if (frame->offset > consumed &&
        receive->kept.count >= receive_gaps_most(receive->window.size) && !receive->is_stopped &&
        receive->state < QUIC_RECEIVE_COMPLETE) {
        return QUIC_RECEIVED_SCATTERED;
    }
    if (!receive_count(receive, connection, end)) {
        return QUIC_RECEIVED_FLOW_CONTROL_ERROR;
    }
    if (frame->is_fin) {
        receive->final_size = end;
    }
    if (receive->is_stopped) {
        receive_drop_all(receive, connection);
    } else if (receive->state < QUIC_RECEIVE_COMPLETE && end > consumed) {
        uint64_t at = frame->offset > consumed ? frame->offset : consumed;
        receive_divide(receive, at, str_skip(frame->bytes, (size_t) (at - frame->offset)), now);
    }
    receive_settle(receive);
    return QUIC_RECEIVED;
}

void quic_receive_keep(struct quic_receive *receive, const struct quic_arrival *now)
{
    uint64_t end = now->offset + now->bytes.len;
    uint64_t consumed = receive->window.consumed;

    if (consumed < end && receive->state < QUIC_RECEIVE_COMPLETE && !receive->is_stopped) {
        receive_copy(receive, consumed, str_skip(now->bytes, (size_t) (consumed - now->offset)));
        receive_settle(receive);
    }
}

/* ---- the reader ---- */

struct str quic_receive_input(const struct quic_receive *receive)
{
    uint64_t at = receive->window.consumed;
    const struct quic_block *block = receive->first;

    if (block == NULL || block->offset > at || block->offset + BLOCK_BYTES <= at) {
        return STR_NONE;
    }
    uint64_t ready = receive->whole > at ? receive->whole - at : 0;
    size_t from = (size_t) (at - block->offset);
    size_t n = ready < BLOCK_BYTES - from ? (size_t) ready : BLOCK_BYTES - from;
    return n == 0 ? STR_NONE : (struct str){block->bytes + from, n};
}

void quic_receive_consume(struct quic_receive *receive, struct quic_window *connection, uint64_t n)
{
    if (receive->state == QUIC_RECEIVE_RESET || receive->is_stopped) {
        return; /* all counts as consumed already */
    }
    quic_window_consume(&receive->window, n);
    if (connection != NULL) {
        quic_window_consume(connection, n);
    }
    receive_drop_below(receive, receive->window.consumed);
    receive_settle(receive);
}

enum quic_received_result quic_receive_reset(struct quic_receive *receive,
                                             struct quic_window *connection, uint64_t code,
                                             uint64_t final_size)
{
    if (!receive_fits_size(receive, final_size, true)) {
        return QUIC_RECEIVED_FINAL_SIZE_ERROR;
    }
    if (!receive_count(receive, connection, final_size)) {
        return QUIC_RECEIVED_FLOW_CONTROL_ERROR;
    }
    receive->final_size = final_size;
    if (receive->state < QUIC_RECEIVE_READ) { /* who has not read it yet need not */
        receive->state = QUIC_RECEIVE_RESET;
        receive->reset_code = code;
        receive->wants_stop = false;
        receive_drop_all(receive, connection);
    }
    return QUIC_RECEIVED;
}

void quic_receive_stop(struct quic_receive *receive, struct quic_window *connection, uint64_t code)
{
    if (receive->state >= QUIC_RECEIVE_READ || receive->is_stopped) {
        return;
    }
    receive->is_stopped = true;
    receive->stop_code = code;
    receive->wants_stop = receive->state == QUIC_RECEIVE_OPEN;
    receive_drop_all(receive, connection);
    receive_settle(receive);
}

void quic_receive_stop_lost(struct quic_receive *receive)
{
    receive->wants_stop = receive->is_stopped && receive->state == QUIC_RECEIVE_OPEN;
}

bool quic_receive_is_window_due(const struct quic_receive *receive)
{
    return receive->state == QUIC_RECEIVE_OPEN && !receive->is_stopped &&
           quic_window_is_due(&receive->window);
}

uint64_t quic_receive_held(const struct quic_receive *receive)
{
    uint64_t held = 0;

    for (const struct quic_block *block = receive->first; block != NULL; block = block->next) {
        held += sizeof(*block) + block->capacity;
    }
    return held;
}
