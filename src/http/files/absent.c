/* A cache of names next to a file that do not exist. */
#define _GNU_SOURCE
#include "http/files/absent.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fatal.h"
#include "http/files/file_private.h"
#include "http/request/request.h"
#include "http/routing/file_settings.h"

#define SLOTS 4096 /* slots per worker; of two files with the same slot the later one stays */

/* The state of a directory. All zero: unknown, so that nothing is cached. */
struct directory {
    uint64_t device, inode;
    struct timespec ctime, mtime;
};

struct absent_slot {
    uint64_t hash; /* of the file's path; 0: unused */
    struct directory directory;
    unsigned known;
};

static struct absent_slot *slots; /* per worker; allocated on first use */

static bool absent_is_same(const struct directory *a, const struct stat *b)
{
    return a->inode == b->st_ino && a->device == b->st_dev &&
           a->ctime.tv_sec == b->st_ctim.tv_sec && a->ctime.tv_nsec == b->st_ctim.tv_nsec &&
           a->mtime.tv_sec == b->st_mtim.tv_sec && a->mtime.tv_nsec == b->st_mtim.tv_nsec;
}

/* The directory is new or has changed: discards what was known about it. */
static void look_again(struct absent_slot *slot, const char *path, const struct stat *st,
                       struct timespec now)
{
    slot->known = 0;
    slot->directory = (struct directory){0};
    if (file_is_settled(st, now) && file_system_is_local(path)) {
        slot->directory = (struct directory){.device = st->st_dev,
                                             .inode = st->st_ino,
                                             .ctime = st->st_ctim,
                                             .mtime = st->st_mtim};
    }
}

/* The directory of the path, NUL-terminated. */
static const char *directory_of(struct request *request, struct str path)
{
    const char *slash = memrchr(path.data, '/', path.len);
    const struct str parts[] = {slash == NULL
                                    ? STR(".")
                                    : (struct str){path.data, (size_t) (slash - path.data) + 1},
                                STR("\0")};

    return arena_join(&request->arena, parts, 2).data;
}

struct absent_names absent_names(struct request *request, struct str path)
{
    struct absent_names names = {.known = 0};
    struct timespec now;
    struct stat st;

    if (request->location->files->open_file_cache != NULL ||
        request->location->files->disable_symlinks != SYMLINKS_ALLOWED) {
        return names;
    }
    if (slots == NULL) {
        slots = calloc(SLOTS, sizeof(struct absent_slot));
        if (slots == NULL) {
            fatal_no_memory(SLOTS * sizeof(struct absent_slot));
        }
    }
    names.hash = file_cache_hash(path);
    names.slot = &slots[names.hash % SLOTS];
    names.is_first = names.slot->hash != names.hash;
    if (names.is_first) {
        return names;
    }
    names.directory = directory_of(request, path);
    /* Taken before stat(): if a name appears after that, the ctime was older than `now`, and will
     * change. */
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    if (stat(names.directory, &st) != 0) {
        names.slot = NULL;
        return names;
    }
    if (!absent_is_same(&names.slot->directory, &st)) {
        look_again(names.slot, names.directory, &st, now);
    }
    names.known = names.slot->known;
    return names;
}

/* Is the name absent from the directory as it was examined? Both are checked through one
 * descriptor, since the path may lead to another directory now, and back again later. A dangling
 * symbolic link is not absent: its target may appear in another directory. */
static bool is_absent(const struct absent_names *names, struct str name)
{
    const char *slash = memrchr(name.data, '/', name.len);
    int directory = open(names->directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct stat st;

    if (directory == -1) {
        return false;
    }
    bool is_absent =
        fstat(directory, &st) == 0 && absent_is_same(&names->slot->directory, &st) &&
        fstatat(directory, slash == NULL ? name.data : slash + 1, &st, AT_SYMLINK_NOFOLLOW) != 0 &&
        errno == ENOENT;
    close(directory);
    return is_absent;
}

void absent_add(struct absent_names *names, struct str name, unsigned bit)
{
    struct absent_slot *slot = names->slot;

    names->known |= bit;
    if (slot == NULL) {
        return;
    }
    if (names->is_first) {
        *slot = (struct absent_slot){.hash = names->hash};
    } else if (slot->directory.inode != 0 && is_absent(names, name)) {
        slot->known |= bit;
    }
}

void absent_drop(void)
{
    free(slots);
    slots = NULL;
}
