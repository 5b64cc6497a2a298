/* The map block: variables whose values depend on the value of a text. For subjects of any kind. */
#ifndef SHARED_VARIABLES_MAP_H
#define SHARED_VARIABLES_MAP_H

#include "conf/directive.h"

/* Accepted and ignored: the tables have no fixed size. */
struct value_map_settings {
    int64_t hash_bucket_size;
    int64_t hash_max_size;
};

/* Reads a block, and defines its variable in the enclosing block's set. */
bool value_map_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                     void *settings);

/* The rows of a map module, for blocks of this context; settings are a struct
 * value_map_settings. */
#define VALUE_MAP_ROWS(CONTEXT)                                                                    \
    {"map",                                                                                        \
     CONTEXT,                                                                                      \
     FREE_FORM(value_map_apply),                                                                   \
     ARGS(2, 2),                                                                                   \
     .repeat = REPEAT_CUSTOM,                                                                      \
     .syntax = "string $variable",                                                                 \
     .doc = "Defines a variable by a table. Keys are strings, `~regex` and `~*regex`, "            \
            "`default`, and with `hostnames` also `*.suffix` and `prefix.*`. With "                \
            "`volatile` the value is computed at each use."},                                      \
        {"map_hash_bucket_size",                                                                   \
         CONTEXT,                                                                                  \
         NUMBER(struct value_map_settings, hash_bucket_size),                                      \
         .apply = conf_hash_size_check,                                                            \
         .initial = "64",                                                                          \
         .doc = "Accepted and ignored: the hash tables are sized automatically."},                 \
    {                                                                                              \
        "map_hash_max_size", CONTEXT, NUMBER(struct value_map_settings, hash_max_size),            \
            .apply = conf_hash_size_check, .initial = "2048",                                      \
            .doc = "Accepted and ignored: the hash tables are sized automatically."                \
    }

#endif
