/* The lines of a geo block with networks: gathered while they are read, put in order at its end. */
#ifndef SHARED_GEO_NETWORKS_H
#define SHARED_GEO_NETWORKS_H

#include "conf/conf.h"
#include "shared/geo/table.h"

/* A line: a network gets a value, or is taken out again. */
struct geo_network {
    struct geo_address first;     /* its first address */
    const struct conf_node *node; /* the line, whose args[0] or args[1] is the network as written */
    uint32_t value;               /* number of a value */
    uint8_t bits;                 /* of the prefix */
    bool is_deleted;              /* `delete` */
};

/* The lines of one family. All zero is empty. */
struct geo_networks {
    struct arena *arena; /* for the time of reading */
    struct vec lines;    /* struct geo_network */
    unsigned width;      /* bits of an address: 32 or 128 */
};

void geo_networks_add(struct geo_networks *networks, const struct geo_network *line);

/*
 * All as spans, of which the longest prefix gives the value; addresses in no network have value 0.
 * Warns of networks that come twice, and of those to delete that are not there; `values` are for
 * these texts.
 */
struct geo_span *geo_networks_spans(struct geo_networks *networks, struct conf *conf,
                                    const struct str *values, size_t *count);

#endif
