/* Datagrams that somebody keeps for later, in order, up to a bound. */
#ifndef NET_DATAGRAM_LIST_H
#define NET_DATAGRAM_LIST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

/* All zero: none. Owned by the struct that embeds it. */
struct datagram_list {
    struct datagram_node {
        struct datagram_node *next;
        size_t len;
        char bytes[];
    } * first, *last;
    unsigned count;
    size_t size; /* bytes in all */
};

/* Keeps a copy. False: there are 64, or 256 KB, and this one is not kept. */
bool datagram_list_add(struct datagram_list *list, struct str datagram);
/* The first one; empty if there is none. */
struct str datagram_list_first(const struct datagram_list *list);
/* The first one, the caller's to free; NULL: none. */
struct datagram_node *datagram_list_take(struct datagram_list *list);
void datagram_list_free(struct datagram_list *list);

#endif
