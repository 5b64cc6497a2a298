/* What the files of this package share. */
#ifndef STORE_PRIVATE_H
#define STORE_PRIVATE_H

#include "base/list.h"
#include "base/log.h"
#include "fiber/fiber.h"
#include "net/conn/conn.h"
#include "net/resolver/resolver.h"
#include "net/tls/tls.h"
#include "store/resp.h"
#include "store/store.h"
#include "upstream/client_tls.h"

enum {
    STORE_NODES_MAX = 160, /* servers that are known at one time */
    STORE_NODES_LEARNED =
        128, /* of these, such as others named: the configuration's have the rest */
    STORE_PENDING_MAX = 4096,   /* commands of a connection that wait for their replies */
    STORE_UNSENT_MAX = 4 << 20, /* bytes that the server has not taken */
    STORE_SLOTS = 16384,        /* of a cluster */
    STORE_LINKS = 2,            /* connections to a server: one, and a spare when that is stalled */
};

enum store_mode { STORE_STANDALONE, STORE_SENTINEL, STORE_CLUSTER };

/* A `server`. */
struct store_server {
    const struct conf_node *node;
    struct str host;  /* as written, without a port */
    struct vec addrs; /* struct addr; of a name with `resolve`: empty */
    uint16_t port;
    bool is_resolved; /* `resolve` */
};

/* What the block says. */
struct store_settings {
    struct vec servers; /* struct store_server */
    unsigned mode;      /* enum store_mode */
    struct str primary; /* of sentinels: the name of the primary that they watch */
    struct str user;
    struct str password;
    int64_t database;
    struct str prefix;
    uint64_t timeout_ms, connect_timeout_ms;
    uint64_t reply_max; /* bytes */
    const struct resolver_settings *resolver;
    uint64_t resolver_timeout_ms;

    bool uses_tls;
    struct client_tls tls;
};

enum link_state {
    LINK_DOWN,
    LINK_STARTING, /* a fiber connects, and says who we are */
    LINK_UP
};

/* A connection to a server. */
struct store_link {
    struct store_node *node;
    enum link_state state;
    struct conn *conn; /* from the handshake on */
    struct list sent;  /* struct store_request, oldest first */
    unsigned sent_count;
    struct resp_scan scan; /* of the reply that comes */
    uint64_t stalled_ms;   /* since when a command has waited in vain, and nothing came; 0 = not */
    const char *wrong;     /* what ended it while it was starting; NULL = nothing */
    struct fiber *starter; /* while it is starting */
};

/* A server, as this worker knows it. */
struct store_node {
    struct store *store;
    struct addr addr;
    char name[ADDR_TEXT_MAX];
    size_t name_length;
    struct str host; /* of the server as written; empty: the address was learned */
    bool is_sentinel;
    bool is_wanted; /* of a cluster: it is in the map of slots */
    struct store_link links[STORE_LINKS];
    struct list waiting; /* struct store_request, until a connection is up */
    uint64_t retry_ms;   /* not before */
    unsigned failures;   /* in a row */
    unsigned users;      /* commands whose callers have not gone on: they hold it */
};

/* A command on its way. Owned by its caller while he waits, else by the connection. */
struct store_request {
    struct list node;        /* of the connection, or of those that wait for one */
    struct store_link *link; /* that it was sent on; NULL: it waits for one */
    struct store_node *to;   /* of a caller who waits */
    struct str bytes;        /* of the caller */
    struct arena *arena;     /* of the caller, for the reply */
    struct wait_point done;
    enum store_result result;
    struct str reply;
    unsigned skipped; /* replies that come before its own: to ASKING */
    bool is_done;
    bool is_abandoned; /* the caller has gone */
};

struct store {
    struct store *next;
    struct str name;
    const struct conf_node *node; /* first mention: the block, or who wants it */
    bool is_declared;
    bool has_no_block; /* store_of_server */
    struct store_settings *settings;
    struct zone *zone;
    struct store_counts *counts;

    /* In a worker. */
    bool is_running;
    struct fiber *watcher;  /* keeps the map of servers */
    struct wait_point wake; /* the watcher is to look now */
    bool is_ending; /* the worker ends: requests under way are served, each connection ends when
                       nothing is awaited on it */
    bool is_closed; /* nothing is sent any more */
    struct store_node *nodes[STORE_NODES_MAX];
    unsigned node_count;
    struct store_node *primary; /* standalone and sentinel: where commands go */
    unsigned server;            /* number of the server that is asked next */
    uint8_t *slots;             /* of a cluster: 1 + number in nodes, 0 = not known */
    uint64_t error_logged_ms;   /* when an error of the store was logged last; 0 = never */
};

/* ---- link.c ---- */

static inline void store_count(const struct store *store, enum store_counter counter)
{
    atomic_fetch_add_explicit(&store->counts->of[counter], 1, memory_order_relaxed);
}
static inline void store_count_bytes(const struct store *store, enum store_counter counter,
                                     size_t bytes)
{
    atomic_fetch_add_explicit(&store->counts->of[counter], bytes, memory_order_relaxed);
}

struct store_node *store_node_new(struct store *store, const struct addr *addr, struct str host,
                                  bool is_sentinel);
/* Ends its connections; its requests fail. */
void store_node_close(struct store_node *node);
/* The same when the commands that were sent have their replies. */
void store_node_retire(struct store_node *node);
/* Sees to it that a connection is there, or is being made. False: not now. */
bool store_node_connect(struct store_node *node);
bool store_node_is_up(const struct store_node *node);
/*
 * Sends a command, whose reply will be in the arena; NULL: not now. The bytes and the arena live
 * until store_node_reply has returned, which has to be called.
 */
struct store_request *store_node_send(struct store_node *node, struct str bytes, bool is_asking,
                                      struct arena *arena);
/* Waits for its reply: STORE_OK, and *reply is in the arena, maybe an error. The request is freed,
 * or the connection's. MAY WAIT. */
enum store_result store_node_reply(struct store_request *request, uint64_t deadline_ms,
                                   struct str *reply);

/* ---- table.c ---- */

/* When the configuration was read. False after conf_error. */
bool store_tables_check(struct conf *conf);
/* In each worker; exchanges: in this one, for all. */
void store_tables_start(struct conf *conf, bool exchanges);
void store_tables_end(struct conf *conf);

/* ---- route.c ---- */

/* A command of several that are sent together. */
struct store_asked {
    struct str key; /* that it is about */
    struct store_words words;
    struct str bytes;              /* as it is sent */
    struct store_node *node;       /* that it was sent to; NULL: there is none */
    struct store_request *request; /* until its reply was taken */
    enum store_result result;
    struct str reply;
};

bool store_route_start(struct store *store);
void store_route_end(struct store *store);
/* Ends all connections; the requests that wait fail. */
void store_route_close(struct store *store);
/* When no fiber is left. */
void store_route_free(struct store *store);
/* Where the commands about a key go; NULL: not known. */
struct store_node *store_route(struct store *store, struct str key);
/* The map of servers is not right any more. */
void store_route_is_old(struct store *store);
/* Sends a command about a key to its server, follows redirections, and gives the reply. MAY WAIT.
 */
enum store_result store_ask(const struct store_call *call, struct str key, const struct str *words,
                            size_t count, struct str *reply);
/* Sends commands together, and gives their replies: as store_ask, in the time of one. MAY WAIT. */
void store_ask_all(const struct store_call *call, struct store_asked *asked, size_t count);
unsigned store_slot_of(struct str key);
/* What happened to the store, logged once. */
void store_is_gone(struct store *store, const struct store_node *node, const char *what);
void store_is_back(struct store *store, const struct store_node *node);

#endif
