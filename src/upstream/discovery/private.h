/* What the files of this package share, and the module above it.
 * Implemented in consul.c, etcd.c, http.c, items.c, kubernetes.c, services.c, state.c, watch.c and
 * zone.c. */
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
    DISCOVERY_HEAD_MAX = 16384,     /* bytes of the head of an answer */
    DISCOVERY_NAME_MAX = 1024,      /* bytes of the name of a service */
    DISCOVERY_TOKEN_MAX = 16384,    /* bytes of a token */
    DISCOVERY_STATE_MAX = 64 << 20, /* bytes of a state file */
    DISCOVERY_PAUSE_MS =
        20, /* between two answers about a service: changes that come together are one */
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
    struct str path;      /* in front of the engine's own; without a slash at its end */
    uint16_t port;
    bool is_secure;
    bool is_resolved; /* `resolve`: its addresses are looked up for each connection */
    struct vec addrs; /* struct addr; else */
};

/* What the block says. */
struct discovery_settings {
    unsigned type;      /* enum discovery_type */
    struct vec servers; /* struct discovery_server */
    struct str token_file, user,
        password_file;     /* full names, NUL-terminated; read for each connection */
    struct str state_file; /* the same; empty = none */
    int64_t endpoints_max; /* of a service */
    uint64_t answer_max;   /* bytes of an answer, or of an event */
    uint64_t zone_size;
    uint64_t connect_timeout_ms;
    uint64_t read_timeout_ms; /* for an answer that is due */
    uint64_t wait_ms;         /* longest time of one watch */
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

/* What is known of a service, in the zone; over reloads. */
struct discovery_record {
    struct discovery_record *next;
    struct shm_lock lock;        /* over the list */
    _Atomic uint64_t version;    /* 0: nothing is known */
    uint32_t generation;         /* of who wrote last: older ones do not any more */
    _Atomic uint32_t is_failing; /* its engine does not answer now */
    uint32_t name_length;
    struct discovery_stored_list *list; /* NULL: none, or an empty one */
    char name[];
};

/* The root of the zone. */
struct discovery_zone {
    struct discovery_counts counts;
    struct discovery_record *records;
};

/* A service of a reading. */
struct discovery_service {
    struct discovery_service *next;      /* of its block */
    struct discovery_service *mentioned; /* of the reading */
    struct discovery *discovery;         /* after discovery_bind */
    const struct conf_node *node;
    enum discovery_type type;
    struct str wanted;  /* discovery=; empty: the only one of the type */
    struct str written; /* "consul:web" */
    struct str name;    /* "web" */
    struct discovery_record *record;

    /* In a worker. */
    uint64_t seen; /* the version that listeners know */
    bool seen_failing;
    struct list listeners;
    struct discovery_watch *watch; /* in worker 0 */
};

/* A block of a reading. */
struct discovery {
    struct discovery *next;
    struct str name;
    const struct conf_node *node;
    struct discovery_settings *settings; /* NULL until the block was read */
    struct zone *zone;
    struct discovery_zone *shared;
    struct discovery_service *services;
    int bell; /* an eventfd of the generation: all workers are woken; -1 = none */

    /* In a worker. */
    struct event_source bell_source;
    struct discovery_saving *saving; /* a thread writes the state file */
    bool saves_again;                /* something changed since */
    bool is_running;
};

struct discovery **discoveries_of(struct conf *conf);
struct discovery *discovery_find(struct conf *conf, struct str name);

/* All services of a reading, by `mentioned`. */
struct discovery_service **discovery_services_of(struct conf *conf);
/* After all was read: services find their blocks and records. False after conf_error. */
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

/* The record of this name, made if there is none. NULL: no memory in the zone. In the master, when
 * the configuration was read. */
struct discovery_record *discovery_record_of(struct discovery *discovery, struct str written);

enum discovery_published { DISCOVERY_SAME, DISCOVERY_CHANGED, DISCOVERY_NO_ROOM };
/* These are the addresses of the service: struct resolved_address, which are sorted, and each of
 * which is left once. */
enum discovery_published discovery_publish(struct discovery_service *service, struct vec *endpoints,
                                           uint32_t generation);

/*
 * Services that this reading does not name any more give their memory back, but for the record,
 * which workers of former readings may still know. Those publish nothing about them from now on. In
 * worker 0.
 */
void discovery_forget_unused(struct discovery *discovery, uint32_t generation);

/* Something was published: all workers look. */
void discovery_ring(const struct discovery *discovery);

/* ---- state.c ---- */

/* The text of a state file, of all services of the block. */
void discovery_state_put(struct buf *out, struct discovery *discovery);
/* Takes what a state file says of services of which nothing is known. False: it is none. */
bool discovery_state_take(struct discovery *discovery, struct str text);
/* Reads the file in the master. */
void discovery_state_read(struct conf *conf, struct discovery *discovery);
/* A thread writes the file. */
void discovery_state_save(struct discovery *discovery);
/* The worker ends: no thread writes any more. */
void discovery_state_end(struct discovery *discovery);

/* ---- http.c ---- */

/* A connection to an engine, for one request after the other. */
struct discovery_link {
    const struct discovery *discovery;
    const struct discovery_server *server; /* that it is to */
    unsigned turn;                         /* of servers */
    struct conn *conn;                     /* NULL: none */
    struct log *log;

    /* The answer that is being read. */
    unsigned status;
    uint64_t index;    /* X-Consul-Index; 0 = none */
    bool is_chunked;   /* chunks are still to come */
    bool has_trailers; /* the last chunk came: trailers and an empty line follow */
    bool is_until_close, closes, is_over;
    uint64_t left; /* of a body with a length */
    struct chunked chunked;
    struct buf body;              /* what came of the body and was not used */
    size_t line_start, lines_end; /* of whole lines in it that were not given yet */
    struct arena *arena;          /* of the caller, for texts of errors */
};

struct discovery_request {
    const char *method;
    struct str target;    /* with its '/' in front */
    struct str fields;    /* more lines, each with its end */
    struct str body;      /* JSON; or empty */
    uint64_t deadline_ms; /* of the answer's head */
};

/* Sends it, on a connection that is there or a fresh one, and reads the head of the answer. MAY
 * WAIT. NULL, or what is wrong. */
const char *discovery_ask(struct discovery_link *link, const struct discovery_request *request);
/* Some more of the body; link->is_over says whether that is all. MAY WAIT. NULL, or what is wrong.
 */
const char *discovery_more(struct discovery_link *link, uint64_t deadline_ms);
/* All of the body. MAY WAIT. */
const char *discovery_whole(struct discovery_link *link, uint64_t deadline_ms);
/* The next line of the body: *line is without its end, until the next call; *is_end: there is none,
 * the body is over. MAY WAIT. */
const char *discovery_line(struct discovery_link *link, uint64_t deadline_ms, struct str *line,
                           bool *is_end);
/* Is a whole line there already? */
bool discovery_has_line(const struct discovery_link *link);
void discovery_close(struct discovery_link *link);
/* Text for a URL: all but letters, digits and -._~ in percent. */
struct str discovery_escape(struct arena *arena, struct str text);

/* The head of an answer, as it stands in the input: pure. 0: more is needed; -1: it is none; else
 * its size. */
ssize_t discovery_head_read(struct str input, struct discovery_link *link);

/* ---- items.c ---- */

/* Addresses by a key of the engine: a key of etcd, an EndpointSlice. */
struct discovery_item {
    struct str key;
    unsigned count;
    struct resolved_address endpoints[];
};
struct discovery_items {
    struct discovery_item **items;
    size_t count, room;
    size_t endpoints; /* of all */
    size_t most;      /* of keys, and of endpoints */
};
/* The key has these endpoints, struct resolved_address; none and is_gone: there is no such key.
 * False: above the limit. */
bool discovery_items_put(struct discovery_items *items, struct str key,
                         const struct vec *endpoints);
void discovery_items_drop(struct discovery_items *items, struct str key);
void discovery_items_clear(struct discovery_items *items);
/* All endpoints. */
struct vec discovery_items_list(const struct discovery_items *items, struct arena *arena);

/* ---- engines ---- */

/* A service that is watched, in worker 0. */
struct discovery_watch {
    struct discovery_service *service;
    struct fiber *fiber;
    struct discovery_link link;
    struct discovery_items items;
    struct arena arena; /* of one round */
    uint64_t index;     /* of Consul; the revision of etcd */
    struct str version; /* resourceVersion of Kubernetes: in version_text */
    char version_text[64];
    bool has_expired; /* of Kubernetes: the version is too old, so the list is asked for again */
    bool is_listed;   /* of Kubernetes, etcd: items are right as of the version */
    unsigned failures;
    uint64_t worked_ms; /* when the engine answered first in this round; 0: not yet */
    bool is_failing;    /* logged, and noted in the record */
    bool has_no_room;   /* logged: the zone had no room for the last answer */
};

/*
 * One round: asks what there is, and follows the changes until the engine ends that, wait_ms are
 * over or something is wrong. MAY WAIT. NULL: another round, or what is wrong.
 */
struct discovery_engine {
    const char *name;
    const char *(*round)(struct discovery_watch *watch);
};
extern const struct discovery_engine discovery_consul, discovery_etcd, discovery_kubernetes;

/* The engine answers as it should. */
void discovery_works(struct discovery_watch *watch);
/* What the engine says now. */
void discovery_tell(struct discovery_watch *watch, struct vec *endpoints);
/* The same with what the items are now, after which the fiber pauses: changes that come together
 * are one. MAY WAIT. */
void discovery_follow(struct discovery_watch *watch);
/* The deadline of an answer that is due. */
uint64_t discovery_due(const struct discovery_watch *watch);
/* "unexpected status N" with the beginning of the body. */
const char *discovery_bad_status(struct discovery_watch *watch);
/* A malformed answer, or one above a limit. */
const char *discovery_refuse(struct discovery_watch *watch, const char *what);
/* The content of a file without spaces at its ends, in the watch's arena; no file: empty. NULL, or
 * what is wrong. */
const char *discovery_secret(struct discovery_watch *watch, struct str file, struct str *out);

/*
 * Pure parsers; endpoints are struct resolved_address in text->arena. False: malformed, or more
 * than `most`. *skipped counts what has no address of IP.
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
    struct str reason; /* of that, or of an error */
    struct vec events; /* struct discovery_etcd_event */
    size_t most;
};
bool discovery_etcd_range_read(struct json_text *text, struct discovery_etcd_answer *answer);
bool discovery_etcd_watch_read(struct json_text *text, struct discovery_etcd_answer *answer);
/* The endpoint that a value names: "IP:PORT", or an object with Addr (or address) and weight. */
bool discovery_etcd_value_read(struct json_text *text, struct resolved_address *out);

/* ---- Kubernetes ---- */
struct discovery_slice {
    struct str name;
    struct str version;
    struct vec
        endpoints; /* struct resolved_address that are ready, with the port that was asked for */
};
struct discovery_slices {
    struct str port;    /* name or number; empty: the first */
    struct str version; /* of the list */
    struct str more;    /* continue */
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
/* One line of a watch: what happened, and to which slice (the only one of out->slices; for a
 * bookmark its version alone). */
bool discovery_event_read(struct json_text *text, struct discovery_slices *out,
                          enum discovery_event *event);

/* ---- watch.c ---- */

bool discovery_watch_start(struct discovery_service *service);
void discovery_watch_quit(struct discovery_service *service);
void discovery_watch_free(struct discovery_service *service);

#endif
