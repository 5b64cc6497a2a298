/* Datagrams that somebody keeps for later, in order, up to a bound. */
#ifndef NET_DATAGRAM_KEPT_H
#define NET_DATAGRAM_KEPT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

/* All zero: none. Owned by whoever embeds it. */
struct kept_datagrams {
    struct kept_datagram {
        struct kept_datagram *next;
        size_t len;
        char bytes[];
    } * first, *last;
    unsigned count;
    size_t size; /* bytes in all */
};

/* Keeps a copy. False: there are 64, or 256 KB, and this one is not kept. */
bool kept_add(struct kept_datagrams *kept, struct str datagram);
/* The first one; empty if there is none. */
struct str kept_first(const struct kept_datagrams *kept);
/* The first one, the caller's to free; NULL: none. */
struct kept_datagram *kept_take(struct kept_datagrams *kept);
void kept_free(struct kept_datagrams *kept);

#endif
