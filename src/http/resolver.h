/* The directives of the DNS resolver: which name servers answer, and how their answers are used. Who
 * resolves names at run time (upstreams) reads this. */
#ifndef HTTP_RESOLVER_H
#define HTTP_RESOLVER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "conf/directive.h"

/* What `resolver` or `resolver_file` of one level said; shared by the levels below. */
struct resolver_settings {
    struct vec servers; /* struct addr: name servers in order, with their ports; never empty */
    uint64_t valid_s;   /* an answer is kept so long; counts only with has_valid */
    bool has_valid;     /* valid= was written; else the answer's own TTL holds */
    bool uses_ipv4;     /* A records are asked for */
    bool uses_ipv6;     /* AAAA records are asked for; at least one of both is true */
};

/* Rows `resolver` and `resolver_file`: set http_location.resolver. Names of servers are looked up by
 * getaddrinfo, so that this may wait while the configuration is read. */
bool resolver_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                    void *settings);
bool resolver_file_apply(struct conf_scope *scope, const struct directive *row,
                         struct conf_node *node, void *settings);

#endif
