/* The output queue: pieces of pooled chunks, of memory that others own, and of files, in order. */
#include "net/conn/conn.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fatal.h"
#include "net/conn/private.h"

#define CHUNKS_KEPT 64    /* free chunks: 1 MB */
#define PIECES_KEPT 512   /* free pieces */
#define COPY_AT_MOST 1024 /* bytes; copying them is cheaper than a reference */

static struct out_chunk *free_chunks; /* last in, first out: the one in the CPU's cache is reused */
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

void out_piece_free(struct out_piece *piece)
{
    struct out_chunk *chunk = piece->chunk;

    bool is_in_chunk = chunk != NULL && piece == &chunk->first; /* such a piece has no release */
    void (*release)(void *) = is_in_chunk ? NULL : piece->release;
    void *arg = piece->arg;

    if (!is_in_chunk && free_piece_count < PIECES_KEPT) {
        piece->next = free_pieces;
        free_pieces = piece;
        free_piece_count++;
    } else if (!is_in_chunk) {
        free(piece);
    }
    if (chunk != NULL && --chunk->refs == 0) {
        if (free_chunk_count < CHUNKS_KEPT) {
            chunk->next_free = free_chunks;
            free_chunks = chunk;
            free_chunk_count++;
        } else {
            free(chunk);
        }
    }
    if (release != NULL) {
        release(arg);
    }
}

/* ---- the queue ---- */

static void piece_append(struct conn *conn, struct out_piece *piece)
{
    if (conn->out == NULL) {
        conn->out = piece;
    } else {
        conn->out_last->next = piece;
    }
    conn->out_last = piece;
}

/* Closes the last piece, which is open: nothing is added to it. */
static void seal(struct conn *conn)
{
    struct out_chunk *chunk = conn->out_last->chunk;

    conn->out_last->size = (uint64_t) (conn->out_at - conn->out_last->at);
    chunk->used = (uint32_t) (conn->out_at - chunk->bytes);
    conn->out_at = conn->out_end = NULL;
}

char *conn_out_grow(struct conn *conn, size_t size)
{
    assert(size <= OUT_CHUNK_SIZE);
    if (conn->out_at != NULL) {
        seal(conn);
    }
    struct out_chunk *chunk = conn->out == NULL ? NULL : conn->out_last->chunk;
    struct out_piece *piece;

    if (chunk != NULL && OUT_CHUNK_SIZE - chunk->used >= size && size != 0) {
        piece = piece_new(OUT_BYTES, chunk);
    } else {
        /* The first piece of a new chunk is stored in the chunk. */
        chunk = chunk_new();
        chunk->refs = 1;
        piece = &chunk->first;
        piece->next = NULL;
        piece->chunk = chunk;
        piece->kind = OUT_BYTES;
    }
    piece->size = 0;
    piece->at = conn->out_at = chunk->bytes + chunk->used;
    conn->out_end = chunk->bytes + OUT_CHUNK_SIZE;
    piece_append(conn, piece);
    return conn->out_at;
}

void conn_write_long(struct conn *conn, struct str bytes)
{
    while (bytes.len != 0) {
        size_t space = (size_t) (conn->out_end - conn->out_at);

        if (space == 0) {
            conn_out_grow(conn, 1);
            space = (size_t) (conn->out_end - conn->out_at);
        }
        size_t n = space < bytes.len ? space : bytes.len;
        memcpy(conn->out_at, bytes.data, n);
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
    piece_append(conn, piece);
    conn->queued += size;
    if (conn->is_broken) {
        conn_out_drop(conn);
    }
}

/* A new piece, after which bytes may continue in the chunk that is in use. */
static struct out_piece *reference_new(struct conn *conn, enum out_kind kind)
{
    if (conn->out_at != NULL) {
        seal(conn);
    }
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

void conn_write_file(struct conn *conn, int fd, struct file_range range, void (*release)(void *),
                     void *arg)
{
    if (range.size == 0) {
        if (release != NULL) {
            release(arg);
        }
        return;
    }
    struct out_piece *piece = reference_new(conn, OUT_FILE);
    piece->fd = fd;
    piece->offset = range.offset;
    append_reference(conn, piece, range.size, release, arg);
}

void out_advance(struct conn *conn, uint64_t n)
{
    struct out_piece *piece = conn->out;

    conn->sent += n;
    while (piece != NULL && n >= piece->size) {
        n -= piece->size;
        conn->out = piece->next;
        out_piece_free(piece);
        piece = conn->out;
    }
    if (piece == NULL) {
        conn->out_at = conn->out_end = NULL;
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

void conn_out_drop(struct conn *conn)
{
    struct out_piece *piece;

    conn->queued = conn->sent;
    conn->out_at = conn->out_end = NULL;
    while ((piece = conn->out) != NULL) {
        conn->out = piece->next;
        out_piece_free(piece);
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
        out_piece_free(piece);
        errno = error;
        return false;
    }
    chunk->used = OUT_CHUNK_SIZE; /* nothing may be written after it */
    piece->at = chunk->bytes;
    piece->size = (uint64_t) n;
    file->offset += n;
    file->size -= (uint64_t) n;
    if (file->size == 0) {
        /* It replaces the file's piece: release is called when these bytes were sent. */
        piece->release = file->release;
        piece->arg = file->arg;
        file->release = NULL;
        piece->next = file->next;
        if (conn->out_last == file) {
            conn->out_last = piece;
        }
        out_piece_free(file);
    } else {
        piece->next = file;
    }
    conn->out = piece;
    return true;
}
