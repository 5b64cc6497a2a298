/* Shared by the files of this package: the index in shared memory, files, kept contents, the
 * manager. */
#ifndef CACHE_INTERNAL_H
#define CACHE_INTERNAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "base/checksum.h"
#include "base/list.h"
#include "base/shm.h"
#include "cache/cache.h"
#include "cache/file.h"
#include "event/loop.h"
#include "fiber/fiber.h"

enum {
    CACHE_RULES = 128,       /* recently purged prefixes */
    CACHE_CELLS = 16,        /* sets of counters: slot modulo this */
    CACHE_PATH_MAX = 900,    /* bytes of a cache directory's name */
    CACHE_NAME_MAX = 1024,   /* bytes of a file's name in a cache directory */
    CACHE_KEPT_BODY = 65536, /* bytes: bodies up to this size are kept in memory */
    CACHE_PORTION = 256,     /* entries examined each time the lock is held */
};

/* How cache files are opened for reading: symbolic links are not followed, and a pipe with that
 * name does not block the worker. */
#define CACHE_OPEN_FLAGS (O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)

/* ---- the index (index.c) ---- */

enum entry_flag {
    ENTRY_USED = 1,         /* not on the free list */
    ENTRY_VARIANT = 2,      /* of a key and field values, not of a key alone */
    ENTRY_HAS_VARIANTS = 4, /* of a key that may have variants */
    ENTRY_RESTORED = 8,     /* known from the index file only, not yet seen on disk */
    ENTRY_FAILED = 16,      /* all backends failed (502): until failed_until */
    ENTRY_TIMED_OUT = 32,   /* the same, by timeouts (504) */
};

/*
 * A key or one of its variants. Entries are in segments that are never freed, and refer to each
 * other by number, so a pointer to a dropped entry still points to some entry, and the hash shows
 * whether it is the same. Nothing is pinned: code that returns to an entry looks it up again under
 * the lock (cache_index_again), so a worker that died holds nothing.
 */
struct cache_entry {
    uint8_t hash[CACHE_KEY_SIZE]; /* zero if the entry is free */
    uint64_t family;              /* first bytes of the hash of the key without variant */
    /* Of what is stored, or of its removal; 0 = unknown. Written under the lock, read without it.
     */
    _Atomic uint64_t version;
    /* Version of its last purge: fills that began before it are not stored. */
    uint64_t purged;
    /* Number of the claim times CACHE_ROUNDS, plus the rounds of its request; 0 = no claim. */
    uint64_t claim;
    uint64_t claim_until_ms; /* monotonic; then another request may claim it */
    uint64_t size;           /* bytes of its file on disk; 0 = no file */
    /* Number of the next entry in the bucket, or in the free list; 0 = none. */
    uint32_t chain;
    uint32_t newer, older; /* neighbours by last use; 0 = none */
    uint32_t used_at;      /* seconds of the epoch */
    int32_t claim_pid;     /* process that holds the claim */
    uint32_t number;       /* of this entry */
    uint32_t failed_until; /* seconds of the epoch: end of ENTRY_FAILED and ENTRY_TIMED_OUT */
    uint16_t uses;         /* requests for it, saturating */
    uint16_t flags;        /* enum entry_flag */
};

/* A purged prefix: what was stored, or began to be fetched, before it is not used. */
struct cache_rule {
    uint64_t version;               /* version of the purge; 0 = unused */
    uint64_t length;                /* bytes of the prefix */
    uint8_t digest[CACHE_KEY_SIZE]; /* MD5 of the prefix */
    uint64_t made_ms;               /* monotonic */
    uint64_t walked_ms; /* monotonic: when all entries had been checked against it; 0 = not yet */
};

struct cache_cell {
    /* Counters of one worker, by enum cache_counter. */
    _Alignas(64) _Atomic uint64_t counts[CACHE_COUNTERS];
    _Atomic uint64_t bytes[CACHE_COUNTERS]; /* of bodies */
    /* Stored bodies, and their bytes. */
    _Atomic uint64_t written[CACHE_COUNTERS], written_bytes[CACHE_COUNTERS];
    _Atomic uint64_t shared[CACHE_SHARED_COUNTERS];
};

#define CACHE_INDEX_MAGIC 0x1dec5a6eu

struct cache_index {
    /* Guards everything below, except where noted; never held during a wait or a system call. */
    struct shm_lock lock;
    uint32_t magic;                /* CACHE_INDEX_MAGIC */
    struct slab *slab;             /* of the zone, for segments */
    uint32_t bucket_mask;          /* number of buckets less one */
    uint32_t *buckets;             /* number of each bucket's first entry; 0 = none */
    struct cache_entry **segments; /* entries, 1 << segment_shift in each */
    uint32_t segment_shift;        /* bits of a number that are the position in its segment */
    uint32_t segment_count;        /* allocated */
    uint32_t segment_most;         /* capacity of segments */
    uint32_t capacity;             /* entries that fit, once the zone was full; else UINT32_MAX */
    uint32_t used_numbers;         /* entries 1 to this have been used */
    uint32_t free_first;           /* first of the free list */
    uint32_t newest, oldest;       /* ends of the order of use */
    uint32_t count;                /* entries in use */
    uint32_t files;                /* entries that have a file */
    uint32_t variants;             /* entries that are variants */
    uint64_t size;                 /* bytes of all files */
    uint32_t added;                /* entries since the epoch began */
    /* Incremented when a quarter of all entries is new; read without the lock. */
    _Atomic uint32_t epoch;
    /* Last version given: nanoseconds since the epoch, always increasing. */
    uint64_t version;
    uint64_t claims;                      /* last number given */
    _Atomic uint64_t changes;             /* of the contents of the index file */
    _Atomic uint64_t rules_version;       /* of the newest rule; read without the lock */
    struct cache_rule rules[CACHE_RULES]; /* prefixes that were purged */
    _Atomic uint64_t manager;             /* id of the manager: pid and number */
    uint64_t manager_until_ms;            /* monotonic; then another worker may take over */
    uint32_t block_size;                  /* of the file system */
    _Atomic bool is_cold;      /* files are still being searched for; read without the lock */
    _Atomic bool was_restored; /* the index file was read, or did not exist */
    uint64_t born;             /* seconds since the epoch: when this index was created */
    /* When the index file of an earlier service was read: earlier purges of single keys are
     * unknown. */
    uint64_t first_version;
    unsigned levels[3];                   /* of the directory */
    uint32_t path_length;                 /* bytes of path */
    char path[CACHE_PATH_MAX];            /* the directory of this index */
    struct cache_cell cells[CACHE_CELLS]; /* used without the lock */
};

/* A file whose entry was dropped: to be deleted after the lock was released. */
struct cache_evicted {
    bool has_file;                /* false: there is nothing to delete */
    uint8_t hash[CACHE_KEY_SIZE]; /* that names the file */
};

/* Creates the index in a new zone. False: the zone is too small. */
bool cache_index_make(struct zone *zone);

/* Takes the lock; repairs the index if a process died with it. */
void cache_index_take(struct cache_index *index);
void cache_index_release(struct cache_index *index);

/* Was this key purged by itself after that version? With the lock held. */
bool cache_index_was_purged(struct cache_index *index, const uint8_t *main_hash, uint64_t version);
/* Was this key purged by a prefix after that version? Takes the lock if there are such rules. */
bool cache_index_is_purged(struct cache_index *index, struct str key, uint64_t version);

/* All of these with the lock held. */

struct cache_entry *cache_index_find(struct cache_index *index, const uint8_t *hash);
/* The entry at the pointer if it still has this hash; else looks it up. */
struct cache_entry *cache_index_again(struct cache_index *index, struct cache_entry *entry,
                                      const uint8_t *hash);
/* Adds an entry as the most recently used. If there is no memory, evicts the least recently used
 * one. NULL: not even that was possible. */
struct cache_entry *cache_index_add(struct cache_index *index, const uint8_t *hash, uint64_t family,
                                    bool is_variant, struct cache_evicted *evicted);
void cache_index_touch(struct cache_index *index, struct cache_entry *entry, time_t now);
/* Sets the time of last use and makes the entry the least recently used. */
void cache_index_age(struct cache_index *index, struct cache_entry *entry, uint32_t used_at);
void cache_index_drop(struct cache_index *index, struct cache_entry *entry);
/* Sets what is stored: the version, and the size of the file (0 = nothing). */
void cache_index_store(struct cache_index *index, struct cache_entry *entry, uint64_t version,
                       uint64_t size);
uint64_t cache_index_version(struct cache_index *index);
/* The entry with a number from 1 to used_numbers; it may be free. */
struct cache_entry *cache_index_at(const struct cache_index *index, uint32_t number);
/* Bytes that a file of this length occupies. */
uint64_t cache_index_round(const struct cache_index *index, uint64_t length);

static inline bool cache_entry_is_claimed(const struct cache_entry *entry, uint64_t now_ms)
{
    return entry->claim != 0 && entry->claim_until_ms > now_ms;
}

static inline uint64_t cache_family(const uint8_t *hash)
{
    uint64_t family;

    memcpy(&family, hash, sizeof(family));
    return family;
}

/* The hash of a key and a variant. */
void cache_variant_hash(const uint8_t *main_hash, const uint8_t *variant, uint8_t *out);

static inline struct cache_index *cache_index_of(const struct cache *cache)
{
    return cache->index;
}

/* ---- names of files (name.c) ---- */

/* "…/c/29/b7f54b2df7773722d382f4809d65029c", NUL-terminated. */
void cache_file_name(const struct cache *cache, const uint8_t *hash, char name[CACHE_NAME_MAX]);
/* A name for a temporary file: in that directory (with its levels), or next to the final file. */
void cache_temp_name(const struct cache *cache, const struct wanted_path *temp, const uint8_t *hash,
                     char name[CACHE_NAME_MAX]);
/* A temporary name for the package's own files in the cache directory. */
void cache_hidden_temp_name(const struct cache *cache, char name[CACHE_NAME_MAX]);
/* Creates a file that must not exist, with missing directories of its levels. -1 with errno. */
int cache_temp_open(const struct wanted_path *below, const char *name);
/* Moves a file to its final name, creating directories, and copies it if rename is not possible.
 * False with errno. */
bool cache_file_move(const struct cache *cache, const char *from, const uint8_t *hash);
/* Parses 32 hex digits. False: another name. */
bool cache_hash_of_name(struct str name, uint8_t *hash);
/* Deletes the file of a hash; a missing file is not an error. */
void cache_file_delete(const struct cache *cache, const uint8_t *hash, const struct log *log);

/* ---- contents (content.c) ---- */

/* An open file, or the body in memory. Freed with its last reference. */
struct cache_content {
    unsigned references; /* of accesses and output, plus one while it is kept */
    int fd;              /* -1 when the body is in memory */
    /* Owner of the descriptor, referenced; NULL = this content. */
    struct cache_content *owner;
    struct cache *cache;               /* that it belongs to */
    struct cache_entry *entry;         /* a hint; may belong to another key by now */
    uint8_t hash[CACHE_KEY_SIZE];      /* of the entry */
    uint8_t main_hash[CACHE_KEY_SIZE]; /* of the key alone */
    uint8_t opened_as[CACHE_KEY_SIZE]; /* variant of the lookup; zero = the key alone */
    uint64_t version;                  /* of the entry when it was current */
    uint64_t rules_version;            /* rules that it was checked against */
    /* Of the index when the entry was last made the most recently used. */
    uint32_t epoch;
    time_t touched;              /* second of that */
    time_t used_at;              /* second of the last request for it */
    time_t looked_at;            /* second in which its file was last seen */
    ino_t file_number;           /* inode of the file; 0 = not looked at yet */
    struct str key;              /* after this struct */
    struct cache_meta meta;      /* strings are after this struct */
    const char *body;            /* in memory, after this struct; or NULL */
    uint64_t body_offset;        /* in the file */
    uint64_t body_size;          /* bytes */
    uint64_t file_size;          /* of the whole file */
    size_t memory;               /* bytes of this struct and of what follows it */
    uint64_t kept_hash;          /* for the table of kept contents */
    struct cache_content *chain; /* next in its bucket */
    struct list kept;            /* in order of use; alone while it is not kept */
};

/* Contents that a worker keeps, of all caches. */
struct cache_kept {
    struct cache_content **buckets; /* by kept_hash */
    size_t bucket_count;            /* power of two, or 0 */
    size_t count;                   /* of contents */
    size_t memory;                  /* bytes of contents in memory */
    unsigned files;                 /* open descriptors */
    struct list order;              /* most recently used first */
    struct timer sweep;             /* releases unused and outdated contents */
    bool is_ready;                  /* list and timer are initialized */
};
extern struct cache_kept cache_kept;

uint64_t cache_kept_hash(struct str key, const uint8_t *opened_as);
/* The kept content of this key and variant, current or not; NULL = none. */
struct cache_content *cache_kept_find(const struct cache *cache, uint64_t hash, struct str key,
                                      const uint8_t *opened_as);
/* Keeps a content, instead of an older one of the same key and variant. */
void cache_kept_put(struct cache_content *content);
/* Records that its entry was just made the most recently used. */
static inline void cache_content_touched(struct cache_content *content, time_t now)
{
    content->touched = now;
    content->epoch =
        atomic_load_explicit(&cache_index_of(content->cache)->epoch, memory_order_relaxed);
}
/* Makes it the most recently used. */
void cache_kept_use(struct cache_content *content);
/* Does not keep it any longer. */
void cache_kept_drop(struct cache_content *content);
/* Drops all kept contents of a cache; NULL: of all caches. */
void cache_kept_drop_all(const struct cache *cache);

enum content_result {
    CONTENT_READ,
    CONTENT_NONE,   /* no such file */
    CONTENT_BROKEN, /* may not be used; it was deleted */
    CONTENT_OTHER,  /* another key's file, logged */
    CONTENT_FAILED, /* an error, logged */
};
/* Reads the file of access->hash into a new content with one reference. */
enum content_result cache_content_read(const struct cache_access *access,
                                       struct cache_content **out);
/* Is the file still there, with the same size? A deleted file is not used any more; a truncated one
 * is read again and found to be damaged. Makes a system call at most once a second. */
bool cache_content_is_there(struct cache_content *content);
/* Allocates a content with copies of all arguments; body.data may be NULL: then the caller sets fd
 * or body. */
struct cache_content *cache_content_new(struct cache *cache, struct str key,
                                        const struct cache_meta *meta, struct str body);

/* ---- accesses (access.c) ---- */

/* Ends the claim, and wakes requests of this worker that wait for the key. */
void cache_claim_end(struct cache_access *access);
void cache_wake(const struct cache *cache, const uint8_t *hash);
/* Makes this the content of the access, with its meta; owns the reference from now on. */
void cache_access_take(struct cache_access *access, struct cache_content *content);
/* Computes access->hash if nothing was looked up yet. */
void cache_access_hash(struct cache_access *access);
/* The hash of the key alone, whatever was looked up. */
void cache_access_main_hash(const struct cache_access *access, uint8_t *out);

/* ---- work on threads (manager.c) ---- */

/*
 * Runs work(arg) on the thread pool "default" and waits for it, shielded from cancellation; runs it
 * here without a pool, or outside a fiber. arg must be on the heap: a worker that ends does not
 * wait for the thread. MAY WAIT.
 */
void cache_work(void (*work)(void *arg), void *arg);
uint64_t cache_now_ms(void);    /* monotonic, not cached: for threads */
time_t cache_now_seconds(void); /* since the epoch, not cached */

/* ---- the manager (manager.c): loads, removes, purges and saves ---- */

struct cache_loader;
struct cache_purger;

struct cache_manager {
    struct cache *cache;         /* that it looks after */
    struct timer retry;          /* for the next attempt to get the lease */
    struct fiber *fiber;         /* while this worker manages this cache */
    uint64_t id;                 /* in the lease */
    bool must_end;               /* the generation is ending */
    bool was_manager;            /* writes the index file when the worker ends */
    bool is_running;             /* the fiber exists */
    struct cache_loader *loader; /* while files are searched for */
    struct cache_purger *purger; /* while entries are checked against rules */
    uint64_t saved_changes;      /* index->changes when the index file was written */
    uint64_t save_at_ms;         /* monotonic: no save before this */
    bool has_more;               /* limits stopped the removal */
};

bool cache_manager_start(struct cache *cache);
void cache_manager_quit(struct cache *cache);
void cache_manager_end(struct cache *cache);

/* ---- the loader (loader.c) ---- */

struct cache_loader *cache_loader_new(struct cache *cache);
/* Examines some files, on a thread. False: all were examined and the index is complete. MAY
 * WAIT. */
bool cache_loader_step(struct cache_loader *loader);
void cache_loader_free(struct cache_loader *loader);

/* ---- the index file (snapshot.c) ---- */

/* Writes the index file; holds the lock only briefly. False with errno. Blocks on the disk. */
bool cache_snapshot_write(struct cache *cache);
/* Reads the index file into an empty or cold index. Gives the number of entries, -1 without a valid
 * file. Blocks on the disk. */
int64_t cache_snapshot_read(struct cache *cache);
/* Bytes of the index file; 0 if it does not exist. */
uint64_t cache_snapshot_size(const struct cache *cache);

/* ---- purging (purge.c) ---- */

/* Reads the rules of the purge file; to be called before anything is loaded. Blocks on the disk. */
void cache_rules_read(struct cache *cache);
/* Writes the rules that are needed after a restart to the purge file. */
void cache_rules_write(struct cache *cache);
/* Are there rules that not all entries were checked against? */
bool cache_rules_pending(struct cache *cache);
struct cache_purger *cache_purger_new(struct cache *cache);
/* Examines some entries, on a thread; adds the number removed to *found. False: all were examined.
 * MAY WAIT. */
bool cache_purger_step(struct cache_purger *purger, unsigned files, uint64_t threshold_ms,
                       uint64_t *found);
/* Does a rule apply to the open file with this header? Blocks on the disk. */
bool cache_file_is_purged(const struct cache *cache, int fd,
                          const struct cache_file_header *header);
void cache_purger_free(struct cache_purger *purger);
/* Like cache_purge, for the key with this hash, in this node only. */
bool cache_purge_hash(struct cache *cache, const uint8_t hash[CACHE_KEY_SIZE],
                      const struct log *log);
/*
 * Purges keys whose first `length` bytes have this MD5, in this node only; the manager removes
 * their files. If there are too many rules for a second, all keys are purged, which is logged. MAY
 * WAIT, for a second.
 */
void cache_purge_digest(struct cache *cache, uint64_t length, const uint8_t digest[CACHE_KEY_SIZE]);

#endif
