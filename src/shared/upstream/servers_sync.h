/* Groups whose servers all nodes have: `zone NAME SIZE sync`. Implemented in servers_sync.c. */
#ifndef SHARED_UPSTREAM_SERVERS_SYNC_H
#define SHARED_UPSTREAM_SERVERS_SYNC_H

#include <stdbool.h>

#include "store/store.h"
#include "upstream/upstream.h"

/* While the configuration is read, when the group has its zone. False after conf_error. */
bool servers_sync_add(struct conf *conf, struct conf_node *node, struct upstream_group *group,
                      const struct store_sync_words *words);

/*
 * Around a change of a group's servers (servers_read to servers_write). From begin to end no other
 * node changes them, and this node has what others have changed before; where the store is gone,
 * each node does as it likes. end: the other nodes get what is_changed. Both MAY WAIT. False:
 * others change them all the time; there is no end then. A group without `sync`: nothing happens.
 */
bool servers_sync_begin(struct upstream_group *group);
void servers_sync_end(struct upstream_group *group, bool is_changed);

#endif
