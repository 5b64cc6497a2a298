/* Access logs whose paths contain variables, and the cache of their descriptors. */
#include "shared/log/path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "base/parse.h"
#include "shared/log/file.h"

#define SLOTS_MAX 4096

/* A path in the cache. */
struct entry {
    struct list slot_link;
    struct list recent_node;
    char *path; /* NUL-terminated; owned */
    size_t path_length;
    uint32_t hash;
    int fd;             /* -1: not open */
    uint64_t uses;      /* since the entry was made */
    uint64_t used_ms;   /* last use */
    uint64_t opened_ms; /* when fd was opened, or last verified */
    dev_t device;       /* identity of the open file */
    ino_t inode;
};

static int open_path(const char *path, const struct log *log)
{
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0644);

    if (fd < 0) {
        log_crit(log, errno, "open() \"%s\" failed", path);
    }
    return fd;
}

static void write_line(int fd, const char *path, struct str line, const struct log *log)
{
    bool is_torn;

    if (!log_write_lines(fd, line, &is_torn)) {
        log_alert(log, errno, "write() to \"%s\" failed", path);
    }
}

/* ---- the cache ---- */

static void path_drop(struct log_path_cache *cache, struct entry *entry)
{
    list_remove(&entry->slot_link);
    list_remove(&entry->recent_node);
    cache->count--;
    if (entry->fd >= 0) {
        close(entry->fd);
    }
    free(entry->path);
    free(entry);
}

static void cache_free(void *arg)
{
    struct log_path_cache *cache = arg;

    while (!list_is_empty(&cache->recent)) {
        path_drop(cache, container_of(cache->recent.next, struct entry, recent_node));
    }
}

struct log_path_cache *log_path_cache_new(struct arena *arena, uint64_t max)
{
    struct log_path_cache *cache = arena_new(arena, struct log_path_cache);

    cache->max = max;
    cache->slot_count = 16;
    while (cache->slot_count < max && cache->slot_count < SLOTS_MAX) {
        cache->slot_count *= 2;
    }
    cache->slots = arena_array(arena, cache->slot_count, sizeof(*cache->slots));
    for (unsigned i = 0; i < cache->slot_count; i++) {
        list_init(&cache->slots[i]);
    }
    list_init(&cache->recent);
    arena_on_free(arena, cache_free, cache);
    return cache;
}

static struct entry *path_find(struct log_path_cache *cache, struct str path, uint32_t hash)
{
    list_each(node, &cache->slots[hash & (cache->slot_count - 1)]) {
        struct entry *entry = container_of(node, struct entry, slot_link);

        if (entry->hash == hash && str_equal((struct str){entry->path, entry->path_length}, path)) {
            return entry;
        }
    }
    return NULL;
}

static struct entry *make(struct log_path_cache *cache, struct str path, uint32_t hash)
{
    struct entry *entry = calloc(1, sizeof(*entry));
    char *copy = malloc(path.len + 1);

    if (entry == NULL || copy == NULL) {
        fatal_no_memory(sizeof(*entry) + path.len);
    }
    memcpy(copy, path.data, path.len);
    copy[path.len] = '\0';
    entry->path = copy;
    entry->path_length = path.len;
    entry->hash = hash;
    entry->fd = -1;
    list_push_front(&cache->slots[hash & (cache->slot_count - 1)], &entry->slot_link);
    list_push_front(&cache->recent, &entry->recent_node);
    cache->count++;
    return entry;
}

/* Removes old entries, at most two at a time, and the oldest one when the cache is full. */
static void expire(struct log_path_cache *cache)
{
    for (int i = 0; i < 2 && !list_is_empty(&cache->recent); i++) {
        struct entry *oldest = container_of(cache->recent.prev, struct entry, recent_node);

        if (clock_now.now_ms - oldest->used_ms <= cache->inactive_s * 1000) {
            break;
        }
        path_drop(cache, oldest);
    }
}

/* Does the path still lead to the open file? The log may have been rotated. */
static bool is_current(const struct log_path_cache *cache, struct entry *entry)
{
    struct stat info;

    if (clock_now.now_ms - entry->opened_ms <= cache->valid_s * 1000) {
        return true;
    }
    entry->opened_ms = clock_now.now_ms;
    return stat(entry->path, &info) == 0 && info.st_dev == entry->device &&
           info.st_ino == entry->inode;
}

/* Opens the entry's file unless it is open. False: that failed. */
static bool entry_open(const struct log_path_cache *cache, struct entry *entry,
                       const struct log *log)
{
    struct stat info = {0};

    if (entry->fd >= 0 && is_current(cache, entry)) {
        return true;
    }
    if (entry->fd >= 0) {
        close(entry->fd);
    }
    entry->fd = open_path(entry->path, log);
    if (entry->fd < 0 || fstat(entry->fd, &info) != 0) {
        return entry->fd >= 0;
    }
    entry->device = info.st_dev;
    entry->inode = info.st_ino;
    entry->opened_ms = clock_now.now_ms;
    return true;
}

static void write_cached(struct log_path_cache *cache, struct str path, struct str line,
                         const struct log *log)
{
    uint32_t hash = str_hash(path);

    expire(cache);
    struct entry *entry = path_find(cache, path, hash);
    if (entry == NULL) {
        if (cache->count >= cache->max) {
            path_drop(cache, container_of(cache->recent.prev, struct entry, recent_node));
        }
        entry = make(cache, path, hash);
    } else {
        list_remove(&entry->recent_node);
        list_push_front(&cache->recent, &entry->recent_node);
    }
    entry->uses++;
    entry->used_ms = clock_now.now_ms;
    if (!entry_open(cache, entry, log)) {
        path_drop(cache, entry); /* a path that cannot be opened is not cached */
        return;
    }
    write_line(entry->fd, entry->path, line, log);
    if (entry->uses < cache->min_uses) {
        close(entry->fd);
        entry->fd = -1;
    }
}

void log_path_write(struct log_path_cache *cache, struct str path, struct str line,
                    const struct log *log)
{
    if (cache != NULL) {
        write_cached(cache, path, line, log);
        return;
    }
    int fd = open_path(path.data, log);
    if (fd >= 0) {
        write_line(fd, path.data, line, log);
        close(fd);
    }
}

/* ---- while the configuration is read ---- */

static bool parse_cache_parameter(struct str word, uint64_t *max, struct log_path_cache *cache)
{
    if (str_starts(word, STR("max="))) {
        return parse_uint(str_skip(word, 4), max);
    }
    if (str_starts(word, STR("inactive="))) {
        return parse_sec(str_skip(word, 9), &cache->inactive_s);
    }
    if (str_starts(word, STR("min_uses="))) {
        return parse_uint(str_skip(word, 9), &cache->min_uses);
    }
    if (str_starts(word, STR("valid="))) {
        return parse_sec(str_skip(word, 6), &cache->valid_s);
    }
    return false;
}

bool log_path_cache_read(struct conf *conf, const struct conf_node *node,
                         struct log_path_cache **cache)
{
    struct log_path_cache wanted = {.inactive_s = 10, .valid_s = 60, .min_uses = 1};
    uint64_t max = 0;
    bool is_off = false;

    for (unsigned arg = 1; arg < node->count; arg++) {
        if (str_is(node->args[arg], "off")) {
            is_off = true;
        } else if (!parse_cache_parameter(node->args[arg], &max, &wanted)) {
            return conf_error(conf, node, "invalid \"open_log_file_cache\" parameter \"%.*s\"",
                              STR_ARG(node->args[arg]));
        }
    }
    *cache = NULL;
    if (is_off) {
        return true;
    }
    if (max == 0) {
        return conf_error(conf, node, "\"open_log_file_cache\" must have \"max\" parameter");
    }
    *cache = log_path_cache_new(conf->arena, max);
    (*cache)->inactive_s = wanted.inactive_s;
    (*cache)->valid_s = wanted.valid_s;
    (*cache)->min_uses = wanted.min_uses;
    return true;
}
