/* Access logs whose paths contain variables: opened when a line is written, kept open by
 * open_log_file_cache. */
#ifndef SHARED_LOG_PATH_H
#define SHARED_LOG_PATH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/list.h"
#include "base/log.h"
#include "base/str.h"
#include "conf/conf.h"

/* open_log_file_cache and, in each worker, the cached descriptors. */
struct log_path_cache {
    uint64_t max;        /* entries */
    uint64_t inactive_s; /* an entry that was not used for this time is removed */
    uint64_t valid_s;    /* how often it is checked whether the path still leads to the same file */
    uint64_t min_uses;   /* uses within inactive_s after which the descriptor stays open */
    struct list *slots;  /* slot_count lists of entries, by hash of the path */
    unsigned slot_count; /* a power of two */
    struct list recent;  /* all entries, the most recently used first */
    uint64_t count;      /* number of entries */
};

struct log_path_cache *log_path_cache_new(struct arena *arena, uint64_t max);

/* Reads an `open_log_file_cache`; *cache is NULL when it is off. False after conf_error. */
bool log_path_cache_read(struct conf *conf, const struct conf_node *node,
                         struct log_path_cache **cache);

/*
 * Appends one line to the file with this path (NUL-terminated), which is created if necessary.
 * cache may be NULL. A failure is logged, and the line is lost.
 */
void log_path_write(struct log_path_cache *cache, struct str path, struct str line,
                    const struct log *log);

#endif
