/* Health checks that nodes share: `health_check … sync`. Implemented in health_sync.c. */
#ifndef SHARED_UPSTREAM_HEALTH_SYNC_H
#define SHARED_UPSTREAM_HEALTH_SYNC_H

#include "store/store.h"
#include "upstream/health.h"
#include "upstream/upstream.h"

/*
 * While the configuration is read, after the check was added to its group; does nothing without
 * `sync`. For each peer one node makes the checks: the one that has its lease. The others learn the
 * state. False after conf_error.
 */
bool health_sync_add(struct conf *conf, struct conf_node *node,
                     const struct store_sync_words *words, struct upstream_group *group,
                     struct health_settings *settings);

#endif
