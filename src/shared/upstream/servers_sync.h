/* Groups whose servers all nodes share: `zone NAME SIZE sync`. Implemented in servers_sync.c. */
#ifndef SHARED_UPSTREAM_SERVERS_SYNC_H
#define SHARED_UPSTREAM_SERVERS_SYNC_H

#include <stdbool.h>

#include "store/store.h"
#include "upstream/upstream.h"

/* While the configuration is read, after the group got its zone. False after conf_error. */
bool servers_sync_add(struct conf *conf, struct conf_node *node, struct upstream_group *group,
                      const struct store_sync_words *words);

/*
 * Before and after a change of a group's servers (servers_read to servers_write). In between no
 * other node changes them, and this node has all earlier changes of others; without the store, each
 * node changes its own. end: sends the group to other nodes if is_changed. Both MAY WAIT. False:
 * other nodes change them all the time; do not call end then. Does nothing for a group without
 * `sync`.
 */
bool servers_sync_begin(struct upstream_group *group);
void servers_sync_end(struct upstream_group *group, bool is_changed);

#endif
