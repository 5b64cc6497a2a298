/* What the files about files share among themselves. */
#ifndef HTTP_FILES_FILE_PRIVATE_H
#define HTTP_FILES_FILE_PRIVATE_H

#include "http/files/file.h"

/* What one look at the disk is to bring, and under which rules. */
struct file_options {
    struct str path;     /* NUL-terminated */
    uint64_t hash;       /* of path; set where a cache is used */
    bool is_status_only; /* neither descriptor nor contents */
    size_t
        contents_max;  /* bytes of a file that is read whole, instead of its descriptor; 0 = none */
    unsigned symlinks; /* enum disable_symlinks */
    size_t symlinks_from; /* bytes of path that are not checked for links */
    int64_t directio;     /* bytes from which on O_DIRECT is used; INT64_MAX = never */
    uint64_t read_ahead;  /* bytes that the kernel is advised of; 0 = none */
};

/* ---- file_open.c: the system calls ---- */

/* A new file with one reference, filled from the disk. file->error tells of failures. */
struct file *file_load(const struct file_options *options);
/* The directory at the path, O_PATH, under the rules about links. -1 with errno. */
int directory_load(const struct file_options *options);
/* A new one, empty, for this path. */
struct file *file_new(struct str path);
/* A copy of the status, without descriptor and contents. */
struct file *file_copy_status(const struct file *from);
/* Is what lies at the path the same file, unchanged? One stat; not for those opened with
 * disable_symlinks. */
bool file_is_unchanged(const struct file *file);
/* Was the last change long enough before `now`, so that a later one cannot have the same ctime? */
bool file_is_settled(const struct stat *st, struct timespec now);
/* Is this on a file system of this machine, on which each change moves ctime? */
bool file_system_is_local(const char *path);

/* ---- file_cache.c: what is kept ---- */

struct file_cache_limits {
    uint64_t files;       /* at most so many */
    uint64_t bytes;       /* of contents and their books */
    uint64_t inactive_ms; /* UINT64_MAX = no limit */
};

struct file_cache *file_cache_new(const struct file_cache_limits *limits);
void file_cache_free(struct file_cache *cache);
uint64_t file_cache_hash(struct str path);
/* The file of options->path, now the most recently used, or NULL. No reference is taken. */
struct file *file_cache_find(struct file_cache *cache, const struct file_options *options);
/* Keeps it (one reference is taken); what is used least goes when there is too much. Replaces one
 * of the same path. */
void file_cache_put(struct file_cache *cache, struct file *file, uint64_t hash);
/* Forgets it (its reference is dropped). */
void file_cache_remove(struct file *file);
/* Forgets those that were not used for `inactive`, at most so many. */
void file_cache_expire(struct file_cache *cache, uint64_t now_ms, unsigned at_most);
bool file_cache_is_empty(const struct file_cache *cache);

#endif
