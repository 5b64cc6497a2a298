/*
 * State that several nodes share: keys and values in a store that the configuration names
 * (`redis_store`). Does not depend on the use of a key.
 *
 * Every key has a TTL. By default no call waits longer than the store's timeout, 10 ms unless
 * configured: then it fails, and the caller continues with the state that it has. Calls are made on
 * a fiber of a worker. When a store goes or comes back, that is logged once and counted here.
 * Implemented in calls.c, module.c and words.c.
 */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/str.h"
#include "conf/conf.h"

struct store;

/* Counters of a store, over all workers, as long as its zone exists. */
enum store_counter {
    STORE_REQUESTS,    /* commands that were sent; a script counts as one */
    STORE_REPLIES,     /* replies that came in time */
    STORE_ERRORS,      /* of these, errors */
    STORE_TIMEOUTS,    /* commands whose reply did not come in time */
    STORE_UNAVAILABLE, /* commands that failed at once, or because their connection ended */
    STORE_REDIRECTS,   /* of a cluster: MOVED and ASK */
    STORE_CONNECTS,    /* connections that were established */
    STORE_FAILURES,    /* connections that could not be established, or ended */
    STORE_BYTES_OUT,   /* bytes of commands */
    STORE_BYTES_IN,    /* bytes of replies */
    STORE_COUNTERS
};
struct store_counts {
    _Atomic uint64_t of[STORE_COUNTERS];
    _Atomic uint32_t is_gone; /* it was logged that the store is gone, and not that it is back */
};

/* ---- while the configuration is read ---- */

/*
 * The store with this name; an empty name: the only one. NULL after conf_error. The block of the
 * store may come later in the main context.
 */
struct store *store_named(struct conf *conf, const struct conf_node *node, struct str name);

/* A store without a block: one server, as in `server`. */
struct store_one_server {
    struct str address; /* with a port */
    int64_t database;
    uint64_t timeout_ms, connect_timeout_ms; /* as in the block */
};
/* Gives the same store for the same address, database and timeouts. It is not available for `sync`.
 * NULL after conf_error. */
struct store *store_of_server(struct conf *conf, struct conf_node *node,
                              const struct store_one_server *wanted);
bool store_is_cluster(const struct store *store);

/* Iterate over all stores of a reading. */
const struct store *store_first(struct conf *conf);
const struct store *store_after(const struct store *store);
struct str store_name(const struct store *store);
const struct store_counts *store_counts_of(const struct store *store);
/* The largest reply that is accepted, in bytes. After the configuration was read. */
uint64_t store_reply_max(const struct store *store);

/* `sync`, `sync=NAME` and `sync_interval=TIME` of a zone; if it may be strict, `sync=strict` and
 * `sync=NAME:strict`. */
struct store_sync_words {
    bool is_wanted;
    struct str store; /* empty: the only one */
    bool is_strict;
    uint64_t interval_ms; /* 0: not configured */
};
/* Reads a parameter. *is_one: it is one of these. False after conf_error. */
bool store_sync_read(struct conf *conf, const struct conf_node *node, struct str word,
                     bool allows_strict, struct store_sync_words *words, bool *is_one);
/* To be called after all parameters were read. False after conf_error. */
bool store_sync_check(struct conf *conf, const struct conf_node *node,
                      const struct store_sync_words *words);

/* ---- calls ---- */

enum store_result {
    STORE_OK,
    STORE_ABSENT,    /* the key does not exist, or a condition was not met */
    STORE_REFUSED,   /* an error of the store, or a reply of unexpected form */
    STORE_GONE,      /* not connected, the connection ended, or it has too much to do */
    STORE_TIMED_OUT, /* no reply in time: the command may have its effect, even later */
    STORE_CANCELLED, /* the fiber was cancelled */
};

struct store_call {
    struct store *store;
    struct arena *arena;  /* for the command and the reply */
    uint64_t deadline_ms; /* clock_now.now_ms time; 0: the store's timeout from now */
};

/*
 * The name of a key: PREFIX, the version of its value's format, its purpose, the zone, and its name
 * in the zone (may be empty). Keys with the same purpose and zone are in one slot of a cluster, so
 * that a script may use several. In the arena.
 */
struct store_key {
    unsigned version;
    const char *purpose;
    struct str zone;
    struct str item;
};
struct str store_key_text(const struct store *store, struct arena *arena,
                          const struct store_key *key);

/*
 * 256 bits for hashes that identify items in names of keys: the same on all nodes whose stores have
 * the same password and prefix, and secret if there is a password. After the configuration was
 * read.
 */
void store_secret(const struct store *store, struct str purpose, struct str zone, uint64_t out[4]);

/* Each of these functions MAY WAIT. ttl_ms must not be 0. */
enum store_result store_get(const struct store_call *call, struct str key, struct str *value);
/* Gets several keys in the time of one. MAY WAIT. */
struct store_found {
    enum store_result result;
    struct str value;
};
void store_get_all(const struct store_call *call, const struct str *keys, size_t count,
                   struct store_found *found);
/*
 * Adds some keys (struct str) whose names match a pattern of SCAN; some may come twice. *cursor is
 * "0" at first, and after the last ones. In a cluster: the keys of one server. MAY WAIT.
 */
enum store_result store_scan(const struct store_call *call, struct str pattern, struct str *cursor,
                             struct vec *keys);
enum store_result store_set(const struct store_call *call, struct str key, struct str value,
                            uint64_t ttl_ms);
enum store_result store_delete(const struct store_call *call, struct str key);
/* Sets the value only if the key has the expected one; NULL: if the key does not exist.
   STORE_ABSENT: it was not so. */
enum store_result store_swap(const struct store_call *call, struct str key,
                             const struct str *expected, struct str value, uint64_t ttl_ms);
/* Adds to a number, which starts at 0; a new key expires after ttl_ms. *sum may be NULL. */
enum store_result store_add(const struct store_call *call, struct str key, int64_t delta,
                            uint64_t ttl_ms, int64_t *sum);

/* A script: its source, and its hash once that was needed. */
struct store_script {
    const char *text;
    char hash[41];
};
/* Part of a script: `now` in milliseconds of the store's clock. */
#define STORE_NOW_MS                                                                               \
    "local time = redis.call('TIME')\n"                                                            \
    "local now = time[1] * 1000 + (time[2] - time[2] % 1000) / 1000\n"
struct store_words {
    const struct str *items;
    size_t count;
};
/*
 * Runs a script. All keys must be in one slot of a cluster (store_key). *reply gets the reply, for
 * resp_next; it is not an error. The source is sent only to a server that does not know the script.
 */
enum store_result store_run(const struct store_call *call, struct store_script *script,
                            const struct store_words *keys, const struct store_words *args,
                            struct str *reply);

/* Takes a lock that ends by itself after lease_ms. token: unique for the holder. STORE_ABSENT:
 * another holder has the lock. */
enum store_result store_lock(const struct store_call *call, struct str key, struct str token,
                             uint64_t lease_ms);
/* Extends the lock of the holder by lease_ms. */
enum store_result store_lock_renew(const struct store_call *call, struct str key, struct str token,
                                   uint64_t lease_ms);
enum store_result store_unlock(const struct store_call *call, struct str key, struct str token);

/* A stream: each node reads its entries, from its own cursor on. */
struct store_stream {
    struct str key;
    uint64_t most;   /* approximate number of entries that are kept */
    uint64_t ttl_ms; /* after the last entry */
};
#define STORE_CURSOR_MAX 48
/* A position in a stream: "MS-NUMBER", NUL-terminated. */
struct store_cursor {
    char text[STORE_CURSOR_MAX];
};
struct store_entry {
    struct str field, value; /* one pair per entry */
};
enum store_result store_stream_add(const struct store_call *call, const struct store_stream *stream,
                                   const struct store_entry *entry);
/* The end of the stream: later entries come after it. */
enum store_result store_stream_end(const struct store_call *call, struct str key,
                                   struct store_cursor *cursor);
/*
 * Reads at most `most` entries after the cursor, which is set to the last of them: struct
 * store_entry in the arena. STORE_ABSENT: entries after the cursor were trimmed, or it is another
 * stream; the cursor is at its end then, and the reader must read all of its state again.
 */
enum store_result store_stream_read(const struct store_call *call, struct str key,
                                    struct store_cursor *cursor, unsigned most,
                                    struct vec *entries);

#endif
