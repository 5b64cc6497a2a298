/* Access logs whose paths hold variables: opened when a line is written, kept open by
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

/* open_log_file_cache and, in each worker, the descriptors that it keeps. */
struct log_path_cache {
    uint64_t max;        /* entries */
    uint64_t inactive_s; /* an entry that was not used for so long goes */
    uint64_t valid_s;   /* after so long it is seen whether the path leads to the same file still */
    uint64_t min_uses;  /* uses within inactive_s after which the descriptor stays open */
    struct list *slots; /* slot_count heads of lists of entries, by hash of the path */
    unsigned slot_count; /* a power of two */
    struct list recent;  /* all entries, the one used last first */
    uint64_t count;      /* of entries */
};

struct log_path_cache *log_path_cache_new(struct arena *arena, uint64_t max);

/* What an `open_log_file_cache` says; *cache is NULL when it is off. False after conf_error. */
bool log_path_cache_read(struct conf *conf, const struct conf_node *node,
                         struct log_path_cache **cache);

/*
 * Appends one line to the file of this path (NUL-terminated), which is made when it is not there.
 * cache may be NULL. A failure is logged, the line is lost.
 */
void log_path_write(struct log_path_cache *cache, struct str path, struct str line,
                    const struct log *log);

#endif
