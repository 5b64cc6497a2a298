/* The lines of a geo block with networks: collected while they are read, sorted at its end. */
#ifndef SHARED_GEO_NETWORKS_H
#define SHARED_GEO_NETWORKS_H

#include "conf/conf.h"
#include "shared/geo/table.h"

/* A line: sets the value of a network, or deletes it. */
struct geo_network {
    struct geo_address first;     /* its first address */
    const struct conf_node *node; /* the line, whose args[0] or args[1] is the network as written */
    uint32_t value;               /* its number */
    uint8_t bits;                 /* of the prefix */
    bool is_deleted;              /* `delete` */
};

/* The lines of one family. All zero is empty. */
struct geo_networks {
    struct arena *arena; /* temporary memory for reading */
    struct vec lines;    /* struct geo_network */
    unsigned width;      /* bits of an address: 32 or 128 */
};

void geo_networks_add(struct geo_networks *networks, const struct geo_network *line);

/*
 * All networks as spans; the longest prefix gives the value, and addresses in no network have value
 * 0. Warns about duplicate networks, and about deleted ones that do not exist; `values` are the
 * texts for these messages.
 */
struct geo_span *geo_networks_spans(struct geo_networks *networks, struct conf *conf,
                                    const struct str *values, size_t *count);

#endif
