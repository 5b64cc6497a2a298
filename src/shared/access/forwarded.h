/* The client behind trusted proxies: the walk through a list of addresses such as
   X-Forwarded-For. */
#ifndef SHARED_ACCESS_FORWARDED_H
#define SHARED_ACCESS_FORWARDED_H

#include <stdbool.h>

#include "base/arena.h"
#include "conf/conf.h"
#include "net/addr/addr.h"

/* Which proxies are trusted, and whether recursively. */
struct forwarded {
    struct vec trusted; /* struct cidr */
    bool is_recursive;  /* the list of a trusted proxy may name another trusted proxy, whose list is
                           used as well */
};

/* Is this the address of a trusted proxy? len 0 is the peer of a unix socket without a name. */
bool forwarded_is_trusted(const struct forwarded *forwarded, const struct addr *addr);

/*
 * Walks one list "client, proxy, proxy", whose last address is nearest to us. If *client is
 * trusted, it becomes the address that the list has for it; with is_recursive this is repeated
 * while the new one is trusted. Addresses may have ports, with IPv6 in brackets. True: the list is
 * used up and the next one may continue it.
 */
bool forwarded_follow(const struct forwarded *forwarded, struct str list, struct addr *client);

/*
 * Trusts the argument of a `set_real_ip_from`: an address, a network, "unix:", or a host, with all
 * addresses that it has now. False after conf_error. Waits for the system's resolver.
 */
bool forwarded_trust(struct conf *conf, const struct conf_node *node, struct forwarded *forwarded);

/* The same for directives that allow only networks: `proxy` of geo, and `geoip_proxy`. */
bool forwarded_trust_network(struct conf *conf, const struct conf_node *node,
                             struct forwarded *forwarded);

#endif
