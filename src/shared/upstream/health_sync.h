/* Health checks that nodes make together: `health_check … sync`. Implemented in health_sync.c. */
#ifndef SHARED_UPSTREAM_HEALTH_SYNC_H
#define SHARED_UPSTREAM_HEALTH_SYNC_H

#include "store/store.h"
#include "upstream/health.h"
#include "upstream/upstream.h"

/*
 * While the configuration is read, when the check was added to its group; nothing happens where the
 * words do not want it. Of each peer one node makes the probes: who has the lease of it; all others
 * learn its state. False after conf_error.
 */
bool health_sync_add(struct conf *conf, struct conf_node *node,
                     const struct store_sync_words *words, struct upstream_group *group,
                     struct health_settings *settings);

#endif
