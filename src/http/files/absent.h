/*
 * Names beside a file that are known to be absent. A name that appears in a directory moves the
 * directory's ctime: as long as that stands still, one look at the directory answers for all names
 * that were looked for before.
 */
#ifndef HTTP_FILES_ABSENT_H
#define HTTP_FILES_ABSENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

struct request;
struct absent_slot;

/* What is known of the names beside one file, while a request looks for them. It does not outlive a
 * wait. */
struct absent_names {
    unsigned known;           /* bits of names, as the caller numbers them, that are absent */
    struct absent_slot *slot; /* where more of them can be kept, or NULL */
    uint64_t hash;            /* of the file's path */
    const char *directory;    /* that it is in, by path; of the request */
    bool is_first; /* nothing was asked about this file before: its directory was not looked at */
};

/*
 * What is known of the names beside the file at path, which is NUL-terminated. Looks at the
 * directory if a name beside this file was missed before, else not: files that are there pay
 * nothing. Blocks for the disk, not for peers.
 *
 * Nothing is ever known where that would say something else than another look: under
 * open_file_cache and disable_symlinks, whose answers have rules of their own, and on file systems
 * that keep their status for a while (of the network).
 */
struct absent_names absent_names(struct request *request, struct str path);
/* Opening the name, NUL-terminated, failed with ENOENT: it has this bit from now on. */
void absent_add(struct absent_names *names, struct str name, unsigned bit);

/* Forgets everything (worker end, tests). */
void absent_drop(void);

#endif
