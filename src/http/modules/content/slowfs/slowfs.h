/* ngx_http_slowfs_module: files of slow storage, kept in a cache on a fast one. What its files
 * share. Implemented in copy.c and handler.c. */
#ifndef HTTP_MODULES_CONTENT_SLOWFS_SLOWFS_H
#define HTTP_MODULES_CONTENT_SLOWFS_SLOWFS_H

#include "cache/cache.h"
#include "http/exchange/options/valid.h"
#include "http/files/file.h"
#include "http/request/offload.h"
#include "http/request/request.h"

/* At one location. */
struct slowfs_settings {
    struct cache *cache;    /* NULL = off */
    struct template *key;   /* NULL = the file's path */
    struct vec valid;       /* struct cache_valid */
    int64_t min_uses;       /* requests before a file is copied */
    uint64_t big_file_size; /* bytes: who asks for a larger file does not wait for its copy */
    struct wanted_path
        *temp_path; /* of copies being made; NULL = beside their place in the cache */
};

extern struct settings_key slowfs_key;

/* The threads that open and read what is slow. */
extern const struct offload_pool slowfs_pool;

/* How long a claim on a key holds: a copy may take as long before another one is begun. */
#define SLOWFS_CLAIM_MS (300u * 1000)

/* What is kept of a file besides its bytes, as meta.head: two that are equal were one file,
 * unchanged. */
struct slowfs_head {
    struct timespec mtime, ctime;
    uint64_t is_settled; /* 0: it had changed so shortly before that a later change may not show */
};

/* Fills meta for this file, with this status, kept for so long from now. The head is put into
 * *head, which meta points to. */
void slowfs_meta(const struct file *file, unsigned status, uint64_t seconds,
                 struct slowfs_head *head, struct cache_meta *meta);

/* The content phase. MAY WAIT. */
enum handler_result slowfs_answer(struct request *request);
/* The key of what is kept: what was configured, and what decides at this place whether a file may
 * be had. */
struct str slowfs_key_of(struct request *request, struct str key);
/* $slowfs_cache_status of a request; empty = none. */
struct str slowfs_status(struct request *request);

/*
 * Begins to copy a file that is open into the cache, under the key of this access, on a fiber of
 * its own; the copy continues without the request. Fibers that wait for the key are woken at the
 * end. False: too many are being made, or the worker ends.
 */
bool slowfs_copy_begin(const struct request *request, const struct cache_access *access,
                       struct file *file, uint64_t seconds);
/* No more copies for this generation: those that are being made are abandoned. */
void slowfs_copies_end(const struct generation *generation);

#endif
