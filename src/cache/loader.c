/* The loader: searches the directory, step by step, for files that the index does not know. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fatal.h"
#include "base/parse.h"
#include "base/text.h"
#include "cache/internal.h"

enum {
    DEPTH_MOST = 4, /* the directory itself and three levels */
    HEX = 2 * CACHE_KEY_SIZE,
    TORN_READS = 3, /* attempts to read a header that is being written */
};

/* On the heap: a thread may use it when the worker ends. */
struct cache_loader {
    struct cache *cache;
    DIR *directories[DEPTH_MOST]; /* open ones, from the top */
    size_t lengths[DEPTH_MOST];   /* of their paths in `path`, including the slash */
    char path[CACHE_NAME_MAX];    /* of the deepest directory */
    unsigned depth;               /* number of open directories */
    bool has_failed;              /* a directory could not be opened: not all files were seen */
    bool is_done;
};

static void open_directory(struct cache_loader *loader, int fd, size_t length)
{
    DIR *directory = fd == -1 ? NULL : fdopendir(fd);

    if (directory != NULL) {
        loader->directories[loader->depth] = directory;
        loader->lengths[loader->depth++] = length;
    } else if (fd != -1) {
        close(fd);
    }
}

/* A directory that was removed is not a failure. */
static void note_failure(struct cache_loader *loader, int fd, const char *name)
{
    if (fd == -1 && errno != ENOENT && errno != ENOTDIR && errno != ELOOP) {
        log_crit(log_main, errno, "open() \"%s\" failed", name);
        loader->has_failed = true;
    }
}

struct cache_loader *cache_loader_new(struct cache *cache)
{
    struct cache_loader *loader = calloc(1, sizeof(*loader));

    if (loader == NULL) {
        fatal_no_memory(sizeof(*loader));
    }
    loader->cache = cache;
    size_t length =
        (size_t) snprintf(loader->path, sizeof(loader->path), "%.*s/", STR_ARG(cache->path->name));
    int fd = open(loader->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    note_failure(loader, fd, loader->path);
    open_directory(loader, fd, length);
    return loader;
}

void cache_loader_free(struct cache_loader *loader)
{
    if (loader == NULL) {
        return;
    }
    while (loader->depth != 0) {
        closedir(loader->directories[--loader->depth]);
    }
    free(loader);
}

static int here(const struct cache_loader *loader)
{
    return dirfd(loader->directories[loader->depth - 1]);
}

static void remove_file(const struct cache_loader *loader, const char *name)
{
    if (unlinkat(here(loader), name, 0) != 0 && errno != ENOENT) {
        log_crit(log_main, errno, "unlink() \"%s%s\" failed", loader->path, name);
    }
}

/* ---- one file ---- */

/* Does the index know this file, with its size? Clears ENTRY_RESTORED, since the file was seen. */
static bool is_known(const struct cache_loader *loader, const uint8_t *hash, uint64_t size)
{
    struct cache_index *index = cache_index_of(loader->cache);

    cache_index_take(index);
    struct cache_entry *entry = cache_index_find(index, hash);
    bool is_known = entry != NULL && entry->size == cache_index_round(index, size);
    if (is_known) {
        entry->flags &= (uint16_t) ~ENTRY_RESTORED;
    }
    cache_index_release(index);
    return is_known;
}

static enum cache_file_result read_header(int fd, uint64_t size, struct cache_file_header *header)
{
    enum cache_file_result result = CACHE_FILE_BROKEN;

    for (int i = 0; i < TORN_READS && result == CACHE_FILE_BROKEN; i++) {
        char bytes[sizeof(*header)];
        ssize_t n = pread(fd, bytes, sizeof(bytes), 0);

        if (n < 0) {
            return CACHE_FILE_SHORT;
        }
        result = cache_file_header_read((struct str){bytes, (size_t) n}, size, header);
    }
    return result;
}

/* Is the file's name the hash of this key, or of this key and variant? */
static bool is_name_of(const uint8_t *hash, const struct cache_file_header *header,
                       bool *is_variant)
{
    uint8_t of_variant[CACHE_KEY_SIZE];

    *is_variant = memcmp(hash, header->main_hash, CACHE_KEY_SIZE) != 0;
    if (!*is_variant) {
        return true;
    }
    cache_variant_hash(header->main_hash, header->variant, of_variant);
    return memcmp(hash, of_variant, CACHE_KEY_SIZE) == 0;
}

/* Updates ENTRY_HAS_VARIANTS, whichever of parent and variant was found first. With the lock
 * held. */
static void note_variants(struct cache_index *index, struct cache_entry *entry,
                          const struct cache_file_header *header, bool is_variant)
{
    struct cache_entry *parent = is_variant ? cache_index_find(index, header->main_hash) : entry;

    if (parent != NULL && index->variants != 0) {
        parent->flags |= ENTRY_HAS_VARIANTS;
    }
}

/* Adds a valid file to the index. False: it was purged. */
static bool learn_file(struct cache_loader *loader, const uint8_t *hash,
                       const struct cache_file_header *header, bool is_variant, uint64_t size)
{
    struct cache_index *index = cache_index_of(loader->cache);
    struct cache_evicted evicted = {0};
    bool is_stale = false;

    cache_index_take(index);
    struct cache_entry *entry = cache_index_find(index, hash);
    if (cache_index_was_purged(index, header->main_hash, header->content_version)) {
        is_stale = true;
    } else if (entry == NULL) {
        entry = cache_index_add(index, hash, cache_family(header->main_hash), is_variant, &evicted);
    }
    if (!is_stale && entry != NULL && entry->version <= header->content_version) {
        cache_index_store(index, entry, header->content_version, cache_index_round(index, size));
        entry->uses += entry->uses == 0;
        note_variants(index, entry, header, is_variant);
    } else if (entry != NULL) {
        is_stale = is_stale || entry->size == 0;
    }
    cache_index_release(index);
    if (evicted.has_file) {
        cache_file_delete(loader->cache, evicted.hash, log_main);
    }
    return !is_stale;
}

/* Examines a file. False: it has to be removed. */
static bool look_into(struct cache_loader *loader, int fd, const uint8_t *hash, uint64_t size)
{
    struct cache_file_header header;
    bool is_variant;

    return read_header(fd, size, &header) == CACHE_FILE_GOOD &&
           is_name_of(hash, &header, &is_variant) &&
           !cache_file_is_purged(loader->cache, fd, &header) &&
           learn_file(loader, hash, &header, is_variant, size);
}

static bool lies_right(const struct cache_loader *loader, const char *name, const uint8_t *hash)
{
    char right[CACHE_NAME_MAX];
    size_t length = strlen(loader->path);

    cache_file_name(loader->cache, hash, right);
    return strncmp(right, loader->path, length) == 0 && strcmp(right + length, name) == 0;
}

static void look_at_file(struct cache_loader *loader, const char *name, const uint8_t *hash)
{
    struct stat info;

    if (fstatat(here(loader), name, &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(info.st_mode)) {
        return;
    }
    uint64_t size = (uint64_t) info.st_size;
    bool is_right = lies_right(loader, name, hash);
    if (is_right && is_known(loader, hash, size)) {
        return;
    }
    int fd = openat(here(loader), name, CACHE_OPEN_FLAGS);
    if (fd == -1) {
        return;
    }
    bool stays = is_right && look_into(loader, fd, hash, size);
    close(fd);
    /* If the file was replaced in the meantime, the new one is kept. */
    struct stat again;
    if (!stays && fstatat(here(loader), name, &again, AT_SYMLINK_NOFOLLOW) == 0 &&
        again.st_ino == info.st_ino) {
        remove_file(loader, name);
    }
}

/* Is the process of a temporary file "HASH.PID-NUMBER" alive? */
static bool has_owner(struct str suffix)
{
    struct str number = suffix;
    struct str pid_text = str_cut(&number, '-');
    uint64_t pid, ignored;

    return parse_uint(pid_text, &pid) && parse_uint(number, &ignored) && pid != 0 &&
           pid <= INT32_MAX && (kill((pid_t) pid, 0) == 0 || errno != ESRCH);
}

/* Removes a temporary file that no process will finish. Those of fs_move have six letters after the
 * dot. */
static void look_at_temp(struct cache_loader *loader, const char *name, struct str suffix)
{
    struct stat info;
    bool is_copy = suffix.len == 6 && str_find_char(suffix, '-') == NULL;

    if ((is_copy || str_find_char(suffix, '-') != NULL) && !has_owner(suffix) &&
        fstatat(here(loader), name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
        (uint64_t) info.st_mtime < cache_index_of(loader->cache)->born) {
        remove_file(loader, name);
    }
}

/* ---- the walk ---- */

static bool is_level_name(struct str name)
{
    for (size_t i = 0; i < name.len; i++) {
        if (hex_value[(unsigned char) name.data[i]] < 0) {
            return false;
        }
    }
    return name.len <= 2;
}

static void descend(struct cache_loader *loader, struct str name)
{
    size_t length = loader->lengths[loader->depth - 1];

    if (loader->depth == DEPTH_MOST || length + name.len + HEX + 2 >= sizeof(loader->path)) {
        return;
    }
    int fd = openat(here(loader), name.data, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    note_failure(loader, fd, name.data);
    if (fd != -1) {
        memcpy(loader->path + length, name.data, name.len);
        memcpy(loader->path + length + name.len, "/", 2);
        open_directory(loader, fd, length + name.len + 1);
    }
}

/* Examines a name. True: it was a file. */
static bool look_at_name(struct cache_loader *loader, const char *text)
{
    struct str name = str_of(text);
    struct str rest = name;
    uint8_t hash[CACHE_KEY_SIZE];

    loader->path[loader->lengths[loader->depth - 1]] = '\0';
    if (is_level_name(name)) {
        descend(loader, name);
        return false;
    }
    if (str_starts(name, STR(".new."))) {
        look_at_temp(loader, text, str_skip(name, 5));
        return true;
    }
    if (!cache_hash_of_name(str_cut(&rest, '.'), hash)) {
        return false;
    }
    if (rest.data == NULL) {
        look_at_file(loader, text, hash);
    } else {
        look_at_temp(loader, text, rest);
    }
    return true;
}

/* Drops entries that the index file had and the disk does not. */
static void drop_unseen(struct cache_loader *loader)
{
    struct cache_index *index = cache_index_of(loader->cache);
    bool is_last = false;

    for (uint32_t number = 1; !is_last;) {
        cache_index_take(index);
        for (int i = 0; i < CACHE_PORTION && !is_last; i++, number++) {
            if (number > index->used_numbers) {
                is_last = true;
                atomic_store_explicit(&index->is_cold, false, memory_order_relaxed);
            } else if (!loader->has_failed &&
                       (cache_index_at(index, number)->flags & ENTRY_RESTORED) != 0) {
                cache_index_drop(index, cache_index_at(index, number));
            }
        }
        cache_index_release(index);
    }
}

/* Runs on a thread. */
static void walk(void *arg)
{
    struct cache_loader *loader = arg;
    uint64_t until_ms = cache_now_ms() + loader->cache->loader_threshold_ms;
    unsigned files = 0;

    while (loader->depth != 0) {
        const struct dirent *item = readdir(loader->directories[loader->depth - 1]);

        if (item == NULL) {
            closedir(loader->directories[--loader->depth]);
            continue;
        }
        if (look_at_name(loader, item->d_name) && ++files >= loader->cache->loader_files) {
            return;
        }
        if (cache_now_ms() >= until_ms && files != 0) {
            return;
        }
    }
    drop_unseen(loader);
    loader->is_done = true;
}

bool cache_loader_step(struct cache_loader *loader)
{
    cache_work(walk, loader);
    return !loader->is_done;
}
