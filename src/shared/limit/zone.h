/* Zones in which requests or sessions are counted by key: shared by limit_conn and limit_req. */
#ifndef SHARED_LIMIT_ZONE_H
#define SHARED_LIMIT_ZONE_H

#include <stdatomic.h>

#include "base/shm_table.h"
#include "conf/directive.h"

/* The outcome of a check. limit_conn delays no requests. */
enum limit_outcome {
    LIMIT_PASSED,
    LIMIT_DELAYED,
    LIMIT_REJECTED,
    LIMIT_DELAYED_DRY_RUN,
    LIMIT_REJECTED_DRY_RUN,
    LIMIT_OUTCOMES
};
extern const struct str limit_outcome_names[LIMIT_OUTCOMES]; /* "passed", … */

/* Number of requests with each outcome, in all workers, since the zone was created. */
struct limit_counts {
    _Atomic uint64_t of[LIMIT_OUTCOMES];
};

/* The kind of a module's zones; its address identifies it. */
struct limit_kind {
    const char *state;     /* key for conf_state */
    const char *protocol;  /* "http", "stream" */
    const char *directive; /* the directive that declares a zone */
    const char *label;     /* the name in the message of a refused reload, as in nginx */
    bool delays;           /* it may delay requests: LIMIT_DELAYED is possible */
    size_t size;           /* size of the module's struct, which begins with struct limit_zone */
    size_t record_size;    /* of the table's records */
    size_t head_size;      /* of the table's head */
};

/* A zone of one reading; created when it is first named, by a limit or its declaration. */
struct limit_zone {
    struct limit_zone *next;   /* of this kind and reading */
    struct limit_zone *beside; /* list of zones of any kind, in this reading */
    const struct limit_kind *kind;
    struct limit_counts *counts; /* in the zone; NULL until it is declared */
    struct zone *zone;
    struct shm_table *table; /* NULL until it is declared */
    struct vec keys;         /* struct template * */
    struct str source;       /* the keys as written */
};

/* All zones of a kind; NULL when there is none. */
struct limit_zone *limit_zones_of(struct conf *conf, const struct limit_kind *kind);

/* All zones of any kind, linked by `beside`. */
struct limit_zone *limit_zones_all(struct conf *conf);

/* Counts one request. */
static inline void limit_count(const struct limit_zone *zone, enum limit_outcome outcome)
{
    atomic_fetch_add_explicit(&zone->counts->of[outcome], 1, memory_order_relaxed);
}

/* The directive that limits by zones of this kind. */
static inline struct str limit_kind_word(const struct limit_kind *kind)
{
    return kind->delays ? STR("limit_req") : STR("limit_conn");
}

/* Resets the counts to 0. */
void limit_counts_reset(const struct limit_zone *zone);

/* Writes its counts as members of the open object, with the names of nginx Plus. */
struct json;
void limit_counts_put(struct json *json, const struct limit_zone *zone);

/* The zone with this name; NULL after conf_error. A zone that is not declared makes the reading
   fail. */
struct limit_zone *limit_zone_named(struct conf *conf, struct conf_node *node,
                                    const struct limit_kind *kind, struct str name);

/* The parameters of a directive that declares a zone. */
struct limit_zone_words {
    struct str name;
    uint64_t size;
    const unsigned *keys; /* indexes of the arguments that are the keys */
    unsigned key_count;
};

/* Reads "zone=NAME:SIZE" from an argument that begins with "zone="; name stays empty if the name
 * is. False after conf_error. */
bool limit_zone_read(struct conf *conf, const struct conf_node *node, struct str argument,
                     struct str *name, uint64_t *size);

/* Declares a zone: gives it memory, and its keys from the arguments of node. NULL after
   conf_error. */
struct limit_zone *limit_zone_declare(struct conf *conf, struct conf_node *node,
                                      const struct limit_kind *kind,
                                      const struct limit_zone_words *words);

/* The key of a subject; false: all keys are empty, so it is not counted. */
bool limit_zone_key(const struct limit_zone *zone, struct variable_env *env, struct shm_key *key);

/* The same with another secret, for a name that several nodes share. */
bool limit_zone_name(const struct limit_zone *zone, struct variable_env *env,
                     const uint64_t secret[4], struct shm_key *name);

/* "info" to "error", for limit_*_log_level. */
extern const struct directive_word limit_log_levels[];

#endif
