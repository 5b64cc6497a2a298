/* Shared by the files of this package, and by the module above it. Implemented in consul.c, etcd.c,
 * http.c, items.c, kubernetes.c, services.c, state.c, watch.c and zone.c. */
#ifndef UPSTREAM_DISCOVERY_PRIVATE_H
#define UPSTREAM_DISCOVERY_PRIVATE_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/chunked.h"
#include "base/json.h"
#include "base/shm.h"
#include "event/loop.h"
#include "fiber/fiber.h"
#include "net/conn/conn.h"
#include "upstream/client_tls.h"
#include "upstream/discovery/discovery.h"

enum {
    DISCOVERY_HEAD_MAX = 16384,     /* bytes of the header of an answer */
    DISCOVERY_NAME_MAX = 1024,      /* bytes of the name of a service */
    DISCOVERY_TOKEN_MAX = 16384,    /* bytes of a token */
    DISCOVERY_STATE_MAX = 64 << 20, /* bytes of a state file */
    DISCOVERY_PAUSE_MS = 20, /* pause after an answer about a service, so that changes in quick
                                succession become one */
};

enum discovery_type {
    DISCOVERY_NO_TYPE,
    DISCOVERY_CONSUL,
    DISCOVERY_ETCD,
    DISCOVERY_KUBERNETES,
    DISCOVERY_TYPES
};

/* A `server` of the block: a URL. */
struct discovery_server {
    const struct conf_node *node;
    struct str authority; /* for Host */
    struct str host;      /* without brackets */
    struct str path;      /* prefix of the engine's own paths; without a final slash */
    uint16_t port;
    bool is_secure;
    bool is_resolved; /* `resolve`: the name is resolved for each connection */
    struct vec addrs; /* struct addr; otherwise */
};

/* The settings of a block. */
struct discovery_settings {
    unsigned type;      /* enum discovery_type */
    struct vec servers; /* struct discovery_server */
    struct str token_file, user,
        /* Full file names, NUL-terminated; read for each request (etcd: each round). */
        password_file;
    struct str state_file; /* full file name; empty = none */
    int64_t endpoints_max; /* of a service */
    uint64_t answer_max;   /* bytes of an answer, or of an event */
    uint64_t zone_size;
    uint64_t connect_timeout_ms;
    uint64_t read_timeout_ms; /* for an answer that is not a watch */
    uint64_t wait_ms;         /* longest time of a watch */
    const struct resolver_settings *resolver;
    uint64_t resolver_timeout_ms;
    struct client_tls tls;
};

/* An address, in shared memory. */
struct discovery_stored {
    unsigned char ip[16];
    uint16_t port; /* network order */
    uint16_t weight;
    uint8_t is_v6;
};
struct discovery_stored_list {
    uint32_t count;
    struct discovery_stored items[];
};

/* The state of a service, in the zone; kept over reloads. */
struct discovery_record {
    struct discovery_record *next;
    struct shm_lock lock;        /* guards the list */
    _Atomic uint64_t version;    /* 0: nothing is known */
    uint32_t generation;         /* of the last writer: older generations may not write any more */
    _Atomic uint32_t is_failing; /* the engine does not answer at the moment */
    uint32_t name_length;
    struct discovery_stored_list *list; /* NULL: unknown, or empty */
    char name[];
};

/* The root of the zone. */
struct discovery_zone {
    struct discovery_counts counts;
    struct discovery_record *records;
};

/* A service of one reading of the configuration. */
struct discovery_service {
    struct discovery_service *next;      /* next of its block */
    struct discovery_service *mentioned; /* next of the reading */
    struct discovery *discovery;         /* set by discovery_bind */
    const struct conf_node *node;
    enum discovery_type type;
    struct str wanted;  /* discovery=; empty: the only block of the type */
    struct str written; /* "consul:web" */
    struct str name;    /* "web" */
    struct discovery_record *record;

    /* In a worker. */
    uint64_t seen; /* the version that the listeners were called for */
    bool seen_failing;
    struct list listeners;
    struct discovery_watch *watch; /* in worker 0 */
};

/* A block of one reading of the configuration. */
struct discovery {
    struct discovery *next;
    struct str name;
    const struct conf_node *node;
    struct discovery_settings *settings; /* NULL until the block was read */
    struct zone *zone;
    struct discovery_zone *shared;
    struct discovery_service *services;
    int bell; /* an eventfd of the generation that wakes all workers; -1 = none */

    /* In a worker. */
    struct event_source bell_source;
    struct discovery_saving *saving; /* while a thread writes the state file */
    bool saves_again;                /* something changed since that began */
    bool is_running;
};

struct discovery **discoveries_of(struct conf *conf);
struct discovery *discovery_find(struct conf *conf, struct str name);

/* All services of a reading, linked by `mentioned`. */
struct discovery_service **discovery_services_of(struct conf *conf);
/* After the whole configuration was read: binds services to blocks and records. False after
 * conf_error. */
bool discovery_bind(struct conf *conf);

bool discovery_worker_start(struct discovery *discovery);
void discovery_worker_quit(struct discovery *discovery);
void discovery_worker_end(struct discovery *discovery);

static inline void discovery_count(const struct discovery *discovery,
                                   enum discovery_counter counter)
{
    atomic_fetch_add_explicit(&discovery->shared->counts.of[counter], 1, memory_order_relaxed);
}

/* ---- zone.c ---- */

/* The record of this name, created if necessary. NULL: no memory in the zone. In the master, after
 * the configuration was read. */
struct discovery_record *discovery_record_of(struct discovery *discovery, struct str written);

enum discovery_published { DISCOVERY_SAME, DISCOVERY_CHANGED, DISCOVERY_NO_ROOM };
/* Publishes the addresses of a service: struct resolved_address, which are sorted and made
 * unique. */
enum discovery_published discovery_publish(struct discovery_service *service, struct vec *endpoints,
                                           uint32_t generation);

/*
 * Frees the memory of services that this reading does not use, except for the record, which workers
 * of earlier readings may still use. From now on these cannot publish anything for them. In worker
 * 0.
 */
void discovery_forget_unused(struct discovery *discovery, uint32_t generation);

/* Wakes all workers after something was published. */
void discovery_ring(const struct discovery *discovery);

/* ---- state.c ---- */

/* Writes the text of the state file, with all services of the block. */
void discovery_state_put(struct buf *out, struct discovery *discovery);
/* Uses the addresses of a state file for services of which nothing is known. False: it is not a
 * state file. */
bool discovery_state_take(struct discovery *discovery, struct str text);
/* Reads the state file, in the master. */
void discovery_state_read(struct conf *conf, struct discovery *discovery);
/* Has a thread write the state file. */
void discovery_state_save(struct discovery *discovery);
/* The worker ends: waits until no thread writes any more. */
void discovery_state_end(struct discovery *discovery);

/* ---- http.c ---- */

/* A connection to an engine, for one request after another. */
struct discovery_link {
    const struct discovery *discovery;
    const struct discovery_server *server; /* to which it is connected */
    unsigned turn;                         /* selects the server */
    struct conn *conn;                     /* NULL: none */
    struct log *log;

    /* The current answer: */
    unsigned status;
    uint64_t index;    /* X-Consul-Index; 0 = none */
    bool is_chunked;   /* chunks are still expected */
    bool has_trailers; /* the last chunk has arrived: trailers and an empty line follow */
    bool is_until_close, closes, is_over;
    uint64_t left; /* remaining bytes of a body with a length */
    struct chunked chunked;
    struct buf body;              /* unused part of the body */
    size_t line_start, lines_end; /* complete lines in it that were not returned yet */
    struct arena *arena;          /* the caller's, for error texts */
};

struct discovery_request {
    const char *method;
    struct str target;    /* begins with '/' */
    struct str fields;    /* further header lines, each with CRLF */
    struct str body;      /* JSON; or empty */
    uint64_t deadline_ms; /* for the header of the answer */
};

/* Sends a request, on the existing connection or a new one, and reads the header of the answer. MAY
 * WAIT. NULL, or the error. */
const char *discovery_ask(struct discovery_link *link, const struct discovery_request *request);
/* Reads more of the body; link->is_over: that was the end. MAY WAIT. NULL, or the error. */
const char *discovery_more(struct discovery_link *link, uint64_t deadline_ms);
/* Reads the rest of the body. MAY WAIT. NULL, or the error. */
const char *discovery_whole(struct discovery_link *link, uint64_t deadline_ms);
/* Reads the next line of the body: *line has no line end and is valid until the next call; *is_end:
 * there is none. MAY WAIT. NULL, or the error. */
const char *discovery_line(struct discovery_link *link, uint64_t deadline_ms, struct str *line,
                           bool *is_end);
/* Is a complete line available? */
bool discovery_has_line(const struct discovery_link *link);
void discovery_close(struct discovery_link *link);
/* Percent-encodes everything but letters, digits and -._~ for a URL. */
struct str discovery_escape(struct arena *arena, struct str text);

/* Parses the header of an answer in the input. Pure. 0: more input is needed; -1: malformed; else
 * its size. */
ssize_t discovery_head_read(struct str input, struct discovery_link *link);

/* ---- items.c ---- */

/* Addresses by key of the engine: a key of etcd, the name of an EndpointSlice. */
struct discovery_item {
    struct str key;
    unsigned count;
    struct resolved_address endpoints[];
};
struct discovery_items {
    struct discovery_item **items;
    size_t count, room;
    size_t endpoints; /* of all items */
    size_t most;      /* limit for keys, and for endpoints */
};
/* Sets the endpoints (struct resolved_address) of a key. False: above the limit. */
bool discovery_items_put(struct discovery_items *items, struct str key,
                         const struct vec *endpoints);
void discovery_items_drop(struct discovery_items *items, struct str key);
void discovery_items_clear(struct discovery_items *items);
/* All endpoints. */
struct vec discovery_items_list(const struct discovery_items *items, struct arena *arena);

/* ---- engines ---- */

/* The watch of a service, in worker 0. */
struct discovery_watch {
    struct discovery_service *service;
    struct fiber *fiber;
    struct discovery_link link;
    struct discovery_items items;
    struct arena arena; /* for one round */
    uint64_t index;     /* Consul: index; etcd: revision */
    struct str version; /* Kubernetes: resourceVersion, in version_text */
    char version_text[64];
    /* Kubernetes: the version is too old, so the list has to be requested again */
    bool has_expired;
    bool is_listed; /* Kubernetes: the items are complete as of the version */
    unsigned failures;
    uint64_t worked_ms; /* when the engine first answered in this round; 0: not yet */
    bool is_failing;    /* logged, and set in the record */
    bool has_no_room;   /* logged: no memory in the zone for the last answer */
};

/*
 * Runs one round: requests the current state, and follows changes until the engine ends that,
 * wait_ms have passed, or an error occurs. MAY WAIT. NULL: start another round; else the error.
 */
struct discovery_engine {
    const char *name;
    const char *(*round)(struct discovery_watch *watch);
};
extern const struct discovery_engine discovery_consul, discovery_etcd, discovery_kubernetes;

/* Records that the engine answers correctly. */
void discovery_works(struct discovery_watch *watch);
/* Publishes the service's addresses, according to the engine. */
void discovery_tell(struct discovery_watch *watch, struct vec *endpoints);
/* Publishes the current items, then pauses so that changes in quick succession become one. MAY
 * WAIT. */
void discovery_follow(struct discovery_watch *watch);
/* The deadline of an answer that is not a watch. */
uint64_t discovery_due(const struct discovery_watch *watch);
/* "unexpected status N" with the beginning of the body. */
const char *discovery_bad_status(struct discovery_watch *watch);
/* Counts an answer that is malformed or above a limit, and gives the error. */
const char *discovery_refuse(struct discovery_watch *watch, const char *what);
/* Reads a file without spaces at both ends, into the watch's arena; without a file name *out is
 * unchanged. NULL, or the error. */
const char *discovery_secret(struct discovery_watch *watch, struct str file, struct str *out);

/*
 * Pure parsers; endpoints are struct resolved_address in text->arena. False: malformed, or more
 * than `most`. *skipped counts entries without an IP address.
 */
struct discovery_answer {
    struct vec endpoints;
    size_t most;
    unsigned skipped;
};
bool discovery_consul_read(struct json_text *text, struct discovery_answer *answer);

/* ---- etcd: one answer of /v3/kv/range, one message of /v3/watch ---- */
struct discovery_etcd_event {
    struct str key; /* decoded */
    struct str value;
    bool is_gone;
};
struct discovery_etcd_answer {
    uint64_t revision;
    bool is_cancelled;
    struct str reason; /* why it was cancelled, or an error */
    struct vec events; /* struct discovery_etcd_event */
    size_t most;
};
bool discovery_etcd_range_read(struct json_text *text, struct discovery_etcd_answer *answer);
bool discovery_etcd_watch_read(struct json_text *text, struct discovery_etcd_answer *answer);
/* Parses the endpoint in a value: "IP:PORT", or an object with Addr (or address) and weight. */
bool discovery_etcd_value_read(struct json_text *text, struct resolved_address *out);

/* ---- Kubernetes ---- */
struct discovery_slice {
    struct str name;
    struct str version;
    struct vec endpoints; /* struct resolved_address: ready endpoints, with the configured port */
};
struct discovery_slices {
    struct str port;    /* name or number; empty: the first */
    struct str version; /* of the list */
    struct str more;    /* token for the next page */
    struct vec slices;  /* struct discovery_slice */
    size_t most;
    unsigned skipped;
};
bool discovery_slices_read(struct json_text *text, struct discovery_slices *out);
enum discovery_event {
    DISCOVERY_PUT,
    DISCOVERY_DELETED,
    DISCOVERY_BOOKMARK,
    DISCOVERY_EXPIRED,
    DISCOVERY_ERROR
};
/* Parses one line of a watch: the event, and its slice (the only one in out->slices; a bookmark has
 * only a version). */
bool discovery_event_read(struct json_text *text, struct discovery_slices *out,
                          enum discovery_event *event);

/* ---- watch.c ---- */

bool discovery_watch_start(struct discovery_service *service);
void discovery_watch_quit(struct discovery_service *service);
void discovery_watch_free(struct discovery_service *service);

#endif
