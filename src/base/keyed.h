/* What several parties keep beside a thing that lives in an arena, each found by the address of
 * something of its own. */
#ifndef BASE_KEYED_H
#define BASE_KEYED_H

#include "base/arena.h"

struct keyed_data;

/*
 * `size` bytes in the arena, cleared when they are asked for first; the list begins with NULL. Size
 * 0: NULL when there is none yet.
 */
void *keyed_data(struct keyed_data **list, struct arena *arena, const void *key, size_t size);

#endif
