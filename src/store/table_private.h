/* Shared by the files of a table. Implemented in table.c, table_read.c and table_send.c. */
#ifndef STORE_TABLE_PRIVATE_H
#define STORE_TABLE_PRIVATE_H

#include "net/tls/seal.h"
#include "store/owed.h"
#include "store/private.h"
#include "store/table.h"

#define TABLE_TTL_MS (24 * 3600000) /* TTL of the keys of a table that no node uses */
#define TABLE_PAGE_MOST 128u        /* items of one call */

struct store_table {
    struct store_table *next;
    const struct store_table_kind *kind;
    void *owner;
    const struct conf_node *node;
    struct store *store;
    struct str name;
    struct zone *memory;
    struct owed *owed;
    uint64_t interval_ms;

    /* In a worker. */
    struct str items, expiry, changes; /* keys of the store: a hash, a sorted set, a stream */
    struct str fence;                  /* a key: ARGV[2] of the last command */
    unsigned char secret[TLS_SEAL_KEY];
    char origin[17];     /* this process, in entries of the stream */
    struct fiber *fiber; /* runs the exchange, in one worker; NULL: not running */
    bool has_started;    /* this worker has read all items */
    uint64_t renewed_ms;
    uint64_t logged_ms; /* 0: never */
};

/* Part of a script: all keys expire ARGV[1] milliseconds from now. */
#define TABLE_EXTEND "for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, ARGV[1]) end\n"

/* ---- table.c ---- */

void table_count(const struct store_table *table, enum store_table_counter counter,
                 uint64_t number);
/* Data that an item's value is authenticated with, so that a value cannot be moved to another
   item. */
struct str table_bound(const struct store_table *table, struct str name, struct arena *arena);
/* Logs "the item NAME WHAT", at most once a minute. */
void table_log_item(struct store_table *table, struct str name, const char *what);
/* The parameters of a call for which no request waits. */
struct store_call table_call(const struct store_table *table, struct arena *arena);
struct str table_number(struct arena *arena, int64_t number);
/* A new epoch. "n:…": the items begin here, as there were none; "c:…": this node has removed all
   items. */
struct str table_epoch(struct arena *arena, char why);
/* KEYS: hash, sorted set of expiry times, stream, fence. MAY WAIT. */
enum store_result table_run(const struct store_table *table, const struct store_call *call,
                            struct store_script *script, const struct store_words *args,
                            struct str *reply);
/* Takes the next string of a reply, a position of the stream. False: it is not one. */
bool table_next_cursor(struct str *reply, struct store_cursor *cursor);

/* ---- table_send.c ---- */

/* Sends these names (struct owed_name); without names, extends the TTL of the keys. MAY WAIT. */
enum store_result table_send_names(struct store_table *table, const struct store_call *call,
                                   struct vec *names);
/* Sends all waiting changes; deadline_ms 0: each call has its own deadline. MAY WAIT. */
enum store_result table_send(struct store_table *table, uint64_t deadline_ms);

/* ---- table_read.c ---- */

/* Reads these items, and stores them here. MAY WAIT. */
enum store_result table_fetch(struct store_table *table, const struct store_call *call,
                              const struct str *names, size_t count);
/* Reads changes, or all items. MAY WAIT. */
enum store_result table_read(struct store_table *table);

#endif
