/* The spool of an exchange: a queue of memory and of ranges of files, and the fiber that empties
 * it. */
#include "http/exchange/spool.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fatal.h"
#include "base/fs.h"
#include "http/files/file.h"
#include "http/request/engine.h"
#include "http/request/temp_file.h"
#include "http/request/wire.h"
#include "http/routing/file_settings.h"
#include "server/generation.h"

/* A part of the queue: a chunk of memory, or a range of a file. */
struct part {
    struct part *next;
    int fd;          /* of a range; -1 = memory */
    uint64_t offset; /* of the range */
    uint64_t size;   /* bytes in it */
    uint32_t room;   /* bytes of a chunk */
    struct spool *spool;
    char bytes[]; /* of a chunk */
};

struct spool {
    struct exchange *exchange;
    struct fiber_handle reader; /* gives the client what is here */
    struct wait_point filled;   /* something came, or no more will */
    struct wait_point emptied;  /* something went */
    struct part *first, *last;
    uint64_t in_memory; /* bytes of chunks, those on their way to the client too */
    uint64_t memory_max;
    int fd;              /* temporary file, or -1 */
    uint64_t file_end;   /* bytes written to it */
    uint64_t file_left;  /* bytes of it that the client was not given yet */
    bool never_waits;    /* what does not fit ends the request */
    bool is_last;        /* no more comes */
    bool is_whole;       /* the last byte that comes ends the response */
    bool has_failed;     /* the client is gone */
    unsigned references; /* the exchange, and each chunk in the output queue */
};

static void spool_release(struct spool *spool)
{
    if (--spool->references == 0) {
        free(spool);
    }
}

/* A chunk that the socket has taken. */
static void chunk_taken(void *arg)
{
    struct part *part = arg;
    struct spool *spool = part->spool;

    spool->in_memory -= part->room;
    wait_signal_later(&spool->emptied);
    free(part);
    spool_release(spool);
}

static struct part *spool_take(struct spool *spool)
{
    struct part *part = spool->first;

    spool->first = part->next;
    if (spool->first == NULL) {
        spool->last = NULL;
    }
    return part;
}

/* The next part to the client. MAY WAIT. */
static bool spool_give(struct spool *spool, struct part *part, bool is_last)
{
    struct request *request = spool->exchange->request;
    struct body_piece piece = {.fd = part->fd};

    if (part->fd != -1) {
        piece.offset = (off_t) part->offset;
        piece.size = part->size;
        if (part->fd == spool->fd) {
            spool->file_left -= part->size;
        }
        free(part);
        wait_signal_later(&spool->emptied);
    } else {
        piece.bytes = (struct str){part->bytes, (size_t) part->size};
        piece.release = chunk_taken;
        piece.release_arg = part;
        spool->references++;
    }
    piece.is_flush = spool->first == NULL;
    return piece.fd != -1 ? response_send_file(request, &piece, is_last)
                          : response_send(request, &piece, is_last);
}

/* The fiber that empties the spool. */
static void spool_read(void *arg)
{
    struct spool *spool = arg;
    struct body_piece flush = {.fd = -1, .is_flush = true};

    /* What filters hold of that which went straight to the client. */
    spool->has_failed |= !response_send(spool->exchange->request, &flush, false);
    while (!spool->has_failed) {
        if (spool->first == NULL) {
            if (spool->is_last) {
                if (spool->is_whole && !response_send(spool->exchange->request, NULL, true)) {
                    spool->has_failed = true;
                }
                return;
            }
            if (fiber_wait(&spool->filled, FIBER_NEVER) != WAIT_READY) {
                spool->has_failed = true;
            }
            continue;
        }
        if (!spool_give(spool, spool_take(spool), false)) {
            spool->has_failed = true;
            wait_signal_later(&spool->emptied);
        }
    }
}

static void close_file(void *arg)
{
    close((int) (intptr_t) arg);
}

struct spool *spool_start(struct exchange *x, bool never_waits)
{
    const struct exchange_settings *settings = x->settings;
    struct spool *spool = calloc(1, sizeof(*spool));

    if (spool == NULL) {
        fatal_no_memory(sizeof(*spool));
    }
    spool->exchange = x;
    spool->memory_max = settings->buffers.number * settings->buffers.size;
    spool->fd = -1;
    spool->never_waits = never_waits;
    spool->references = 1;
    if (request_fiber_start(spool_read, spool, &spool->reader) == FIBER_NO_STACK) {
        log_crit(&x->request->log, 0, "no stack for the client of a response");
        free(spool);
        return NULL;
    }
    return spool;
}

static void part_append(struct spool *spool, struct part *part)
{
    part->next = NULL;
    part->spool = spool;
    if (spool->last == NULL) {
        spool->first = part;
    } else {
        spool->last->next = part;
    }
    spool->last = part;
}

static struct part *part_new(size_t room)
{
    struct part *part = malloc(sizeof(*part) + room);

    if (part == NULL) {
        fatal_no_memory(sizeof(*part) + room);
    }
    part->size = 0;
    part->room = (uint32_t) room;
    part->fd = -1;
    return part;
}

/* As much as memory may hold. */
static void put_memory(struct spool *spool, struct str *bytes)
{
    struct part *last = spool->last;
    size_t chunk = (size_t) spool->exchange->settings->buffers.size;

    if (last != NULL && last->fd != -1) {
        return; /* what follows a file's range comes after it */
    }
    while (bytes->len != 0) {
        last = spool->last;
        if (last == NULL || last->size == last->room) {
            if (spool->in_memory + chunk > spool->memory_max) {
                return;
            }
            last = part_new(chunk);
            part_append(spool, last);
            spool->in_memory += chunk;
        }
        size_t n = last->room - last->size;
        n = n < bytes->len ? n : bytes->len;
        memcpy(last->bytes + last->size, bytes->data, n);
        last->size += n;
        *bytes = str_skip(*bytes, n);
    }
}

/* So many bytes were written to the file's end. */
static void put_range(struct spool *spool, uint64_t size)
{
    struct part *part = spool->last;

    if (part == NULL || part->fd == -1) {
        part = part_new(0);
        part->fd = spool->fd;
        part->offset = spool->file_end;
        part_append(spool, part);
    }
    part->size += size;
    spool->file_end += size;
    spool->file_left += size;
}

/* Bytes on their way to a file; on the stack of the fiber that waits for it. */
struct write_job {
    struct thread_job job;
    struct wait_point done;
    struct str bytes;
    int fd;
    bool is_done, is_written;
    int error;
};

static void write_on_thread(struct thread_job *job)
{
    struct write_job *write = container_of(job, struct write_job, job);

    write->is_written = fs_write_all(write->fd, write->bytes);
    write->error = errno;
}

static void write_is_done(struct thread_job *job)
{
    struct write_job *write = container_of(job, struct write_job, job);

    write->is_done = true;
    wait_signal(&write->done);
}

/* With aio_write and `aio threads` a thread waits for the disk, not the worker. False: errno. MAY
 * WAIT. */
static bool write_bytes(struct request *request, int fd, struct str bytes)
{
    struct write_job write = {.job = {.work = write_on_thread, .done = write_is_done},
                              .fd = fd,
                              .bytes = bytes};
    const struct http_location *location = request->location;
    bool is_offloaded = location->files->aio_write && location->files->aio == AIO_THREADS;
    struct thread_pool *pool = is_offloaded ? request_thread_pool(request) : NULL;

    if (pool == NULL || !thread_pool_submit(pool, &write.job)) {
        return fs_write_all(fd, bytes);
    }
    fiber_shield_begin();
    while (!write.is_done) {
        fiber_wait(&write.done, FIBER_NEVER);
    }
    fiber_shield_end();
    errno = write.error;
    return write.is_written;
}

/*
 * As much as the temporary file may hold: all of what is stored, or those who wait for it would
 * wait for a client that reads slowly. False: it cannot be written.
 */
static bool put_file(struct spool *spool, struct str *bytes)
{
    struct exchange *x = spool->exchange;
    uint64_t limit = x->cache.is_kept ? UINT64_MAX : x->settings->max_temp_file_size;

    if (limit == 0 || spool->file_left >= limit) {
        return true;
    }
    if (spool->fd == -1) {
        struct str name;

        spool->fd = temp_file_open(x->request, x->settings->temp_path, &name);
        if (spool->fd == -1) {
            return false;
        }
        unlink(name.data);
        arena_on_free(&x->request->arena, close_file, (void *) (intptr_t) spool->fd);
        log_warn(&x->request->log, 0, "an upstream response is buffered to a temporary file %.*s",
                 STR_ARG(name));
    }
    size_t n =
        limit - spool->file_left < bytes->len ? (size_t) (limit - spool->file_left) : bytes->len;
    if (!write_bytes(x->request, spool->fd, str_head(*bytes, n))) {
        log_crit(&x->request->log, errno, "write() to a temporary file failed");
        return false;
    }
    put_range(spool, n);
    *bytes = str_skip(*bytes, n);
    return true;
}

bool spool_put(struct spool *spool, struct str bytes)
{
    while (bytes.len != 0) {
        if (spool->has_failed) {
            return false;
        }
        put_memory(spool, &bytes);
        if (bytes.len != 0 && !put_file(spool, &bytes)) {
            return false;
        }
        wait_signal_later(&spool->filled);
        if (bytes.len != 0 && spool->never_waits) {
            counters_mine->limited++;
            log_error(&spool->exchange->request->log, 0,
                      "client falls behind by more than may be kept of an upstream response, and "
                      "the connection to the upstream is shared");
            return false;
        }
        if (bytes.len != 0 && fiber_wait(&spool->emptied, FIBER_NEVER) != WAIT_READY) {
            return false;
        }
    }
    return !spool->has_failed;
}

static void drop_rest(struct spool *spool)
{
    while (spool->first != NULL) {
        struct part *part = spool_take(spool);

        free(part);
    }
    spool_release(spool);
}

bool spool_finish(struct spool *spool, bool is_whole)
{
    struct request *request = spool->exchange->request;

    spool->is_last = true;
    spool->is_whole = is_whole;
    if (is_whole && request->wire->leave != NULL && request->response.filters == NULL &&
        !response_reads_files(request)) {
        request->wire->leave(request);
    }
    wait_signal_later(&spool->filled);
    bool is_joined = fiber_join(&spool->reader, FIBER_NEVER) == WAIT_READY;
    if (!is_joined) {
        fiber_cancel_and_join(&spool->reader);
    }
    bool is_given = is_joined && !spool->has_failed;
    drop_rest(spool);
    return is_given;
}

void spool_abort(struct spool *spool)
{
    spool->has_failed = true;
    wait_signal_later(&spool->filled);
    fiber_cancel_and_join(&spool->reader);
    drop_rest(spool);
}
