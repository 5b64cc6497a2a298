/* What the files of connections share among themselves; private to this package. */
#ifndef NET_CONN_PRIVATE_H
#define NET_CONN_PRIVATE_H

#include "net/conn/conn.h"

/* What a piece of output is made of. */
enum out_kind {
    OUT_BYTES,  /* bytes inside a chunk */
    OUT_MEMORY, /* bytes that somebody else owns */
    OUT_FILE    /* a range of a file */
};

struct out_chunk;

/*
 * One stretch of output; the queue keeps their order. Pooled, or the first of a chunk and in it.
 * While conn.out_at is set, the last one is open: it reaches to there, whatever its size says.
 */
struct out_piece {
    struct out_piece *next;
    struct out_chunk *chunk; /* where bytes after this piece may go on, one reference; or NULL */
    enum out_kind kind;
    int fd; /* OUT_FILE: not owned */
    union {
        const char *at; /* OUT_BYTES, OUT_MEMORY: the first unsent byte */
        off_t offset;   /* OUT_FILE: likewise */
    };
    uint64_t size;           /* bytes not sent yet */
    void (*release)(void *); /* when all was sent or dropped; or NULL */
    void *arg;               /* of release */
};

/* Memory that written bytes are copied to; shared by the pieces that lie in it. Pooled. */
struct out_chunk {
    struct out_chunk *next_free; /* in the pool */
    uint32_t refs;               /* pieces that point here */
    uint32_t used;               /* bytes taken; too low while its last piece is open */
    struct out_piece first;      /* so that a queue of one chunk takes nothing else */
    char bytes[OUT_CHUNK_SIZE];
};

/* ---- conn.c ---- */

/* Tells the owner that there is input, an end or an error, then sends what it wrote. */
void conn_call_input(struct conn *conn);

/* Has broken: nothing goes out any more. The owner learns it from is_broken. */
void conn_break(struct conn *conn, int error);

/* ---- output.c ---- */

/* Takes n sent bytes off the head of the queue. */
void out_advance(struct conn *conn, uint64_t n);

/* Gives a piece back that has left the queue, and tells its owner. */
void out_piece_free(struct out_piece *piece);

/*
 * Turns the head of a file piece at the head of the queue into bytes; false with errno (EIO: it
 * ended early).
 */
bool out_load_file(struct conn *conn, uint64_t limit);

/* ---- flush.c ---- */

/*
 * The flush of the loop's own accord: sends, then tells fiber and owner. The connection may be gone
 * after.
 */
void conn_flush_from_loop(struct conn *conn);

/* deferred.run of conn.flush. */
void conn_flush_deferred(struct deferred *deferred);

#endif
