/* The words of the directives of the DNS resolver, for all blocks that have them. */
#ifndef UPSTREAM_SETTINGS_RESOLVER_ROWS_H
#define UPSTREAM_SETTINGS_RESOLVER_ROWS_H

#include <stdbool.h>

#include "conf/directive.h"
#include "net/resolver/resolver.h"

/*
 * The arguments of `resolver`: name servers, valid=, ipv4=, ipv6=; without a name server those of the
 * machine are taken. Names of servers are looked up by getaddrinfo, so that this may wait while the
 * configuration is read. False after conf_error; *out is in the arena of conf.
 */
bool resolver_settings_read(struct conf *conf, const struct conf_node *node,
                            struct resolver_settings **out);

/* The argument of `resolver_file`: the path of a file like /etc/resolv.conf. */
bool resolver_settings_read_file(struct conf *conf, const struct conf_node *node,
                                 struct resolver_settings **out);

#endif
