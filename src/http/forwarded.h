/* For whom trusted proxies speak: the walk through X-Forwarded-For and its like. */
#ifndef HTTP_FORWARDED_H
#define HTTP_FORWARDED_H

#include <stdbool.h>

#include "base/arena.h"
#include "http/fields.h"
#include "net/addr.h"

/* Who is believed, and how far. */
struct forwarded {
    struct vec trusted; /* struct cidr */
    bool is_recursive;  /* what a trusted one says of another trusted one is believed, too */
};

/* Is this address one of a trusted proxy? len 0 is the other end of a unix socket without a name. */
bool forwarded_is_trusted(const struct forwarded *forwarded, const struct addr *addr);

/*
 * One list "client, proxy, proxy", the last of which is nearest to us: whom it says that *client speaks
 * for; with is_recursive whom that one speaks for, and so on while they are trusted. Addresses may have
 * ports, IPv6 in brackets then. True: the list is used up and the next may say more.
 */
bool forwarded_follow(const struct forwarded *forwarded, struct str list, struct addr *client);

/* All fields X-Forwarded-For of a request, the last one first. */
void forwarded_follow_all(const struct forwarded *forwarded, const struct fields *fields,
                          struct addr *client);

#endif
