/* The output queue: pieces of pooled chunks, of other people's memory and of files, in order. */
#include "net/conn.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fatal.h"
#include "net/conn_private.h"

#define CHUNKS_KEPT 64    /* free chunks: 1 MB */
#define PIECES_KEPT 512   /* free pieces */
#define COPY_AT_MOST 1024 /* bytes that are cheaper copied than pointed to */

static struct out_chunk *free_chunks; /* last in, first out: the warm one is used again */
static unsigned free_chunk_count;
static struct out_piece *free_pieces;
static unsigned free_piece_count;

/* ---- pools ---- */

static struct out_chunk *chunk_new(void)
{
    struct out_chunk *chunk = free_chunks;

    if (chunk != NULL) {
        free_chunks = chunk->next_free;
        free_chunk_count--;
    } else {
        chunk = malloc(sizeof(*chunk));
        if (chunk == NULL) {
            fatal_no_memory(sizeof(*chunk));
        }
    }
    chunk->refs = 0;
    chunk->used = 0;
    return chunk;
}

static void chunk_drop(struct out_chunk *chunk)
{
    if (--chunk->refs != 0) {
        return;
    }
    if (free_chunk_count < CHUNKS_KEPT) {
        chunk->next_free = free_chunks;
        free_chunks = chunk;
        free_chunk_count++;
    } else {
        free(chunk);
    }
}

static struct out_piece *piece_new(enum out_kind kind, struct out_chunk *chunk)
{
    struct out_piece *piece = free_pieces;

    if (piece != NULL) {
        free_pieces = piece->next;
        free_piece_count--;
    } else {
        piece = malloc(sizeof(*piece));
        if (piece == NULL) {
            fatal_no_memory(sizeof(*piece));
        }
    }
    piece->next = NULL;
    piece->kind = kind;
    piece->chunk = chunk;
    piece->release = NULL;
    if (chunk != NULL) {
        chunk->refs++;
    }
    return piece;
}

static void piece_free(struct out_piece *piece)
{
    void (*release)(void *) = piece->release;
    void *arg = piece->arg;

    if (piece->chunk != NULL) {
        chunk_drop(piece->chunk);
    }
    if (free_piece_count < PIECES_KEPT) {
        piece->next = free_pieces;
        free_pieces = piece;
        free_piece_count++;
    } else {
        free(piece);
    }
    if (release != NULL) {
        release(arg);
    }
}

/* ---- the queue ---- */

static void append(struct conn *conn, struct out_piece *piece)
{
    if (conn->out == NULL) {
        conn->out = piece;
    } else {
        conn->out_last->next = piece;
    }
    conn->out_last = piece;
}

char *conn_out_room(struct conn *conn, size_t size)
{
    struct out_piece *last = conn->out == NULL ? NULL : conn->out_last;
    struct out_chunk *chunk = last == NULL ? NULL : last->chunk;

    assert(size <= OUT_CHUNK_SIZE);
    if (chunk != NULL && OUT_CHUNK_SIZE - chunk->used >= size) {
        if (last->kind == OUT_BYTES) {
            return chunk->bytes + chunk->used;
        }
    } else {
        chunk = chunk_new();
    }
    struct out_piece *piece = piece_new(OUT_BYTES, chunk);
    piece->at = chunk->bytes + chunk->used;
    piece->size = 0;
    append(conn, piece);
    return chunk->bytes + chunk->used;
}

void conn_out_commit(struct conn *conn, size_t used)
{
    struct out_piece *last = conn->out_last;

    assert(conn->out != NULL && last->kind == OUT_BYTES);
    last->chunk->used += (uint32_t) used;
    last->size += used;
    conn->queued += used;
    if (conn->is_broken) {
        out_drop(conn);
    }
}

void conn_write(struct conn *conn, struct str bytes)
{
    while (bytes.len != 0) {
        struct out_chunk *chunk = conn->out == NULL ? NULL : conn->out_last->chunk;
        size_t room = chunk == NULL ? 0 : OUT_CHUNK_SIZE - chunk->used;
        size_t n = room != 0 ? room : OUT_CHUNK_SIZE;

        if (n > bytes.len) {
            n = bytes.len;
        }
        memcpy(conn_out_room(conn, n), bytes.data, n);
        conn_out_commit(conn, n);
        bytes = str_skip(bytes, n);
    }
}

static void append_reference(struct conn *conn, struct out_piece *piece, uint64_t size,
                             void (*release)(void *), void *arg)
{
    piece->size = size;
    piece->release = release;
    piece->arg = arg;
    append(conn, piece);
    conn->queued += size;
    if (conn->is_broken) {
        out_drop(conn);
    }
}

/* A piece behind which bytes may go on in the chunk that is in use. */
static struct out_piece *reference_new(struct conn *conn, enum out_kind kind)
{
    return piece_new(kind, conn->out == NULL ? NULL : conn->out_last->chunk);
}

void conn_write_reference(struct conn *conn, struct str bytes, void (*release)(void *), void *arg)
{
    if (bytes.len == 0) {
        if (release != NULL) {
            release(arg);
        }
        return;
    }
    if (release == NULL && bytes.len <= COPY_AT_MOST) {
        conn_write(conn, bytes);
        return;
    }
    struct out_piece *piece = reference_new(conn, OUT_MEMORY);
    piece->at = bytes.data;
    append_reference(conn, piece, bytes.len, release, arg);
}

void conn_write_file(struct conn *conn, int fd, off_t offset, uint64_t size,
                     void (*release)(void *), void *arg)
{
    if (size == 0) {
        if (release != NULL) {
            release(arg);
        }
        return;
    }
    struct out_piece *piece = reference_new(conn, OUT_FILE);
    piece->fd = fd;
    piece->offset = offset;
    append_reference(conn, piece, size, release, arg);
}

void out_advance(struct conn *conn, uint64_t n)
{
    struct out_piece *piece = conn->out;

    conn->sent += n;
    while (piece != NULL && n >= piece->size) {
        n -= piece->size;
        conn->out = piece->next;
        piece_free(piece);
        piece = conn->out;
    }
    if (n != 0) {
        piece->size -= n;
        if (piece->kind == OUT_FILE) {
            piece->offset += (off_t) n;
        } else {
            piece->at += n;
        }
    }
}

void out_drop(struct conn *conn)
{
    struct out_piece *piece;

    conn->queued = conn->sent;
    while ((piece = conn->out) != NULL) {
        conn->out = piece->next;
        piece_free(piece);
    }
}

bool out_load_file(struct conn *conn, uint64_t limit)
{
    struct out_piece *file = conn->out;
    struct out_chunk *chunk = chunk_new();
    size_t want = OUT_CHUNK_SIZE;
    ssize_t n;

    want = file->size < want ? (size_t) file->size : want;
    want = limit < want ? (size_t) limit : want;
    do {
        n = pread(file->fd, chunk->bytes, want, file->offset);
    } while (n == -1 && errno == EINTR);
    int error = n == 0 ? EIO : errno;
    struct out_piece *piece = piece_new(OUT_BYTES, chunk);
    if (n <= 0) {
        piece_free(piece);
        errno = error;
        return false;
    }
    chunk->used = OUT_CHUNK_SIZE; /* nothing is to be written behind it */
    piece->at = chunk->bytes;
    piece->size = (uint64_t) n;
    file->offset += n;
    file->size -= (uint64_t) n;
    if (file->size == 0) {
        /* Keep its place: the release is due when these bytes were sent. */
        piece->release = file->release;
        piece->arg = file->arg;
        file->release = NULL;
        piece->next = file->next;
        if (conn->out_last == file) {
            conn->out_last = piece;
        }
        piece_free(file);
    } else {
        piece->next = file;
    }
    conn->out = piece;
    return true;
}
