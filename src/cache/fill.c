/* Storing a response: gathered in memory, or in a temporary file if it is large, and made available
 * when complete. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "base/fs.h"
#include "cache/internal.h"

enum { FIRST_SIZE = 4096, FRONT_PARTS = 4 };

struct cache_fill {
    /* Directory for temporary files; NULL = the directory of the final file. */
    struct wanted_path *temp;
    char *buffer;               /* bytes of the body that are not in the file yet; on the heap */
    size_t used, capacity;      /* of room */
    uint64_t written;           /* body bytes in the file */
    uint64_t begun;             /* version of the index when the fill began */
    struct cache_content *file; /* owns the descriptor; NULL while there is no file */
    bool is_on_disk;            /* the temporary file exists under this name */
    char name[CACHE_NAME_MAX];
};

bool cache_fill_begin(struct cache_access *access, struct wanted_path *temp_path)
{
    struct cache_fill *fill;

    cache_fill_abort(access);
    cache_access_hash(access);
    fill = calloc(1, sizeof(*fill));
    if (fill == NULL) {
        fatal_no_memory(sizeof(*fill));
    }
    fill->temp = access->cache->uses_temp_path ? temp_path : NULL;
    struct cache_index *index = cache_index_of(access->cache);
    cache_index_take(index);
    fill->begun = cache_index_version(index);
    cache_index_release(index);
    access->fill = fill;
    return true;
}

bool cache_fill_date_back(struct cache_access *access, uint64_t ms)
{
    struct cache_index *index = cache_index_of(access->cache);
    uint64_t *begun = &access->fill->begun;
    uint8_t main_hash[CACHE_KEY_SIZE];

    *begun = ms < *begun / 1000000 ? *begun - ms * 1000000 : 0;
    cache_access_main_hash(access, main_hash);
    cache_index_take(index);
    bool is_purged =
        *begun < index->first_version || cache_index_was_purged(index, main_hash, *begun);
    cache_index_release(index);
    return !is_purged && !cache_index_is_purged(index, access->key, *begun);
}

static void fill_free(struct cache_access *access)
{
    struct cache_fill *fill = access->fill;

    if (fill->is_on_disk) {
        unlink(fill->name);
    }
    cache_content_release(fill->file);
    free(fill->buffer);
    free(fill);
    access->fill = NULL;
}

void cache_fill_abort(struct cache_access *access)
{
    if (access->fill != NULL) {
        fill_free(access);
    }
}

static bool fill_fail(struct cache_access *access, const char *call)
{
    log_crit(access->log, errno, "%s \"%s\" failed", call, access->fill->name);
    fill_free(access);
    return false;
}

/* Creates the temporary file. False with errno. */
static bool open_file(struct cache_access *access, struct cache_fill *fill)
{
    const struct cache_meta none = {0};

    cache_temp_name(access->cache, fill->temp, access->hash, fill->name);
    int fd = cache_temp_open(fill->temp == NULL ? access->cache->path : fill->temp, fill->name);
    if (fd == -1) {
        return false;
    }
    fill->is_on_disk = true;
    fill->file = cache_content_new(access->cache, STR_NONE, &none, STR_NONE);
    fill->file->fd = fd;
    return true;
}

/* Sets the first FRONT_PARTS parts of a file: the header, and the key on a line of its own. */
static void put_front(struct iovec *parts, const struct cache_file_header *header, struct str key)
{
    parts[0] = (struct iovec){(void *) header, sizeof(*header)};
    parts[1] = (struct iovec){CACHE_FILE_LABEL, sizeof(CACHE_FILE_LABEL) - 1};
    parts[2] = (struct iovec){(void *) key.data, key.len};
    parts[3] = (struct iovec){"\n", 1};
}

/* Writes all parts with one call. False with errno. */
static bool write_parts(int fd, const struct iovec *parts, int count)
{
    ssize_t all = 0;
    ssize_t n;

    for (int i = 0; i < count; i++) {
        all += (ssize_t) parts[i].iov_len;
    }
    do {
        n = writev(fd, parts, count);
    } while (n < 0 && errno == EINTR);
    if (n >= 0 && n != all) {
        errno = ENOSPC;
    }
    return n == all;
}

/* Writes the gathered bytes to the file, which is created with space for its header. */
static bool cache_fill_flush(struct cache_access *access)
{
    struct cache_fill *fill = access->fill;

    if (fill->file == NULL) {
        if (!open_file(access, fill)) {
            return fill_fail(access, "open()");
        }
        const struct cache_file_header header = {0};
        struct iovec parts[FRONT_PARTS];
        put_front(parts, &header, access->key);
        if (!write_parts(fill->file->fd, parts, FRONT_PARTS)) {
            return fill_fail(access, "write() to");
        }
    }
    if (!fs_write_all(fill->file->fd, (struct str){fill->buffer, fill->used})) {
        return fill_fail(access, "write() to");
    }
    fill->written += fill->used;
    fill->used = 0;
    return true;
}

static void fill_make_room(struct cache_fill *fill, size_t more)
{
    size_t capacity = fill->capacity == 0 ? FIRST_SIZE : fill->capacity;

    while (capacity - fill->used < more && capacity < CACHE_KEPT_BODY) {
        capacity *= 2;
    }
    if (capacity != fill->capacity) {
        fill->buffer = realloc(fill->buffer, capacity);
        if (fill->buffer == NULL) {
            fatal_no_memory(capacity);
        }
        fill->capacity = capacity;
    }
}

bool cache_fill_write(struct cache_access *access, struct str bytes)
{
    struct cache_fill *fill = access->fill;

    if (fill == NULL) {
        return false;
    }
    while (bytes.len != 0) {
        fill_make_room(fill, bytes.len);
        if (fill->used == fill->capacity && !cache_fill_flush(access)) {
            return false;
        }
        size_t free_space = fill->capacity - fill->used;
        struct str part = str_head(bytes, free_space);
        memcpy(fill->buffer + fill->used, part.data, part.len);
        fill->used += part.len;
        bytes = str_skip(bytes, part.len);
    }
    return true;
}

/* ---- commit ---- */

/* A response that is being committed. */
struct commit {
    struct cache_access *access;
    struct cache_fill *fill;
    struct cache_meta meta;
    uint8_t hash[CACHE_KEY_SIZE];
    uint8_t main_hash[CACHE_KEY_SIZE];
    bool is_variant;
    uint64_t version;
    uint64_t rules_version; /* rules that the key was checked against */
    struct cache_file_header header;
    char *texts; /* on the heap */
};

/*
 * Chooses the key of the response: the variant that was opened, if the response has the same field
 * values; else the key itself, whose variant is then set from meta.
 */
static void choose_entry(struct commit *commit)
{
    const struct cache_access *access = commit->access;

    cache_access_main_hash(access, commit->main_hash);
    commit->is_variant = memcmp(access->hash, commit->main_hash, CACHE_KEY_SIZE) != 0 &&
                         memcmp(access->variant, commit->meta.variant, CACHE_KEY_SIZE) == 0;
    memcpy(commit->hash, commit->is_variant ? access->hash : commit->main_hash, CACHE_KEY_SIZE);
}

/* Writes header, strings and body with one call. False with errno. */
static bool write_small(struct commit *commit)
{
    struct cache_fill *fill = commit->fill;
    struct iovec parts[FRONT_PARTS + 2];

    put_front(parts, &commit->header, commit->access->key);
    parts[FRONT_PARTS] = (struct iovec){commit->texts, cache_file_texts_size(&commit->header)};
    parts[FRONT_PARTS + 1] = (struct iovec){fill->buffer, fill->used};
    return write_parts(fill->file->fd, parts, FRONT_PARTS + 2);
}

/* Writes the strings after the body, and the header into its space. False with errno. */
static bool write_large(struct commit *commit)
{
    int fd = commit->fill->file->fd;
    const struct str texts = {commit->texts, cache_file_texts_size(&commit->header)};
    ssize_t n;

    if (!fs_write_all(fd, texts)) {
        return false;
    }
    do {
        n = pwrite(fd, &commit->header, sizeof(commit->header), 0);
    } while (n < 0 && errno == EINTR);
    return n == (ssize_t) sizeof(commit->header);
}

static bool write_file(struct commit *commit)
{
    struct cache_access *access = commit->access;
    struct cache_fill *fill = commit->fill;
    bool is_small = fill->file == NULL;

    if (!is_small && fill->used != 0 && !cache_fill_flush(access)) {
        return false;
    }
    commit->meta.body_size = fill->written + fill->used;
    cache_file_header_make(&commit->header, access->key, &commit->meta);
    if (!is_small) {
        commit->header.body_offset = cache_file_front_size(access->key);
        commit->header.texts_offset = commit->header.body_offset + commit->meta.body_size;
    }
    memcpy(commit->header.main_hash, commit->main_hash, CACHE_KEY_SIZE);
    commit->header.content_version = commit->version;
    commit->texts = malloc(cache_file_texts_size(&commit->header) + 1);
    if (commit->texts == NULL) {
        fatal_no_memory(cache_file_texts_size(&commit->header));
    }
    cache_file_texts_write(&commit->header, access->key, &commit->meta, commit->texts);
    cache_file_header_seal(&commit->header);
    if (cache_file_texts_size(&commit->header) > CACHE_TEXTS_MAX) {
        errno = EFBIG;
        return fill_fail(access, "write() to");
    }
    if (is_small && !open_file(access, fill)) {
        return fill_fail(access, "open()");
    }
    if (!(is_small ? write_small(commit) : write_large(commit))) {
        return fill_fail(access, "write() to");
    }
    if (!cache_file_move(access->cache, fill->name, commit->hash)) {
        return fill_fail(access, "rename()");
    }
    fill->is_on_disk = false;
    return true;
}

/* Takes the version of the new content. False: the key was purged since the fill began. */
static bool take_version(struct commit *commit)
{
    struct cache_access *access = commit->access;
    struct cache_index *index = cache_index_of(access->cache);

    /* The version first: prefixes that are purged from now on have a later one. */
    cache_index_take(index);
    bool is_purged = cache_index_was_purged(index, commit->main_hash, commit->fill->begun);
    commit->version = cache_index_version(index);
    cache_index_release(index);
    commit->rules_version = atomic_load_explicit(&index->rules_version, memory_order_acquire);
    return !is_purged && !cache_index_is_purged(index, access->key, commit->fill->begun);
}

/* Updates the index. Gives the entry if the stored response is now the current one; else NULL. */
static struct cache_entry *announce(struct commit *commit, struct cache_evicted *evicted)
{
    struct cache_access *access = commit->access;
    struct cache_index *index = cache_index_of(access->cache);
    uint64_t size = cache_index_round(index, cache_file_size(&commit->header));

    cache_index_take(index);
    struct cache_entry *entry = cache_index_again(index, access->entry, commit->hash);
    evicted->has_file = false;
    if (entry == NULL) {
        entry = cache_index_add(index, commit->hash, cache_family(commit->main_hash),
                                commit->is_variant, evicted);
    }
    if (entry != NULL && entry->version < commit->version) {
        cache_index_store(index, entry, commit->version, size);
        cache_index_touch(index, entry, clock_now.seconds);
    } else {
        /* Another response was stored, or it was purged, in the meantime; the file itself is
         * valid. */
        entry = NULL;
    }
    if (commit->is_variant) {
        struct cache_entry *parent = cache_index_find(index, commit->main_hash);

        if (parent != NULL) {
            parent->flags |= ENTRY_HAS_VARIANTS;
        }
    }
    cache_index_release(index);
    return entry;
}

/* The stored response as a content, for this request and later ones. */
static struct cache_content *stored_content(struct commit *commit)
{
    const struct cache_access *access = commit->access;
    struct cache_fill *fill = commit->fill;
    bool is_small = commit->header.texts_offset < commit->header.body_offset;
    struct cache_content *content =
        cache_content_new(access->cache, access->key, &commit->meta,
                          is_small
                              ? (struct str){fill->buffer == NULL ? "" : fill->buffer, fill->used}
                              : STR_NONE);

    if (!is_small) {
        /* Queued output may use the same descriptor, which the file's content owns. */
        content->owner = fill->file;
        content->fd = fill->file->fd;
        cache_content_hold(fill->file);
    }
    content->body_offset = commit->header.body_offset;
    content->file_size = cache_file_size(&commit->header);
    content->version = commit->version;
    memcpy(content->hash, commit->hash, CACHE_KEY_SIZE);
    memcpy(content->main_hash, commit->main_hash, CACHE_KEY_SIZE);
    if (commit->is_variant) {
        memcpy(content->opened_as, access->variant, CACHE_KEY_SIZE);
    }
    return content;
}

bool cache_fill_commit(struct cache_access *access, const struct cache_meta *meta)
{
    struct commit commit = {.access = access, .fill = access->fill, .meta = *meta};
    struct cache_evicted evicted;

    if (access->fill == NULL) {
        return false;
    }
    choose_entry(&commit);
    if (!take_version(&commit)) {
        cache_fill_abort(access);
        return false;
    }
    if (!write_file(&commit)) {
        free(commit.texts);
        return false;
    }
    struct cache_entry *entry = announce(&commit, &evicted);
    if (evicted.has_file) {
        cache_file_delete(access->cache, evicted.hash, access->log);
    }
    struct cache_content *content = stored_content(&commit);
    if (entry != NULL) {
        content->entry = entry;
        content->rules_version = commit.rules_version;
        cache_content_touched(content, clock_now.seconds);
        cache_kept_put(content);
    }
    cache_access_take(access, content);
    free(commit.texts);
    fill_free(access);
    cache_claim_end(access);
    cache_wake(access->cache, commit.hash);
    return true;
}

/* ---- refresh ---- */

static void put_times(struct cache_meta *meta, const struct cache_meta *from)
{
    meta->valid_until = from->valid_until;
    meta->stale_while_updating_until = from->stale_while_updating_until;
    meta->stale_if_error_until = from->stale_if_error_until;
    meta->date = from->date;
}

/* Rewrites the header of the file if it still belongs to the content. False with errno, which is 0
 * if it does not. */
static bool rewrite_header(const struct cache_content *content, const struct cache_meta *meta,
                           uint64_t version, const char *name)
{
    struct cache_file_header header;
    int fd = open(name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    bool is_good = false;

    if (fd == -1) {
        return false;
    }
    ssize_t n = pread(fd, &header, sizeof(header), 0);
    int error = n < 0 ? errno : 0;
    if (n == (ssize_t) sizeof(header) && header.content_version == content->version &&
        header.magic == CACHE_FILE_MAGIC) {
        header.valid_until = meta->valid_until;
        header.stale_while_updating_until = meta->stale_while_updating_until;
        header.stale_if_error_until = meta->stale_if_error_until;
        header.date = meta->date;
        header.content_version = version;
        cache_file_header_seal(&header);
        is_good = pwrite(fd, &header, sizeof(header), 0) == (ssize_t) sizeof(header);
        error = is_good ? 0 : errno;
    }
    close(fd);
    errno = error;
    return is_good;
}

bool cache_refresh(struct cache_access *access, const struct cache_meta *meta)
{
    struct cache_index *index = cache_index_of(access->cache);
    struct cache_content *content = access->content;
    char name[CACHE_NAME_MAX];

    if (content == NULL) {
        cache_claim_end(access);
        return false;
    }
    cache_index_take(index);
    uint64_t version = cache_index_version(index);
    cache_index_release(index);
    cache_file_name(access->cache, content->hash, name);
    errno = 0;
    bool is_good = !cache_index_is_purged(index, access->key, content->version) &&
                   rewrite_header(content, meta, version, name);
    if (!is_good && errno != 0 && errno != ENOENT) {
        log_crit(access->log, errno, "cannot write the header of cache file \"%s\"", name);
    }
    if (is_good) {
        cache_index_take(index);
        struct cache_entry *entry = cache_index_again(index, content->entry, content->hash);
        if (entry != NULL && entry->version == content->version) {
            cache_index_store(index, entry, version, entry->size);
        }
        cache_index_release(index);
        content->version = version;
        put_times(&content->meta, meta);
        put_times(&access->meta, meta);
    }
    cache_claim_end(access);
    return is_good;
}
