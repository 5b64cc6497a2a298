/*
 * keyval_zone_redis: a zone whose pairs are keys in Redis, "ZONE:KEY", which other programs may
 * write, too. Variables do not wait, so the values are fetched in advance, where a request or a
 * session may wait, and variables use the fetched ones. Implemented in redis.c, redis_pairs.c and
 * redis_zone.c.
 */
#ifndef SHARED_KEYVAL_REDIS_H
#define SHARED_KEYVAL_REDIS_H

#include "conf/template.h"
#include "shared/keyval/keyval.h"

/* The result of fetching a key. */
struct keyval_fetched {
    struct keyval_fetched *next;
    const struct keyval_redis *redis;
    struct str key;
    enum {
        FETCHED_VALUE,
        FETCHED_NONE,  /* the key does not exist */
        FETCHED_FAILED /* the store did not reply in time: it is not tried again for this request */
    } what;
    struct str value;
};

/* All values that were fetched or assigned for a request or a session. Zero at first. */
struct keyval_fetches {
    struct keyval_fetched *first;
    unsigned count;
    bool is_logged;      /* the use of a value that was not fetched was logged */
    bool is_finding;     /* keys are being evaluated: missing values are fetched next */
    struct arena *arena; /* lives as long as the request or session */
};

/* A `keyval`. */
struct keyval_variable {
    struct template *key;
    struct keyval_zone *zone;
    struct variable *variable;
};

/* The additional data of a zone in Redis. */
struct keyval_redis {
    struct store *store;
    struct str prefix; /* of keys: "ZONE:" */
    uint64_t ttl_ms;   /* for pairs that are written; 0: they do not expire */
    /* The fetched values of the subject of these variables; NULL: the subject cannot wait, such as
     * a handshake. */
    struct keyval_fetches *(*fetches)(struct variable_env *env);
};

/* ---- while the configuration is read ---- */

/* Reads `keyval_zone_redis zone=NAME …;` */
bool keyval_redis_read(struct conf *conf, struct conf_node *node, const struct keyval_kind *kind,
                       struct keyval_fetches *(*fetches)(struct variable_env *env));
/* To be called once the zone of this variable is known to be in Redis. */
void keyval_redis_link(struct conf *conf, const struct keyval_kind *kind,
                       struct keyval_variable *keyval);

/* The variables (struct keyval_variable *) of zones in Redis, of a kind. */
const struct vec *keyval_redis_variables(struct conf *conf, const struct keyval_kind *kind);

/* ---- for a request or a session ---- */

/* Is there a key whose value was not fetched yet? Never waits. */
bool keyval_redis_is_due(const struct vec *variables, struct variable_env *env);
/*
 * Fetches these values, with one round trip to each store; if a key depends on another value, with
 * one for each step of the chain, at most 4. MAY WAIT, in each step up to the timeout of each
 * store.
 */
void keyval_redis_fetch(const struct vec *variables, struct variable_env *env);

/* struct variable.get and set. Neither waits: an assignment is sent at once, without waiting for
 * the reply. */
bool keyval_redis_get(struct variable_env *env, const struct variable *variable, struct str *out);
void keyval_redis_set(struct variable_env *env, const struct variable *variable, struct str value);

/* ---- for the API; each MAY WAIT, up to half a second for each call of the store ---- */

enum keyval_redis_result {
    KEYVAL_REDIS_DONE,
    KEYVAL_REDIS_EXISTS,
    KEYVAL_REDIS_ABSENT,
    KEYVAL_REDIS_GONE,   /* the store did not reply */
    KEYVAL_REDIS_REFUSED /* the store refused: a cluster does not support changes of several pairs,
                            or of all pairs */
};

enum keyval_redis_result keyval_redis_pair(const struct keyval_redis *redis, struct arena *arena,
                                           struct str key, struct str *value);
/*
 * All pairs, some at a time, in no order; a pair whose key the store moves meanwhile may come
 * twice. The walk is in the arena, and holds the pairs that it read last.
 */
struct keyval_walk;
struct keyval_walk *keyval_redis_walk(const struct keyval_redis *redis, struct arena *arena);
/* Reads some more pairs, perhaps none: struct keyval_pair, valid until the next call. *has_more:
 * these were not the last. */
enum keyval_redis_result keyval_redis_walk_on(struct keyval_walk *walk, struct vec *pairs,
                                              bool *has_more);
/* Creates keys, or changes existing ones (struct keyval_change): all of them, or none. */
enum keyval_redis_result keyval_redis_change(const struct keyval_redis *redis, struct arena *arena,
                                             const struct vec *changes, bool is_new);
/* The same for an assignment to a variable: whatever is there, and with the timeout of the store.
   MAY WAIT. */
void keyval_redis_set_pairs(const struct keyval_redis *redis, struct arena *arena,
                            const struct vec *changes);
enum keyval_redis_result keyval_redis_clear(const struct keyval_redis *redis, struct arena *arena);

#endif
