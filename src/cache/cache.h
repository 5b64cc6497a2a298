/* The response cache: keys, an index in shared memory, files, their loader and manager. Knows no
 * protocol: headers and bodies are bytes. Implemented in access.c, content.c, fill.c, path.c and
 * purge.c. */
#ifndef CACHE_CACHE_H
#define CACHE_CACHE_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/str.h"
#include "conf/directive.h"
#include "server/generation.h"

#define CACHE_KEY_SIZE 16

/* A `*_cache_path`: a directory and its index. */
struct cache {
    struct str name;               /* of keys_zone */
    struct wanted_path *path;      /* with levels */
    struct wanted_path *temp_path; /* files being written; NULL = below path (use_temp_path=off) */
    /* use_temp_path=on (the default): files are written where *_temp_path says, then renamed or
     * copied */
    bool uses_temp_path;
    uint64_t inactive_ms;                 /* entries that were not used for so long are removed */
    int64_t max_size;                     /* bytes; INT64_MAX = no limit */
    int64_t min_free;                     /* bytes to keep free on the file system; 0 = no limit */
    unsigned manager_files, loader_files; /* largest number of files in one run */
    uint64_t manager_sleep_ms, manager_threshold_ms, loader_sleep_ms,
        loader_threshold_ms; /* pause after each run; longest run */
    /* purger=on: entries purged by prefix are removed with the limits below, not with the
     * manager's */
    bool purger;
    unsigned purger_files;                         /* largest number of files in one run */
    uint64_t purger_sleep_ms, purger_threshold_ms; /* pause after each run; longest run */
    struct cache_sync *sync;      /* passes purges to other nodes; NULL: not configured */
    bool has_shared_fetches;      /* responses that other nodes have fetched may be stored here */
    struct zone *zone;            /* of the index */
    void *index;                  /* private to this package: root of the zone in this process */
    void *worker_state;           /* private to this package: the manager */
    const struct conf_node *node; /* its line in the configuration */
};

/* Applies every *_cache_path directive (IN_HTTP); parses all parameters. */
bool cache_path_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                      void *settings);
/*
 * The cache of a zone name; may be called before its *_cache_path was read. NULL after conf_error.
 * cache_configured reports names that no path has declared (`"proxy_cache" zone "x" is unknown`).
 */
struct cache *cache_use(struct conf *conf, const struct conf_node *node, struct str name);
/* Visits each cache of a generation. */
void cache_each(struct generation *generation, void (*visit)(const struct cache *cache, void *arg),
                void *arg);
/* The cache of this name at run time (`proxy_cache $var`), or NULL. */
struct cache *cache_find(struct generation *generation, struct str name);

/* Hooks: check names and create indexes; in workers: start the loader and manager, which run in one
 * worker, the first slot if it is alive. */
bool cache_configured(struct conf *conf, struct generation *generation);
bool cache_worker_start(struct generation *generation);
void cache_worker_quit(struct generation *generation);
/* The worker aborts open work: the same as quit. */
void cache_worker_abort(struct generation *generation);
/* The worker ends: the index file is written, and kept contents are released. */
void cache_worker_end(struct generation *generation);

/* Information about a stored response. All times are seconds since the epoch. */
struct cache_meta {
    time_t valid_until;                /* fresh until the end of that second, as in nginx */
    time_t stale_while_updating_until; /* stale-while-revalidate; 0 = none */
    time_t stale_if_error_until;       /* stale-if-error; 0 = none */
    time_t date;                       /* when it was fetched */
    time_t last_modified;              /* -1 = none */
    struct str etag;                   /* with quotes; empty = none */
    struct str vary;                   /* value of Vary; empty = none */
    uint8_t variant[CACHE_KEY_SIZE];   /* of the request's fields named in vary; zero = none */
    unsigned status;                   /* of the response */
    struct str head;    /* packed by the caller: what a response needs in addition to its body */
    uint64_t body_size; /* bytes */
};

enum cache_found {
    CACHE_MISS,   /* not stored; the caller may fill it */
    CACHE_SCARCE, /* used fewer than min_uses times: pass the request on, do not fill */
    CACHE_FRESH,
    CACHE_EXPIRED, /* stored, but valid_until has passed */
    CACHE_ERROR,   /* its file cannot be read (logged): treat it as a miss */
    CACHE_FAILED,  /* all backends failed recently for this key: access->failed_status */
};

struct cache_entry;   /* an entry of the index; private to this package */
struct cache_content; /* an open file or memory; private to this package */

/* A request's access to one key. All zero at first; ended by cache_close. */
struct cache_access {
    struct cache *cache;          /* to look in */
    struct arena *arena;          /* of the request */
    const struct log *log;        /* of the request */
    struct str key;               /* value of *_cache_key */
    uint8_t hash[CACHE_KEY_SIZE]; /* of key; of key and variant after cache_open_variant */
    unsigned min_uses;            /* requests for a key before it is worth storing */
    /* Times that this request has passed through this service, below CACHE_ROUNDS. */
    unsigned rounds;
    struct cache_entry *entry;     /* a hint, or NULL */
    struct cache_content *content; /* for FRESH and EXPIRED; referenced */
    struct cache_meta meta;        /* of content; strings are valid as long as the access */
    unsigned failed_status;        /* for FAILED: 502 or 504 */
    bool is_updating;              /* another request is fetching it now */
    /* This request fetches it: has to end with cache_fill_commit, cache_refresh or cache_close. */
    bool is_mine;
    struct cache_fill *fill; /* while a response is being written */
    /* Private to this package: */
    uint8_t main_hash[CACHE_KEY_SIZE]; /* of the key alone, once computed */
    uint8_t variant[CACHE_KEY_SIZE];   /* of the last lookup; zero = the key alone */
    bool has_main_hash, has_hash;      /* they are computed */
    uint64_t claim;                    /* number of the claim while it is_mine */
    uint64_t seen_claim;   /* number of another request's claim, for which cache_wait waits */
    uint64_t seen_version; /* what was stored at the lookup */
};

#define CACHE_ROUNDS 16u

/* Looks the key up and counts a use. */
enum cache_found cache_open(struct cache_access *access);
/* The stored response is for other field values (meta.vary, meta.variant): looks up the variant for
 * these. */
enum cache_found cache_open_variant(struct cache_access *access,
                                    const uint8_t variant[CACHE_KEY_SIZE]);
/* The hash of the field values that select a variant. */
void cache_variant(struct str text, uint8_t out[CACHE_KEY_SIZE]);

/* Claims the key: this request will fetch it (is_mine). False: another request fetches it
 * (is_updating). */
bool cache_claim(struct cache_access *access, uint64_t lock_age_ms);
enum cache_lock_result { CACHE_LOCK_READY, CACHE_LOCK_TIMED_OUT, CACHE_LOCK_CANCELLED };
/*
 * Waits until the other request is done, or for timeout_ms; call cache_open after that. If the
 * other request has passed through this service less often, it may wait for this very request:
 * times out at once. MAY WAIT.
 */
enum cache_lock_result cache_wait(struct cache_access *access, uint64_t timeout_ms);

/*
 * The stored body: in memory (bytes is set), or in a file (fd, offset). The content is valid while
 * a reference is held; cache_content_hold adds one for queued output, and cache_content_release
 * releases it.
 */
struct cache_body {
    struct str bytes; /* data NULL: it is in the file */
    int fd;           /* of the file; -1 = in memory */
    uint64_t offset;  /* of the body's first byte in the file */
    uint64_t size;    /* bytes */
};
void cache_body_of(const struct cache_access *access, struct cache_body *out);
void cache_content_hold(struct cache_content *content);
void cache_content_release(void *content);

/*
 * Stores a response: begin creates a fill; write appends bytes of the body (small bodies stay in
 * memory, others go to a temporary file); commit makes the response available under the key (and
 * meta->variant); abort drops it. False: logged, the response is not stored and the fill is freed.
 * meta is needed at commit only; meta->body_size is set from the written bytes. After commit
 * access->content is the stored response.
 */
bool cache_fill_begin(struct cache_access *access, struct wanted_path *temp_path);
/*
 * The response was requested so long before the fill began. False: it was purged since then, or may
 * have been: the time is before this service began, and earlier purges of single keys are unknown.
 */
bool cache_fill_date_back(struct cache_access *access, uint64_t ms);
bool cache_fill_write(struct cache_access *access, struct str bytes);
bool cache_fill_commit(struct cache_access *access, const struct cache_meta *meta);
void cache_fill_abort(struct cache_access *access);

/*
 * All backends failed: until the end of second `until` lookups give CACHE_FAILED with this status
 * (502 or 504), without a request to a backend. Only in the index; a stored response is kept and
 * found again after that. Storing or purging ends this state. It does not begin if a response was
 * stored since the lookup.
 */
void cache_fail(struct cache_access *access, unsigned status, time_t until);

/* The backend confirmed the stored response (304): updates its times. */
bool cache_refresh(struct cache_access *access, const struct cache_meta *meta);

/* Ends the claim and an unfinished fill, and wakes waiting requests; the content remains usable. */
void cache_unclaim(struct cache_access *access);

/* Ends the access: releases content, claim and unfinished fill. */
void cache_close(struct cache_access *access);

/* Removes a key with all its variants; true: it was stored. MAY WAIT for the store, if the cache
 * has `sync`. */
bool cache_purge(struct cache *cache, struct str key, const struct log *log);
/* Purges all keys that begin with the prefix (`…*`): they are unusable at once, and their files are
 * removed later. Removes some now, for at most a second, and gives their number. MAY WAIT. */
uint64_t cache_purge_prefix(struct cache *cache, struct str prefix, const struct log *log);

/* How a request was served, for the counters: one call for each request that uses a cache. */
enum cache_counter {
    CACHE_COUNT_HIT,
    CACHE_COUNT_MISS,
    CACHE_COUNT_EXPIRED,
    CACHE_COUNT_STALE,
    CACHE_COUNT_UPDATING,
    CACHE_COUNT_REVALIDATED,
    CACHE_COUNT_BYPASS,
    CACHE_COUNT_SCARCE,
    CACHE_COUNTERS
};
void cache_count(const struct cache *cache, enum cache_counter which);
/* Counts the bytes of a body, sent or received; is_written: the response was also stored. */
void cache_count_body(const struct cache *cache, enum cache_counter which, uint64_t bytes,
                      bool is_written);

/* Fetches that nodes share (shared_fetch.h). */
enum cache_shared_counter {
    CACHE_SHARED_FETCHED,  /* fetches of this node for all nodes */
    CACHE_SHARED_GIVEN,    /* of these: responses that the store accepted */
    CACHE_SHARED_WITHHELD, /* of these: responses that other nodes may not use */
    CACHE_SHARED_DROPPED, /* of these: responses that did not reach the store, or exceeded limits */
    CACHE_SHARED_TAKEN,   /* responses of other nodes that were stored here */
    CACHE_SHARED_TIMED_OUT,  /* requests that waited for another node without a result */
    CACHE_SHARED_GONE,       /* times that the store did not answer */
    CACHE_SHARED_UNREADABLE, /* times that the store had no valid response of a node with this
                                password */
    CACHE_SHARED_COUNTERS
};
void cache_count_shared(const struct cache *cache, enum cache_shared_counter which);
uint64_t cache_shared_figure(const struct cache *cache, enum cache_shared_counter which);

/* For status pages. */
struct cache_stats {
    uint64_t entries, bytes; /* on disk */
    int64_t max_size;        /* of the settings */
    bool is_cold;            /* the index is not complete */
    uint64_t hits, misses, expired, stale, updating, revalidated, bypassed,
        scarce; /* requests, by enum cache_counter */
};
void cache_stats_of(const struct cache *cache, struct cache_stats *out);
/* The figures of one counter. */
struct cache_figures {
    uint64_t requests, bytes, written, written_bytes;
};
struct cache_figures cache_figures_of(const struct cache *cache, enum cache_counter which);
/* Resets all counters to 0. */
void cache_stats_reset(const struct cache *cache);

#endif
