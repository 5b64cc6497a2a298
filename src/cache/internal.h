/* What the files of this package share: the index in shared memory, files, kept contents, the
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
    CACHE_RULES = 128,       /* prefixes that were purged lately */
    CACHE_CELLS = 16,        /* counters: one for each slot, modulo */
    CACHE_PATH_MAX = 900,    /* bytes of a cache directory's name */
    CACHE_NAME_MAX = 1024,   /* bytes of a file's name in a cache directory */
    CACHE_KEPT_BODY = 65536, /* bytes: contents up to this are kept in memory */
    CACHE_PORTION = 256,     /* entries looked at while the lock is held once */
};

/* How a file of the cache is opened to be read. No link is followed, and the worker does not wait
 * at a pipe that somebody has put in its place. */
#define CACHE_OPEN_FLAGS (O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)

/* ---- the index (index.c) ---- */

enum entry_flag {
    ENTRY_USED = 1,         /* not on the list of free ones */
    ENTRY_VARIANT = 2,      /* of a key and field values, not of a key alone */
    ENTRY_HAS_VARIANTS = 4, /* of a key that may have such */
    ENTRY_RESTORED = 8,     /* known from the index file only, not seen on disk yet */
    ENTRY_FAILED = 16,      /* no backend answered (502): until failed_until */
    ENTRY_TIMED_OUT = 32,   /* the same, since it took too long (504) */
};

/*
 * What is known of a key or of one of its variants. Lives in segments that are never given back,
 * and is referred to by number: so a pointer to one that was dropped is a pointer to some entry
 * still, and its hash tells whether it is the one that was meant. Nothing is pinned: who comes back
 * to an entry looks for it again under the lock (cache_index_again), so a worker that died holds
 * nothing.
 */
struct cache_entry {
    uint8_t hash[CACHE_KEY_SIZE]; /* zero when it is free */
    uint64_t family;              /* first bytes of the hash of the key without variant */
    _Atomic uint64_t version;     /* stamp of what is stored or of its removal; 0 = not known.
                                     Written under the lock, read without it */
    uint64_t purged;              /* stamp of its last purge: what was begun before is not stored */
    uint64_t claim;               /* number of the claim of who fetches it, times CACHE_ROUNDS, and
                                     his rounds; 0 = nobody does */
    uint64_t claim_until_ms;      /* monotonic; then another may */
    uint64_t size;                /* bytes of its file on disk; 0 = there is none */
    uint32_t chain;        /* number of the next one in its bucket, or of free ones; 0 = none */
    uint32_t newer, older; /* neighbours by last use; 0 = none */
    uint32_t used_at;      /* seconds of the epoch */
    int32_t claim_pid;     /* process that holds the claim */
    uint32_t number;       /* its own */
    uint32_t failed_until; /* seconds of the epoch: end of ENTRY_FAILED and ENTRY_TIMED_OUT */
    uint16_t uses;         /* requests for it, up to the most it can hold */
    uint16_t flags;        /* enum entry_flag */
};

/* A prefix whose keys were purged: what was stored or begun before counts no more. */
struct cache_rule {
    uint64_t version;               /* when; 0 = unused */
    uint64_t length;                /* bytes of the prefix */
    uint8_t digest[CACHE_KEY_SIZE]; /* MD5 of them */
    uint64_t made_ms;               /* monotonic */
    uint64_t walked_ms; /* monotonic: when the last entry was looked at for it; 0 = not done */
};

struct cache_cell {
    /* Requests of one worker, by enum cache_counter. */
    _Alignas(64) _Atomic uint64_t counts[CACHE_COUNTERS];
    _Atomic uint64_t bytes[CACHE_COUNTERS]; /* of bodies */
    /* bodies that were stored, and their bytes */
    _Atomic uint64_t written[CACHE_COUNTERS], written_bytes[CACHE_COUNTERS];
    _Atomic uint64_t shared[CACHE_SHARED_COUNTERS];
};

#define CACHE_INDEX_MAGIC 0x1dec5a6eu

struct cache_index {
    struct shm_lock lock; /* of all below unless said otherwise; never held over a wait or a call to
                             the system */
    uint32_t magic;       /* CACHE_INDEX_MAGIC */
    struct slab *slab;    /* of the zone: where segments come from */
    uint32_t bucket_mask; /* number of buckets less one */
    uint32_t *buckets;    /* number of the first entry; 0 = none */
    struct cache_entry **segments; /* entries, 1 << segment_shift in each */
    uint32_t segment_shift;        /* bits of a number that tell the place in its segment */
    uint32_t segment_count;        /* allocated */
    uint32_t segment_most;         /* entries of segments */
    uint32_t capacity;             /* entries that fit, once it was full; else UINT32_MAX */
    uint32_t used_numbers;         /* entries 1 to this were used at some time */
    uint32_t free_first;           /* list of free ones */
    uint32_t newest, oldest;       /* ends of the order of use */
    uint32_t count;                /* entries in use */
    uint32_t files;                /* entries that have a file */
    uint32_t variants;             /* entries that are variants */
    uint64_t size;                 /* bytes of all files */
    uint32_t added;                /* entries since the epoch began */
    _Atomic uint32_t epoch;        /* raised when a quarter of all was new; read without the lock */
    uint64_t version;              /* last one given: nanoseconds of the epoch, rising always */
    uint64_t claims;               /* last number given */
    _Atomic uint64_t changes;      /* of what the index file holds */
    _Atomic uint64_t rules_version;       /* of the newest rule; read without the lock */
    struct cache_rule rules[CACHE_RULES]; /* prefixes that were purged */
    _Atomic uint64_t manager;             /* which worker manages files */
    uint64_t manager_until_ms;            /* monotonic; then another may */
    uint32_t block_size;                  /* of the file system */
    _Atomic bool is_cold;      /* files are being searched for still; read without the lock */
    _Atomic bool was_restored; /* the index file was read, or there was none */
    uint64_t born;             /* seconds of the epoch: when this index was made */
    uint64_t first_version; /* when the index file of an earlier service was read: purges of single
                               keys before are not known */
    unsigned levels[3];     /* of the directory */
    uint32_t path_length;   /* bytes of path */
    char path[CACHE_PATH_MAX];            /* the directory: the index is of no other */
    struct cache_cell cells[CACHE_CELLS]; /* without the lock */
};

/* A file that lost its entry and is to be deleted once the lock is released. */
struct cache_evicted {
    bool has_file;                /* false: there is nothing to delete */
    uint8_t hash[CACHE_KEY_SIZE]; /* that names the file */
};

/* Lays the index out in a fresh zone. False: the zone is too small. */
bool cache_index_make(struct zone *zone);

/* The lock; what a process that died inside has left is repaired. */
void cache_index_take(struct cache_index *index);
void cache_index_release(struct cache_index *index);

/* Was this key purged by itself after that stamp? With the lock held. */
bool cache_index_was_purged(struct cache_index *index, const uint8_t *main_hash, uint64_t version);
/* Was this key purged by a prefix after that stamp? Takes the lock itself, if there are such rules.
 */
bool cache_index_is_purged(struct cache_index *index, struct str key, uint64_t version);

/* All of the following with the lock held. */

struct cache_entry *cache_index_find(struct cache_index *index, const uint8_t *hash);
/* A pointer kept from before, if it is the entry still; else looks it up. */
struct cache_entry *cache_index_again(struct cache_index *index, struct cache_entry *entry,
                                      const uint8_t *hash);
/* A new one, newest in use; the least recently used gives way when there is no room. NULL when even
 * that does not help. */
struct cache_entry *cache_index_add(struct cache_index *index, const uint8_t *hash, uint64_t family,
                                    bool is_variant, struct cache_evicted *evicted);
void cache_index_touch(struct cache_index *index, struct cache_entry *entry, time_t now);
/* It was last used at that time, before all others. */
void cache_index_age(struct cache_index *index, struct cache_entry *entry, uint32_t used_at);
void cache_index_drop(struct cache_index *index, struct cache_entry *entry);
/* What is stored changes: version, and the size of the file (0 = none any more). */
void cache_index_store(struct cache_index *index, struct cache_entry *entry, uint64_t version,
                       uint64_t size);
uint64_t cache_index_version(struct cache_index *index);
/* Entry of a number from 1 to used_numbers; may be a free one. */
struct cache_entry *cache_index_at(const struct cache_index *index, uint32_t number);
/* Bytes that a file of this length takes. */
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

/* The hash of a key with a variant. */
void cache_variant_hash(const uint8_t *main_hash, const uint8_t *variant, uint8_t *out);

static inline struct cache_index *cache_index_of(const struct cache *cache)
{
    return cache->index;
}

/* ---- names of files (name.c) ---- */

/* "…/c/29/b7f54b2df7773722d382f4809d65029c", NUL-terminated. */
void cache_file_name(const struct cache *cache, const uint8_t *hash, char name[CACHE_NAME_MAX]);
/* A name for a file that is being written, in that directory (has levels, too) or beside its place.
 */
void cache_temp_name(const struct cache *cache, const struct wanted_path *temp, const uint8_t *hash,
                     char name[CACHE_NAME_MAX]);
/* A name for what the package itself keeps in the cache's directory, while it is being written. */
void cache_hidden_temp_name(const struct cache *cache, char name[CACHE_NAME_MAX]);
/* Opens for writing what must not exist; makes the directories of its levels. -1 with errno. */
int cache_temp_open(const struct wanted_path *below, const char *name);
/* To its place, making directories, copying where a rename cannot go. False with errno. */
bool cache_file_move(const struct cache *cache, const char *from, const uint8_t *hash);
/* 32 hex digits. False when it is no such name. */
bool cache_hash_of_name(struct str name, uint8_t *hash);
/* Deletes the file of a hash; one that is not there is fine. */
void cache_file_delete(const struct cache *cache, const uint8_t *hash, const struct log *log);

/* ---- contents (content.c) ---- */

/* An open file, or the body in memory. Freed with its last reference. */
struct cache_content {
    unsigned references;               /* of accesses, of output, and one while it is kept */
    int fd;                            /* -1 when the body is in memory */
    struct cache_content *owner;       /* whose descriptor it is, referenced; NULL = its own */
    struct cache *cache;               /* where it belongs */
    struct cache_entry *entry;         /* where to look first; may have become another's */
    uint8_t hash[CACHE_KEY_SIZE];      /* of the entry */
    uint8_t main_hash[CACHE_KEY_SIZE]; /* of the key alone */
    uint8_t opened_as[CACHE_KEY_SIZE]; /* variant that was asked for; zero = the key alone */
    uint64_t version;                  /* of the entry when it was current */
    uint64_t rules_version;            /* rules that it was held against */
    uint32_t epoch;                    /* of the index when the entry was last made the newest */
    time_t touched;                    /* second in which the entry was last made the newest */
    time_t used_at;                    /* second of the last request for it */
    time_t looked_at;                  /* second in which its file was last seen at its place */
    ino_t file_number;                 /* inode of what was found there; 0 = not looked for yet */
    struct str key;                    /* text of the key; after this struct */
    struct cache_meta meta;            /* texts lie after this struct */
    const char *body;                  /* in memory, after this struct; or NULL */
    uint64_t body_offset;              /* in the file */
    uint64_t body_size;                /* bytes */
    uint64_t file_size;                /* of the whole file */
    size_t memory;                     /* bytes of this struct and what lies after */
    uint64_t kept_hash;                /* in the table of kept ones */
    struct cache_content *chain;       /* next of its bucket */
    struct list kept;                  /* by last use; alone when it is not kept */
};

/* What a worker keeps of all caches. */
struct cache_kept {
    struct cache_content **buckets; /* by kept_hash */
    size_t bucket_count;            /* power of two, or 0 */
    size_t count;                   /* of contents */
    size_t memory;                  /* bytes of contents in memory */
    unsigned files;                 /* open descriptors */
    struct list order;              /* newest first */
    struct timer sweep;             /* lets go what nobody asks for and what has changed */
    bool is_ready;                  /* list and timer were set up */
};
extern struct cache_kept cache_kept;

uint64_t cache_kept_hash(struct str key, const uint8_t *opened_as);
/* The one that is kept for this key and variant, current or not; NULL when there is none. */
struct cache_content *cache_kept_find(const struct cache *cache, uint64_t hash, struct str key,
                                      const uint8_t *opened_as);
/* Keeps it, instead of what was kept for the same. */
void cache_kept_put(struct cache_content *content);
/* Its entry was made the newest just now. */
static inline void cache_content_touched(struct cache_content *content, time_t now)
{
    content->touched = now;
    content->epoch =
        atomic_load_explicit(&cache_index_of(content->cache)->epoch, memory_order_relaxed);
}
/* It is used: newest. */
void cache_kept_use(struct cache_content *content);
/* Keeps it no longer. */
void cache_kept_drop(struct cache_content *content);
/* Lets all of a cache go; NULL: of all. */
void cache_kept_drop_all(const struct cache *cache);

enum content_result {
    CONTENT_READ,
    CONTENT_NONE,   /* no such file */
    CONTENT_BROKEN, /* not to be used; it was deleted */
    CONTENT_OTHER,  /* another key's file, logged */
    CONTENT_FAILED, /* an error, logged */
};
/* Reads the file of access->hash: a new content with one reference. */
enum content_result cache_content_read(const struct cache_access *access,
                                       struct cache_content **out);
/* Is its file still where it was, and as long? A file that somebody has deleted is used no more;
 * one that somebody has cut is read again, and found to be broken. Asks the system at most once a
 * second. */
bool cache_content_is_there(struct cache_content *content);
/* A content of these, all copied; body may be NULL: then the caller sets fd or body. */
struct cache_content *cache_content_new(struct cache *cache, struct str key,
                                        const struct cache_meta *meta, struct str body);

/* ---- accesses (access.c) ---- */

/* Gives the claim back and wakes who waits for this key in this worker. */
void cache_claim_end(struct cache_access *access);
void cache_wake(const struct cache *cache, const uint8_t *hash);
/* This is now the content of the access, with its meta. Takes over the reference. */
void cache_access_take(struct cache_access *access, struct cache_content *content);
/* Fills access->hash if nothing was opened yet. */
void cache_access_hash(struct cache_access *access);
/* The key's own hash, whatever was opened. */
void cache_access_main_hash(const struct cache_access *access, uint8_t *out);

/* ---- work on threads (work.c) ---- */

/*
 * Runs work(arg) on the thread pool "default" and waits until it is done, shielded; at once when
 * there is no pool, or outside a fiber. arg must live on the heap: a worker that is to end does not
 * wait for the thread. MAY WAIT.
 */
void cache_work(void (*work)(void *arg), void *arg);
uint64_t cache_now_ms(void);    /* monotonic, read again: for threads */
time_t cache_now_seconds(void); /* of the epoch, read again */

/* ---- the manager (manager.c): loads, removes, purges and saves ---- */

struct cache_loader;
struct cache_purger;

struct cache_manager {
    struct cache *cache;         /* that it looks after */
    struct timer retry;          /* when to look at the lease again */
    struct fiber *fiber;         /* while this worker manages this cache */
    uint64_t id;                 /* in the lease */
    bool must_end;               /* the generation is on its way out */
    bool was_manager;            /* writes the index file when the worker ends */
    bool is_running;             /* the fiber lives */
    struct cache_loader *loader; /* while files are searched for */
    struct cache_purger *purger; /* while entries are held against rules */
    uint64_t saved_changes;      /* index->changes when the index file was written */
    uint64_t save_at_ms;         /* monotonic: not before */
    bool has_more;               /* of a removal: limits stopped it */
};

bool cache_manager_start(struct cache *cache);
void cache_manager_quit(struct cache *cache);
void cache_manager_end(struct cache *cache);

/* ---- the loader (loader.c) ---- */

struct cache_loader *cache_loader_new(struct cache *cache);
/* Looks at some files, on a thread. False: all were seen, the index is complete. MAY WAIT. */
bool cache_loader_step(struct cache_loader *loader);
void cache_loader_free(struct cache_loader *loader);

/* ---- the index file (snapshot.c) ---- */

/* Writes the index, without its lock but for moments. False with errno. Waits for the disk. */
bool cache_snapshot_write(struct cache *cache);
/* Reads it into an empty or cold index. Gives the number of entries, -1 when there is no good file.
 * Waits for the disk. */
int64_t cache_snapshot_read(struct cache *cache);
/* Bytes of the file; 0 when there is none. */
uint64_t cache_snapshot_size(const struct cache *cache);

/* ---- purging (purge.c) ---- */

/* Rules of the purge file: before anything is loaded. Waits for the disk. */
void cache_rules_read(struct cache *cache);
/* Writes the rules that matter after a restart to the purge file. */
void cache_rules_write(struct cache *cache);
/* Are there rules that not all entries were held against? */
bool cache_rules_pending(struct cache *cache);
struct cache_purger *cache_purger_new(struct cache *cache);
/* Looks at some entries, on a thread. found is raised. False: all were seen. MAY WAIT. */
bool cache_purger_step(struct cache_purger *purger, unsigned files, uint64_t threshold_ms,
                       uint64_t *found);
/* Does a rule hold for the open file with this header? Waits for the disk. */
bool cache_file_is_purged(const struct cache *cache, int fd,
                          const struct cache_file_header *header);
void cache_purger_free(struct cache_purger *purger);
/* What cache_purge does for the key with this hash, in this node. */
bool cache_purge_hash(struct cache *cache, const uint8_t hash[CACHE_KEY_SIZE],
                      const struct log *log);
/*
 * Keys that begin with so many bytes of this MD5 are unusable from now on, in this node; the
 * manager removes files. Where there are too many such rules for a second all keys are, which is
 * logged. MAY WAIT, for a second.
 */
void cache_purge_digest(struct cache *cache, uint64_t length, const uint8_t digest[CACHE_KEY_SIZE]);

#endif
