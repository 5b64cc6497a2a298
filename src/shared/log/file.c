/* Collects lines of access logs in memory, and writes them together: at the end of a turn, or when
 * a buffer is full. */
#include "shared/log/file.h"

#include <errno.h>
#include <unistd.h>

#include "base/clock.h"
#include "config.h"

#ifdef HAVE_ZLIB
#include <zlib.h>
#endif

/* If there are more bytes than this, they are written within the turn. */
#define PENDING_MAX (64 * 1024)
#define REPORT_INTERVAL_MS 1000

/* ---- writing ---- */

bool log_write_lines(int fd, struct str text, bool *is_torn)
{
    size_t done = 0;

    while (done < text.len) {
        ssize_t n = write(fd, text.data + done, text.len - done);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            *is_torn = done != 0 && text.data[done - 1] != '\n';
            errno = n == 0 ? ENOSPC : errno;
            return false;
        }
        done += (size_t) n;
    }
    return true;
}

/* Lines that cannot be written are lost; their requests are not affected. */
static __attribute__((cold)) void tell_failure(struct log_lines *lines, const char *what, int error)
{
    if (clock_now.now_ms < lines->next_report_ms) {
        return;
    }
    lines->next_report_ms = clock_now.now_ms + REPORT_INTERVAL_MS;
    log_alert(log_main, error, "%s \"%.*s\" failed, lines are lost", what,
              STR_ARG(lines->file->path));
}

static void write_text(struct log_lines *lines, struct str text)
{
    struct log_file *file = lines->file;

    if (file->fd < 0 || (file->full_since != 0 && file->full_since == clock_now.seconds)) {
        return;
    }
    if (lines->is_torn) {
        bool ignored;
        if (!log_write_lines(file->fd, STR("\n"), &ignored)) {
            file->full_since = errno == ENOSPC ? clock_now.seconds : 0;
            return;
        }
        lines->is_torn = false;
    }
    file->full_since = 0;
    if (!log_write_lines(file->fd, text, &lines->is_torn)) {
        file->full_since = errno == ENOSPC ? clock_now.seconds : 0;
        tell_failure(lines, "write() to", errno);
    }
}

#ifdef HAVE_ZLIB
/* Writes one complete member of a gzip file (RFC 1952). */
static void write_compressed(struct log_lines *lines, struct str text)
{
    z_stream stream = {0};

    if (deflateInit2(&stream, lines->buffering.gzip_level, Z_DEFLATED, MAX_WBITS + 16,
                     MAX_MEM_LEVEL - 1, Z_DEFAULT_STRATEGY) != Z_OK) {
        tell_failure(lines, "deflateInit2() for", ENOMEM);
        return;
    }
    size_t capacity = deflateBound(&stream, text.len);
    struct buf out = {0};
    stream.next_in = (unsigned char *) (uintptr_t) text.data;
    stream.avail_in = (unsigned) text.len;
    stream.next_out = (unsigned char *) buf_reserve(&out, capacity);
    stream.avail_out = (unsigned) capacity;
    if (deflate(&stream, Z_FINISH) == Z_STREAM_END) {
        write_text(lines, (struct str){out.data, stream.total_out});
        lines->is_torn = false; /* an incomplete member is not an incomplete line */
    } else {
        tell_failure(lines, "deflate() for", EIO);
    }
    deflateEnd(&stream);
    buf_free(&out);
}
#endif

/* Writes the first `size` bytes of pending; the others stay. */
static void write_pending(struct log_lines *lines, size_t size)
{
    struct buf *pending = &lines->pending;
    struct str text = {pending->data, size};

    lines->flush.deadline_ms = NO_DEADLINE;
    if (size == 0) {
        return;
    }
#ifdef HAVE_ZLIB
    if (lines->buffering.gzip_level != 0) {
        write_compressed(lines, text);
    } else {
        write_text(lines, text);
    }
#else
    write_text(lines, text);
#endif
    pending->len -= size;
    if (pending->len != 0) {
        memmove(pending->data, pending->data + size, pending->len);
    }
}

/* ---- collecting ---- */

void log_lines_added(struct log_lines *lines, size_t start)
{
    const struct log_buffering *buffering = &lines->buffering;
    struct buf *pending = &lines->pending;

    if (buffering->size == 0) {
        if (pending->len >= PENDING_MAX) {
            write_pending(lines, pending->len);
        } else if (list_is_empty(&lines->write.node)) {
            loop_defer_last(&lines->write);
        }
        return;
    }
    if (pending->len > buffering->size) {
        /* Write the earlier lines first; the new one waits, unless it is too long itself. */
        write_pending(lines, start);
        if (pending->len > buffering->size) {
            write_pending(lines, pending->len);
        }
    }
    if (buffering->flush_ms != 0 && pending->len != 0 && lines->flush.deadline_ms == NO_DEADLINE) {
        timer_set(&lines->flush, clock_now.now_ms + buffering->flush_ms);
    }
}

static void write_deferred(struct deferred *deferred)
{
    struct log_lines *lines = container_of(deferred, struct log_lines, write);

    write_pending(lines, lines->pending.len);
}

static void flush_due(struct timer *timer)
{
    struct log_lines *lines = container_of(timer, struct log_lines, flush);

    write_pending(lines, lines->pending.len);
}

/* Called before a reopen, and when the generation ends. */
static void write_for_file(struct log_file *file)
{
    struct log_lines *lines = file->data;

    write_pending(lines, lines->pending.len);
}

static void lines_free(void *arg)
{
    struct log_lines *lines = arg;

    write_pending(lines, lines->pending.len);
    loop_undefer(&lines->write);
    timer_remove(&lines->flush);
    buf_free(&lines->pending);
    lines->file->flush = NULL;
    lines->file->data = NULL;
}

static bool log_file_is_same(const struct log_buffering *a, const struct log_buffering *b)
{
    return a->size == b->size && a->flush_ms == b->flush_ms && a->gzip_level == b->gzip_level;
}

struct log_lines *log_lines_for(struct conf *conf, const struct conf_node *node, struct str path,
                                const struct log_buffering *buffering)
{
    struct log_file *file = generation_log_file(conf->generation, path);
    struct log_lines *lines = file->data;

    if (lines == NULL) {
        lines = arena_new(conf->arena, struct log_lines);
        lines->file = file;
        deferred_init(&lines->write, write_deferred);
        timer_init(&lines->flush, flush_due);
        file->flush = write_for_file;
        file->data = lines;
        arena_on_free(conf->arena, lines_free, lines);
    }
    /* A line without buffering parameters uses those of the file. */
    if (buffering->size != 0) {
        if (lines->buffering.size != 0 && !log_file_is_same(&lines->buffering, buffering)) {
            conf_error(conf, node,
                       "access_log \"%.*s\" already defined with conflicting parameters",
                       STR_ARG(path));
            return NULL;
        }
        lines->buffering = *buffering;
    }
    return lines;
}
