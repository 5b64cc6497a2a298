/* Shared by the files of this package, private to it. */
#ifndef NET_CONN_PRIVATE_H
#define NET_CONN_PRIVATE_H

#include "net/conn/conn.h"

/* The kinds of output pieces. */
enum out_kind {
    OUT_BYTES,  /* bytes inside a chunk */
    OUT_MEMORY, /* bytes that other code owns */
    OUT_FILE    /* a range of a file */
};

struct out_chunk;

/*
 * A piece of output; the queue keeps their order. Pooled, or the first piece of a chunk and stored
 * in it. While conn.out_at is set the last piece is open: it extends to out_at, whatever its size
 * is.
 */
struct out_piece {
    struct out_piece *next;
    /* Where bytes after this piece may be written, one reference; or NULL. */
    struct out_chunk *chunk;
    enum out_kind kind;
    int fd; /* OUT_FILE: not owned */
    union {
        const char *at; /* OUT_BYTES, OUT_MEMORY: the first unsent byte */
        off_t offset;   /* OUT_FILE: the offset of that byte */
    };
    uint64_t size;           /* bytes not sent yet */
    void (*release)(void *); /* called when all was sent or dropped; or NULL */
    void *arg;               /* of release */
};

/* Memory that written bytes are copied to, shared by the pieces inside it. Pooled. */
struct out_chunk {
    struct out_chunk *next_free; /* while it is free */
    uint32_t refs;               /* pieces that point here */
    uint32_t used;               /* bytes used; not up to date while its last piece is open */
    struct out_piece first; /* stored here so that a queue of one chunk needs no other allocation */
    char bytes[OUT_CHUNK_SIZE];
};

/* ---- conn.c ---- */

/* Calls the owner for input, an end or an error, then sends what it wrote. */
void conn_call_input(struct conn *conn);

/* Marks it broken: nothing is sent any more. The owner sees is_broken. */
void conn_break(struct conn *conn, int error);

/* ---- output.c ---- */

/* Takes n sent bytes off the head of the queue. */
void out_advance(struct conn *conn, uint64_t n);

/* Frees a piece that has left the queue, and calls its release. */
void out_piece_free(struct out_piece *piece);

/*
 * Replaces the head of a file piece at the head of the queue by bytes read from the file. False
 * with errno (EIO: the file ended early).
 */
bool out_load_file(struct conn *conn, uint64_t limit);

/* ---- flush.c ---- */

/*
 * A flush that the loop starts: sends, then wakes the fiber or calls the owner. The connection may
 * be freed when it returns.
 */
void conn_flush_from_loop(struct conn *conn);

/* deferred.run of conn.flush. */
void conn_flush_deferred(struct deferred *deferred);

#endif
