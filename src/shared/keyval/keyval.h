/* keyval and keyval_zone: variables whose values are in a zone that changes at run time. For
 * subjects of any kind. */
#ifndef SHARED_KEYVAL_KEYVAL_H
#define SHARED_KEYVAL_KEYVAL_H

#include "conf/directive.h"
#include "event/loop.h"
#include "shared/keyval/store.h"
#include "store/table.h"

/* Identifies the zones of a protocol by its address. */
struct keyval_kind {
    const char *state; /* key for conf_state */
    const char *variables, *redis_variables;
};

extern const struct keyval_kind keyval_http;
extern const struct keyval_kind keyval_stream;

struct keyval_redis;
struct keyval_saving;

/* A zone of one reading; created when it is first named. */
struct keyval_zone {
    struct keyval_zone *next; /* of this kind and reading, in the order of the file */
    struct zone *zone;
    struct keyval_store *store; /* NULL until it is declared, and for Redis */
    struct keyval_redis *redis; /* for keyval_zone_redis; else NULL */
    struct str file;            /* `state`, full and NUL-terminated; empty = none */
    uint64_t timeout_ms;        /* of pairs without a time of their own; 0 = they do not expire */
    struct store_table *table;  /* shares the pairs with other nodes; NULL: not shared */
    uint64_t swept_ms; /* in a worker: when the full zone was last searched for expired pairs */
    struct timer save_timer;      /* in a worker: writes the file */
    struct keyval_saving *saving; /* a thread writes the file, or will; NULL: none */
};

/* All zones of a kind; NULL when there is none. */
struct keyval_zone *keyval_zones_of(struct conf *conf, const struct keyval_kind *kind);

/* The zone with this name, created when it is first named. NULL after conf_error. */
struct keyval_zone *keyval_zone_named(struct conf *conf, struct conf_node *node,
                                      const struct keyval_kind *kind, struct str name);
/* The variables (struct keyval_variable *) of all zones of a kind. */
const struct vec *keyval_variables(struct conf *conf, const struct keyval_kind *kind);

/* Reads `keyval KEY $VARIABLE zone=NAME;` */
bool keyval_read(struct conf *conf, struct conf_node *node, const struct keyval_kind *kind);
/* Reads `keyval_zone zone=NAME:SIZE …;` */
bool keyval_zone_read(struct conf *conf, struct conf_node *node, const struct keyval_kind *kind);

/*
 * To be called after changes (struct keyval_change): they are written to the file soon, if there is
 * one, and sent to other nodes. MAY WAIT, for the store that the nodes share.
 */
void keyval_changed(struct keyval_zone *zone, const struct vec *changes);
/* To be called after all pairs, or some of them, were removed. MAY WAIT. */
void keyval_cleared(struct keyval_zone *zone);

/* The worker starts, or ends: writes changes that files do not have yet. */
void keyval_worker_start(struct conf *conf, const struct keyval_kind *kind);
void keyval_worker_end(struct conf *conf, const struct keyval_kind *kind);

/* The rows of a module; each of the functions reads one directive. */
#define KEYVAL_ROWS(CONTEXT, APPLY, APPLY_ZONE, APPLY_REDIS)                                       \
    {"keyval",                                                                                     \
     CONTEXT,                                                                                      \
     CUSTOM(APPLY),                                                                                \
     ARGS(3, 3),                                                                                   \
     .repeat = REPEAT_CUSTOM,                                                                      \
     .syntax = "key $variable zone=name",                                                          \
     .doc = "Defines a variable whose value is looked up in the zone by this key; it is "          \
            "empty if the zone does not contain the key."},                                        \
        {"keyval_zone",                                                                            \
         CONTEXT,                                                                                  \
         CUSTOM(APPLY_ZONE),                                                                       \
         ARGS(1, 7),                                                                               \
         .repeat = REPEAT_CUSTOM,                                                                  \
         .syntax = "zone=name:size [state=file] [timeout=time] [type=string|ip|prefix] "           \
                   "[sync[=store]] [sync_interval=time]",                                          \
         .doc = "Shared memory zone of key-value pairs, which `api` shows and changes. The "       \
                "pairs survive a reload; with `state` they are also saved to a file, as JSON, "    \
                "and survive a restart. A pair is removed after `timeout`. `type` defines how a "  \
                "key is matched: `string` exactly, `ip` as an address in a network, `prefix` by "  \
                "the beginning, where the longest key wins. With `sync` all nodes that share a "   \
                "`redis_store` have the same pairs."},                                             \
    {                                                                                              \
        "keyval_zone_redis", CONTEXT, CUSTOM(APPLY_REDIS), ARGS(1, 8),                             \
            .repeat = REPEAT_CUSTOM,                                                               \
            .syntax = "zone=name [hostname=name] [port=number] [database=number] "                 \
                      "[connect_timeout=time] [command_timeout=time] [ttl=time] [store=name]",     \
            .doc =                                                                                 \
                "Zone whose pairs are the keys `NAME:KEY` of a Redis or Valkey server, by "        \
                "default 127.0.0.1:6379, or of a `redis_store`. Values are fetched for each "      \
                "request before they are used; the request waits at most `command_timeout`, 10 "   \
                "milliseconds by default. A value assigned to a variable of the zone is written "  \
                "to the server and expires after `ttl`."                                           \
    }

#endif
