/* Groups that come, change and go while the service runs: in this worker alone. The owner of those
 * of all workers is above. Implemented in worker/changes.c. */
#ifndef UPSTREAM_CHANGES_H
#define UPSTREAM_CHANGES_H

#include <stdbool.h>

#include "base/buf.h"
#include "upstream/upstream.h"

/* Such a group, with a set and memory of its own; each is an `upstream` block as the outer block
 * could have had it. */
struct changed_group;

/*
 * Reads the inside of an `upstream` block. outer: the scope of the http or stream block, as the
 * finish hook of a table had it; variables: of that subsystem. Names of servers are looked up when
 * the group has started. NULL: there are errors, the first of which *why tells.
 */
struct changed_group *changed_group_read(const struct conf_scope *outer,
                                         struct variable_set *variables, struct str name,
                                         struct str text, struct buf *why);

/* It may be picked from: peers, names, health checks begin. False: no memory; logged. */
bool changed_group_start(struct changed_group *changed);

struct upstream_group *changed_group_of(struct changed_group *changed);

/* This worker quits: nothing is kept, watched or probed any more; requests under way may continue.
 */
void changed_group_quit(struct changed_group *changed);

/* Nobody finds it any more: it goes when its last request has gone. Whether it was started or not.
 */
void changed_group_drop(struct changed_group *changed);

/* The worker ends: all that were dropped go now, but for those with requests. */
void changed_groups_end(void);

#endif
