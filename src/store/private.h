/* Shared by the files of this package. */
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
    STORE_NODES_MAX = 160,     /* most servers at one time */
    STORE_NODES_LEARNED = 128, /* of these, servers that others have named; the remainder is for the
                                  configuration's */
    STORE_PENDING_MAX = 4096,  /* commands of a connection that may wait for their replies */
    STORE_UNSENT_MAX = 4 << 20, /* bytes that may wait to be sent */
    STORE_SLOTS = 16384,        /* of a cluster */
    STORE_LINKS = 2,            /* connections to a server: one, and a spare if that is stalled */
};

enum store_mode { STORE_STANDALONE, STORE_SENTINEL, STORE_CLUSTER };

/* A `server`. */
struct store_server {
    const struct conf_node *node;
    struct str host;  /* as written, without the port */
    struct vec addrs; /* struct addr; empty for a name with `resolve` */
    uint16_t port;
    bool is_resolved; /* `resolve` */
};

/* The settings of the block. */
struct store_settings {
    struct vec servers; /* struct store_server */
    unsigned mode;      /* enum store_mode */
    struct str primary; /* for sentinels: the name of the primary that they watch */
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
    LINK_STARTING, /* a fiber connects and sends HELLO */
    LINK_UP
};

/* A connection to a server. */
struct store_link {
    struct store_node *node;
    enum link_state state;
    struct conn *conn; /* set before the first command */
    struct list sent;  /* struct store_request, oldest first */
    unsigned sent_count;
    struct resp_scan scan; /* scan of the next reply */
    uint64_t stalled_ms; /* since when a command has timed out and no reply has come; 0 = it is not
                            stalled */
    const char *wrong;   /* why it ended while it was starting; NULL = it did not */
    struct fiber *starter; /* runs while it is starting */
};

/* A server, in this worker. */
struct store_node {
    struct store *store;
    struct addr addr;
    char name[ADDR_TEXT_MAX];
    size_t name_length;
    struct str host; /* as written in `server`; empty: the address was learned */
    bool is_sentinel;
    bool is_wanted; /* in a cluster: it is in the map of slots */
    struct store_link links[STORE_LINKS];
    struct list waiting; /* struct store_request, which wait for a connection */
    uint64_t retry_ms;   /* no new connection before this time */
    unsigned failures;   /* in succession */
    unsigned users;      /* commands whose callers have not returned: the node must not be freed */
};

/* A command that was sent, or waits to be sent. Owned by its caller while it waits, later by the
   connection. */
struct store_request {
    struct list node; /* in the list of the connection, or of the requests that wait for one */
    struct store_link *link; /* the connection that it was sent on; NULL: not sent yet */
    struct store_node *to;   /* for a caller that waits */
    struct str bytes;        /* of the caller */
    struct arena *arena;     /* of the caller, for the reply */
    struct wait_point done;
    enum store_result result;
    struct str reply;
    unsigned skipped; /* replies before its own: that of ASKING */
    bool is_done;
    bool is_abandoned; /* the caller does not wait any more */
};

struct store {
    struct store *next;
    struct str name;
    const struct conf_node *node; /* where it was first named: the block, or a zone */
    bool is_declared;
    bool has_no_block; /* store_of_server */
    struct store_settings *settings;
    struct zone *zone;
    struct store_counts *counts;

    /* In a worker. */
    bool is_running;
    struct fiber *watcher;  /* updates the map of servers */
    struct wait_point wake; /* wakes the watcher */
    bool is_ending; /* the worker is ending: requests in progress are completed, each connection
                       ends when no reply is awaited */
    bool is_closed; /* nothing is sent any more */
    struct store_node *nodes[STORE_NODES_MAX];
    unsigned node_count;
    struct store_node *primary; /* standalone and sentinel: the server that gets commands */
    unsigned server;            /* number of the server that is tried next */
    uint8_t *slots;             /* in a cluster: 1 + index in nodes, 0 = not known */
    uint64_t error_logged_ms;   /* when an error of the store was last logged; 0 = never */
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
/* Ends its connections and fails its requests. */
void store_node_close(struct store_node *node);
/* The same, after the commands that were sent have their replies. */
void store_node_retire(struct store_node *node);
/* Starts a connection if there is none. False: not possible now. */
bool store_node_connect(struct store_node *node);
bool store_node_is_up(const struct store_node *node);
/*
 * Sends a command, whose reply will be in the arena; NULL: not possible now. The bytes and the
 * arena must live until store_node_reply has returned, which must be called.
 */
struct store_request *store_node_send(struct store_node *node, struct str bytes, bool is_asking,
                                      struct arena *arena);
/* Waits for the reply. STORE_OK: *reply is in the arena, and may be an error. The request is freed,
 * or belongs to the connection then. MAY WAIT. */
enum store_result store_node_reply(struct store_request *request, uint64_t deadline_ms,
                                   struct str *reply);

/* ---- table.c ---- */

/* After the configuration was read. False after conf_error. */
bool store_tables_check(struct conf *conf);
/* In each worker; exchanges: this one exchanges for all. */
void store_tables_start(struct conf *conf, bool exchanges);
void store_tables_end(struct conf *conf);

/* ---- route.c ---- */

/* A command of several that are sent together. */
struct store_asked {
    struct str key; /* its key */
    struct store_words words;
    struct str bytes;              /* the command */
    struct store_node *node;       /* the server that got it; NULL: none */
    struct store_request *request; /* until its reply was read */
    enum store_result result;
    struct str reply;
};

bool store_route_start(struct store *store);
void store_route_end(struct store *store);
/* Ends all connections; requests that wait fail. */
void store_route_close(struct store *store);
/* To be called when there is no fiber left. */
void store_route_free(struct store *store);
/* The server for commands with a key; NULL: not known. */
struct store_node *store_route(struct store *store, struct str key);
/* The map of servers is outdated: update it. */
void store_route_is_old(struct store *store);
/* Sends a command with a key to its server, follows redirections, and gives the reply. MAY WAIT. */
enum store_result store_ask(const struct store_call *call, struct str key, const struct str *words,
                            size_t count, struct str *reply);
/* Sends commands together and gives their replies, as store_ask, but in the time of one. MAY
   WAIT. */
void store_ask_all(const struct store_call *call, struct store_asked *asked, size_t count);
unsigned store_slot_of(struct str key);
/* Log that the store is gone, or back; only once each. */
void store_is_gone(struct store *store, const struct store_node *node, const char *what);
void store_is_back(struct store *store, const struct store_node *node);

#endif
