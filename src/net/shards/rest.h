/* Rests between short connections, so that one wake-up serves several; private to this floor. */
#ifndef NET_SHARDS_REST_H
#define NET_SHARDS_REST_H

#include <stdbool.h>
#include <stdint.h>

/* Does a rest pay, with so many accepts in so many milliseconds and so many connections open, of which so many are to
 * backends that work? */
bool rest_pays(uint64_t accepts, uint64_t ms, uint32_t open, uint32_t backends);

/* n connections were accepted in this turn, n > 0. */
void rest_after(unsigned n);

#endif
