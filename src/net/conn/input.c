/* The input of connections: pooled buffers, and as few reads as possible. */
#define _GNU_SOURCE
#include "net/conn/conn.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/fatal.h"
#include "net/conn/private.h"

/* ---- buffers ---- */

#define BUFFER_SHIFT 9 /* the smallest buffers: 512 bytes */
/* Each twice as large as the one before, up to 64 KB; larger buffers come from malloc. */
#define BUFFER_CLASSES 8
#define CLASS_KEPT_BYTES (256u * 1024) /* free buffers kept in each class */

/* A free buffer begins with the pointer to the next one. */
struct free_buffer {
    struct free_buffer *next;
};

static struct buffer_class {
    struct free_buffer *free; /* last in, first out */
    uint32_t kept;            /* buffers in free */
} classes[BUFFER_CLASSES];

/* The class for buffers of at least `size` bytes; BUFFER_CLASSES = none. */
static inline unsigned class_of(uint32_t size)
{
    if (size <= 1u << BUFFER_SHIFT) {
        return 0;
    }
    unsigned class = 32 - (unsigned) __builtin_clz(size - 1) - BUFFER_SHIFT;
    return class < BUFFER_CLASSES ? class : BUFFER_CLASSES;
}

char *conn_buffer_alloc(uint32_t size)
{
    unsigned class = class_of(size);
    size_t space = size;

    if (class < BUFFER_CLASSES) {
        struct free_buffer *buffer = classes[class].free;

        if (buffer != NULL) {
            classes[class].free = buffer->next;
            classes[class].kept--;
            return (char *) buffer;
        }
        space = (size_t) 1 << (class + BUFFER_SHIFT);
    }
    char *fresh = malloc(space);
    if (fresh == NULL) {
        fatal_no_memory(space);
    }
    return fresh;
}

void conn_buffer_free(char *buffer, uint32_t size)
{
    unsigned class = class_of(size);

    if (buffer == NULL) {
        return;
    }
    if (class < BUFFER_CLASSES &&
        classes[class].kept < CLASS_KEPT_BYTES >> (class + BUFFER_SHIFT)) {
        struct free_buffer *item = (struct free_buffer *) buffer;

        item->next = classes[class].free;
        classes[class].free = item;
        classes[class].kept++;
        return;
    }
    free(buffer);
}

void conn_buffer_release(void *arg)
{
    struct conn_buffer *buffer = arg;

    conn_buffer_free(buffer->data, buffer->size);
}

void conn_input_release(struct conn *conn)
{
    if (conn->in != NULL && conn->in_start == conn->in_end) {
        conn_buffer_free(conn->in, conn->in_size);
        conn->in = NULL;
        conn->in_size = conn->in_start = conn->in_end = 0;
    }
}

char *conn_input_detach(struct conn *conn, uint32_t *size)
{
    char *taken = conn->in;
    uint32_t unread = conn_input_len(conn);

    *size = conn->in_size;
    conn->in = NULL;
    if (unread == 0) {
        conn->in_size = 0;
    } else {
        conn->in = conn_buffer_alloc(conn->in_size);
        memcpy(conn->in, taken + conn->in_start, unread);
    }
    conn->in_start = 0;
    conn->in_end = unread;
    return taken;
}

void conn_input_replace(struct conn *conn, size_t used, struct str bytes)
{
    struct str rest = str_skip(conn_input(conn), used);
    size_t size = bytes.len + rest.len;

    assert(used <= conn_input_len(conn) && size <= UINT32_MAX);
    if (size <= conn->in_size) {
        memmove(conn->in + bytes.len, rest.data, rest.len);
        str_put(conn->in, bytes);
    } else {
        char *larger = conn_buffer_alloc((uint32_t) size);

        str_put(str_put(larger, bytes), rest);
        conn_buffer_free(conn->in, conn->in_size);
        conn->in = larger;
        conn->in_size = (uint32_t) size;
    }
    conn->in_start = 0;
    conn->in_end = (uint32_t) size;
}

/* ---- the predictor ---- */

/*
 * Whether the first bytes of a connection arrive with it (the client sends its request right after
 * connect, or TCP_DEFER_ACCEPT is set) is much the same for all connections, so a saturating
 * counter predicts it. When the prediction is no, one connection in PROBE_EVERY is read at once
 * nevertheless.
 */
#define EXPECT_MAX 7u
#define EXPECT_YES 3u
#define PROBE_EVERY 32u

static unsigned expectation = EXPECT_MAX;
static unsigned probe_turn;

bool conn_expects_input(void)
{
    return expectation >= EXPECT_YES || ++probe_turn % PROBE_EVERY == 0;
}

static void expectation_learn(struct conn *conn, bool came)
{
    conn->is_fresh = 0;
    if (conn->source.is_registered) {
        return; /* the read had waited for input, which proves nothing */
    }
    if (came) {
        expectation += expectation < EXPECT_MAX;
    } else {
        expectation -= expectation > 0;
    }
}

#define LAST_FIRST 4096u /* size of the first buffer of conn_fill_last */

/* ---- reading ---- */

/* Updates the state of the connection after a read of `size` bytes that gave n, with errno. Gives
 * n. */
static inline __attribute__((always_inline)) ssize_t note_read(struct conn *conn, ssize_t n,
                                                               size_t size)
{
    if (conn->is_fresh) {
        expectation_learn(conn, n != -1);
    }
    if (n > 0) {
        /* A short read means that a plain socket is empty, unless its end is still to be read. */
        if ((size_t) n < size && conn->transport == NULL && !conn->is_peer_closed) {
            conn->is_readable = 0;
        }
        return n;
    }
    conn->is_readable = 0;
    if (n == 0) {
        conn->is_input_closed = conn->is_peer_closed = 1;
    } else if (errno != EAGAIN) {
        int error = errno;

        conn_break(conn, error);
        errno = error;
    }
    return n;
}

/*
 * Reads once, up to `size` bytes to `at`, and updates the state of the connection. Gives bytes, 0
 * for the end, or -1 with errno: EAGAIN or the failure.
 */
static inline __attribute__((always_inline)) ssize_t read_once(struct conn *conn, char *at,
                                                               size_t size)
{
    ssize_t n;

    do {
        n = conn->transport == NULL ? recv(conn->source.fd, at, size, 0)
                                    : conn->transport->recv(conn, at, size);
    } while (n == -1 && errno == EINTR);
    return note_read(conn, n, size);
}

/* Makes space after the unread bytes: moves them to the front, or to a larger buffer. */
static bool input_grow(struct conn *conn, size_t first_size, size_t max_size)
{
    uint32_t unread = conn_input_len(conn);

    if (conn->in_start != 0 && (unread < conn->in_size / 2 || conn->in_size >= max_size)) {
        memmove(conn->in, conn->in + conn->in_start, unread);
    } else if (conn->in_size < max_size) {
        size_t wanted = conn->in_size < first_size / 2 ? first_size : conn->in_size * (size_t) 2;
        uint32_t size = (uint32_t) (wanted < max_size ? wanted : max_size);
        char *bigger = conn_buffer_alloc(size);

        memcpy(bigger, conn->in + conn->in_start, unread);
        conn_buffer_free(conn->in, conn->in_size);
        conn->in = bigger;
        conn->in_size = size;
    } else {
        return false;
    }
    conn->in_start = 0;
    conn->in_end = unread;
    return true;
}

/* Makes space after in_end. False: the buffer is full and as large as allowed. */
static inline __attribute__((always_inline)) bool input_make_room(struct conn *conn,
                                                                  size_t first_size,
                                                                  size_t max_size)
{
    if (conn->in == NULL) {
        conn->in_size = (uint32_t) (first_size < max_size ? first_size : max_size);
        conn->in = conn_buffer_alloc(conn->in_size);
        return true;
    }
    if (conn->in_start == conn->in_end) {
        conn->in_start = conn->in_end = 0;
        return true;
    }
    return conn->in_end < conn->in_size || input_grow(conn, first_size, max_size);
}

bool conn_fill(struct conn *conn, size_t first_size, size_t max_size)
{
    CHECK_MAGIC(conn, CONN_MAGIC);
    if (!conn->is_readable || conn->is_input_closed || conn->is_input_paused) {
        return false;
    }
    bool had_buffer = conn->in != NULL;
    if (!input_make_room(conn, first_size, max_size)) {
        return false;
    }
    ssize_t n = read_once(conn, conn->in + conn->in_end, conn->in_size - conn->in_end);
    if (n > 0) {
        conn->in_end += (uint32_t) n;
        return true;
    }
    if (!had_buffer) {
        conn_input_release(conn);
    }
    return false;
}

void conn_fill_last(struct conn *conn, size_t max_size)
{
    CHECK_MAGIC(conn, CONN_MAGIC);
    ssize_t n = 1;

    if (!conn->is_broken || conn->transport != NULL || conn->is_input_closed) {
        return;
    }
    while (n > 0 && input_make_room(conn, LAST_FIRST, max_size)) {
        n = recv(conn->source.fd, conn->in + conn->in_end, conn->in_size - conn->in_end,
                 MSG_DONTWAIT);
        conn->in_end += n > 0 ? (uint32_t) n : 0;
    }
}

/* May the socket be read? If not, *n and errno get the result of the read: 0, or -1 with errno. */
static bool may_read(const struct conn *conn, size_t size, ssize_t *n)
{
    if (conn->is_broken) {
        errno = conn->error;
        return false;
    }
    if (conn->is_input_closed) {
        *n = 0;
        return false;
    }
    errno = EAGAIN;
    return conn->is_readable && !conn->is_input_paused && size != 0;
}

ssize_t conn_read(struct conn *conn, void *at, size_t size)
{
    size_t unread = conn_input_len(conn);

    if (unread != 0) {
        size_t n = unread < size ? unread : size;

        memcpy(at, conn->in + conn->in_start, n);
        conn_consume(conn, n);
        return (ssize_t) n;
    }
    ssize_t n = -1;
    return may_read(conn, size, &n) ? read_once(conn, at, size) : n;
}

ssize_t conn_splice_in(struct conn *conn, int pipe, size_t size)
{
    ssize_t n = -1;

    assert(conn->transport == NULL && conn->in_start == conn->in_end);
    if (!may_read(conn, size, &n)) {
        return n;
    }
    do {
        n = splice(conn->source.fd, NULL, pipe, NULL, size, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
    } while (n == -1 && errno == EINTR);
    /* A short count may be due to the pipe, which counts buffers of packets and not bytes. */
    return note_read(conn, n, 0);
}

/* Waits until the loop reports an event of the input, or the connection breaks. MAY WAIT. */
static enum wait_result wait_for_report(struct conn *conn, uint64_t deadline_ms)
{
    /* The flags of the connection are the state; an earlier signal would only cause a needless
     * wakeup. */
    conn->input_wait.is_signalled = false;
    if (!conn->source.is_registered && !conn_watch(conn)) {
        conn_break(conn, errno);
        return WAIT_READY;
    }
    return fiber_wait(&conn->input_wait, deadline_ms);
}

enum wait_result conn_wait_input(struct conn *conn, uint64_t deadline_ms)
{
    enum wait_result result = WAIT_READY;

    while (result == WAIT_READY && !conn->is_readable && !conn->is_input_closed &&
           !conn->is_broken) {
        result = wait_for_report(conn, deadline_ms);
    }
    return result;
}

enum wait_result conn_wait_peer_closed(struct conn *conn, uint64_t deadline_ms)
{
    enum wait_result result = WAIT_READY;

    while (result == WAIT_READY && !conn->is_peer_closed && !conn->is_input_closed &&
           !conn->is_broken) {
        result = wait_for_report(conn, deadline_ms);
    }
    return result;
}

void conn_wake_input(struct conn *conn)
{
    wait_signal(&conn->input_wait);
}

bool conn_peer_is_gone(struct conn *conn)
{
    char byte;

    if (conn->is_broken || conn->is_input_closed) {
        return true;
    }
    if (!conn->is_peer_closed || conn->in_start != conn->in_end) {
        return false;
    }
    if (conn->transport != NULL) {
        return false; /* only a read can interpret the close */
    }
    ssize_t n = recv(conn->source.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return n == 0 || (n == -1 && errno != EAGAIN && errno != EINTR);
}
