/* ngx_http_slowfs_module: files of slow storage, cached on a fast one. Shared by its files.
 * Implemented in copy.c and handler.c. */
#ifndef HTTP_MODULES_CONTENT_SLOWFS_SLOWFS_H
#define HTTP_MODULES_CONTENT_SLOWFS_SLOWFS_H

#include "cache/cache.h"
#include "http/exchange/options/valid.h"
#include "http/files/file.h"
#include "http/request/offload.h"
#include "http/request/request.h"

/* Settings of a location. */
struct slowfs_settings {
    struct cache *cache;    /* NULL = off */
    struct template *key;   /* NULL = the file's path */
    struct vec valid;       /* struct cache_valid */
    int64_t min_uses;       /* requests before a file is copied */
    uint64_t big_file_size; /* bytes; requests for a larger file do not wait for its copy */
    struct wanted_path
        *temp_path; /* for copies in progress; NULL = next to their final path in the cache */
};

extern struct settings_key slowfs_key;

/* The threads that open and read slow files. */
extern const struct offload_pool slowfs_pool;

/* How long a claim on a key is valid: a copy may take this long before another one is started. */
#define SLOWFS_CLAIM_MS (300u * 1000)

/* What is cached about a file besides its contents, as meta.head. Two equal values mean the same
 * unchanged file. */
struct slowfs_head {
    struct timespec mtime, ctime;
    uint64_t is_settled; /* 0: it changed so shortly before the copy that a later change may not
                            show in its times */
};

/* Fills meta for this file, with this status, fresh for `seconds` from now. meta points to *head,
 * which is filled as well. */
void slowfs_meta(const struct file *file, unsigned status, uint64_t seconds,
                 struct slowfs_head *head, struct cache_meta *meta);

/* The content phase. MAY WAIT. */
enum handler_result slowfs_answer(struct request *request);
/* The cache key: the configured key, and the settings of this location that decide whether access
 * to the file is allowed. */
struct str slowfs_key_of(struct request *request, struct str key);
/* $slowfs_cache_status of a request; empty = not set. */
struct str slowfs_status(struct request *request);

/* Starts to copy an open file into the cache, under the key of this access, on a separate fiber;
 * the copy continues without the request. Fibers that wait for the key are woken at the end. False:
 * too many copies are in progress, or the worker ends. */
bool slowfs_copy_begin(const struct request *request, const struct cache_access *access,
                       struct file *file, uint64_t seconds);
/* Stops copies for this generation: those in progress are abandoned. */
void slowfs_copies_end(const struct generation *generation);

#endif
