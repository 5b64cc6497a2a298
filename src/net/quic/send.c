/* The sending half of a stream: pieces of bytes, and which of them were sent, lost, acknowledged.
 */
#include "net/quic/send.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fatal.h"

/* Bytes that a piece of copied ones has room for, at least, but for the first. */
#define SEND_COPY_SIZE 4000u

/* Bytes that were written together. */
struct quic_piece {
    struct quic_piece *next;
    uint64_t offset;            /* in the stream */
    uint64_t len;               /* bytes */
    const char *data;           /* NULL: of a file */
    uint64_t file_offset;       /* bytes */
    void (*release)(void *arg); /* or NULL */
    void *arg;
    int fd;
    uint32_t capacity; /* of `own`; 0: the bytes are somebody else's */
    bool is_room;      /* it lies after struct quic_send */
    char own[];
};

/* The sets are bounded by what is in flight; a number of packets never reaches this. */
#define SEND_RANGES_MOST (1u << 20)

void quic_send_init(struct quic_send *send, uint64_t limit)
{
    *send = (struct quic_send){.state = QUIC_SEND_OPEN};
    quic_credit_init(&send->credit, limit);
    quic_ranges_init(&send->acknowledged, SEND_RANGES_MOST);
    quic_ranges_init(&send->lost, SEND_RANGES_MOST);
}

size_t quic_send_room_size(void)
{
    return sizeof(struct quic_piece) + QUIC_SEND_FIRST;
}

/* Where it is; only with has_room, or of a piece with is_room. */
static struct quic_piece *send_room(struct quic_send *send)
{
    return (struct quic_piece *) (send + 1);
}

static void piece_free(struct quic_send *send, struct quic_piece *piece)
{
    if (piece->release != NULL) {
        piece->release(piece->arg);
    }
    if (piece->is_room) {
        send->has_room = true;
    } else {
        free(piece);
    }
}

static void send_drop_all(struct quic_send *send)
{
    struct quic_piece *piece = send->first;

    send->first = send->last = send->next = NULL;
    while (piece != NULL) {
        struct quic_piece *next = piece->next;
        piece_free(send, piece);
        piece = next;
    }
    quic_ranges_free(&send->acknowledged);
    quic_ranges_free(&send->lost);
}

void quic_send_free(struct quic_send *send)
{
    send_drop_all(send);
}

/* ---- writing ---- */

static bool send_may_write(const struct quic_send *send)
{
    return send->state == QUIC_SEND_OPEN && !send->is_finished;
}

/* A piece at the end of what was written, of which `len` bytes count. */
static struct quic_piece *send_append(struct quic_send *send, uint64_t len, uint32_t capacity)
{
    bool is_room = send->has_room && capacity <= QUIC_SEND_FIRST;
    struct quic_piece *piece = is_room ? send_room(send) : malloc(sizeof(*piece) + capacity);

    if (piece == NULL) {
        fatal_no_memory(sizeof(*piece) + capacity);
    }
    *piece = (struct quic_piece){.offset = send->queued,
                                 .len = len,
                                 .fd = -1,
                                 .capacity = capacity,
                                 .is_room = is_room};
    send->has_room = send->has_room && !is_room;
    if (send->last == NULL) {
        send->first = piece;
    } else {
        send->last->next = piece;
    }
    send->last = piece;
    if (send->next == NULL) {
        send->next = piece;
    }
    send->queued += len;
    return piece;
}

/* As many bytes as the last piece has room for. */
static size_t send_fill_last(struct quic_send *send, struct str bytes)
{
    struct quic_piece *last = send->last;

    if (last == NULL || last->len >= last->capacity) {
        return 0;
    }
    size_t n = last->capacity - last->len;
    n = n < bytes.len ? n : bytes.len;
    memcpy(last->own + last->len, bytes.data, n);
    if (send->next == NULL) { /* all of it was sent so far */
        send->next = last;
    }
    last->len += n;
    send->queued += n;
    return n;
}

void quic_send_copy(struct quic_send *send, struct str bytes)
{
    if (!send_may_write(send) || bytes.len == 0) {
        return;
    }
    uint32_t least = send->queued == 0 ? QUIC_SEND_FIRST : SEND_COPY_SIZE;
    bytes = str_skip(bytes, send_fill_last(send, bytes));
    while (bytes.len != 0) {
        size_t n = bytes.len < (1u << 20) ? bytes.len : 1u << 20;
        uint32_t capacity = n < least ? least : (uint32_t) n;
        struct quic_piece *piece = send_append(send, n, capacity);
        memcpy(piece->own, bytes.data, n);
        piece->data = piece->own;
        bytes = str_skip(bytes, n);
    }
}

/* A piece of somebody else's bytes; NULL, and they were released, when none are taken. */
static struct quic_piece *send_append_foreign(struct quic_send *send, uint64_t len,
                                              void (*release)(void *), void *arg)
{
    if (!send_may_write(send) || len == 0) {
        if (release != NULL) {
            release(arg);
        }
        return NULL;
    }
    struct quic_piece *piece = send_append(send, len, 0);
    piece->release = release;
    piece->arg = arg;
    return piece;
}

void quic_send_refer(struct quic_send *send, struct str bytes, void (*release)(void *), void *arg)
{
    struct quic_piece *piece = send_append_foreign(send, bytes.len, release, arg);

    if (piece != NULL) {
        piece->data = bytes.data;
    }
}

void quic_send_file(struct quic_send *send, const struct quic_file_part *part,
                    void (*release)(void *), void *arg)
{
    struct quic_piece *piece = send_append_foreign(send, part->len, release, arg);

    if (piece != NULL) {
        piece->fd = part->fd;
        piece->file_offset = part->offset;
    }
}

void quic_send_finish(struct quic_send *send)
{
    if (send->state == QUIC_SEND_OPEN) {
        send->is_finished = true;
    }
}

void quic_send_reset(struct quic_send *send, uint64_t code)
{
    if (send->state != QUIC_SEND_OPEN && send->state != QUIC_SEND_SENT) {
        return;
    }
    send->state = QUIC_SEND_RESET;
    send->reset_code = code;
    send->wants_reset = true;
    send->queued = send->credit.used;
    send_drop_all(send);
}

uint64_t quic_send_unacknowledged(const struct quic_send *send)
{
    uint64_t n = send->queued - send->acked;

    if (send->state >= QUIC_SEND_DONE) {
        return 0;
    }
    for (uint32_t i = 0; i < send->acknowledged.count; i++) {
        struct quic_range range = quic_ranges_at(&send->acknowledged, i);
        n -= range.end - range.start;
    }
    return n;
}

/* ---- sending ---- */

static bool send_has_fin_left(const struct quic_send *send)
{
    return send->is_finished && !send->is_fin_sent;
}

enum quic_send_need quic_send_need(const struct quic_send *send,
                                   const struct quic_credit *connection)
{
    if (send->state > QUIC_SEND_SENT) {
        return QUIC_SEND_NOTHING;
    }
    if (send->lost.count != 0) {
        return QUIC_SEND_AGAIN;
    }
    if (quic_send_unsent(send) == 0) { /* FIN alone; of a stream whose FIN was lost, again */
        return !send_has_fin_left(send)        ? QUIC_SEND_NOTHING
               : send->state == QUIC_SEND_SENT ? QUIC_SEND_AGAIN
                                               : QUIC_SEND_NEW;
    }
    if (quic_credit_left(&send->credit) == 0) {
        return QUIC_SEND_BLOCKED_STREAM;
    }
    if (connection != NULL && quic_credit_left(connection) == 0) {
        return QUIC_SEND_BLOCKED_CONNECTION;
    }
    return QUIC_SEND_NEW;
}

bool quic_send_next(const struct quic_send *send, const struct quic_credit *connection,
                    uint32_t room, struct quic_send_chunk *chunk)
{
    enum quic_send_need need = quic_send_need(send, connection);
    uint64_t end = send->queued;

    if (need != QUIC_SEND_AGAIN && need != QUIC_SEND_NEW) {
        return false;
    }
    chunk->is_again = need == QUIC_SEND_AGAIN;
    if (send->lost.count != 0) {
        chunk->offset = quic_ranges_at(&send->lost, 0).start;
        end = quic_ranges_at(&send->lost, 0).end;
    } else {
        chunk->offset = send->credit.used;
        uint64_t left = quic_credit_left(&send->credit);
        left = connection != NULL && quic_credit_left(connection) < left
                   ? quic_credit_left(connection)
                   : left;
        end = end - chunk->offset < left ? end : chunk->offset + left;
    }
    uint64_t len = end - chunk->offset;
    chunk->len = len < room ? (uint32_t) len : room;
    chunk->is_fin = send_has_fin_left(send) && chunk->offset + chunk->len == send->queued;
    return chunk->len != 0 || chunk->is_fin;
}

static const struct quic_piece *send_piece_at(const struct quic_send *send, uint64_t offset)
{
    const struct quic_piece *piece = send->next;

    if (piece == NULL || piece->offset > offset) {
        piece = send->first;
    }
    while (piece != NULL && piece->offset + piece->len <= offset) {
        piece = piece->next;
    }
    return piece;
}

/* n bytes of a piece of a file, from one of its bytes on. */
static bool piece_read_file(const struct quic_piece *piece, uint64_t from, char *to, uint32_t n)
{
    uint32_t done = 0;

    while (done < n) {
        ssize_t got =
            pread(piece->fd, to + done, n - done, (off_t) (piece->file_offset + from + done));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return false;
        }
        done += (uint32_t) got;
    }
    return true;
}

bool quic_send_is_in_file(const struct quic_send *send, uint64_t offset, uint32_t len,
                          struct quic_file_part *part)
{
    const struct quic_piece *piece = send_piece_at(send, offset);

    if (piece == NULL || piece->data != NULL || piece->offset + piece->len < offset + len) {
        return false;
    }
    *part = (struct quic_file_part){piece->fd, piece->file_offset + (offset - piece->offset), len};
    return true;
}

bool quic_send_read(const struct quic_send *send, uint64_t offset, char *to, uint32_t len)
{
    const struct quic_piece *piece = send_piece_at(send, offset);

    while (len != 0) {
        if (piece == NULL) {
            return false;
        }
        uint64_t from = offset - piece->offset;
        uint32_t n = piece->len - from < len ? (uint32_t) (piece->len - from) : len;
        if (piece->data != NULL) {
            memcpy(to, piece->data + from, n);
        } else if (!piece_read_file(piece, from, to, n)) {
            return false;
        }
        to += n;
        offset += n;
        len -= n;
        piece = piece->next;
    }
    return true;
}

void quic_send_commit(struct quic_send *send, struct quic_credit *connection,
                      const struct quic_send_chunk *chunk)
{
    uint64_t end = chunk->offset + chunk->len;

    if (chunk->is_again) {
        send->resent += chunk->len;
        quic_ranges_remove(&send->lost, chunk->offset, end);
    } else {
        send->credit.used = end;
        if (connection != NULL) {
            connection->used += chunk->len;
        }
        while (send->next != NULL && send->next->offset + send->next->len <= end) {
            send->next = send->next->next;
        }
    }
    if (chunk->is_fin) {
        send->is_fin_sent = true;
        send->state = QUIC_SEND_SENT;
    }
}

/* ---- what became of it ---- */

/* Bytes above `acked` were acknowledged: most often the next ones, with no gap before or after
 * them. */
static void send_note_acked(struct quic_send *send, uint64_t start, uint64_t end)
{
    if (start == send->acked && send->acknowledged.count == 0) {
        send->acked = end;
    } else {
        quic_ranges_add(&send->acknowledged, start, end);
        send->acked = quic_ranges_gap(&send->acknowledged, send->acked);
        quic_ranges_drop_below(&send->acknowledged, send->acked);
    }
    if (send->lost.count != 0) {
        quic_ranges_remove(&send->lost, start, end);
    }
}

/* Gives the memory of pieces back of which all bytes were acknowledged. */
static void send_release_acked(struct quic_send *send)
{
    while (send->first != NULL && send->first->offset + send->first->len <= send->acked) {
        struct quic_piece *piece = send->first;
        send->first = piece->next;
        if (send->first == NULL) {
            send->last = NULL;
        }
        if (send->next == piece) {
            send->next = piece->next;
        }
        piece_free(send, piece);
    }
}

void quic_send_acked(struct quic_send *send, const struct quic_send_chunk *chunk)
{
    uint64_t end = chunk->offset + chunk->len;

    if (send->state > QUIC_SEND_SENT) {
        return;
    }
    if (end > send->acked) {
        uint64_t start = chunk->offset > send->acked ? chunk->offset : send->acked;
        send_note_acked(send, start, end);
        send_release_acked(send);
    }
    if (chunk->is_fin) {
        send->is_fin_acked = send->is_fin_sent = true;
    }
    if (send->is_fin_acked && send->acked == send->queued) {
        send->state = QUIC_SEND_DONE;
        send_drop_all(send);
    }
}

void quic_send_lost(struct quic_send *send, const struct quic_send_chunk *chunk)
{
    uint64_t at = chunk->offset > send->acked ? chunk->offset : send->acked;
    uint64_t end = chunk->offset + chunk->len;

    if (send->state > QUIC_SEND_SENT) {
        return;
    }
    while (at < end) { /* all that was not acknowledged by another packet */
        uint64_t start = quic_ranges_gap(&send->acknowledged, at);
        uint64_t stop = quic_ranges_next(&send->acknowledged, start);
        stop = stop < end ? stop : end;
        quic_ranges_add(&send->lost, start, stop);
        at = start < stop ? stop : end;
    }
    if (chunk->is_fin && !send->is_fin_acked) {
        send->is_fin_sent = false;
    }
}

void quic_send_reset_sent(struct quic_send *send)
{
    send->wants_reset = false;
}

void quic_send_reset_lost(struct quic_send *send)
{
    send->wants_reset = send->state == QUIC_SEND_RESET;
}

void quic_send_reset_acked(struct quic_send *send)
{
    if (send->state == QUIC_SEND_RESET) {
        send->state = QUIC_SEND_RESET_DONE;
        send->wants_reset = false;
    }
}
