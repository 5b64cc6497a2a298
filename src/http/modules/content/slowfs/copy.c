/* Copies slow files into the cache. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fatal.h"
#include "base/list.h"
#include "fiber/fiber.h"
#include "http/modules/content/slowfs/slowfs.h"
#include "server/generation.h"

#define COPIES_MOST 64     /* copies in progress at one time, in this worker */
#define PART (128u * 1024) /* bytes of one read */

/* One read, on a thread. */
struct part {
    int fd;
    off_t offset;
    ssize_t n;        /* bytes, or -1 */
    int error;        /* errno of -1 */
    struct stat info; /* from fstat() after the read */
    char bytes[PART];
};

struct slow_copy {
    struct list node;                    /* in `copies` */
    const struct generation *generation; /* whose cache is filled */
    struct fiber *fiber;                 /* the copying fiber while it waits */
    struct arena arena;                  /* for strings of `access` */
    struct log log;                      /* sinks and level of the request's log */
    struct cache_access access;          /* of the copy, not the request's */
    struct file *file;                   /* the source; referenced */
    struct wanted_path *temp_path;
    uint64_t seconds; /* how long the copy is fresh */
    struct part part;
};

static struct list copies;
static unsigned copy_count;
static const struct generation
    *ended; /* set while the worker ends: its copies are abandoned, and no new ones begin */

static void read_part(void *arg)
{
    struct part *part = arg;

    do {
        part->n = pread(part->fd, part->bytes, sizeof(part->bytes), part->offset);
    } while (part->n == -1 && errno == EINTR);
    if (part->n != -1 && fstat(part->fd, &part->info) != 0) {
        part->n = -1;
    }
    part->error = errno;
}

/* Do the size and times show that the file is unchanged since it was opened? */
static bool slowfs_copy_is_same(const struct file *file, const struct stat *info)
{
    return (uint64_t) info->st_size == file->size &&
           info->st_mtim.tv_sec == file->mtime_ns.tv_sec &&
           info->st_mtim.tv_nsec == file->mtime_ns.tv_nsec &&
           info->st_ctim.tv_sec == file->ctime_ns.tv_sec &&
           info->st_ctim.tv_nsec == file->ctime_ns.tv_nsec;
}

/* False: the copy must be discarded. MAY WAIT. */
static bool copy_bytes(struct slow_copy *copy)
{
    struct thread_pool *pool =
        worker_own_thread_pool(slowfs_pool.name, slowfs_pool.threads, slowfs_pool.queue);
    struct part *part = &copy->part;

    part->fd = copy->file->fd;
    while (pool != NULL && (uint64_t) part->offset < copy->file->size) {
        if (thread_pool_call(pool, read_part, part) != THREAD_CALL_DONE || fiber_is_cancelled()) {
            return false;
        }
        if (part->n < 0) {
            log_crit(&copy->log, part->error, "pread() \"%.*s\" failed", STR_ARG(copy->file->path));
            return false;
        }
        if (part->n == 0 || !slowfs_copy_is_same(copy->file, &part->info)) {
            log_info(&copy->log, 0, "\"%.*s\" was changed while it was copied",
                     STR_ARG(copy->file->path));
            return false;
        }
        if (!cache_fill_write(&copy->access, (struct str){part->bytes, (size_t) part->n})) {
            return false;
        }
        part->offset += part->n;
    }
    return pool != NULL;
}

static void copy_end(struct slow_copy *copy)
{
    list_remove(&copy->node);
    copy_count--;
    cache_close(&copy->access);
    file_release(copy->file);
    arena_free(&copy->arena);
    free(copy);
}

/* The fiber. */
static void make_copy(void *arg)
{
    struct slow_copy *copy = arg;
    struct cache_access *access = &copy->access;
    struct slowfs_head head;
    struct cache_meta meta;

    copy->fiber = fiber_self();
    if (cache_open(access) != CACHE_FRESH && cache_claim(access, SLOWFS_CLAIM_MS) &&
        cache_fill_begin(access, copy->temp_path)) {
        if (copy_bytes(copy)) {
            slowfs_meta(copy->file, 200, copy->seconds, &head, &meta);
            cache_fill_commit(access, &meta);
        }
    }
    copy_end(copy);
}

static struct slow_copy *copy_new(const struct request *request, const struct cache_access *access,
                                  struct file *file, uint64_t seconds)
{
    const struct slowfs_settings *settings = location_settings(request->location, &slowfs_key);
    struct slow_copy *copy = malloc(sizeof(*copy));

    if (copy == NULL) {
        fatal_no_memory(sizeof(*copy));
    }
    memset(copy, 0, offsetof(struct slow_copy, part.bytes));
    arena_init(&copy->arena);
    copy->log = (struct log){.sinks = request->log.sinks, .level = request->log.level};
    copy->access = (struct cache_access){
        .cache = access->cache,
        .arena = &copy->arena,
        .log = &copy->log,
        .key = arena_dup(&copy->arena, access->key),
        .min_uses = access->min_uses,
        .rounds = access->rounds,
    };
    copy->generation = generation_now;
    copy->file = file;
    file->references++;
    copy->temp_path = settings->temp_path;
    copy->seconds = seconds;
    return copy;
}

bool slowfs_copy_begin(const struct request *request, const struct cache_access *access,
                       struct file *file, uint64_t seconds)
{
    if (generation_now == ended || (int64_t) file->size > access->cache->max_size) {
        return false;
    }
    if (copy_count >= COPIES_MOST) {
        counters_mine->limited++;
        log_error(&request->log, 0, "too many files are being copied, \"%.*s\" is not",
                  STR_ARG(file->path));
        return false;
    }
    if (copies.next == NULL) {
        list_init(&copies);
    }
    struct slow_copy *copy = copy_new(request, access, file, seconds);
    list_push_back(&copies, &copy->node);
    copy_count++;
    if (fiber_start(make_copy, copy, NULL) == FIBER_NO_STACK) {
        copy_end(copy);
        return false;
    }
    return true;
}

void slowfs_copies_end(const struct generation *generation)
{
    ended = generation;
    if (copies.next == NULL) {
        return;
    }
    list_each(item, &copies) {
        struct slow_copy *copy = container_of(item, struct slow_copy, node);

        if (copy->generation == generation) {
            fiber_cancel(copy->fiber);
        }
    }
}
