/* Names of files: of hashes, temporary ones, and moving files. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/text.h"
#include "cache/internal.h"

enum { HEX = 2 * CACHE_KEY_SIZE, LEVELS = 3 };

/* Appends the directories of the levels, which are taken from the end of the digits. */
static char *put_levels(char *at, const unsigned levels[LEVELS], const char *digits, size_t length)
{
    for (int i = 0; i < LEVELS && levels[i] != 0; i++) {
        length -= levels[i];
        memcpy(at, digits + length, levels[i]);
        at += levels[i];
        *at++ = '/';
    }
    return at;
}

static char *put_path(char *at, const struct wanted_path *path)
{
    memcpy(at, path->name.data, path->name.len);
    at += path->name.len;
    *at++ = '/';
    return at;
}

void cache_file_name(const struct cache *cache, const uint8_t *hash, char name[CACHE_NAME_MAX])
{
    char digits[HEX];

    hex_encode(digits, hash, CACHE_KEY_SIZE);
    char *at = put_path(name, cache->path);
    at = put_levels(at, cache->path->levels, digits, HEX);
    memcpy(at, digits, HEX);
    at[HEX] = '\0';
}

/* Makes the names of temporary files unique in this process, including its threads. */
static uint32_t next_number(void)
{
    static _Atomic uint32_t counter;

    return atomic_fetch_add_explicit(&counter, 1, memory_order_relaxed) + 1;
}

void cache_hidden_temp_name(const struct cache *cache, char name[CACHE_NAME_MAX])
{
    snprintf(name, CACHE_NAME_MAX, "%.*s/.new.%u-%u", STR_ARG(cache->path->name),
             (unsigned) getpid(), next_number());
}

void cache_temp_name(const struct cache *cache, const struct wanted_path *temp, const uint8_t *hash,
                     char name[CACHE_NAME_MAX])
{
    uint32_t number = next_number();
    unsigned pid = (unsigned) getpid();

    if (temp == NULL) {
        cache_file_name(cache, hash, name);
        size_t length = strlen(name);
        snprintf(name + length, CACHE_NAME_MAX - length, ".%u-%u", pid, number);
        return;
    }
    char digits[32];
    int length = snprintf(digits, sizeof(digits), "%010u-%010u", pid, number);
    char *at = put_path(name, temp);
    at = put_levels(at, temp->levels, digits, (size_t) length);
    memcpy(at, digits, (size_t) length + 1);
}

/* Creates the missing directories of a name, beyond its first `below` bytes. False with errno. */
static bool make_directories(const char *name, size_t below)
{
    char part[CACHE_NAME_MAX];

    for (const char *slash = strchr(name + below, '/'); slash != NULL;
         slash = strchr(slash + 1, '/')) {
        size_t length = (size_t) (slash - name);

        memcpy(part, name, length);
        part[length] = '\0';
        if (mkdir(part, 0700) != 0 && errno != EEXIST) {
            return false;
        }
    }
    return true;
}

int cache_temp_open(const struct wanted_path *below, const char *name)
{
    const int flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
    int fd = open(name, flags, 0600);

    if (fd == -1 && errno == EEXIST) {
        /* Left by an earlier process with this pid. */
        unlink(name);
        fd = open(name, flags, 0600);
    }
    if (fd == -1 && errno == ENOENT && make_directories(name, below->name.len)) {
        fd = open(name, flags, 0600);
    }
    return fd;
}

bool cache_file_move(const struct cache *cache, const char *from, const uint8_t *hash)
{
    char name[CACHE_NAME_MAX];

    cache_file_name(cache, hash, name);
    return fs_move(from, name, 0700);
}

bool cache_hash_of_name(struct str name, uint8_t *hash)
{
    return name.len == HEX && hex_decode(name, hash);
}

void cache_file_delete(const struct cache *cache, const uint8_t *hash, const struct log *log)
{
    char name[CACHE_NAME_MAX];

    cache_file_name(cache, hash, name);
    if (unlink(name) != 0 && errno != ENOENT && log != NULL) {
        log_crit(log, errno, "unlink() \"%s\" failed", name);
    }
}
