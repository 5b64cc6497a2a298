/* Groups of servers: what the configuration says of them, and picking one peer for a request. Knows
 * no protocol. Implemented in picking/pick.c, settings/block.c, settings/finish.c,
 * settings/group.c, worker/run_time.c and worker/worker.c. */
#ifndef UPSTREAM_UPSTREAM_H
#define UPSTREAM_UPSTREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/map.h"
#include "base/str.h"
#include "conf/directive.h"
#include "conf/template.h"
#include "net/addr/addr.h"
#include "net/resolver/resolver.h"
#include "server/generation.h"

struct balancer;
struct balancer_decision;
struct cell_memory;
struct discovery_service;
struct group_state;
struct health_settings;
struct keepalive_slices;
struct pinned_connections;
struct peer;
struct peer_cell;
struct peer_list;
struct server_record;
struct server_records;
struct stickiness;

/*
 * Whose groups they are: http's or stream's. Each has a set of its own in a reading, so that names
 * of one do not clash with those of the other.
 */
struct upstream_subsystem {
    const char *name;               /* "http", "stream" */
    const char *state;              /* what its set is kept under while the configuration is read */
    uint32_t block_context;         /* where `upstream` stands */
    uint32_t group_context;         /* inside `upstream` */
    uint16_t default_port;          /* of servers without a port; 0: they must have one */
    unsigned keepalive;             /* idle connections kept unless the group says otherwise */
    bool has_stickiness;            /* servers may be draining, and have a route or an id */
    struct settings_key *group_key; /* of the settings in an `upstream` block */
};

extern const struct upstream_subsystem upstream_http, upstream_stream;

/* The subsystem whose block is being read. */
static inline const struct upstream_subsystem *scope_subsystem(const struct conf_scope *scope)
{
    return (scope->context & (IN_STREAM | IN_STREAM_SERVER | IN_STREAM_UPSTREAM)) != 0
               ? &upstream_stream
               : &upstream_http;
}

/* One `server` line of a group, or the one server of an implicit group. */
struct upstream_server {
    struct str written;         /* the address as written */
    struct str host;            /* the address without port; "unix:/path" as it is */
    uint16_t port;              /* default port of the protocol where none was written */
    struct addr_list addresses; /* found when the configuration was read; none when it did not
                                   resolve: then it is asked again at run time. Of a watched
                                   name: those that it begins with */
    unsigned weight;
    unsigned max_conns;       /* requests at one time; 0 = no limit */
    unsigned max_fails;       /* 0 = failures do not count */
    uint64_t fail_timeout_ms; /* failures count for so long, and stop it for so long */
    uint64_t slow_start_ms;   /* after it came back its weight grows for so long; 0 = at once */
    bool is_backup;           /* serves while no other may */
    bool is_down;             /* takes no requests */
    bool is_draining;         /* only requests that are bound to it */
    bool resolves;       /* watched at run time: `resolve`, `dynamic_resolve`, or it did not resolve
                            at start */
    bool wants_resolve;  /* `resolve` was written */
    unsigned first_cell; /* of this package: number of the cell of the first address */
    struct peer_cell *
        *cells;         /* of a server that came at run time: that of each address; else NULL */
    struct str service; /* of SRV records; empty = none */
    struct discovery_service
        *discovered; /* that says which addresses it has (discovery.h); NULL = DNS, or fixed ones */
    struct str route; /* for sticky; empty = none */
    struct str id;    /* Tengine's id=; empty = none */
    unsigned index; /* place among the servers of its group; of one that came at run time: its id */
    const struct conf_node *node; /* its line, or the *_pass line; NULL at run time */
};

/* What becomes of a server of a group with `dynamic_resolve` when its name cannot be resolved. */
enum resolve_fallback {
    FALLBACK_NONE,     /* the group has no `dynamic_resolve` */
    FALLBACK_STALE,    /* the addresses that it had serve on */
    FALLBACK_NEXT,     /* it has none: other servers serve */
    FALLBACK_SHUTDOWN, /* requests that are its turn fail */
};

/* A group: an `upstream` block, or the implicit one of an address in a *_pass directive. */
#define UPSTREAM_GROUP_MAGIC 0x9209b5e2u

struct upstream_group {
    uint32_t magic;               /* UPSTREAM_GROUP_MAGIC */
    struct str name;              /* of the block, or host and port as written */
    const struct conf_node *node; /* the block, or the first *_pass line */
    struct upstream_set *set;     /* that it belongs to */
    struct vec servers;           /* struct upstream_server * */
    bool is_implicit;             /* of an address in a *_pass */
    bool is_at_run_time;          /* of an address that a request gave: it may go between two */
    uint16_t default_port;        /* of servers without a port: 80, or the pass directive's */

    const struct balancer *balancer; /* never NULL after upstream_finish: round robin by default */
    void *balancer_settings;         /* the balancer's own */
    const struct stickiness *stickiness; /* sticky, session_sticky; NULL = none */
    void *stickiness_settings;           /* its own */
    struct health_settings *health;      /* active checks; NULL = none (health.h) */

    unsigned keepalive;      /* idle connections kept for each worker; 0 = none */
    bool is_keepalive_local; /* a pool for each location; no exchange between them */
    bool is_keepalive_set;   /* the directive was written */
    bool keeps_logins; /* `ntlm`: connections of one client are kept whatever keepalive says */
    int64_t keepalive_requests;    /* on one connection */
    uint64_t keepalive_time_ms;    /* a connection's longest life */
    uint64_t keepalive_timeout_ms; /* longest idle time */
    const struct keepalive_slices
        *slices; /* a pool for each key as well (private.h); NULL = none */

    unsigned queue_max;        /* requests that wait when no peer may take them; 0 = none */
    uint64_t queue_timeout_ms; /* longest wait in the queue */
    bool queues_at_max_conns;  /* the queue is only for peers at max_conns: there is no `queue`
                                  directive */

    struct str state_file; /* `state`, full and NUL-terminated; empty = none */
    struct server_record
        *record; /* of its servers as they change, in shared memory; NULL = they do not */
    struct str status_zone; /* the name that its figures have in place of its own; empty = none */
    struct str zone_name;   /* empty = no zone directive */
    uint64_t zone_size;     /* bytes; what it pays for beyond its servers is spare cells */
    const struct resolver_settings *resolver; /* of the block, else of the http block, or NULL */
    uint64_t resolver_timeout_ms;             /* for finding the addresses of one name */

    bool has_resolver_timeout;      /* written in the block */
    enum resolve_fallback fallback; /* of dynamic_resolve */
    uint64_t
        resolve_fail_timeout_ms; /* a name that failed is not asked for so long; 0 = as usual */

    unsigned number;         /* place among the groups of its set; of run-time ones: none */
    struct peer_list *peers; /* of this worker, now; see peer.h */
    struct group_state *worker_state; /* of this package: idle pool, queue, resolving fibers */
};

/* All groups of one subsystem in a reading. */
struct upstream_set {
    const struct upstream_subsystem *subsystem;
    struct vec groups;                        /* struct upstream_group *, in order of appearance */
    struct generation *generation;            /* of this reading */
    struct arena *arena;                      /* that the set and its groups are in */
    const struct resolver_settings *resolver; /* of the http block; see upstream_set_resolver */
    uint64_t resolver_timeout_ms;             /* of the http block, too */
    struct log_sink *const *error_log; /* of the outer block: where its chain will be; or NULL */
    struct log log;                    /* of what is done for no request; in a running worker */
    unsigned no_server_status;         /* of requests that find nobody to serve them: 502 or 500 */
    uint64_t discard_most;      /* turns of round robin that are passed over at first, at most */
    struct cell_memory *memory; /* of this package: shared cells of all peers */
    struct server_records *records; /* servers that change; NULL = there are none */
    struct map blocks;              /* struct upstream_group * by name, without case */
    struct map implicit;            /* struct upstream_group * by "host:port" or "unix:/path" */
    struct map ports_left_out; /* uint16_t * by name: of blocks that were used before they came */
    struct map status_zones;   /* struct upstream_group * by `status_zone` */
    struct upstream_set *next; /* of those that run in this worker */
    /* Of who changes groups while the service runs (changes.h): is there word of this one? *out
     * NULL: it is gone. NULL = nobody does. */
    bool (*find_changed)(struct str name, struct upstream_group **out);
    /* Visits the groups that were changed so. */
    void (*each_changed)(void (*visit)(struct upstream_group *group, void *arg), void *arg);
    /* Changes a group: it is the block of this text from now on, or with NULL there is none. Gives
     * a status of HTTP, and in words what came of it. On a fiber it MAY WAIT, for a store. */
    unsigned (*change)(struct str name, const struct str *text, const struct log *log,
                       struct str *said);
    bool is_running;  /* in this worker: between start and end */
    bool is_quitting; /* after quit: no connection is kept any more */
};

/* ---- when the configuration is read ---- */

/* The tables of ngx_http_upstream_module and ngx_stream_upstream_module that are of this package:
 * the settings in an `upstream` block (struct upstream_group) with the rows that stand inside, and
 * the `upstream` row of the outer block. */
extern struct settings_key upstream_http_group_key, upstream_stream_group_key;
extern const struct directive_table upstream_http_group_table, upstream_http_block_table;
extern const struct directive_table upstream_stream_group_table, upstream_stream_block_table;

/* The group that is being read: for rows of balancers and the like. */
static inline struct upstream_group *scope_group(const struct conf_scope *scope)
{
    return conf_settings(scope, scope_subsystem(scope)->group_key);
}

/* Rows of balancers call this: sets it, with nginx's warning when there was another. */
void upstream_set_balancer(struct conf_scope *scope, const struct conf_node *node,
                           const struct balancer *balancer, void *settings);

/* The set of a subsystem in this reading; made at the first call. */
struct upstream_set *upstream_set_of(struct conf *conf, const struct upstream_subsystem *subsystem);

/*
 * The group that a *_pass directive names: an upstream block (it may come later in the file), or an
 * implicit group for an address ("host", "host:port", "unix:/path"), made once for each name and
 * port. default_port 0: there is none, a port must be written. NULL after conf_error (`upstream "x"
 * may not have port N`, `invalid port in upstream "x"`, `no port in upstream "x"`, …). Unknown
 * names are looked up by upstream_finish.
 */
struct upstream_group *upstream_use(struct conf *conf, const struct upstream_subsystem *subsystem,
                                    const struct conf_node *node, struct str address,
                                    uint16_t default_port);

/* The name under which the figures of a group are shown: its `status_zone`, or its own. */
struct str upstream_shown_name(const struct upstream_group *group);

/* The resolver of the outer block, for groups without one of their own; before upstream_finish. */
void upstream_set_resolver(struct upstream_set *set, const struct resolver_settings *resolver,
                           uint64_t timeout_ms);

/* The error_log of the outer block, for lines about no request: names that are watched, health
 * checks. */
void upstream_set_error_log(struct upstream_set *set, struct log_sink *const *error_log);

/*
 * After the whole http or stream block: resolves the servers' names (one that does not resolve is a
 * warning), checks the groups, lays out shared memory. False after conf_error.
 */
bool upstream_finish(struct conf *conf, const struct upstream_subsystem *subsystem);

/*
 * The group that a target with variables names, among those of the running generation: a block of
 * that name, or the implicit group of its host and port. `name` is the target as it was evaluated,
 * port the default that holds where none is written in it (0: none). NULL: there is none.
 */
struct upstream_group *upstream_find(const struct upstream_set *set, struct str name,
                                     uint16_t port);
/*
 * One that was found by a name may be changed, deleted or forgotten while its finder waits: it
 * stays as it is until it is let go, as often as it was held.
 */
void upstream_group_hold(struct upstream_group *group);
void upstream_group_let_go(struct upstream_group *group);

/* Hooks of the subsystem's module. start: peers, idle pools, resolving, health checks begin. quit:
 * idle connections are closed, names are not watched any more. May be called more than once. */
bool upstream_worker_start(struct generation *generation,
                           const struct upstream_subsystem *subsystem);
void upstream_worker_quit(struct generation *generation,
                          const struct upstream_subsystem *subsystem);
/* Nothing is open any more: memory is given back. */
void upstream_worker_end(struct generation *generation, const struct upstream_subsystem *subsystem);

/* ---- picking a peer ---- */

/* How the use of a peer ended, for balancers and failure counts. */
enum peer_outcome {
    PEER_SERVED,  /* it answered, whatever the status */
    PEER_FAILED,  /* connect, timeout, broken answer, or a status that `*_next_upstream` names */
    PEER_UNTRIED, /* not its fault: our own trouble, the client left, a kept connection had ended */
};

enum pick_result {
    PICK_OK,
    PICK_NONE,      /* no live upstreams (logged), also when the queue is full or its time is up */
    PICK_REFUSED,   /* the group's balancer is a program, and says so: pick->decision->refusal */
    PICK_CANCELLED, /* the fiber was cancelled while it waited in the queue */
};

/* The choice of a peer for one request, over its attempts. Embedded in the exchange; all zero at
 * first. */
struct upstream_pick {
    struct upstream_group *group;       /* that is picked from */
    struct balancer_decision *decision; /* where a program says that it goes (balancer_decision.h);
                                           NULL = the group has none */
    struct peer_list *list;             /* held by a reference from upstream_pick_begin to _end */
    struct peer *peer;                  /* in use now, or NULL */
    struct pinned_connections
        *pinned; /* of the client's connection, or NULL: where it has connections, it goes */
    struct variable_env *env; /* where keys of balancers are evaluated */
    struct arena *arena;      /* of the request */
    const struct log *log;    /* of the request */
    void *subject;            /* of the protocol: struct request, for stickiness */
    uint64_t *tried;        /* a bit for each peer of the list: it was attempted; NULL = none was */
    uint64_t tried_few;     /* tried of a list of 64 peers at most */
    unsigned tries;         /* so far */
    uint32_t hash;          /* of the balancer: the key's hash, once it was made */
    unsigned seen_list;     /* of upstream_pick_is_gone: number of the list that has it still */
    uint16_t rehash;        /* of the balancer: how often it was hashed */
    bool is_unanswered : 1; /* of the balancer: counted in peer_use.unanswered */
    bool is_shut : 1;       /* it was the turn of a server whose name fails: FALLBACK_SHUTDOWN */
    bool is_astray : 1;    /* the request names a peer that there is not: stickiness.find says so */
    struct peer *bound;    /* the peer that stickiness found, or NULL */
    struct str set_cookie; /* for the response: value of a Set-Cookie field, or empty */
    uint64_t picked_ms;    /* when the peer in use was picked */
    uint64_t queued_ms;    /* time spent in the queue */
};

/* Takes a reference on the group's peers as they are now. */
void upstream_pick_begin(struct upstream_pick *pick, struct upstream_group *group);

/* The next peer, never one that was attempted. MAY WAIT: in the queue; for names that were not
 * resolved yet. */
enum pick_result upstream_pick_next(struct upstream_pick *pick);

/* Are there peers left that had no attempt? Says whether a failure can be followed by another
 * attempt. */
bool upstream_pick_has_next(const struct upstream_pick *pick);

/*
 * Is the peer in use none of the group any more, since its name resolves to others, down, or
 * unhealthy as checks say? Cheap while the group's peers are those of before.
 */
bool upstream_pick_is_gone(struct upstream_pick *pick);

/* Of stream: the peer is connected, for balancers that go by that time. */
void upstream_pick_connected(struct upstream_pick *pick);

/* The head of the answer (of stream: its first byte) is there: response time so far, stickiness
 * that learns or sets a cookie. */
void upstream_pick_responded(struct upstream_pick *pick);

/* The use of pick->peer is over; peer becomes NULL. */
void upstream_pick_done(struct upstream_pick *pick, enum peer_outcome outcome);

/* Lets go of everything; done is called with UNTRIED when a peer is in use still. */
void upstream_pick_end(struct upstream_pick *pick);

/*
 * A group for addresses known at run time only (a *_pass with variables whose name is no group):
 * the name is an address or one to be resolved with these settings, which may be NULL; the lookup's
 * arena is not used. MAY WAIT. The group lives as long as the worker; groups of the same name, port
 * and settings are one. NULL: not resolved, with *reason for the message; or cancelled.
 */
struct upstream_group *upstream_at_run_time(struct upstream_set *set,
                                            const struct dns_lookup *wanted, uint16_t port,
                                            const char **reason);

#endif
