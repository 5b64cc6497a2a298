/* Data that several modules attach to an object with an arena. Each module finds its own by a key:
 * the address of one of its static objects. */
#ifndef BASE_KEYED_H
#define BASE_KEYED_H

#include "base/arena.h"

struct keyed_data;

/*
 * `size` bytes in the arena, allocated and cleared at the first call for the key. The list starts
 * as NULL. With size 0: NULL if there is no data yet.
 */
void *keyed_data(struct keyed_data **list, struct arena *arena, const void *key, size_t size);

#endif
