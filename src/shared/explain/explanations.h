/*
 * Explanations of requests: texts in a zone of shared memory, as many of the newest as fit. Each is
 * found by a random id. The module that adds them defines their contents.
 */
#ifndef SHARED_EXPLAIN_EXPLANATIONS_H
#define SHARED_EXPLAIN_EXPLANATIONS_H

#include "base/arena.h"
#include "base/shm.h"
#include "conf/conf.h"

#define EXPLANATION_ID_SIZE 32          /* bytes of an id: hexadecimal digits */
#define EXPLANATION_MOST (128 * 1024)   /* bytes of a text */
#define EXPLANATIONS_MOST 1024          /* most that a zone keeps, regardless of its size */
#define EXPLANATIONS_LEAST (256 * 1024) /* smallest zone in bytes, so that each text fits */

struct explanations;

/* The explanations of a zone "NAME:SIZE"; those of the running generation if it has the same zone.
 * NULL after conf_error. */
struct explanations *explanations_open(struct conf *conf, struct conf_node *node, struct str zone);

/* The same in a given zone, for tests. NULL: the zone is too small. */
struct explanations *explanations_of(struct zone *zone);

/* Writes a new id of EXPLANATION_ID_SIZE bytes that cannot be guessed. */
void explanation_id_make(char *id);

/* Stores a text under an id of explanation_id_make; overwrites the oldest ones. False: it is longer
 * than EXPLANATION_MOST. Does not wait. */
bool explanation_keep(struct explanations *explanations, struct str id, struct str text);

/* The text of this id, from any zone of the configuration, copied to the arena. False: there is
 * none. The id may be any bytes. */
bool explanation_find(struct conf *conf, struct str id, struct arena *arena, struct str *text);

/* Removes the id from all zones of the configuration. */
void explanation_drop(struct conf *conf, struct str id);

/* The same two functions for one zone. */
bool explanation_find_in(struct explanations *explanations, struct str id, struct arena *arena,
                         struct str *text);
void explanation_drop_in(struct explanations *explanations, struct str id);

#endif
