/* Lists of allow and deny: access control by client address. And networks in the form of the
 * configuration. */
#ifndef SHARED_ACCESS_ACCESS_H
#define SHARED_ACCESS_ACCESS_H

#include "conf/conf.h"
#include "conf/directive.h"
#include "net/addr/addr.h"

struct access_rule {
    struct cidr network;
    bool is_deny;
};

enum access_verdict { ACCESS_UNDECIDED, ACCESS_ALLOWED, ACCESS_DENIED };

/* The verdict of the first rule that matches (struct access_rule). len 0 is the peer of a unix
 * socket without a name. */
enum access_verdict access_check(const struct vec *rules, const struct addr *client);

/* Adds the rule of an `allow` or a `deny`. False after conf_error. */
bool access_rule_read(struct conf *conf, const struct conf_node *node, struct vec *rules);

/* Parses "10.0.0.0/8", "::/0", or an address. Warns about bits beyond the mask. "all", "unix:" and
 * brackets are not networks: false after conf_error. */
bool network_read(struct conf *conf, const struct conf_node *node, struct str text,
                  struct cidr *out);

/*
 * The rows of an access module. apply drops the inherited list at the first `allow` or `deny` of a
 * block, and calls access_rule_read. REFUSES is the beginning of the sentence about denied clients.
 */
#define ACCESS_ROWS(CONTEXT, APPLY, REFUSES)                                                       \
    {"allow",                                                                                      \
     CONTEXT,                                                                                      \
     CUSTOM(APPLY),                                                                                \
     ARGS(1, 1),                                                                                   \
     .repeat = REPEAT_CUSTOM,                                                                      \
     .syntax = "address | CIDR | unix: | all",                                                     \
     .doc = "Allows access for this network or address. The first `allow` or `deny` that "         \
            "matches decides; a block with its own lines inherits none."},                         \
    {                                                                                              \
        "deny", CONTEXT, CUSTOM(APPLY), ARGS(1, 1),                                                \
            .repeat = REPEAT_CUSTOM, .syntax = "address | CIDR | unix: | all",                     \
            .doc = REFUSES " in this network, or with this address."                               \
    }

#endif
