/*
 * Servers of groups that an engine outside names: Consul, etcd, Kubernetes. Worker 0 asks the
 * engines and watches them; what they say is in a zone, and all workers are woken when it changes.
 * Nothing here waits but the fibers of worker 0. Implemented in services.c and zone.c.
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

/* ---- when the configuration is read ---- */

/* Is the address of a `server` one of "consul:NAME", "etcd:PREFIX",
 * "kubernetes:NAMESPACE/SERVICE[:PORT]"? "consul:8500" is a host. */
bool discovery_is_name(struct str written);

/*
 * The service of that name, at the engine of this `discovery` block; an empty name: at the only one
 * of its type. Made at its first mention; the block may come later in the main context. NULL after
 * conf_error.
 */
struct discovery_service *discovery_use(struct conf *conf, const struct conf_node *node,
                                        struct str written, struct str discovery);

/* Addresses that it has at most. */
unsigned discovery_most(const struct discovery_service *service);

/* ---- in a worker ---- */

/* Raised with each change; 0: nothing is known yet. */
uint64_t discovery_version(const struct discovery_service *service);

/* Its engine does not answer now. */
bool discovery_is_failing(const struct discovery_service *service);

/* The addresses of now, in the arena; of the version that it gives. */
uint64_t discovery_read(struct discovery_service *service, struct arena *arena,
                        struct resolved *out);

/* Called on the loop's stack when the version has changed, or whether the engine answers;
 * list_remove ends that. */
struct discovery_listener {
    struct list node;
    void (*changed)(struct discovery_listener *listener);
};
void discovery_listen(struct discovery_service *service, struct discovery_listener *listener);

/* ---- figures ---- */

enum discovery_counter {
    DISCOVERY_REQUESTS, /* sent to the engine */
    DISCOVERY_CHANGES,  /* of the addresses of a service */
    DISCOVERY_FAILURES, /* no connection, no answer, one that is refused */
    DISCOVERY_REJECTED, /* of these: answers that were malformed or above a limit */
    DISCOVERY_SKIPPED,  /* entries of answers without an address that can be used */
    DISCOVERY_COUNTERS
};
struct discovery_counts {
    _Atomic uint64_t of[DISCOVERY_COUNTERS];
};

/* All blocks of a reading, from one to the next. */
const struct discovery *discovery_first(struct conf *conf);
const struct discovery *discovery_after(const struct discovery *discovery);
struct str discovery_name(const struct discovery *discovery);
const struct discovery_counts *discovery_counts_of(const struct discovery *discovery);
/* Services whose engine does not answer now. */
unsigned discovery_failing(const struct discovery *discovery);

#endif
