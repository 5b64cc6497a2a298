/* Files to be served: open, status, small contents, kept per worker and checked against the disk.
 * Implemented in file.c, copy_filter.c and file_open.c. */
#ifndef HTTP_FILES_FILE_H
#define HTTP_FILES_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <time.h>

#include "base/list.h"
#include "base/str.h"
#include "http/message/handler_result.h"
#include "http/request/offload.h"

struct body_piece;
struct request;
struct file_cache;
struct mime_types;

/* open_file_cache max= inactive= */
struct file_cache_settings {
    uint64_t max;             /* files */
    uint64_t inactive_s;      /* unused for so long, and a file is forgotten */
    struct file_cache *cache; /* of this worker, made on first use */
};

/*
 * Bytes of the largest file whose contents are kept. With sendfile a larger file costs less by its
 * descriptor: measured, both cost the same at about 10 KB.
 */
#define FILE_CONTENTS_MAX (64 * 1024)
#define FILE_CONTENTS_MAX_SENDFILE (8 * 1024)

/*
 * A file as one or many requests use it; counted references. Small regular files carry their
 * contents, larger ones keep their descriptor for a while: a later request that finds device,
 * inode, size, mtime and ctime unchanged (one stat) sends from memory, or from that descriptor.
 *
 * What the kernel says with that: each change of contents moves ctime, which nobody can set. ctime
 * comes from a clock that ticks (1 to 10 ms), so contents are trusted only if ctime was older than
 * the reading by more than a few ticks (is_settled); a younger file is read again for each request.
 * Kept are only contents of file systems that are known to behave so (local ones); a page that
 * stays mapped for writing in another process is the one thing that is noticed late, when the
 * kernel writes it back.
 */
struct file {
    /* What the users see. */
    unsigned references;
    int fd;             /* -1 when only status or contents are here */
    int error;          /* errno when it could not be opened, else 0 */
    const char *failed; /* "open", "stat", …: the system call that failed */
    uint64_t size;      /* bytes */
    time_t mtime;
    uint64_t inode;
    bool is_directory, is_file, is_executable;
    bool is_directio;         /* fd was opened with O_DIRECT: reads have to be aligned */
    struct str contents;      /* data == NULL: not here */
    struct str etag;          /* laid out with quotes; both empty until file_describe */
    struct str last_modified; /* laid out as an HTTP date */

    /* Of the cache. */
    struct file *next;        /* of the same bucket */
    struct list lru_node;     /* most recently used first */
    struct file_cache *cache; /* where it is kept, or NULL */
    struct str path;          /* NUL-terminated; lies after this struct */
    uint64_t hash;            /* of path */
    uint64_t device;
    struct timespec mtime_ns; /* the whole of it */
    struct timespec ctime_ns;
    uint64_t checked_ms; /* when it was last compared with the disk */
    uint64_t used_ms;
    uint64_t uses;        /* within `inactive` */
    size_t symlinks_from; /* bytes of path that were not checked for links */
    uint8_t symlinks;     /* enum disable_symlinks it was opened with */
    bool is_settled;      /* contents may be trusted while the status stays the same */

    /* The media type that was found last, and what it was found for; in the generation. */
    const struct mime_types *types;
    struct str default_type;
    struct str extension; /* a part of path */
    struct str type;
    bool owns_contents; /* malloc'ed */
    char texts[64];     /* of etag and last_modified */
};

/*
 * Opens (or finds) for serving, with the rules of the location: cache, symlinks, directio. Blocks
 * for the disk, not for peers. path is NUL-terminated. Never NULL: file->error says what went
 * wrong. The caller releases it, or passes it on as release_arg of the last body piece
 * (file_release).
 */
struct file *file_open(struct request *request, struct str path);
/*
 * What of the request's place decides whether a file may be opened, besides the system: a text for
 * keys under which the outcome is kept. Empty where links are allowed.
 */
struct str file_access_key(struct request *request);
/* Status only: no descriptor, no contents (try_files, `if -f`, index). */
struct file *file_stat(struct request *request, struct str path);
void file_release(void *file);
/*
 * The directory at a path (NUL-terminated), O_PATH, as disable_symlinks allows it: for work on the
 * names in it. The caller closes it. -1 with errno.
 */
int file_open_directory(struct request *request, struct str path);

/* A file that others keep the bytes of: so long, changed then, opened at that path. For
 * response_describe_file. */
struct file *file_of_status(struct str path, uint64_t size, time_t mtime);

/* Lays out etag and last_modified. */
void file_describe(struct file *file);

/*
 * The head of an answer that is made of this file, or of a part of it, and is so long: status 200,
 * validators, type; ranges are allowed. Before response_start.
 */
void response_describe_file(struct request *request, struct file *file, uint64_t length);

/* Sends this part of the file, which has it. Takes over the reference. MAY WAIT. False: the client
 * is gone. */
bool response_send_part(struct request *request, struct file *file, uint64_t offset, uint64_t size,
                        bool is_last);
/*
 * Answers with this file, which was opened without an error and is no directory: status 200,
 * validators, type, body. Takes over the reference. MAY WAIT.
 */
enum handler_result response_file(struct request *request, struct file *file);

/* What a file that was opened answers with: 200, 301 for a directory, 403, 404, or 500. */
unsigned file_status(const struct file *file);
/*
 * Answers with what was opened, for GET and HEAD: the file, a redirect to the directory with a
 * slash at its end, or a failure. Takes over the reference. MAY WAIT.
 */
enum handler_result response_opened_file(struct request *request, struct file *file);
/* Sends the client of a directory's name to the one with a slash at its end. */
enum handler_result response_directory_slash(struct request *request);

/*
 * The status that a failure to open comes to (404, 403, 500). It is logged as nginx does: `open()
 * "P" failed (2: No such file or directory)`, what is absent only where log_not_found wants it.
 */
unsigned file_failure(struct request *request, const struct file *file);
/* Answers with that status. Releases the file. */
enum handler_result request_fail_file(struct request *request, struct file *file);

/*
 * What handlers of one kind of file begin with: the file at the URI, for GET and HEAD. NULL:
 * *result is what the handler returns; HANDLER_NEXT where something else is there, as a directory.
 */
struct file *request_open_file(struct request *request, enum handler_result *result);

/* Are pieces of files read into memory before the wire has them? */
bool response_reads_files(const struct request *request);
/*
 * response_send for a body that is in a file, or a part of it: what wants bytes after the range
 * filter gets them (copy_filter.c). MAY WAIT. False: the client is gone.
 */
bool response_send_file(struct request *request, const struct body_piece *piece, bool is_last);
/* A body filter wants bytes, not pieces of files: before response_start. */
void response_needs_memory(struct request *request);

/*
 * For storage that may be slow: file_open on a thread, and the disk alone says what is there, not
 * what is kept of files. *out is set when it was done. MAY WAIT.
 */
enum thread_called file_open_offloaded(struct request *request, const struct offload_pool *pool,
                                       struct str path, struct file **out);

/* Forgets everything (worker end, tests). */
void file_cache_drop(void);

/* The pool that `aio` names at the place of the request; NULL: there is none, and that was logged.
 */
struct thread_pool *request_thread_pool(struct request *request);

#endif
