/* limit_conn with `sync`: what other nodes have under way counts, too. */
#ifndef SHARED_LIMIT_CONN_SYNC_H
#define SHARED_LIMIT_CONN_SYNC_H

#include "shared/limit/zone.h"
#include "store/table.h"

/*
 * Each node lends its counts to the others: an item of a table (store/table.h) for each key and
 * node, and one for the node, its lease. Counts of a node whose lease has ended do not count. So a
 * request is judged in memory, by the counts of this node and what others had an interval ago, and
 * a count that stays as it is costs nothing.
 */
struct conn_sync;

/* For a zone that was declared. NULL after conf_error. */
struct conn_sync *conn_sync_new(struct conf *conf, struct conf_node *node,
                                const struct limit_zone *zone,
                                const struct store_sync_words *words);

/* In each worker, before it counts. */
void conn_sync_prepare(struct conn_sync *sync);

/* A request of this key is judged: how many other nodes have under way. What this node has is given
 * to them from now on. */
uint32_t conn_sync_others(const struct conn_sync *sync, const struct shm_key *key,
                          struct variable_env *env);

#endif
