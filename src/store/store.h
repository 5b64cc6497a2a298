/*
 * State that several nodes share: keys and values in a store that the configuration names
 * (`redis_store`). Free of what a key is for.
 *
 * Every key has a TTL. No call waits longer than the store's timeout, 10 ms by default: then it
 * fails, and the caller continues with what it has. Calls are made on a fiber of a worker. Losses
 * and returns of the store are logged once and counted here. Implemented in calls.c, module.c and
 * words.c.
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

/* What a store can do, over all workers, as long as its zone lives. */
enum store_counter {
    STORE_REQUESTS,    /* commands that were sent, scripts as one */
    STORE_REPLIES,     /* replies that came in time */
    STORE_ERRORS,      /* of them: errors */
    STORE_TIMEOUTS,    /* commands whose reply did not come in time */
    STORE_UNAVAILABLE, /* commands that failed at once, or with their connection */
    STORE_REDIRECTS,   /* of a cluster: MOVED and ASK */
    STORE_CONNECTS,    /* connections that came up */
    STORE_FAILURES,    /* connections that did not, or ended */
    STORE_BYTES_OUT,   /* bytes of commands */
    STORE_BYTES_IN,    /* bytes of replies */
    STORE_COUNTERS
};
struct store_counts {
    _Atomic uint64_t of[STORE_COUNTERS];
    _Atomic uint32_t is_gone; /* logged as gone, and not as back */
};

/* ---- when the configuration is read ---- */

/*
 * The store of this name; an empty name: the only one. NULL after conf_error. The line of the store
 * may come later in the main context.
 */
struct store *store_named(struct conf *conf, const struct conf_node *node, struct str name);

/* A store without a block: one server, as in `server`. */
struct store_one_server {
    struct str address; /* with a port */
    int64_t database;
    uint64_t timeout_ms, connect_timeout_ms; /* as in the block */
};
/* The same one for the same address, database and timeouts. No `sync` uses it. NULL after
 * conf_error. */
struct store *store_of_server(struct conf *conf, struct conf_node *node,
                              const struct store_one_server *wanted);
bool store_is_cluster(const struct store *store);

/* All stores of a reading, from one to the next. */
const struct store *store_first(struct conf *conf);
const struct store *store_after(const struct store *store);
struct str store_name(const struct store *store);
const struct store_counts *store_counts_of(const struct store *store);
/* Bytes of the largest reply that is taken. When the configuration was read. */
uint64_t store_reply_max(const struct store *store);

/* `sync`, `sync=NAME` and `sync_interval=TIME` of a zone; where it may be strict, `sync=strict` and
 * `sync=NAME:strict`. */
struct store_sync_words {
    bool is_wanted;
    struct str store; /* empty: the only one */
    bool is_strict;
    uint64_t interval_ms; /* 0: not written */
};
/* *is_one: the word is one of these. False after conf_error. */
bool store_sync_read(struct conf *conf, const struct conf_node *node, struct str word,
                     bool allows_strict, struct store_sync_words *words, bool *is_one);
/* When all words were read. False after conf_error. */
bool store_sync_check(struct conf *conf, const struct conf_node *node,
                      const struct store_sync_words *words);

/* ---- calls ---- */

enum store_result {
    STORE_OK,
    STORE_ABSENT,    /* there is no such key, or a condition did not hold */
    STORE_REFUSED,   /* an error of the store, or a reply of another shape than expected */
    STORE_GONE,      /* not connected, the connection ended, or it has too much to do */
    STORE_TIMED_OUT, /* no reply in time: the command may have had its effect, or will have it */
    STORE_CANCELLED, /* the fiber was */
};

struct store_call {
    struct store *store;
    struct arena *arena;  /* gets the command and the reply */
    uint64_t deadline_ms; /* clock_now.now_ms time; 0: the store's timeout from now */
};

/*
 * The name of a key: PREFIX, the version of its value's shape, what it is for, the zone, and what
 * it is in there (or nothing). Keys of one purpose and zone are in one slot of a cluster, so that a
 * script may use several. In the arena.
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
 * 256 bits for hashes that stand for items in names of keys: the same on all nodes whose stores
 * have this password and prefix, and not known to others where there is a password. When the
 * configuration was read.
 */
void store_secret(const struct store *store, struct str purpose, struct str zone, uint64_t out[4]);

/* Each MAY WAIT. ttl_ms is not 0. */
enum store_result store_get(const struct store_call *call, struct str key, struct str *value);
/* Several keys, in the time of one. MAY WAIT. */
struct store_found {
    enum store_result result;
    struct str value;
};
void store_get_all(const struct store_call *call, const struct str *keys, size_t count,
                   struct store_found *found);
/*
 * Some keys (struct str, added) with names of a pattern as of SCAN, some of them twice; *cursor is
 * "0" at first, and when these were the last. Of a cluster: those of one server. MAY WAIT.
 */
enum store_result store_scan(const struct store_call *call, struct str pattern, struct str *cursor,
                             struct vec *keys);
enum store_result store_set(const struct store_call *call, struct str key, struct str value,
                            uint64_t ttl_ms);
enum store_result store_delete(const struct store_call *call, struct str key);
/* Only if the key has this value; NULL: if there is no such key. STORE_ABSENT: it was not so. */
enum store_result store_swap(const struct store_call *call, struct str key,
                             const struct str *expected, struct str value, uint64_t ttl_ms);
/* Adds to a number, from 0 on; a key that is made lives for ttl_ms. *sum may be NULL. */
enum store_result store_add(const struct store_call *call, struct str key, int64_t delta,
                            uint64_t ttl_ms, int64_t *sum);

/* A script: one text of a program, with its hash once that was needed. */
struct store_script {
    const char *text;
    char hash[41];
};
/* Piece of a script: `now` in milliseconds of the store's clock. */
#define STORE_NOW_MS                                                                               \
    "local time = redis.call('TIME')\n"                                                            \
    "local now = time[1] * 1000 + (time[2] - time[2] % 1000) / 1000\n"
struct store_words {
    const struct str *items;
    size_t count;
};
/*
 * Runs a script. All keys are in one slot of a cluster (store_key). *reply gets the reply, for
 * resp_next; it is no error. The script is sent whole only to a server that does not know it.
 */
enum store_result store_run(const struct store_call *call, struct store_script *script,
                            const struct store_words *keys, const struct store_words *args,
                            struct str *reply);

/* A lock that ends by itself after lease_ms. token: of the holder, unique. STORE_ABSENT: another
 * one has it, or had it. */
enum store_result store_lock(const struct store_call *call, struct str key, struct str token,
                             uint64_t lease_ms);
/* The holder has it for so long again. */
enum store_result store_lock_renew(const struct store_call *call, struct str key, struct str token,
                                   uint64_t lease_ms);
enum store_result store_unlock(const struct store_call *call, struct str key, struct str token);

/* A stream: what was written is read by each node, from its cursor on. */
struct store_stream {
    struct str key;
    uint64_t most;   /* entries that are kept, about */
    uint64_t ttl_ms; /* after the last entry */
};
#define STORE_CURSOR_MAX 48
/* A place in a stream: "MS-NUMBER", NUL-terminated. */
struct store_cursor {
    char text[STORE_CURSOR_MAX];
};
struct store_entry {
    struct str field, value; /* one pair each */
};
enum store_result store_stream_add(const struct store_call *call, const struct store_stream *stream,
                                   const struct store_entry *entry);
/* The end of the stream: what is written from now on comes after it. */
enum store_result store_stream_end(const struct store_call *call, struct str key,
                                   struct store_cursor *cursor);
/*
 * At most `most` entries after the cursor, which is set to the last of them: struct store_entry in
 * the arena. STORE_ABSENT: entries after the cursor were trimmed, or the stream is another one; the
 * cursor is at its end then, and what the reader keeps has to be read again.
 */
enum store_result store_stream_read(const struct store_call *call, struct str key,
                                    struct store_cursor *cursor, unsigned most,
                                    struct vec *entries);

#endif
