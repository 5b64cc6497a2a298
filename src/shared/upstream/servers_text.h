/* The servers of a group as bytes, for other nodes. Pure functions. */
#ifndef SHARED_UPSTREAM_SERVERS_TEXT_H
#define SHARED_UPSTREAM_SERVERS_TEXT_H

#include "upstream/servers.h"

/* docs/scaling-out.md has the form. In the arena. */
struct str servers_text(const struct servers_list *list, struct arena *arena);
/* The list's version stays as it is. Texts stay those of the bytes. False: it is no such text. */
bool servers_text_read(struct str text, struct arena *arena, struct servers_list *list);

#endif
