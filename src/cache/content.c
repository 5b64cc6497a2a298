/* Contents: small bodies in memory and larger ones as open files, kept by the worker while
 * unchanged. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "cache/internal.h"

enum {
    READ_AT_ONCE = CACHE_KEPT_BODY + 8192, /* first read of a file, in bytes */
    MEMORY_MOST = 32 << 20,                /* bytes of kept contents */
    FILES_MOST = 1024, /* kept descriptors; fewer if the process's limit is low */
    IDLE_SECONDS = 60, /* after so long without use a content is released */
    SWEEP_EVERY_MS = 5000,
    BUCKETS_LEAST = 256,
    GIVEN_AT_ONCE = 16, /* descriptors released at a time when none are left */
    TORN_READS = 3,     /* attempts to read a header that is being written */
};

struct cache_kept cache_kept;

/* ---- references ---- */

void cache_content_hold(struct cache_content *content)
{
    content->references++;
}

void cache_content_release(void *arg)
{
    struct cache_content *content = arg;

    if (content == NULL || --content->references != 0) {
        return;
    }
    if (content->owner != NULL) {
        cache_content_release(content->owner);
    } else if (content->fd != -1) {
        close(content->fd);
    }
    free(content);
}

/* Copies a string to `at` and points it there; gives the end. */
static char *adopt_text(char *at, struct str *text)
{
    char *end = str_put(at, *text);

    text->data = at;
    return end;
}

struct cache_content *cache_content_new(struct cache *cache, struct str key,
                                        const struct cache_meta *meta, struct str body)
{
    size_t texts = key.len + meta->etag.len + meta->vary.len + meta->head.len;
    size_t memory = sizeof(struct cache_content) + texts + body.len;
    struct cache_content *content = malloc(memory);

    if (content == NULL) {
        fatal_no_memory(memory);
    }
    memset(content, 0, sizeof(*content));
    content->references = 1;
    content->fd = -1;
    content->cache = cache;
    content->memory = memory;
    content->meta = *meta;
    content->key = key;
    char *at = adopt_text((char *) (content + 1), &content->key);
    at = adopt_text(at, &content->meta.etag);
    at = adopt_text(at, &content->meta.vary);
    at = adopt_text(at, &content->meta.head);
    if (body.data != NULL) {
        content->body = at;
        adopt_text(at, &body);
    }
    content->body_size = meta->body_size;
    list_init(&content->kept);
    return content;
}

/* ---- kept contents ---- */

uint64_t cache_kept_hash(struct str key, const uint8_t *opened_as)
{
    uint64_t words[2];

    memcpy(words, opened_as, sizeof(words));
    return keyed_hash(key) ^ words[0] ^ words[1];
}

static struct cache_content **content_bucket_of(uint64_t hash)
{
    return &cache_kept.buckets[hash & (cache_kept.bucket_count - 1)];
}

struct cache_content *cache_kept_find(const struct cache *cache, uint64_t hash, struct str key,
                                      const uint8_t *opened_as)
{
    if (cache_kept.bucket_count == 0) {
        return NULL;
    }
    struct cache_content *content = *content_bucket_of(hash);
    while (content != NULL && (content->kept_hash != hash || content->cache != cache ||
                               !str_equal(content->key, key) ||
                               memcmp(content->opened_as, opened_as, CACHE_KEY_SIZE) != 0)) {
        content = content->chain;
    }
    return content;
}

void cache_kept_drop(struct cache_content *content)
{
    if (list_is_empty(&content->kept)) {
        return;
    }
    struct cache_content **link = content_bucket_of(content->kept_hash);
    while (*link != content) {
        link = &(*link)->chain;
    }
    *link = content->chain;
    list_remove(&content->kept);
    cache_kept.count--;
    cache_kept.memory -= content->memory;
    cache_kept.files -= content->fd != -1;
    cache_content_release(content);
}

void cache_kept_drop_all(const struct cache *cache)
{
    if (!cache_kept.is_ready) {
        return;
    }
    list_each(item, &cache_kept.order) {
        struct cache_content *content = container_of(item, struct cache_content, kept);

        if (cache == NULL || content->cache == cache) {
            cache_kept_drop(content);
        }
    }
    if (cache_kept.count == 0) {
        free(cache_kept.buckets);
        cache_kept.buckets = NULL;
        cache_kept.bucket_count = 0;
        timer_remove(&cache_kept.sweep);
    }
}

static bool is_current(const struct cache_content *content)
{
    return atomic_load_explicit(&content->entry->version, memory_order_acquire) == content->version;
}

/* Descriptors of deleted files occupy disk space, and unused contents memory. */
static void sweep(struct timer *timer)
{
    list_each(item, &cache_kept.order) {
        struct cache_content *content = container_of(item, struct cache_content, kept);

        if (!is_current(content) || content->used_at + IDLE_SECONDS < clock_now.seconds) {
            cache_kept_drop(content);
        }
    }
    if (cache_kept.count != 0) {
        timer_set(timer, clock_now.now_ms + SWEEP_EVERY_MS);
    }
}

static unsigned files_most(void)
{
    static unsigned most;
    struct rlimit limit;

    if (most == 0) {
        most = FILES_MOST;
        if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur / 4 < most) {
            most = (unsigned) (limit.rlim_cur / 4) + 1;
        }
    }
    return most;
}

static bool kept_grow(void)
{
    size_t count = cache_kept.bucket_count == 0 ? BUCKETS_LEAST : cache_kept.bucket_count * 2;
    struct cache_content **buckets = calloc(count, sizeof(struct cache_content *));

    if (buckets == NULL) {
        return cache_kept.bucket_count != 0;
    }
    free(cache_kept.buckets);
    cache_kept.buckets = buckets;
    cache_kept.bucket_count = count;
    list_each(item, &cache_kept.order) {
        struct cache_content *content = container_of(item, struct cache_content, kept);
        struct cache_content **bucket = content_bucket_of(content->kept_hash);

        content->chain = *bucket;
        *bucket = content;
    }
    return true;
}

void cache_kept_put(struct cache_content *content)
{
    if (!cache_kept.is_ready) {
        list_init(&cache_kept.order);
        timer_init(&cache_kept.sweep, sweep);
        cache_kept.is_ready = true;
    }
    content->kept_hash = cache_kept_hash(content->key, content->opened_as);
    struct cache_content *former =
        cache_kept_find(content->cache, content->kept_hash, content->key, content->opened_as);
    if (former != NULL) {
        cache_kept_drop(former);
    }
    if (cache_kept.count >= cache_kept.bucket_count && !kept_grow()) {
        return;
    }
    struct cache_content **bucket = content_bucket_of(content->kept_hash);
    content->chain = *bucket;
    *bucket = content;
    list_push_front(&cache_kept.order, &content->kept);
    content->used_at = clock_now.seconds;
    content->looked_at = clock_now.seconds;
    cache_content_hold(content);
    cache_kept.count++;
    cache_kept.memory += content->memory;
    cache_kept.files += content->fd != -1;
    while (cache_kept.memory > MEMORY_MOST || cache_kept.files > files_most()) {
        cache_kept_drop(container_of(cache_kept.order.prev, struct cache_content, kept));
    }
    if (cache_kept.sweep.deadline_ms == NO_DEADLINE) {
        timer_set(&cache_kept.sweep, clock_now.now_ms + SWEEP_EVERY_MS);
    }
}

void cache_kept_use(struct cache_content *content)
{
    content->used_at = clock_now.seconds;
    if (cache_kept.order.next != &content->kept) {
        list_remove(&content->kept);
        list_push_front(&cache_kept.order, &content->kept);
    }
}

/* ---- reading files ---- */

/* A file that is being read. */
struct reading {
    const struct cache_access *access;
    const char *name;
    int fd;
    char *buffer;     /* READ_AT_ONCE bytes: the beginning of the file */
    size_t in_buffer; /* bytes read into room */
    struct cache_file_header header;
    char *texts; /* on the heap, if the strings are not in room */
};

static ssize_t read_at(int fd, char *at, size_t size, uint64_t offset)
{
    size_t done = 0;

    while (done < size) {
        ssize_t n = pread(fd, at + done, size - done, (off_t) (offset + done));

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return -1;
        }
        if (n == 0) {
            break;
        }
        done += (size_t) n;
    }
    return (ssize_t) done;
}

static enum content_result failed(const struct reading *reading, const char *call)
{
    log_crit(reading->access->log, errno, "%s \"%s\" failed", call, reading->name);
    return CONTENT_FAILED;
}

static enum content_result broken(const struct reading *reading, enum cache_file_result why)
{
    if (why == CACHE_FILE_SHORT) {
        log_crit(reading->access->log, 0, "cache file \"%s\" is too small", reading->name);
    } else if (why == CACHE_FILE_FOREIGN) {
        log_info(reading->access->log, 0, "cache file \"%s\" version mismatch", reading->name);
    } else {
        log_crit(reading->access->log, 0, "cache file \"%s\" is damaged", reading->name);
    }
    unlink(reading->name);
    return CONTENT_BROKEN;
}

/* Reads the header, which a refresh may be writing at the same time. */
static enum content_result read_header(struct reading *reading)
{
    for (int tries = 1;; tries++) {
        ssize_t n = read_at(reading->fd, reading->buffer, READ_AT_ONCE, 0);

        if (n < 0) {
            return failed(reading, "read()");
        }
        reading->in_buffer = (size_t) n;
        enum cache_file_result result =
            cache_file_header_read((struct str){reading->buffer, (size_t) n}, 0, &reading->header);
        if (result == CACHE_FILE_GOOD) {
            return CONTENT_READ;
        }
        if (result != CACHE_FILE_BROKEN || tries == TORN_READS) {
            return broken(reading, result);
        }
    }
}

/* Finds the strings: in what was read, or by another read at the end of the file. */
static enum content_result read_texts(struct reading *reading, struct str *out)
{
    const struct cache_file_header *header = &reading->header;
    size_t size = cache_file_texts_size(header);

    if (header->texts_offset + size <= reading->in_buffer) {
        *out = (struct str){reading->buffer + header->texts_offset, size};
        return CONTENT_READ;
    }
    reading->texts = malloc(size);
    if (reading->texts == NULL) {
        fatal_no_memory(size);
    }
    ssize_t n = read_at(reading->fd, reading->texts, size, header->texts_offset);
    if (n < 0) {
        return failed(reading, "read()");
    }
    if ((size_t) n != size) {
        return broken(reading, CACHE_FILE_SHORT);
    }
    *out = (struct str){reading->texts, size};
    return CONTENT_READ;
}

/* Makes a content from a body that was read completely, or from the file. */
static enum content_result make_content(struct reading *reading, struct str key,
                                        const struct cache_meta *meta, struct cache_content **out)
{
    const struct cache_file_header *header = &reading->header;
    const struct cache_access *access = reading->access;
    bool fits = header->body_offset + header->body_size <= reading->in_buffer &&
                header->body_size <= CACHE_KEPT_BODY;
    struct stat info;

    if (!fits) {
        if (fstat(reading->fd, &info) != 0) {
            return failed(reading, "fstat()");
        }
        if ((uint64_t) info.st_size != cache_file_size(header)) {
            return broken(reading, CACHE_FILE_SHORT);
        }
    }
    struct str body = {reading->buffer + header->body_offset, header->body_size};
    struct cache_content *content =
        cache_content_new(access->cache, key, meta, fits ? body : STR_NONE);
    content->body_offset = header->body_offset;
    content->version = header->content_version;
    content->file_size = cache_file_size(header);
    if (!fits) {
        content->fd = reading->fd;
        reading->fd = -1;
    }
    memcpy(content->hash, access->hash, CACHE_KEY_SIZE);
    memcpy(content->opened_as, access->variant, CACHE_KEY_SIZE);
    memcpy(content->main_hash, header->main_hash, CACHE_KEY_SIZE);
    *out = content;
    return CONTENT_READ;
}

static enum content_result content_read_file(struct reading *reading, struct cache_content **out)
{
    struct cache_meta meta;
    struct str texts, key;
    enum content_result result = read_header(reading);

    if (result == CONTENT_READ) {
        result = read_texts(reading, &texts);
    }
    if (result != CONTENT_READ) {
        return result;
    }
    enum cache_file_result good = cache_file_texts_read(&reading->header, texts, &key, &meta);
    if (good != CACHE_FILE_GOOD) {
        return broken(reading, good);
    }
    if (!str_equal(key, reading->access->key)) {
        log_crit(reading->access->log, 0, "cache file \"%s\" has md5 collision", reading->name);
        return CONTENT_OTHER;
    }
    return make_content(reading, key, &meta, out);
}

/* Out of descriptors: releases those of the least recently used files. True: some were released. */
static bool give_descriptors(void)
{
    unsigned before = cache_kept.files;

    for (struct list *item = cache_kept.is_ready ? cache_kept.order.prev : NULL;
         item != NULL && item != &cache_kept.order && before - cache_kept.files < GIVEN_AT_ONCE;) {
        struct cache_content *content = container_of(item, struct cache_content, kept);

        item = item->prev;
        if (content->fd != -1) {
            cache_kept_drop(content);
        }
    }
    return cache_kept.files != before;
}

static int open_file(const char *name)
{
    const int flags = CACHE_OPEN_FLAGS;
    int fd = open(name, flags);

    if (fd == -1 && (errno == EMFILE || errno == ENFILE)) {
        int error = errno;
        fd = give_descriptors() ? open(name, flags) : -1;
        errno = fd == -1 ? error : 0;
    }
    return fd;
}

enum content_result cache_content_read(const struct cache_access *access,
                                       struct cache_content **out)
{
    static char *buffer; /* one for the worker; nothing waits here */
    char name[CACHE_NAME_MAX];
    struct reading reading = {.access = access, .name = name};

    if (buffer == NULL && (buffer = malloc(READ_AT_ONCE)) == NULL) {
        fatal_no_memory(READ_AT_ONCE);
    }
    cache_file_name(access->cache, access->hash, name);
    reading.buffer = buffer;
    reading.fd = open_file(name);
    if (reading.fd == -1) {
        return errno == ENOENT ? CONTENT_NONE : failed(&reading, "open()");
    }
    enum content_result result = content_read_file(&reading, out);
    if (reading.fd != -1) {
        close(reading.fd);
    }
    free(reading.texts);
    return result;
}

bool cache_content_is_there(struct cache_content *content)
{
    char name[CACHE_NAME_MAX];
    struct stat info;

    if (content->looked_at == clock_now.seconds) {
        return true;
    }
    cache_file_name(content->cache, content->hash, name);
    if (lstat(name, &info) != 0) {
        return errno != ENOENT && errno != ENOTDIR;
    }
    /* Another file, or a truncated one. */
    if ((content->file_number != 0 && content->file_number != info.st_ino) ||
        (uint64_t) info.st_size != content->file_size) {
        return false;
    }
    content->looked_at = clock_now.seconds;
    content->file_number = info.st_ino;
    return true;
}

void cache_body_of(const struct cache_access *access, struct cache_body *out)
{
    const struct cache_content *content = access->content;

    out->bytes = (struct str){content->body, content->body == NULL ? 0 : content->body_size};
    out->fd = content->fd;
    out->offset = content->body_offset;
    out->size = content->body_size;
}
