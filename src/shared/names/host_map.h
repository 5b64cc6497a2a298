/* Names of hosts with wildcards, as for `map` with hostnames and valid_referers: "a.b", "*.a.b",
 * ".a.b", "a.*". */
#ifndef SHARED_NAMES_HOST_MAP_H
#define SHARED_NAMES_HOST_MAP_H

#include "base/map.h"
#include "conf/conf.h"

/* Values by name, without case. All zero is empty. */
struct host_map {
    struct map exact; /* "a.b" */
    struct map front; /* "a.b", for "*.a.b" and ".a.b" */
    struct map back;  /* "a.b", for "a.b.*" */
};

/* A name of the configuration, and its value. */
struct host_name {
    struct str name;    /* the map keeps using its memory */
    struct str written; /* for messages */
    void *value;
};

/*
 * Adds a name. False after conf_error: `invalid hostname or wildcard "x"`, `conflicting parameter
 * "x"`, where x is the name as written.
 */
bool host_map_put(struct host_map *hosts, struct conf *conf, const struct conf_node *node,
                  const struct host_name *name);

/* The value for a host: of the exact name, else the longest "*.x", else the longest "x.*"; NULL
 * when there is none. */
void *host_map_find(const struct host_map *hosts, struct str host);

#endif
