/* Settings of ngx_http_core_module about served files in a location. A member without a comment has
 * the value of the directive with its name. */
#ifndef HTTP_ROUTING_FILE_SETTINGS_H
#define HTTP_ROUTING_FILE_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/map.h"
#include "base/str.h"
#include "conf/template.h"

/* Media types of files (types block). Keys are extensions in lower case. */
struct mime_types {
    struct map by_extension; /* struct str * */
};

enum disable_symlinks { SYMLINKS_ALLOWED, SYMLINKS_IF_NOT_OWNER, SYMLINKS_FORBIDDEN };
#define AIO_THREADS 2

struct file_settings {
    struct template *root; /* root or alias: a full path unless it begins with a variable */
    bool is_alias;
    struct mime_types *types;
    struct str default_type;
    bool sendfile;
    uint64_t sendfile_max_chunk;
    uint64_t read_ahead;
    unsigned aio; /* 0: off, 1: on (Linux native AIO in nginx; threads here), AIO_THREADS */
    struct template *aio_pool; /* name of the thread pool, may contain variables */
    bool aio_write;            /* with AIO_THREADS: threads write temporary files as well */
    int64_t directio;          /* bytes; INT64_MAX = off */
    int64_t directio_alignment;
    unsigned disable_symlinks;
    struct template *disable_symlinks_from;
    struct file_cache_settings *open_file_cache; /* NULL = off */
    uint64_t open_file_cache_valid_s;
    int64_t open_file_cache_min_uses;
    bool open_file_cache_errors;
    bool log_not_found;
    int64_t types_hash_bucket_size, types_hash_max_size; /* accepted and ignored */
    bool open_file_cache_events;                         /* accepted and ignored */
};

#endif
