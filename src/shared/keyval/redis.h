/*
 * keyval_zone_redis: a zone whose pairs are keys of a Redis, "ZONE:KEY", which other programs may
 * write, too. Variables do not wait; so the values are fetched ahead, where a request or a session
 * may wait, and variables find them in what was fetched. Implemented in redis.c, redis_pairs.c and
 * redis_zone.c.
 */
#ifndef SHARED_KEYVAL_REDIS_H
#define SHARED_KEYVAL_REDIS_H

#include "conf/template.h"
#include "shared/keyval/keyval.h"

/* What was fetched for a key. */
struct keyval_fetched {
    struct keyval_fetched *next;
    const struct keyval_redis *redis;
    struct str key;
    enum {
        FETCHED_VALUE,
        FETCHED_NONE,  /* there is none */
        FETCHED_FAILED /* the store did not answer in time: it is not asked again for this request
                        */
    } what;
    struct str value;
};

/* Of a request or a session: all that was fetched, or assigned. Zero at first. */
struct keyval_fetches {
    struct keyval_fetched *first;
    unsigned count;
    bool is_logged;      /* a value that was not fetched is */
    bool is_finding;     /* keys are found: values that lack are fetched next */
    struct arena *arena; /* that lives as long */
};

/* A `keyval`. */
struct keyval_variable {
    struct template *key;
    struct keyval_zone *zone;
    struct variable *variable;
};

/* What a zone of Redis has besides. */
struct keyval_redis {
    struct store *store;
    struct str prefix; /* of keys: "ZONE:" */
    uint64_t ttl_ms;   /* of pairs that are written; 0: they stay */
    /* What was fetched for the subject of these variables; NULL: it is one that cannot wait, as a
     * handshake. */
    struct keyval_fetches *(*fetches)(struct variable_env *env);
};

/* ---- when the configuration is read ---- */

/* keyval_zone_redis zone=NAME …; */
bool keyval_redis_read(struct conf *conf, struct conf_node *node, const struct keyval_kind *kind,
                       struct keyval_fetches *(*fetches)(struct variable_env *env));
/* The zone of this variable is known to be one of Redis. */
void keyval_redis_link(struct conf *conf, const struct keyval_kind *kind,
                       struct keyval_variable *keyval);

/* The variables (struct keyval_variable *) of zones of Redis, of a kind. */
const struct vec *keyval_redis_variables(struct conf *conf, const struct keyval_kind *kind);

/* ---- for a request or a session ---- */

/* Is there a key whose value was not fetched yet? Never waits. */
bool keyval_redis_is_due(const struct vec *variables, struct variable_env *env);
/*
 * Fetches those values, all in one round trip to each store; where a key is made of another value,
 * in as many as there are links, 4 at most. MAY WAIT, for the timeout of each store and round.
 */
void keyval_redis_fetch(const struct vec *variables, struct variable_env *env);

/* struct variable.get and set. Neither waits: what was assigned is sent at once, and its reply is
 * not awaited. */
bool keyval_redis_get(struct variable_env *env, const struct variable *variable, struct str *out);
void keyval_redis_set(struct variable_env *env, const struct variable *variable, struct str value);

/* ---- for those who administrate the pairs; each MAY WAIT, for half a second for each call of the
 * store ---- */

enum keyval_redis_result {
    KEYVAL_REDIS_DONE,
    KEYVAL_REDIS_EXISTS,
    KEYVAL_REDIS_ABSENT,
    KEYVAL_REDIS_GONE,   /* the store did not answer */
    KEYVAL_REDIS_REFUSED /* the store refused: of a cluster, several pairs at once, and all pairs */
};

enum keyval_redis_result keyval_redis_pair(const struct keyval_redis *redis, struct arena *arena,
                                           struct str key, struct str *value);
/*
 * All pairs, some at a time and in no order; one whose key the store moves meanwhile may come
 * twice. The walk lives in the arena, and has what it read last.
 */
struct keyval_walk;
struct keyval_walk *keyval_redis_walk(const struct keyval_redis *redis, struct arena *arena);
/* Some pairs more, perhaps none: struct keyval_pair, valid until the next call. *has_more: these
 * were not the last. */
enum keyval_redis_result keyval_redis_walk_on(struct keyval_walk *walk, struct vec *pairs,
                                              bool *has_more);
/* Makes keys that are not there, or changes those that are (struct keyval_change): all, or none. */
enum keyval_redis_result keyval_redis_change(const struct keyval_redis *redis, struct arena *arena,
                                             const struct vec *changes, bool is_new);
/* What is assigned to a variable, as it may be: the timeout of the store holds. MAY WAIT. */
void keyval_redis_set_pairs(const struct keyval_redis *redis, struct arena *arena,
                            const struct vec *changes);
enum keyval_redis_result keyval_redis_clear(const struct keyval_redis *redis, struct arena *arena);

#endif
