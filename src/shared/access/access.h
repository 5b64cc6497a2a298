/* Lists of allow and deny: which clients are let in by address. Networks as a line of the
 * configuration names them. */
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

/* What the first rule says that matches, of struct access_rule. len 0 is the other end of a unix
 * socket without a name. */
enum access_verdict access_check(const struct vec *rules, const struct addr *client);

/* Adds what an `allow` or a `deny` says. False after conf_error. */
bool access_rule_read(struct conf *conf, const struct conf_node *node, struct vec *rules);

/* "10.0.0.0/8", "::/0", an address. Warns of bits beyond the mask. "all", "unix:" and brackets are
 * none: false after conf_error. */
bool network_read(struct conf *conf, const struct conf_node *node, struct str text,
                  struct cidr *out);

/*
 * The rows of an access module. apply empties what was inherited where it is the first of either in
 * its block, and calls access_rule_read. REFUSES begins the sentence about denied clients.
 */
#define ACCESS_ROWS(CONTEXT, APPLY, REFUSES)                                                       \
    {"allow",                                                                                      \
     CONTEXT,                                                                                      \
     CUSTOM(APPLY),                                                                                \
     ARGS(1, 1),                                                                                   \
     .repeat = REPEAT_CUSTOM,                                                                      \
     .syntax = "address | CIDR | unix: | all",                                                     \
     .doc = "Lets clients of this network in. The first allow or deny that matches decides; a "    \
            "block with some of its own inherits none."},                                          \
    {                                                                                              \
        "deny", CONTEXT, CUSTOM(APPLY), ARGS(1, 1), .repeat = REPEAT_CUSTOM,                       \
                                                    .syntax = "address | CIDR | unix: | all",      \
                                                    .doc = REFUSES " of this network."             \
    }

#endif
