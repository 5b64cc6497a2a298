/* The index file: a copy of the index, written from time to time, so that a restart need not search
 * the disk. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "cache/internal.h"

#define SNAPSHOT_MAGIC 0x0a3178656469f1ull /* f1 "index1" newline */
enum { SNAPSHOT_VERSION = 1, ENTRIES_MORE = 4096 };

struct snapshot_header {
    uint64_t magic;
    uint32_t version;
    uint32_t record_size;
    uint64_t count; /* of records */
    uint32_t records_crc;
    uint32_t header_crc; /* calculated with this member zero */
};

/* One file. The records are in order of last use, oldest first. */
struct snapshot_record {
    uint8_t hash[CACHE_KEY_SIZE];
    uint64_t family;
    uint64_t version;
    uint64_t size;
    uint32_t used_at;
    uint16_t uses;
    uint16_t flags;
};

_Static_assert(sizeof(struct snapshot_header) == 32, "no hidden bytes in files");
_Static_assert(sizeof(struct snapshot_record) == 48, "no hidden bytes in files");

static void snapshot_name(const struct cache *cache, char name[CACHE_NAME_MAX])
{
    snprintf(name, CACHE_NAME_MAX, "%.*s/.index", STR_ARG(cache->path->name));
}

static uint32_t header_crc(const struct snapshot_header *header)
{
    struct snapshot_header copy = *header;

    copy.header_crc = 0;
    return crc32_of((struct str){(const char *) &copy, sizeof(copy)});
}

static uint32_t records_crc(const struct snapshot_record *records, uint64_t count)
{
    return crc32_of((struct str){(const char *) records, count * sizeof(*records)});
}

/* ---- writing ---- */

static void put_record(const struct cache_entry *entry, struct snapshot_record *out)
{
    memcpy(out->hash, entry->hash, CACHE_KEY_SIZE);
    out->family = entry->family;
    out->version = entry->version;
    out->size = entry->size;
    out->used_at = entry->used_at;
    out->uses = entry->uses;
    out->flags = entry->flags & (ENTRY_VARIANT | ENTRY_HAS_VARIANTS);
}

static int by_use(const void *a, const void *b)
{
    const struct snapshot_record *x = a;
    const struct snapshot_record *y = b;

    return (x->used_at > y->used_at) - (x->used_at < y->used_at);
}

/* Copies all entries with files; holds the lock only briefly. NULL without memory. */
static struct snapshot_record *copy_entries(struct cache_index *index, uint64_t *count)
{
    size_t entries_most = index->files + ENTRIES_MORE;
    struct snapshot_record *records = malloc(entries_most * sizeof(*records));
    uint32_t number = 1;
    bool is_last = records == NULL;

    *count = 0;
    while (!is_last) {
        cache_index_take(index);
        for (int i = 0; i < CACHE_PORTION; i++, number++) {
            is_last = number > index->used_numbers || *count == entries_most;
            if (is_last) {
                break;
            }
            const struct cache_entry *entry = cache_index_at(index, number);
            if (entry->size != 0) {
                put_record(entry, &records[(*count)++]);
            }
        }
        cache_index_release(index);
    }
    if (records != NULL) {
        qsort(records, *count, sizeof(*records), by_use);
    }
    return records;
}

static bool write_file(const char *name, const struct snapshot_header *header,
                       const struct snapshot_record *records)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    if (fd == -1) {
        return false;
    }
    bool is_good =
        fs_write_all(fd, (struct str){(const char *) header, sizeof(*header)}) &&
        fs_write_all(fd, (struct str){(const char *) records, header->count * sizeof(*records)});
    return close(fd) == 0 && is_good;
}

bool cache_snapshot_write(struct cache *cache)
{
    struct snapshot_header header = {.magic = SNAPSHOT_MAGIC,
                                     .version = SNAPSHOT_VERSION,
                                     .record_size = sizeof(struct snapshot_record)};
    char name[CACHE_NAME_MAX];
    char temp[CACHE_NAME_MAX];
    struct snapshot_record *records = copy_entries(cache_index_of(cache), &header.count);

    if (records == NULL) {
        errno = ENOMEM;
        return false;
    }
    header.records_crc = records_crc(records, header.count);
    header.header_crc = header_crc(&header);
    snapshot_name(cache, name);
    cache_hidden_temp_name(cache, temp);
    bool is_good = write_file(temp, &header, records) && rename(temp, name) == 0;
    int error = errno;
    if (!is_good) {
        unlink(temp);
    }
    free(records);
    errno = error;
    return is_good;
}

/* ---- reading ---- */

static bool read_whole(int fd, void *out, size_t size)
{
    size_t done = 0;

    while (done < size) {
        ssize_t n = read(fd, (char *) out + done, size - done);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return false;
        }
        done += (size_t) n;
    }
    return true;
}

/* The records of a valid file, on the heap; else NULL. */
static struct snapshot_record *snapshot_read_file(int fd, uint64_t *count)
{
    struct snapshot_header header;
    struct stat info;

    if (!read_whole(fd, &header, sizeof(header)) || header.magic != SNAPSHOT_MAGIC ||
        header.version != SNAPSHOT_VERSION || header.header_crc != header_crc(&header) ||
        header.record_size != sizeof(struct snapshot_record) || fstat(fd, &info) != 0 ||
        header.count > UINT32_MAX ||
        (uint64_t) info.st_size != sizeof(header) + header.count * sizeof(struct snapshot_record)) {
        return NULL;
    }
    struct snapshot_record *records = malloc((header.count + 1) * sizeof(*records));
    if (records == NULL || !read_whole(fd, records, header.count * sizeof(*records)) ||
        records_crc(records, header.count) != header.records_crc) {
        free(records);
        return NULL;
    }
    *count = header.count;
    return records;
}

/* Adds an entry, unless the index has a newer one. With the lock held. False: the index is full. */
static bool restore(struct cache_index *index, const struct snapshot_record *record)
{
    struct cache_evicted evicted;

    if (record->size == 0 || record->version == 0 ||
        cache_index_find(index, record->hash) != NULL) {
        return true;
    }
    if (index->capacity != UINT32_MAX && index->free_first == 0) {
        return false;
    }
    struct cache_entry *entry = cache_index_add(index, record->hash, record->family,
                                                (record->flags & ENTRY_VARIANT) != 0, &evicted);
    if (entry == NULL) {
        return false;
    }
    cache_index_store(index, entry, record->version, record->size);
    cache_index_age(index, entry, record->used_at);
    entry->uses = record->uses == 0 ? 1 : record->uses;
    entry->flags |= (uint16_t) (ENTRY_RESTORED | (record->flags & ENTRY_HAS_VARIANTS));
    return true;
}

uint64_t cache_snapshot_size(const struct cache *cache)
{
    char name[CACHE_NAME_MAX];
    struct stat info;

    snapshot_name(cache, name);
    return stat(name, &info) == 0 ? (uint64_t) info.st_size : 0;
}

int64_t cache_snapshot_read(struct cache *cache)
{
    struct cache_index *index = cache_index_of(cache);
    char name[CACHE_NAME_MAX];
    uint64_t count = 0;

    snapshot_name(cache, name);
    int fd = open(name, CACHE_OPEN_FLAGS);
    if (fd != -1) {
        cache_index_take(index);
        index->first_version = cache_index_version(index);
        cache_index_release(index);
    }
    struct snapshot_record *records = fd == -1 ? NULL : snapshot_read_file(fd, &count);
    if (fd != -1) {
        close(fd);
    }
    if (records == NULL) {
        return -1;
    }
    bool has_room = true;
    /* From the newest to the oldest record, each as the least recently used: entries in use already
     * stay more recent. */
    for (uint64_t left = count; left != 0 && has_room;) {
        cache_index_take(index);
        for (int i = 0; i < CACHE_PORTION && left != 0 && has_room; i++) {
            has_room = restore(index, &records[--left]);
        }
        cache_index_release(index);
    }
    free(records);
    return (int64_t) count;
}
