/* A cache of names next to a file that do not exist. A new name in a directory changes the
 * directory's ctime: as long as that is unchanged, one stat() of the directory is sufficient for
 * all names that were looked up before. */
#ifndef HTTP_FILES_ABSENT_H
#define HTTP_FILES_ABSENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

struct request;
struct absent_slot;

/* The cached names of one file, during one request. Not valid after a wait. */
struct absent_names {
    unsigned known;           /* bits of absent names, as numbered by the caller */
    struct absent_slot *slot; /* where further absent names are stored, or NULL */
    uint64_t hash;            /* of the file's path */
    const char *directory;    /* path of its directory; in the request's arena */
    bool is_first;            /* the file has no cache entry: its directory was not examined */
};

/* Looks up which names next to the file at `path` (NUL-terminated) are known to be absent. Examines
 * the directory only if a name next to this file was found absent before: files that exist cost
 * nothing. Blocks on the disk, not on peers.
 *
 * Nothing is cached where the result could differ from another look at the disk: with
 * open_file_cache and disable_symlinks, which have rules of their own, and on file systems that
 * cache their status for a while (network file systems). */
struct absent_names absent_names(struct request *request, struct str path);
/* Opening the name (NUL-terminated) failed with ENOENT: stores that as this bit. */
void absent_add(struct absent_names *names, struct str name, unsigned bit);

/* Clears the cache (worker end, tests). */
void absent_drop(void);

#endif
