/* The words of the directives of the DNS resolver, for all blocks that have them. */
#ifndef UPSTREAM_SETTINGS_RESOLVER_ROWS_H
#define UPSTREAM_SETTINGS_RESOLVER_ROWS_H

#include <stdbool.h>

#include "conf/directive.h"
#include "net/resolver/resolver.h"

/*
 * The arguments of `resolver`: name servers, valid=, ipv4=, ipv6=; without a name server those of
 * the machine are taken. Names of servers are looked up by getaddrinfo, so that this may wait while
 * the configuration is read. False after conf_error; *out is in the arena of conf.
 */
bool resolver_settings_read(struct conf *conf, const struct conf_node *node,
                            struct resolver_settings **out);

/* `status_zone=` of resolvers: counts that outlive a reload. */
struct resolver_zone {
    struct str name;
    struct resolver_counts *counts;
};
/* All of a reading: struct resolver_zone, each name once. */
struct vec *resolver_zones_of(struct conf *conf);

/* `resolver` as a row: its field is a const struct resolver_settings *, NULL = none. With "off" it
 * may be taken back, as in mail. */
bool resolver_row_apply(struct conf_scope *scope, const struct directive *row,
                        struct conf_node *node, void *settings);
bool resolver_or_off_row_apply(struct conf_scope *scope, const struct directive *row,
                               struct conf_node *node, void *settings);

#define RESOLVER_SYNTAX                                                                            \
    "[address[:port] ...] [valid=time] [ipv4=on|off] [ipv6=on|off] [status_zone=zone]"
#define RESOLVER_DOC                                                                               \
    "Name servers for names that are resolved while the server runs. Without an "                  \
    "address, those in /etc/resolv.conf are used. `status_zone` counts queries and "               \
    "responses, for `api`."

/* The rows of a protocol's core; SETTINGS has `resolver` and, in milliseconds,
 * `resolver_timeout_ms`. */
#define RESOLVER_ROWS(CONTEXT, SETTINGS)                                                           \
    {"resolver",                                                                                   \
     CONTEXT,                                                                                      \
     CUSTOM_FIELD(SETTINGS, resolver, resolver_row_apply),                                         \
     ARGS(1, ARGS_ANY),                                                                            \
     .syntax = RESOLVER_SYNTAX,                                                                    \
     .doc = RESOLVER_DOC},                                                                         \
        RESOLVER_TIMEOUT_ROW(CONTEXT, SETTINGS)
#define RESOLVER_TIMEOUT_ROW(CONTEXT, SETTINGS)                                                    \
    {                                                                                              \
        "resolver_timeout", CONTEXT, MSEC(SETTINGS, resolver_timeout_ms),                          \
            .initial = "30s", .doc = "Timeout for resolving a name."                               \
    }

/* The argument of `resolver_file`: the path of a file like /etc/resolv.conf. */
bool resolver_settings_read_file(struct conf *conf, const struct conf_node *node,
                                 struct resolver_settings **out);

#endif
