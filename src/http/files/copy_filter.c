/* Reads pieces of files into memory, where sendfile cannot be used or a body filter needs the
 * bytes; output_buffers. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/fatal.h"
#include "http/files/file.h"
#include "http/files/path.h"
#include "http/request/body_filter.h"
#include "http/request/request.h"
#include "http/request/wire.h"
#include "http/routing/file_settings.h"
#include "server/module.h"

#define ALIGNMENT_MAX (1 << 20) /* bytes; limit for directio_alignment */
#define ALIGNMENT 4096          /* of buffers: sufficient for direct I/O on any device */

struct copy_settings {
    /* The size is that of a read; the number is ignored, since the connection limits reading
     * ahead. */
    struct buffers output_buffers;
};

#define S struct copy_settings
static const struct directive rows[] = {
    {"output_buffers", IN_HTTP_ALL, BUFFERS(S, output_buffers), .initial = "2 32k",
     .doc = "Size of the buffer for files that are not sent with sendfile(). The number is "
            "ignored: the amount that is read in advance is limited for each connection."},
    {0},
};
#undef S

static struct settings_key key;

/* ---- reading ---- */

/* One read. On the stack of the fiber, which waits for its end even if it is cancelled. */
struct read_job {
    struct thread_job job;
    struct wait_point done;
    int fd;
    char *at;
    size_t size;
    off_t offset;
    ssize_t n; /* bytes, or -1 */
    int error; /* errno if n is -1 */
};

/* Direct I/O fails for reads that are not aligned as the device requires; then it is turned off. */
static bool leave_direct_io(int fd)
{
    int flags = fcntl(fd, F_GETFL);

    return flags != -1 && (flags & O_DIRECT) != 0 && fcntl(fd, F_SETFL, flags & ~O_DIRECT) == 0;
}

static ssize_t read_now(struct read_job *read)
{
    do {
        read->n = pread(read->fd, read->at, read->size, read->offset);
    } while (read->n == -1 && (errno == EINTR || (errno == EINVAL && leave_direct_io(read->fd))));
    read->error = errno;
    return read->n;
}

static void read_on_thread(struct thread_job *job)
{
    read_now(container_of(job, struct read_job, job));
}

static void read_is_done(struct thread_job *job)
{
    wait_signal(&container_of(job, struct read_job, job)->done);
}

struct thread_pool *request_thread_pool(struct request *request)
{
    const struct template *template = request->location->files->aio_pool;
    struct str name = template == NULL ? STR("default") : template_text(template, &request->env);
    struct thread_pool *pool = worker_thread_pool(name);

    if (pool == NULL) {
        log_error(&request->log, 0, "thread pool \"%.*s\" not found", STR_ARG(name));
    }
    return pool;
}

/* With aio: reads cached data at once, other data on a thread. MAY WAIT. */
static ssize_t read_offloaded(struct request *request, struct read_job *read)
{
    struct iovec iov = {read->at, read->size};
    struct thread_pool *pool;

    read->n = preadv2(read->fd, &iov, 1, read->offset, RWF_NOWAIT);
    if (read->n == (ssize_t) read->size) {
        return read->n;
    }
    pool = request_thread_pool(request);
    read->job.work = read_on_thread;
    read->job.done = read_is_done;
    if (pool == NULL || !thread_pool_submit(pool, &read->job)) {
        return read_now(read);
    }
    fiber_shield_begin();
    fiber_wait(&read->done, FIBER_NEVER);
    fiber_shield_end();
    return read->n;
}

/* A buffer for reads. The last few are kept, because their memory is in the CPU caches and already
 * mapped. */
struct read_buffer {
    struct read_buffer *next; /* next free buffer */
    size_t size;              /* bytes of data */
    char *data;               /* aligned */
};

#define BUFFERS_KEPT 16
#define BUFFER_KEPT_SIZE (256u * 1024) /* larger buffers are not kept */

static struct read_buffer *free_buffers; /* a stack; all have the same size */
static unsigned free_buffer_count;

static void free_buffer(struct read_buffer *buffer)
{
    free(buffer->data);
    free(buffer);
}

static void drop_buffers(void)
{
    while (free_buffers != NULL) {
        struct read_buffer *buffer = free_buffers;

        free_buffers = buffer->next;
        free_buffer(buffer);
    }
    free_buffer_count = 0;
}

static struct read_buffer *take_buffer(size_t size)
{
    struct read_buffer *buffer = free_buffers;

    if (buffer != NULL && buffer->size >= size) {
        free_buffers = buffer->next;
        free_buffer_count--;
        return buffer;
    }
    drop_buffers(); /* they are from another location with smaller output_buffers */
    buffer = malloc(sizeof(*buffer));
    size = (size + ALIGNMENT - 1) & ~(size_t) (ALIGNMENT - 1);
    if (buffer == NULL || (buffer->data = aligned_alloc(ALIGNMENT, size)) == NULL) {
        fatal_no_memory(size);
    }
    buffer->size = size;
    return buffer;
}

static void give_buffer(void *arg)
{
    struct read_buffer *buffer = arg;

    if (free_buffer_count >= BUFFERS_KEPT || buffer->size > BUFFER_KEPT_SIZE ||
        (free_buffers != NULL && free_buffers->size != buffer->size)) {
        free_buffer(buffer);
        return;
    }
    buffer->next = free_buffers;
    free_buffers = buffer;
    free_buffer_count++;
}

/* ---- the filter ---- */

/* The state of reading a piece of a file. */
struct copying {
    int fd;
    off_t offset;    /* of the next byte to read */
    uint64_t left;   /* remaining bytes */
    size_t size;     /* of a read */
    off_t alignment; /* reads begin and end at multiples of this; 1 = anywhere */
};

/* The file is shorter than the header has announced: the connection cannot be kept. */
static bool tell_truncated(struct request *request, const struct copying *copying, ssize_t n,
                           int error)
{
    struct str path;
    size_t root_length;

    request->log.action = "sending response to client";
    if (!request_map_path(request, &path, &root_length)) {
        path = request->uri;
    }
    if (n < 0) {
        log_crit(&request->log, error, "pread() \"%.*s\" failed", STR_ARG(path));
    } else {
        size_t wanted = copying->left < copying->size ? (size_t) copying->left : copying->size;
        log_alert(&request->log, 0, "pread() read only %zd of %zu from \"%.*s\"", n, wanted,
                  STR_ARG(path));
    }
    return false;
}

/* Reads the next part and passes it on. MAY WAIT. */
static bool copy_part(struct body_filter *filter, struct request *request, struct copying *copying,
                      bool is_last)
{
    off_t start = copying->offset - copying->offset % copying->alignment;
    size_t skipped = (size_t) (copying->offset - start);
    size_t wanted = copying->left < copying->size ? (size_t) copying->left : copying->size;
    size_t whole = (skipped + wanted + (size_t) copying->alignment - 1) /
                   (size_t) copying->alignment * (size_t) copying->alignment;
    struct read_buffer *buffer = take_buffer(whole > copying->size ? whole : copying->size);
    struct read_job read = {.fd = copying->fd, .at = buffer->data, .size = whole, .offset = start};
    bool is_offloaded = request->location->files->aio != 0 || request->response.reads_offloaded;
    ssize_t n = is_offloaded ? read_offloaded(request, &read) : read_now(&read);

    if (n < (ssize_t) (skipped + wanted)) {
        give_buffer(buffer);
        return tell_truncated(request, copying, n < (ssize_t) skipped && n >= 0 ? 0 : n,
                              read.error);
    }
    copying->offset += (off_t) wanted;
    copying->left -= wanted;
    struct body_piece piece = {.bytes = {read.at + skipped, wanted},
                               .fd = -1,
                               .release = give_buffer,
                               .release_arg = buffer};
    return body_filter_next(filter, request, &piece, is_last && copying->left == 0);
}

static off_t alignment_at(const struct http_location *location)
{
    int64_t alignment =
        location->files->directio == INT64_MAX ? 1 : location->files->directio_alignment;

    return alignment < 1 ? 1 : alignment > ALIGNMENT_MAX ? ALIGNMENT_MAX : (off_t) alignment;
}

static bool copy_send(struct body_filter *filter, struct request *request,
                      const struct body_piece *piece, bool is_last)
{
    const struct copy_settings *settings = location_settings(request->location, &key);

    if (piece == NULL || piece->bytes.data != NULL || piece->size == 0) {
        return body_filter_next(filter, request, piece, is_last);
    }
    struct copying copying = {
        .fd = piece->fd,
        .offset = piece->offset,
        .left = piece->size,
        .size = settings->output_buffers.size,
        .alignment = alignment_at(request->location),
    };
    bool is_sound = true;
    while (is_sound && copying.left != 0) {
        is_sound = copy_part(filter, request, &copying, is_last) &&
                   (copying.left == 0 || response_goes_on(request));
    }
    if (piece->release != NULL) {
        piece->release(piece->release_arg);
    }
    return is_sound;
}

/* Does the response, or one that includes it, have a filter that needs bytes? */
static bool needs_memory(const struct request *request)
{
    while (request != NULL && !request->response.needs_memory) {
        request = request->parent;
    }
    return request != NULL;
}

bool response_reads_files(const struct request *request)
{
    const struct http_location *location = request->location;
    bool is_read_later = location->files->sendfile || request->main->wire->reads_files;

    return !is_read_later || location->files->aio != 0 || request->response.reads_offloaded ||
           needs_memory(request);
}

bool response_send_file(struct request *request, const struct body_piece *piece, bool is_last)
{
    struct body_filter **at = &request->response.filters;

    while (*at != NULL && (*at)->takes_files) {
        at = &(*at)->next;
    }
    if ((*at == NULL || (*at)->send != copy_send) && response_reads_files(request)) {
        struct body_filter *filter = arena_new(&request->arena, struct body_filter);
        filter->send = copy_send;
        filter->next = *at;
        *at = filter;
    }
    return response_send(request, piece, is_last);
}

const struct module ngx_http_copy_filter_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_copy_filter_module",
    .kind = MODULE_HTTP,
    .table = {.key = &key,
              .rows = rows,
              .contexts = IN_HTTP_ALL,
              .size = sizeof(struct copy_settings)},
};
