/* The geoip2 block: variables from databases of MaxMind's format. */
#ifndef SHARED_GEO_GEOIP2_H
#define SHARED_GEO_GEOIP2_H

#include "conf/directive.h"
#include "shared/geo/geo.h"

/* The settings of the block that has `geoip2` blocks. */
struct geoip2_settings {
    struct forwarded forwarded; /* geoip2_proxy, http only: trusted proxies */
    struct vec databases;       /* struct geoip2_database * */
};

/*
 * Reads a block, and defines its variables in the enclosing block's set. False after conf_error.
 * Settings and clients must live as long as the generation's variables.
 */
bool geoip2_read(struct conf *conf, const struct conf_node *node, struct geoip2_settings *settings,
                 const struct geo_clients *clients);

/* The row of the block, for blocks of this context; APPLY calls geoip2_read. */
#define GEOIP2_ROW(CONTEXT, APPLY)                                                                 \
    {                                                                                              \
        "geoip2", CONTEXT, FREE_FORM(APPLY), ARGS(1, 1),                                           \
            .repeat = REPEAT_CUSTOM, .syntax = "file",                                             \
            .doc =                                                                                 \
                "Defines variables by a database in MaxMind's format (.mmdb). Lines are "          \
                "`$variable [default=value] [source=$variable] key ...`, where the keys lead "     \
                "from the top of the record of the client's address, or of the address in "        \
                "`source`, to a string or a number; `$variable metadata build_epoch | "            \
                "last_check | last_change`; and `auto_reload time`, the interval at which each "   \
                "worker checks whether the file has changed."                                      \
    }

#endif
