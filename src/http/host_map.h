/* Names of hosts with wildcards, as `map` with hostnames and valid_referers have them: "a.b", "*.a.b", ".a.b", "a.*". */
#ifndef HTTP_HOST_MAP_H
#define HTTP_HOST_MAP_H

#include "base/map.h"
#include "conf/conf.h"

/* Values by name, without case. All zero is empty. */
struct host_map {
    struct map exact; /* "a.b" */
    struct map front; /* "a.b" of "*.a.b" and ".a.b" */
    struct map back;  /* "a.b" of "a.b.*" */
};

/*
 * Puts a name. False after conf_error: `invalid hostname or wildcard "x"`, `conflicting parameter "x"`, where x is
 * the name as it was written. The memory of the name is used on.
 */
bool host_map_put(struct host_map *hosts, struct conf *conf, const struct conf_node *node,
                  struct str name, struct str written, void *value);

/* The value of a host: exact, then the longest "*.x", then the longest "x.*"; NULL when there is none. */
void *host_map_find(const struct host_map *hosts, struct str host);

#endif
