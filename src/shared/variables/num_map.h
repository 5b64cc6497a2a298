/* The num_map block: variables whose values depend on a number. For subjects of any kind. */
#ifndef SHARED_VARIABLES_NUM_MAP_H
#define SHARED_VARIABLES_NUM_MAP_H

#include "conf/directive.h"

/* Reads a block, and defines its variable in the enclosing block's set. If the block names no
 * source, it is `$remote_port`. */
bool num_map_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                   void *settings);

/* The row of a num_map module, for blocks of this context; it has no settings. */
#define NUM_MAP_ROW(CONTEXT)                                                                       \
    {                                                                                              \
        "num_map", CONTEXT, FREE_FORM(num_map_apply), ARGS(1, 2),                                  \
            .repeat = REPEAT_CUSTOM, .syntax = "[number] $variable",                               \
            .doc =                                                                                 \
                "Defines a variable by a number, by default `$remote_port`: its value is that "    \
                "of the smallest range that contains the number. Lines are `number value`, "       \
                "`first-last value`, `<=last value`, `default value`. With `volatile` the value "  \
                "is computed at each use."                                                         \
    }

#endif
