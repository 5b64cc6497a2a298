/* For whom trusted proxies speak: the walk through a list of addresses, as X-Forwarded-For has it.
 */
#ifndef SHARED_ACCESS_FORWARDED_H
#define SHARED_ACCESS_FORWARDED_H

#include <stdbool.h>

#include "base/arena.h"
#include "conf/conf.h"
#include "net/addr/addr.h"

/* Which proxies are trusted, and how far. */
struct forwarded {
    struct vec trusted; /* struct cidr */
    bool is_recursive;  /* what a trusted one says of another trusted one is believed, too */
};

/* Is this address one of a trusted proxy? len 0 is the other end of a unix socket without a name.
 */
bool forwarded_is_trusted(const struct forwarded *forwarded, const struct addr *addr);

/*
 * One list "client, proxy, proxy", the last of which is nearest to us: whom it says that *client
 * speaks for; with is_recursive whom that one speaks for, and so on while they are trusted.
 * Addresses may have ports, IPv6 in brackets then. True: the list is used up and the next may say
 * more.
 */
bool forwarded_follow(const struct forwarded *forwarded, struct str list, struct addr *client);

/*
 * Trusts what a `set_real_ip_from` names: an address, a network, "unix:", or a host, which stands
 * for all of its addresses as they are now. False after conf_error. Waits for the resolver of the
 * system.
 */
bool forwarded_trust(struct conf *conf, const struct conf_node *node, struct forwarded *forwarded);

/* The same of a line that may name networks alone: of geo's `proxy`, and of `geoip_proxy`. */
bool forwarded_trust_network(struct conf *conf, const struct conf_node *node,
                             struct forwarded *forwarded);

#endif
