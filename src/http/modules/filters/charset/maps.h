/* The charset_map blocks of a configuration: between which charsets there are tables. */
#ifndef HTTP_MODULES_FILTERS_CHARSET_MAPS_H
#define HTTP_MODULES_FILTERS_CHARSET_MAPS_H

#include "conf/conf.h"
#include "http/modules/filters/charset/recode.h"

/* All of them. */
struct charset_maps {
    struct vec ways; /* struct charset_way: two for each block */
};

/* One way of a block. */
struct charset_way {
    struct str from;
    struct str to;
    const struct recode_table *table;
};

/* Reads a block. False after conf_error. */
bool charset_maps_read(struct charset_maps *maps, struct conf *conf, const struct conf_node *block);

/* The table, NULL when there is none. Names of charsets are the same in any case. */
const struct recode_table *charset_maps_find(const struct charset_maps *maps, struct str from,
                                             struct str to);

#endif
