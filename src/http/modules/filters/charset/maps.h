/* The conversion tables from charset_map blocks. */
#ifndef HTTP_MODULES_FILTERS_CHARSET_MAPS_H
#define HTTP_MODULES_FILTERS_CHARSET_MAPS_H

#include "conf/conf.h"
#include "http/modules/filters/charset/recode.h"

/* All tables of a configuration. */
struct charset_maps {
    struct vec ways; /* struct charset_way: two per block */
};

/* One direction of a block. */
struct charset_way {
    struct str from;
    struct str to;
    const struct recode_table *table;
};

/* Reads a block. False after conf_error. */
bool charset_maps_read(struct charset_maps *maps, struct conf *conf, const struct conf_node *block);

/* Finds a table; NULL if there is none. Names of charsets are case-insensitive. */
const struct recode_table *charset_maps_find(const struct charset_maps *maps, struct str from,
                                             struct str to);

#endif
