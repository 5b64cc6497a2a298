/*
 * Servers of groups that come from a service discovery engine: Consul, etcd, Kubernetes. Worker 0
 * queries and watches the engines; the results are in a zone, and all workers are woken when they
 * change. Only fibers of worker 0 wait. Implemented in services.c and zone.c.
 */
#ifndef UPSTREAM_DISCOVERY_DISCOVERY_H
#define UPSTREAM_DISCOVERY_DISCOVERY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "conf/conf.h"
#include "net/resolver/resolver.h"
#include "server/generation.h"

struct discovery;
struct discovery_service;

/* ---- while the configuration is read ---- */

/* Is the address of a `server` of the form "consul:NAME", "etcd:PREFIX" or
 * "kubernetes:NAMESPACE/SERVICE[:PORT]"? "consul:8500" is a host. */
bool discovery_is_name(struct str written);

/*
 * The service of that name at the engine of this `discovery` block; with an empty block name, at
 * the only block of its type. Created when first named; the block may follow later in the main
 * context. NULL after conf_error.
 */
struct discovery_service *discovery_use(struct conf *conf, const struct conf_node *node,
                                        struct str written, struct str discovery);

/* The largest number of addresses of the service. */
unsigned discovery_most(const struct discovery_service *service);

/* ---- in a worker ---- */

/* Incremented with each change; 0: nothing is known yet. */
uint64_t discovery_version(const struct discovery_service *service);

/* Does the engine fail to answer at the moment? */
bool discovery_is_failing(const struct discovery_service *service);

/* Gives the current addresses, in the arena, and their version. */
uint64_t discovery_read(struct discovery_service *service, struct arena *arena,
                        struct resolved *out);

/* Called on the loop's stack when the version, or the state of the engine, has changed. Removed by
 * list_remove. */
struct discovery_listener {
    struct list node;
    void (*changed)(struct discovery_listener *listener);
};
void discovery_listen(struct discovery_service *service, struct discovery_listener *listener);

/* ---- counters ---- */

enum discovery_counter {
    DISCOVERY_REQUESTS, /* sent to the engine */
    DISCOVERY_CHANGES,  /* of the addresses of a service */
    DISCOVERY_FAILURES, /* no connection, no answer, or a rejected one */
    DISCOVERY_REJECTED, /* of these: answers that were malformed or above a limit */
    DISCOVERY_SKIPPED,  /* entries of answers without a usable address */
    DISCOVERY_COUNTERS
};
struct discovery_counts {
    _Atomic uint64_t of[DISCOVERY_COUNTERS];
};

/* All blocks of one reading of the configuration. */
const struct discovery *discovery_first(struct conf *conf);
const struct discovery *discovery_after(const struct discovery *discovery);
struct str discovery_name(const struct discovery *discovery);
const struct discovery_counts *discovery_counts_of(const struct discovery *discovery);
/* The number of services whose engine does not answer. */
unsigned discovery_failing(const struct discovery *discovery);

#endif
