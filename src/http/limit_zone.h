/* Zones in which requests are counted by a key: what limit_conn and limit_req share. */
#ifndef HTTP_LIMIT_ZONE_H
#define HTTP_LIMIT_ZONE_H

#include "base/shm_table.h"
#include "conf/directive.h"
#include "http/request.h"

/* What a module keeps in its zones; its address tells them from others'. */
struct limit_kind {
    const char *directive; /* that declares a zone */
    const char *label;     /* what a refused reload calls it, as nginx does */
    size_t size;           /* of the module's struct, which begins with struct limit_zone */
    size_t record_size;    /* of the table's records */
    size_t head_size;      /* of the table's head */
};

/* A zone of a reading; made at its first mention, be that a limit or the declaration. */
struct limit_zone {
    struct limit_zone *next; /* of this kind and reading */
    struct zone *zone;
    struct shm_table *table; /* NULL until it was declared */
    struct vec keys;         /* struct template *: what is counted by */
    struct str source;       /* the keys as written */
};

/* All of a kind; NULL when there is none. */
struct limit_zone *limit_zones_of(struct conf *conf, const struct limit_kind *kind);

/* The zone of this name; NULL after conf_error. A name that nobody declares ends the reading. */
struct limit_zone *limit_zone_named(struct conf *conf, struct conf_node *node,
                                    const struct limit_kind *kind, struct str name);

/* "zone=NAME:SIZE" of an argument that begins with "zone="; name stays empty when that is. False after conf_error. */
bool limit_zone_read(struct conf *conf, const struct conf_node *node, struct str argument,
                     struct str *name, uint64_t *size);

/* Gives it memory and its keys: the arguments of node with these numbers. NULL after conf_error. */
struct limit_zone *limit_zone_declare(struct conf *conf, struct conf_node *node,
                                      const struct limit_kind *kind, struct str name, uint64_t size,
                                      const unsigned *arguments, unsigned count);

/* What the request is counted by; false: not at all, since all keys are empty. */
bool limit_zone_key(const struct limit_zone *zone, struct request *request, struct shm_key *key);

/* "info" to "error", for limit_*_log_level. */
extern const struct directive_word limit_log_levels[];

#endif
