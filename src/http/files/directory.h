/* Reads the names in directories. */
#ifndef HTTP_FILES_DIRECTORY_H
#define HTTP_FILES_DIRECTORY_H

#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "http/request/request.h"

/* An entry of a directory. */
struct directory_entry {
    struct str name;
    time_t mtime;
    uint64_t size; /* bytes */
    bool is_directory;
    bool is_file;
};

/* A directory that is being read. */
struct directory {
    struct request *request; /* the request that reads it */
    DIR *stream;             /* NULL: closed */
    bool hides_symlinks;     /* symbolic links are not listed */
    bool shows_hidden;       /* names that begin with a dot are listed, except "." and ".." */
    unsigned looked_at;      /* names since other requests had a turn */
};

/* Opens the directory of the URI, which ends in a slash. HANDLER_NEXT: done; otherwise the error
 * was logged. Blocks on the disk. */
enum handler_result directory_open(struct directory *directory, struct request *request);
/* Gets the next name, which is valid until the next call. For a symbolic link the entry describes
 * its target, or the link itself if it is dangling. False: there are no more, or the request ends.
 * MAY WAIT to give others a turn. */
bool directory_next(struct directory *directory, struct directory_entry *out);
void directory_close(struct directory *directory);

/* Selection and order of a listing. */
struct directory_view {
    bool (*is_ignored)(const void *arg, struct str name); /* or NULL: all are listed */
    int (*compare)(const void *a, const void *b,
                   void *arg); /* compares two struct directory_entry, as for qsort_r */
    void *arg;
};

/* Reads all remaining names as a sorted array of struct directory_entry, which counts towards
 * request_memory_limit and lives as long as the request; closes the directory. MAY WAIT to give
 * others a turn. False: the request ends. */
bool directory_read(struct directory *directory, const struct directory_view *view,
                    struct vec *entries);

#endif
