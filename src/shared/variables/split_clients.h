/* The split_clients block: a variable with one of several values, each for a part of all keys. For
 * subjects of any kind. */
#ifndef SHARED_VARIABLES_SPLIT_CLIENTS_H
#define SHARED_VARIABLES_SPLIT_CLIENTS_H

#include "conf/directive.h"

/* Reads a block, and defines its variable in the enclosing block's set. */
bool split_clients_apply(struct conf_scope *scope, const struct directive *row,
                         struct conf_node *node, void *settings);

/* The row of a split_clients module, for blocks of this context; it has no settings. */
#define SPLIT_CLIENTS_ROW(CONTEXT)                                                                 \
    {                                                                                              \
        "split_clients", CONTEXT, FREE_FORM(split_clients_apply), ARGS(2, 2),                      \
            .repeat = REPEAT_CUSTOM, .syntax = "string $variable",                                 \
            .doc =                                                                                 \
                "Defines a variable whose value is selected by the hash of the string. Lines are " \
                "`percent% value`, with at most two decimals, and `* value` for the rest."         \
    }

#endif
