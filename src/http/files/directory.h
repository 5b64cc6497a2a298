/* Directories: the names in them. */
#ifndef HTTP_FILES_DIRECTORY_H
#define HTTP_FILES_DIRECTORY_H

#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "http/request/request.h"

/* One name in a directory. */
struct directory_entry {
    struct str name;
    time_t mtime;
    uint64_t size; /* bytes */
    bool is_directory;
    bool is_file;
};

/* A directory that is being read. */
struct directory {
    struct request *request; /* on whose behalf */
    DIR *stream;             /* NULL: it was closed */
    bool hides_symlinks;     /* they are not listed */
    bool shows_hidden;       /* names that begin with a dot are given, too, but "." and ".." */
    unsigned looked_at;      /* names, since others had their turn */
};

/*
 * Opens the one that the URI leads to, which ends in a slash. HANDLER_NEXT: done; else why not,
 * which was logged. Blocks for the disk.
 */
enum handler_result directory_open(struct directory *directory, struct request *request);
/*
 * The next name, which holds until the call after it. What a symbolic link leads to is given, or
 * the link itself where that is nothing. False: there is no more, or the request ends. MAY WAIT for
 * others to have their turn.
 */
bool directory_next(struct directory *directory, struct directory_entry *out);
void directory_close(struct directory *directory);

/* What a listing takes of the names, and in which order. */
struct directory_view {
    bool (*is_ignored)(const void *arg, struct str name); /* or NULL: all are taken */
    int (*compare)(const void *a, const void *b,
                   void *arg); /* two struct directory_entry, as qsort_r has it */
    void *arg;
};

/*
 * All names that are left, in order, as an array of struct directory_entry, which counts towards
 * request_memory_limit and lives as long as the request; and closes it. MAY WAIT for others to have
 * their turn. False: the request ends.
 */
bool directory_read(struct directory *directory, const struct directory_view *view,
                    struct vec *entries);

#endif
