/* The DNS resolver: names to addresses and services, asked over UDP and TCP, with a cache (RFC
 * 1035, 2782, 3596, 2181). */
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

/* Which name servers answer, and how their answers are used. Made when the configuration is read.
 */
struct resolver_settings {
    struct vec servers; /* struct addr: name servers in order, with their ports; never empty */
    uint64_t valid_s;   /* an answer is kept so long; counts only with has_valid */
    bool has_valid;     /* valid= was written; else the answer's own TTL holds */
    bool uses_ipv4;     /* A records are asked for */
    bool uses_ipv6;     /* AAAA records are asked for; at least one of both is true */
    struct resolver_counts *counts; /* `status_zone=`; NULL = nothing is counted */
};

enum resolve_result {
    RESOLVE_OK,            /* at least one address */
    RESOLVE_NOT_FOUND,     /* NXDOMAIN, no address of a wanted family, or no proper name: remembered
                              for a while, too */
    RESOLVE_FAILED,        /* SERVFAIL, other errors, malformed answers of all servers */
    RESOLVE_REFUSED,       /* REFUSED, by the last server that was left */
    RESOLVE_UNIMPLEMENTED, /* NOTIMP, likewise */
    RESOLVE_TIMED_OUT,     /* nobody answered in time */
    RESOLVE_CANCELLED,     /* the fiber was cancelled */
};

/* What was asked for by some `resolver` lines, over all workers; in shared memory. */
enum resolver_question { RESOLVER_NAMES, RESOLVER_SERVICES, RESOLVER_NAMES_OF, RESOLVER_QUESTIONS };
struct resolver_counts {
    _Atomic uint64_t requests[RESOLVER_QUESTIONS];
    _Atomic uint64_t results[RESOLVE_CANCELLED + 1]; /* by enum resolve_result */
};

/* One address that a name has, or one target of a service with its address. */
struct resolved_address {
    struct addr addr;  /* port as in the SRV record, else 0: the caller sets it */
    struct str name;   /* the target of the SRV record; empty for plain names */
    uint16_t priority; /* of the SRV record: the lowest are asked first, higher ones are backups */
    uint16_t weight;   /* of the SRV record; 0 for plain names */
};

/* An answer, in the caller's arena. */
struct resolved {
    struct resolved_address *items;
    unsigned count;
    uint64_t valid_until_ms; /* clock_now.now_ms time: when asking again makes sense */
};

/* What a caller wants to know. */
struct dns_lookup {
    const struct resolver_settings *settings;
    struct str name;
    uint64_t deadline_ms;
    const struct log *log;
    struct arena *arena; /* the answer is made there */
};

/*
 * The addresses of a name. Answers that are known come at once; else the name servers are asked,
 * one question for all who wait for the same name. MAY WAIT; needs a fiber when it has to. Settings
 * that say the same share one cache in a worker, so that they may go with their generation. An
 * address in place of a name is given back as it is.
 */
enum resolve_result resolver_addresses(const struct dns_lookup *lookup, struct resolved *out);

/*
 * The servers of a service, `service` as in nginx's service= parameter: "http" asks for
 * _http._tcp.NAME, a name with a dot or underscore in front is put before NAME as it is. MAY WAIT.
 */
enum resolve_result resolver_services(const struct dns_lookup *lookup, struct str service,
                                      struct resolved *out);

/*
 * The name of an address (PTR), the first where there are several; lookup->name does not count. The
 * owner of the address may have it say what he likes: ask for the addresses of the name before it
 * is believed. MAY WAIT.
 */
enum resolve_result resolver_name_of(const struct dns_lookup *lookup, const struct addr *addr,
                                     struct str *out);

/* The result as text for messages, its number in front: "3: Host not found", "110: Operation timed
 * out". Made for `"%.*s could not be resolved (%s)"`. */
const char *resolve_result_text(enum resolve_result result);

/*
 * Forgets all answers, closes sockets, fails the questions under way (who waits for them is woken
 * and get RESOLVE_FAILED): when the worker ends, before loop_destroy.
 */
void resolver_close_all(void);

/* Counts of this worker, all settings together. */
struct resolver_stats {
    size_t names;     /* remembered or being asked */
    size_t bytes;     /* of the answers that are remembered */
    size_t questions; /* under way, those that wait for their turn included */
    uint64_t sent;    /* messages sent to name servers so far, retries included */
    uint64_t evicted; /* answers that still held and were forgotten because the cache was full */
};
void resolver_stats(struct resolver_stats *out);

#endif
