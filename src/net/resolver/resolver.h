/* The DNS resolver: names to addresses and services, by UDP and TCP, with a cache (RFC 1035, 2782,
 * 3596, 2181). */
#ifndef NET_RESOLVER_RESOLVER_H
#define NET_RESOLVER_RESOLVER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/str.h"
#include "net/addr/addr.h"

struct resolver_counts;

/* Name servers and how their answers are used. Set when the configuration is read. */
struct resolver_settings {
    struct vec servers; /* struct addr: name servers in order, with ports; never empty */
    uint64_t valid_s;   /* how long an answer is cached, if has_valid */
    bool has_valid;     /* valid= is set; otherwise the TTL of the answer holds */
    bool uses_ipv4;     /* A records are queried */
    bool uses_ipv6;     /* AAAA records are queried; at least one of both is true */
    struct resolver_counts *counts; /* `status_zone=`; NULL = nothing is counted */
};

enum resolve_result {
    RESOLVE_OK,        /* at least one address */
    RESOLVE_NOT_FOUND, /* NXDOMAIN, no address of a wanted family (both are cached for a while), or
                          not a valid name */
    RESOLVE_FAILED,    /* SERVFAIL, other errors, or malformed answers, from all servers */
    RESOLVE_REFUSED,   /* REFUSED, by the last server that was asked */
    RESOLVE_UNIMPLEMENTED, /* NOTIMP, by the last server that was asked */
    RESOLVE_TIMED_OUT,     /* no server answered in time */
    RESOLVE_CANCELLED,     /* the fiber was cancelled */
};

/* Counts for the `resolver` directives of one status_zone, over all workers; in shared memory. */
enum resolver_question { RESOLVER_NAMES, RESOLVER_SERVICES, RESOLVER_NAMES_OF, RESOLVER_QUESTIONS };
struct resolver_counts {
    _Atomic uint64_t requests[RESOLVER_QUESTIONS];
    _Atomic uint64_t results[RESOLVE_CANCELLED + 1]; /* by enum resolve_result */
};

/* An address of a name, or of a target of a service. */
struct resolved_address {
    struct addr addr;  /* port of the SRV record, else 0: the caller sets it */
    struct str name;   /* the target of the SRV record; empty for plain names */
    uint16_t priority; /* of the SRV record: the lowest is used first, higher ones are backups */
    uint16_t weight;   /* of the SRV record; 0 for plain names */
};

/* An answer, in the caller's arena. */
struct resolved {
    struct resolved_address *items;
    unsigned count;
    uint64_t valid_until_ms; /* by clock_now.now_ms: when to resolve again */
};

/* The parameters of a lookup. */
struct dns_lookup {
    const struct resolver_settings *settings;
    struct str name;
    uint64_t deadline_ms;
    const struct log *log;
    struct arena *arena; /* for the result */
};

/*
 * Resolves a name to its addresses: at once from the cache; otherwise with one question to the name
 * servers for all fibers that wait for the same name. MAY WAIT; needs a fiber if it has to.
 * Settings with the same content share one cache in a worker, so that the cache does not depend on
 * a generation. An IP address as the name is returned as it is.
 */
enum resolve_result resolver_addresses(const struct dns_lookup *lookup, struct resolved *out);

/*
 * Resolves a service; `service` as in nginx's service= parameter: "http" queries _http._tcp.NAME; a
 * value that contains a dot or begins with an underscore is put before NAME unchanged. MAY WAIT.
 */
enum resolve_result resolver_services(const struct dns_lookup *lookup, struct str service,
                                      struct resolved *out);

/*
 * The name of an address (PTR), the first one if there are several; lookup->name is ignored. The
 * owner of the address chooses this name freely: resolve it to its addresses before you trust it.
 * MAY WAIT.
 */
enum resolve_result resolver_name_of(const struct dns_lookup *lookup, const struct addr *addr,
                                     struct str *out);

/* The result as text for messages, after its number: "3: Host not found", "110: Operation timed
 * out". Made for `"%.*s could not be resolved (%s)"`. */
const char *resolve_result_text(enum resolve_result result);

/*
 * Drops all answers, closes sockets, and fails the questions under way: their waiters get
 * RESOLVE_FAILED. Call it when the worker ends, before loop_destroy.
 */
void resolver_close_all(void);

/* Counts of this worker, all settings together. */
struct resolver_stats {
    size_t names;     /* cached or being resolved */
    size_t bytes;     /* of the cached answers */
    size_t questions; /* under way or queued */
    uint64_t sent;    /* messages sent to name servers so far, retries included */
    uint64_t evicted; /* valid answers dropped because the cache was full */
};
void resolver_stats(struct resolver_stats *out);

#endif
