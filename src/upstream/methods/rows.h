/* The balancers that http and stream have: their rows. CONTEXT is that of the inside of `upstream`. */
#ifndef UPSTREAM_METHODS_ROWS_H
#define UPSTREAM_METHODS_ROWS_H

#include "upstream/cells/peer_time.h"

/* Each gives its balancer to the group that is being read. */
typedef bool method_apply(struct conf_scope *scope, const struct directive *row,
                          struct conf_node *node, void *settings);
method_apply hash_apply, least_conn_apply, least_time_apply, random_apply;

/* Reads the word of a time, as the subsystem has it: "header" of http; "connect", "first_byte" of stream; "last_byte".
 * (least_time.c) */
bool least_time_read(const struct upstream_subsystem *subsystem, struct str word,
                     struct peer_time_kind *out);

#define HASH_ROW(CONTEXT)                                                                                \
    {                                                                                                    \
        "hash", CONTEXT, CUSTOM(hash_apply), ARGS(1, 2),                                                 \
            .repeat = REPEAT_CUSTOM, .syntax = "key [consistent]",                                       \
            .doc =                                                                                       \
                "Requests with the same key go to the same server. With `consistent` (ketama) few keys " \
                "change their server when one is added or removed."                                      \
    }

#define LEAST_CONN_ROW(CONTEXT)                                                                          \
    {                                                                                                    \
        "least_conn", CONTEXT, CUSTOM(least_conn_apply), ARGS(0, 0),                                     \
            .repeat = REPEAT_CUSTOM,                                                                     \
            .doc =                                                                                       \
                "The server with the fewest requests in progress for its weight; several with the same " \
                "get their turns by weight."                                                             \
    }

/* WORDS: the times that the protocol knows. */
#define LEAST_TIME_ROW(CONTEXT, WORDS, DOC)                                                        \
    {                                                                                              \
        "least_time", CONTEXT, CUSTOM(least_time_apply), ARGS(1, 2),                               \
            .repeat = REPEAT_CUSTOM, .syntax = WORDS " [inflight]",                                \
            .doc = DOC "; with `inflight` what still waits counts, too."                           \
    }

#define RANDOM_ROW(CONTEXT, WORDS)                                                                  \
    {                                                                                               \
        "random", CONTEXT, CUSTOM(random_apply), ARGS(0, 2),                                        \
            .repeat = REPEAT_CUSTOM, .syntax = "[two [least_conn | " WORDS "]]",                    \
            .doc =                                                                                  \
                "A server at random, by weight. With `two` the better one of two: that with fewer " \
                "requests in progress, or with `least_time` the faster one."                        \
    }

#endif
