/* The response cache: keys, a zone's index in shared memory, files, their loader and manager. Knows
 * no protocol: heads are bytes that the caller packs, bodies are bytes. Implemented in access.c,
 * content.c, fill.c, path.c and purge.c. */
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

/* One `*_cache_path`: a directory and its index. */
struct cache {
    struct str name;               /* of keys_zone */
    struct wanted_path *path;      /* with levels */
    struct wanted_path *temp_path; /* files being written; NULL = below path (use_temp_path=off) */
    bool uses_temp_path;  /* use_temp_path=on (the default): written where *_temp_path says,
                                     then renamed or copied */
    uint64_t inactive_ms; /* what nobody asked for so long goes */
    int64_t max_size;     /* bytes; INT64_MAX = no limit */
    int64_t min_free;     /* bytes that stay free on the disk; 0 = not looked at */
    unsigned manager_files, loader_files; /* looked at in one go */
    uint64_t manager_sleep_ms, manager_threshold_ms, loader_sleep_ms,
        loader_threshold_ms; /* pause after each go; longest go */
    bool purger;             /* purged entries by prefix are removed from disk at once */
    unsigned purger_files;   /* files looked at in one go, then a sleep */
    uint64_t purger_sleep_ms,
        purger_threshold_ms;      /* pause between two runs, and how long one may take */
    struct cache_sync *sync;      /* other nodes get the purges of this one; NULL: they do not */
    bool has_shared_fetches;      /* what other nodes fetch may be stored here */
    struct zone *zone;            /* the index */
    void *index;                  /* of this package: root of the zone as this process sees it */
    void *worker_state;           /* of this package: kept descriptors and contents */
    const struct conf_node *node; /* its line */
};

/* Row apply of every prefix's cache_path (IN_HTTP); parses all parameters. */
bool cache_path_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                      void *settings);
/*
 * The cache of a zone name; may be called before its *_cache_path was read. NULL after conf_error.
 * cache_configured tells of names that no path declared (`"proxy_cache" zone "x" is unknown`).
 */
struct cache *cache_use(struct conf *conf, const struct conf_node *node, struct str name);
/* Each cache of a generation. */
void cache_each(struct generation *generation, void (*visit)(const struct cache *cache, void *arg),
                void *arg);
/* The cache of that name at run time (`proxy_cache $var`), or NULL. */
struct cache *cache_find(struct generation *generation, struct str name);

/* Hooks: check names and lay out zones; in workers: loader and manager run in the first slot. */
bool cache_configured(struct conf *conf, struct generation *generation);
bool cache_worker_start(struct generation *generation);
void cache_worker_quit(struct generation *generation);
/* The worker breaks off what is open: as quit. */
void cache_worker_abort(struct generation *generation);
/* Last words: the index file is written, kept contents are let go. */
void cache_worker_end(struct generation *generation);

/* What is known of a stored response besides its bytes. All times are seconds of the epoch. */
struct cache_meta {
    time_t valid_until;                /* fresh up to the end of that second, as in nginx */
    time_t stale_while_updating_until; /* stale-while-revalidate; 0 = none */
    time_t stale_if_error_until;       /* stale-if-error; 0 = none */
    time_t date;                       /* when it was fetched */
    time_t last_modified;              /* -1 = none */
    struct str etag;                   /* with quotes; empty = none */
    struct str vary;                   /* value of Vary; empty = none */
    uint8_t variant[CACHE_KEY_SIZE];   /* of the request's fields that vary names; zero = none */
    unsigned status;                   /* of the response */
    struct str head;    /* packed by the caller: what a response needs besides its body */
    uint64_t body_size; /* bytes */
};

enum cache_found {
    CACHE_MISS,   /* nothing there; the caller may fill it */
    CACHE_SCARCE, /* fewer than min_uses asked for it: pass on, do not fill */
    CACHE_FRESH,
    CACHE_EXPIRED, /* there, but valid_until has passed */
    CACHE_ERROR,   /* its file cannot be read (logged): as a miss */
    CACHE_FAILED,  /* lately no backend answered a request for it: access->failed_status */
};

struct cache_entry;   /* the shared node; of this package */
struct cache_content; /* an open file or memory; of this package */

/* A request's dealings with one key. All zero at first; closed by cache_close. */
struct cache_access {
    struct cache *cache;          /* that is asked */
    struct arena *arena;          /* of the request */
    const struct log *log;        /* of the request */
    struct str key;               /* the text of *_cache_key */
    uint8_t hash[CACHE_KEY_SIZE]; /* of key; of key and variant after cache_open_variant */
    unsigned min_uses;            /* requests for a key before it is worth storing */
    unsigned rounds; /* how often this request came from this service itself, below CACHE_ROUNDS */
    struct cache_entry *entry;     /* referenced, or NULL */
    struct cache_content *content; /* of FRESH and EXPIRED, referenced */
    struct cache_meta meta;        /* of content; texts live as long as the access */
    unsigned failed_status;        /* of FAILED: 502 or 504 */
    bool is_updating;              /* another request is fetching it now */
    bool is_mine; /* this one is: it must end with cache_fill_commit, cache_refresh or close */
    struct cache_fill *fill; /* while a response is being written */
    /* Of this package: */
    uint8_t main_hash[CACHE_KEY_SIZE]; /* of the key alone, once it was needed */
    uint8_t variant[CACHE_KEY_SIZE];   /* that was opened; zero = the key alone */
    bool has_main_hash, has_hash;      /* they were computed */
    uint64_t claim;                    /* number of the claim while it is_mine */
    uint64_t seen_claim;   /* number of the claim, of another process, that cache_wait waits for */
    uint64_t seen_version; /* what was stored when it was opened */
};

#define CACHE_ROUNDS 16u

/* Looks the key up, counts a use. */
enum cache_found cache_open(struct cache_access *access);
/* The stored response is for other field values (meta.vary, meta.variant): looks up the one for
 * these. */
enum cache_found cache_open_variant(struct cache_access *access,
                                    const uint8_t variant[CACHE_KEY_SIZE]);
/* The key's hash with a variant, for comparing and storing. */
void cache_variant(struct str text, uint8_t out[CACHE_KEY_SIZE]);

/* Marks the key as being fetched by this request: is_mine. False: another is at it (is_updating).
 */
bool cache_claim(struct cache_access *access, uint64_t lock_age_ms);
enum cache_lock_result { CACHE_LOCK_READY, CACHE_LOCK_TIMED_OUT, CACHE_LOCK_CANCELLED };
/*
 * Waits until the other is done or timeout: then look again with cache_open. Not for one that has
 * come round less often, which may wait for this very request: that is timed out at once. MAY WAIT.
 */
enum cache_lock_result cache_wait(struct cache_access *access, uint64_t timeout_ms);

/*
 * Bytes of the stored body: from memory (bytes set), or from a file (fd, offset into it). The
 * content lives while a reference is held; cache_content_hold takes one more for output that is
 * queued and cache_content_release is what gives it back.
 */
struct cache_body {
    struct str bytes; /* data NULL: in the file */
    int fd;           /* of the file; -1 = in memory */
    uint64_t offset;  /* of the body's first byte in the file */
    uint64_t size;    /* bytes */
};
void cache_body_of(const struct cache_access *access, struct cache_body *out);
void cache_content_hold(struct cache_content *content);
void cache_content_release(void *content);

/*
 * Storing: begin makes a fill, write appends body bytes (small ones stay in memory, others go to a
 * temporary file), commit puts it in place under the key (and meta->variant), abort drops it.
 * False: logged, the response is not stored and the fill is gone. Nothing of meta has to be known
 * before commit; meta->body_size is taken from what was written. After commit access->content is
 * what was stored.
 */
bool cache_fill_begin(struct cache_access *access, struct wanted_path *temp_path);
/*
 * The response was asked for so long before the fill began. False: it was purged since then, or may
 * have been: before this service began, of which single keys are not known.
 */
bool cache_fill_date_back(struct cache_access *access, uint64_t ms);
bool cache_fill_write(struct cache_access *access, struct str bytes);
bool cache_fill_commit(struct cache_access *access, const struct cache_meta *meta);
void cache_fill_abort(struct cache_access *access);

/*
 * No backend answered: up to the end of the second `until` others get CACHE_FAILED with this status
 * (502 or 504) and ask no backend. In the index only; what is stored stays, and is found again
 * after that. Storing or purging ends it, and where somebody has stored since the access looked, it
 * does not begin.
 */
void cache_fail(struct cache_access *access, unsigned status, time_t until);

/* The backend said that the stored response still holds (304): new times, same bytes. */
bool cache_refresh(struct cache_access *access, const struct cache_meta *meta);

/* Gives up the claim and an unfinished fill, and wakes who waits; what was found stays usable. */
void cache_unclaim(struct cache_access *access);

/* Ends the access: references, claim, unfinished fill. */
void cache_close(struct cache_access *access);

/* Removes a key with all its variants; true: it was there. MAY WAIT for the store, where the cache
 * has `sync`. */
bool cache_purge(struct cache *cache, struct str key, const struct log *log);
/* Removes all keys that begin with this (`…*`): they are unusable at once, files go by and by.
 * Gives how many were removed already (it looks for a second at most). MAY WAIT. */
uint64_t cache_purge_prefix(struct cache *cache, struct str prefix, const struct log *log);

/* How a request was answered, for the counters: said once for each request that has a cache. */
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
/* Bytes of the body of such a request: given, or received; is_written: and the response was stored.
 */
void cache_count_body(const struct cache *cache, enum cache_counter which, uint64_t bytes,
                      bool is_written);

/* What nodes fetch for each other (shared_fetch.h). */
enum cache_shared_counter {
    CACHE_SHARED_FETCHED,  /* fetches of this node for all */
    CACHE_SHARED_GIVEN,    /* of them: responses that the store took */
    CACHE_SHARED_WITHHELD, /* of them: those that were not for others */
    CACHE_SHARED_DROPPED,  /* of them: those that did not reach the store, or had no room on the way
                            */
    CACHE_SHARED_TAKEN,    /* responses of other nodes that were stored here */
    CACHE_SHARED_TIMED_OUT,  /* requests that waited in vain for another node */
    CACHE_SHARED_GONE,       /* times that the store did not answer */
    CACHE_SHARED_UNREADABLE, /* times that it had nothing of a node with this password */
    CACHE_SHARED_COUNTERS
};
void cache_count_shared(const struct cache *cache, enum cache_shared_counter which);
uint64_t cache_shared_figure(const struct cache *cache, enum cache_shared_counter which);

/* For status pages. */
struct cache_stats {
    uint64_t entries, bytes; /* on disk */
    int64_t max_size;        /* of the settings */
    bool is_cold;            /* the index is not complete yet */
    uint64_t hits, misses, expired, stale, updating, revalidated, bypassed,
        scarce; /* requests, by enum cache_counter */
};
void cache_stats_of(const struct cache *cache, struct cache_stats *out);
/* Of one counter. */
struct cache_figures {
    uint64_t requests, bytes, written, written_bytes;
};
struct cache_figures cache_figures_of(const struct cache *cache, enum cache_counter which);
/* All counters begin again at 0. */
void cache_stats_reset(const struct cache *cache);

#endif
