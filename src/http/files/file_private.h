/* Shared by the files that implement file.h. */
#ifndef HTTP_FILES_FILE_PRIVATE_H
#define HTTP_FILES_FILE_PRIVATE_H

#include "http/files/file.h"

/* What to load from the disk, and under which rules. */
struct file_options {
    struct str path;     /* NUL-terminated */
    uint64_t hash;       /* of path; set if a cache is used */
    bool is_status_only; /* neither descriptor nor contents */
    size_t
        contents_max;  /* a file of at most this many bytes is read, and not kept open; 0 = none */
    unsigned symlinks; /* an enum disable_symlinks */
    size_t symlinks_from; /* bytes of path that are not checked for symbolic links */
    int64_t directio;     /* O_DIRECT is used from this size on; INT64_MAX = never */
    uint64_t read_ahead;  /* size of posix_fadvise(); 0 = none */
};

/* ---- file_open.c: the system calls ---- */

/* Makes a file with one reference, loaded from the disk. Errors are in file->error. */
struct file *file_load(const struct file_options *options);
/* Opens the directory at the path with O_PATH, under the rules about symbolic links. -1 with
 * errno. */
int directory_load(const struct file_options *options);
/* Makes an empty struct for this path. */
struct file *file_new(struct str path);
/* Copies the status, without descriptor and contents. */
struct file *file_copy_status(const struct file *from);
/* Is the file at the path the same, and unchanged? One stat(); not for files opened with
 * disable_symlinks. */
bool file_is_unchanged(const struct file *file);
/* Was the last change long enough before `now`, so that a later one cannot have the same ctime? */
bool file_is_settled(const struct stat *st, struct timespec now);
/* Is the path on a local file system, on which each change changes ctime? */
bool file_system_is_local(const char *path);

/* ---- file_cache.c: the cache ---- */

struct file_cache_limits {
    uint64_t files;       /* maximum number */
    uint64_t bytes;       /* maximum size of contents and structs */
    uint64_t inactive_ms; /* UINT64_MAX = unlimited */
};

struct file_cache *file_cache_new(const struct file_cache_limits *limits);
void file_cache_free(struct file_cache *cache);
uint64_t file_cache_hash(struct str path);
/* Finds the file of options->path, which becomes the most recently used, or NULL. Takes no
 * reference. */
struct file *file_cache_find(struct file_cache *cache, const struct file_options *options);
/* Adds the file (takes a reference) and removes the least recently used ones beyond the limits.
 * Replaces a file with the same path. */
void file_cache_put(struct file_cache *cache, struct file *file, uint64_t hash);
/* Removes the file (drops the reference). */
void file_cache_remove(struct file *file);
/* Removes files unused for longer than inactive_ms, at most this many. */
void file_cache_expire(struct file_cache *cache, uint64_t now_ms, unsigned at_most);
bool file_cache_is_empty(const struct file_cache *cache);

#endif
