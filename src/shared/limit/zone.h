/* Zones in which requests or sessions are counted by a key: what limit_conn and limit_req share. */
#ifndef SHARED_LIMIT_ZONE_H
#define SHARED_LIMIT_ZONE_H

#include <stdatomic.h>

#include "base/shm_table.h"
#include "conf/directive.h"

/* What became of those that a zone's limits were asked of. limit_conn delays none. */
enum limit_outcome {
    LIMIT_PASSED,
    LIMIT_DELAYED,
    LIMIT_REJECTED,
    LIMIT_DELAYED_DRY_RUN,
    LIMIT_REJECTED_DRY_RUN,
    LIMIT_OUTCOMES
};
extern const struct str limit_outcome_names[LIMIT_OUTCOMES]; /* "passed", … */

/* How many there were of each, over all workers, as long as the zone lives. */
struct limit_counts {
    _Atomic uint64_t of[LIMIT_OUTCOMES];
};

/* What a module keeps in its zones; its address tells them from others'. */
struct limit_kind {
    const char *state;     /* what the zones of a reading are kept under: conf_state */
    const char *protocol;  /* that it limits: "http", "stream" */
    const char *directive; /* that declares a zone */
    const char *label;     /* what a refused reload calls it, as nginx does */
    bool delays;           /* it lets some wait: LIMIT_DELAYED can be */
    size_t size;           /* of the module's struct, which begins with struct limit_zone */
    size_t record_size;    /* of the table's records */
    size_t head_size;      /* of the table's head */
};

/* A zone of a reading; made at its first mention, be that a limit or the declaration. */
struct limit_zone {
    struct limit_zone *next;   /* of this kind and reading */
    struct limit_zone *beside; /* of any kind, in this reading */
    const struct limit_kind *kind;
    struct limit_counts *counts; /* in the zone; NULL until it was declared */
    struct zone *zone;
    struct shm_table *table; /* NULL until it was declared */
    struct vec keys;         /* struct template *: what is counted by */
    struct str source;       /* the keys as written */
};

/* All of a kind; NULL when there is none. */
struct limit_zone *limit_zones_of(struct conf *conf, const struct limit_kind *kind);

/* All of any kind, from one to the next by `beside`. */
struct limit_zone *limit_zones_all(struct conf *conf);

/* One more. */
static inline void limit_count(const struct limit_zone *zone, enum limit_outcome outcome)
{
    atomic_fetch_add_explicit(&zone->counts->of[outcome], 1, memory_order_relaxed);
}

/* The directive that limits by zones of this kind. */
static inline struct str limit_kind_word(const struct limit_kind *kind)
{
    return kind->delays ? STR("limit_req") : STR("limit_conn");
}

/* They begin again. */
void limit_counts_reset(const struct limit_zone *zone);

/* Its counts as members of the object that is open, in the words of nginx Plus. */
struct json;
void limit_counts_put(struct json *json, const struct limit_zone *zone);

/* The zone of this name; NULL after conf_error. A name that nobody declares ends the reading. */
struct limit_zone *limit_zone_named(struct conf *conf, struct conf_node *node,
                                    const struct limit_kind *kind, struct str name);

/* What a directive says of the zone that it declares. */
struct limit_zone_words {
    struct str name;
    uint64_t size;
    const unsigned *keys; /* numbers of the arguments that are the keys */
    unsigned key_count;
};

/* "zone=NAME:SIZE" of an argument that begins with "zone="; name stays empty when that is. False
 * after conf_error. */
bool limit_zone_read(struct conf *conf, const struct conf_node *node, struct str argument,
                     struct str *name, uint64_t *size);

/* Gives it memory and its keys, arguments of node. NULL after conf_error. */
struct limit_zone *limit_zone_declare(struct conf *conf, struct conf_node *node,
                                      const struct limit_kind *kind,
                                      const struct limit_zone_words *words);

/* What a subject is counted by; false: not at all, since all keys are empty. */
bool limit_zone_key(const struct limit_zone *zone, struct variable_env *env, struct shm_key *key);

/* The same with another secret, for a name that several nodes have in common. */
bool limit_zone_name(const struct limit_zone *zone, struct variable_env *env,
                     const uint64_t secret[4], struct shm_key *name);

/* "info" to "error", for limit_*_log_level. */
extern const struct directive_word limit_log_levels[];

#endif
