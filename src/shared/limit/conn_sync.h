/* limit_conn with `sync`: includes the requests of other nodes. */
#ifndef SHARED_LIMIT_CONN_SYNC_H
#define SHARED_LIMIT_CONN_SYNC_H

#include "shared/limit/zone.h"
#include "store/table.h"

/*
 * Each node shares its counts: a table (store/table.h) has an item for each key and node, and one
 * for the lease of each node. Counts of a node whose lease has ended are ignored. So a request is
 * checked in memory, against the counts of this node and those that others had one interval ago,
 * and a count that does not change costs nothing.
 */
struct conn_sync;

/* For a declared zone. NULL after conf_error. */
struct conn_sync *conn_sync_new(struct conf *conf, struct conf_node *node,
                                const struct limit_zone *zone,
                                const struct store_sync_words *words);

/* In each worker, before it counts. */
void conn_sync_prepare(struct conn_sync *sync);

/* For the check of a request of this key: how many other nodes have in progress. From now on they
 * get this node's count. */
uint32_t conn_sync_others(const struct conn_sync *sync, const struct shm_key *key,
                          struct variable_env *env);

#endif
