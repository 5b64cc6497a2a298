/* Files to be served: descriptor, status and small contents, cached per worker and compared with
 * the disk. Implemented in file.c, copy_filter.c and file_open.c. */
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
    uint64_t max;             /* number of files */
    uint64_t inactive_s;      /* unused files are removed after this time */
    struct file_cache *cache; /* of this worker, made on first use */
};

/* The largest file whose contents are cached. With sendfile, sending a larger file from a
 * descriptor is cheaper: measured, both cost the same at about 10 KB. */
#define FILE_CONTENTS_MAX (64 * 1024)
#define FILE_CONTENTS_MAX_SENDFILE (8 * 1024)

/* A file, used by one or more requests; reference-counted. Small regular files have their contents
 * in memory, larger ones keep their descriptor open for a while: a later request that finds device,
 * inode, size, mtime and ctime unchanged (by one stat) sends from memory, or from that descriptor.
 *
 * This relies on the kernel: each change of contents changes ctime, which cannot be set. ctime
 * comes from a clock with ticks (1 to 10 ms), so contents are trusted only if ctime was older than
 * the reading by more than a few ticks (is_settled); a file that was changed later is read again
 * for each request. Contents are cached only on file systems that are known to behave so (local
 * ones); only a page that another process has mapped for writing is noticed late, when the kernel
 * writes it back. */
struct file {
    /* For users of files. */
    unsigned references;
    int fd;             /* -1 if there is only the status, or the contents */
    int error;          /* errno if it could not be opened, else 0 */
    const char *failed; /* "open", "stat", …: the system call that failed */
    uint64_t size;      /* bytes */
    time_t mtime;
    uint64_t inode;
    bool is_directory, is_file, is_executable;
    bool is_directio;         /* fd has O_DIRECT: reads must be aligned */
    struct str contents;      /* data == NULL: not loaded */
    struct str etag;          /* with quotes; both are empty before file_describe */
    struct str last_modified; /* as an HTTP date */

    /* For the cache. */
    struct file *next;        /* in the same bucket */
    struct list lru_node;     /* in file_cache.lru */
    struct file_cache *cache; /* the cache it is in, or NULL */
    struct str path;          /* NUL-terminated; stored after this struct */
    uint64_t hash;            /* hash of path */
    uint64_t device;
    struct timespec mtime_ns; /* mtime with nanoseconds */
    struct timespec ctime_ns;
    uint64_t checked_ms; /* when it was last compared with the disk */
    uint64_t used_ms;
    uint64_t uses;        /* within `inactive` */
    size_t symlinks_from; /* bytes of path that were not checked for symbolic links */
    uint8_t symlinks;     /* the enum disable_symlinks it was opened with */
    bool is_settled;      /* contents can be trusted as long as the status is unchanged */

    /* The media type that was found last, and its input; in the generation. */
    const struct mime_types *types;
    struct str default_type;
    struct str extension; /* points into path */
    struct str type;
    bool owns_contents; /* malloc'ed */
    char texts[64];     /* etag and last_modified point here */
};

/* Opens a file, or finds it in the cache, with the rules of the location: cache, symlinks,
 * directio. Blocks on the disk, not on peers. path is NUL-terminated. Never NULL: file->error has
 * the error. The caller releases it, or passes it on as release_arg of the last body piece
 * (file_release). */
struct file *file_open(struct request *request, struct str path);
/* The settings of the request's location that decide, in addition to the system, whether a file may
 * be opened: a string to add to keys of cached results. Empty if symbolic links are allowed. */
struct str file_access_key(struct request *request);
/* Only the status: no descriptor, no contents (try_files, `if -f`, index). */
struct file *file_stat(struct request *request, struct str path);
void file_release(void *file);
/* Opens the directory at a path (NUL-terminated) with O_PATH, subject to disable_symlinks, to work
 * on the names in it. The caller closes it. -1 with errno. */
int file_open_directory(struct request *request, struct str path);

/* A struct for a file whose contents are stored elsewhere, with this size and mtime. For
 * response_describe_file. */
struct file *file_of_status(struct str path, uint64_t size, time_t mtime);

/* Formats etag and last_modified. */
void file_describe(struct file *file);

/* Sets the response header for this file, or a part of it, with this length: status 200,
 * validators, type; ranges are allowed. Call before response_start. */
void response_describe_file(struct request *request, struct file *file, uint64_t length);

/* Sends a part of the file. Takes over the reference. MAY WAIT. False: the client is gone. */
bool response_send_part(struct request *request, struct file *file, uint64_t offset, uint64_t size,
                        bool is_last);
/* Responds with a file that was opened without an error and is not a directory: status 200,
 * validators, type, body. Takes over the reference. MAY WAIT. */
enum handler_result response_file(struct request *request, struct file *file);

/* The status for an opened file: 200, 301 for a directory, 403, 404, or 500. */
unsigned file_status(const struct file *file);
/* Responds to GET and HEAD: with the file, a redirect to the directory with a trailing slash, or an
 * error. Takes over the reference. MAY WAIT. */
enum handler_result response_opened_file(struct request *request, struct file *file);
/* Redirects from the name of a directory to the name with a trailing slash. */
enum handler_result response_directory_slash(struct request *request);

/* The status for a failed open (404, 403, 500). Logged as in nginx: `open() "P" failed (2: No such
 * file or directory)`; a missing file only with log_not_found. */
unsigned file_failure(struct request *request, const struct file *file);
/* Sets that status. Releases the file. */
enum handler_result request_fail_file(struct request *request, struct file *file);

/* The beginning of content handlers for files: opens the file of the URI, for GET and HEAD. NULL:
 * *result is what the handler returns; HANDLER_NEXT if it is another kind, such as a directory. */
struct file *request_open_file(struct request *request, enum handler_result *result);

/* Are pieces of files read into memory before the connection gets them? */
bool response_reads_files(const struct request *request);
/* response_send for a piece in a file: filters after the range filter that need bytes get them
 * (copy_filter.c). MAY WAIT. False: the client is gone. */
bool response_send_file(struct request *request, const struct body_piece *piece, bool is_last);
/* Call before response_start if a body filter needs bytes rather than pieces of files. */
void response_needs_memory(struct request *request);

/* For slow storage: file_open on a thread, without the caches of files. *out is set after
 * THREAD_CALL_DONE. MAY WAIT. */
enum thread_called file_open_offloaded(struct request *request, const struct offload_pool *pool,
                                       struct str path, struct file **out);

/* Clears the caches (worker end, tests). */
void file_cache_drop(void);

/* The thread pool of `aio` in the request's location; NULL: there is none, which was logged. */
struct thread_pool *request_thread_pool(struct request *request);

#endif
