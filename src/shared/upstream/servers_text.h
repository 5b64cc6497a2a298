/* The servers of a group as bytes, for other nodes. Pure functions. */
#ifndef SHARED_UPSTREAM_SERVERS_TEXT_H
#define SHARED_UPSTREAM_SERVERS_TEXT_H

#include "upstream/servers.h"

/* docs/scaling-out.md describes the format. In the arena. */
struct str servers_text(const struct servers_list *list, struct arena *arena);
/* Does not change the list's version. Strings are slices of `text`. False: the format is wrong. */
bool servers_text_read(struct str text, struct arena *arena, struct servers_list *list);

#endif
