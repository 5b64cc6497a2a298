/* A table's own: what its files share. Implemented in table.c, table_read.c and table_send.c. */
#ifndef STORE_TABLE_PRIVATE_H
#define STORE_TABLE_PRIVATE_H

#include "net/tls/seal.h"
#include "store/owed.h"
#include "store/private.h"
#include "store/table.h"

#define TABLE_TTL_MS (24 * 3600000) /* of a table that no node uses any more */
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
    struct str fence;                  /* a key: what the last command's ARGV[2] was */
    unsigned char secret[TLS_SEAL_KEY];
    char origin[17];     /* of this process, in the stream */
    struct fiber *fiber; /* of the exchange, in one worker; NULL: it is not running */
    bool has_started;    /* all items were read by this worker */
    uint64_t renewed_ms;
    uint64_t logged_ms; /* 0: never */
};

/* Piece of a script: all keys last for ARGV[1] milliseconds from now on. */
#define TABLE_EXTEND "for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, ARGV[1]) end\n"

/* ---- table.c ---- */

void table_count(const struct store_table *table, enum store_table_counter counter,
                 uint64_t number);
/* What an item's value is bound to, so that nobody can put it in another's place. */
struct str table_bound(const struct store_table *table, struct str name, struct arena *arena);
/* "the item NAME WHAT", the first of a minute. */
void table_log_item(struct store_table *table, struct str name, const char *what);
/* A call for which no request waits. */
struct store_call table_call(const struct store_table *table, struct arena *arena);
struct str table_number(struct arena *arena, int64_t number);
/* "n:…": items begin here, as there were none; "c:…": as this node dropped all. */
struct str table_epoch(struct arena *arena, char why);
/* KEYS: hash, sorted set of what expires, stream, fence. MAY WAIT. */
enum store_result table_run(const struct store_table *table, const struct store_call *call,
                            struct store_script *script, const struct store_words *args,
                            struct str *reply);
/* The next string of a reply is a place of the stream. False: it is none. */
bool table_next_place(struct str *reply, struct store_cursor *place);

/* ---- table_send.c ---- */

/* Sends these names (struct owed_name), or with none of them extends the life of the keys. MAY
 * WAIT. */
enum store_result table_send_names(struct store_table *table, const struct store_call *call,
                                   struct vec *names);
/* Sends all that waits; deadline_ms 0: each call has its own. MAY WAIT. */
enum store_result table_send(struct store_table *table, uint64_t deadline_ms);

/* ---- table_read.c ---- */

/* Reads those items, and takes them. MAY WAIT. */
enum store_result table_fetch(struct store_table *table, const struct store_call *call,
                              const struct str *names, size_t count);
/* Reads what is new, or all. MAY WAIT. */
enum store_result table_read(struct store_table *table);

#endif
