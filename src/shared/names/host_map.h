/* Names of hosts with wildcards, as `map` with hostnames and valid_referers have them: "a.b",
 * "*.a.b", ".a.b", "a.*". */
#ifndef SHARED_NAMES_HOST_MAP_H
#define SHARED_NAMES_HOST_MAP_H

#include "base/map.h"
#include "conf/conf.h"

/* Values by name, without case. All zero is empty. */
struct host_map {
    struct map exact; /* "a.b" */
    struct map front; /* "a.b" of "*.a.b" and ".a.b" */
    struct map back;  /* "a.b" of "a.b.*" */
};

/* A name of a configuration, and what it stands for. */
struct host_name {
    struct str name;    /* its memory is used on */
    struct str written; /* as messages show it */
    void *value;
};

/*
 * Puts a name. False after conf_error: `invalid hostname or wildcard "x"`, `conflicting parameter
 * "x"`, where x is the name as it was written.
 */
bool host_map_put(struct host_map *hosts, struct conf *conf, const struct conf_node *node,
                  const struct host_name *name);

/* The value of a host: exact, then the longest "*.x", then the longest "x.*"; NULL when there is
 * none. */
void *host_map_find(const struct host_map *hosts, struct str host);

#endif
