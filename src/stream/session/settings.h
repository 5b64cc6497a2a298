/* The configuration of stream: the main level, servers, and the addresses that they listen on.
 * Implemented in session.c. */
#ifndef STREAM_SESSION_SETTINGS_H
#define STREAM_SESSION_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/log.h"
#include "conf/directive.h"
#include "conf/template.h"
#include "net/shards/listener.h"
#include "server/generation.h"
#include "shared/listen/address.h"
#include "shared/names/server_names.h"

struct session;
struct stream_handshake;
struct tls_hooks;
struct tls_client_settings;
struct upstream_group;

/* The result of a handler; the status is in session->status. */
enum session_step {
    SESSION_NEXT,  /* continue with the next handler, and after the last one with the next phase */
    SESSION_SKIP,  /* skip the other handlers of this phase */
    SESSION_MORE,  /* preread only: more input is needed; the handler is called again then */
    SESSION_ENDED, /* the session is over; see status */
    SESSION_LEFT,  /* content only: continues without a fiber; its holder ends it by session_end */
};
typedef enum session_step (*session_handler)(struct session *session);

/* The phases of modules' handlers, in order. Those before preread do not wait for the client. */
enum stream_phase {
    STREAM_POST_ACCEPT, /* determine the client's address */
    STREAM_PREACCESS,   /* limits */
    STREAM_ACCESS,      /* access control */
    STREAM_SECURE,      /* after the TLS handshake, if the address has one: check its result */
    STREAM_PREREAD,     /* look at the client's first bytes (session_input) */
    STREAM_LOG,         /* after the session */
    STREAM_PHASE_COUNT
};

/* A list of handlers, built when the configuration is read and run for each session. */
struct session_handlers {
    session_handler *items; /* in the order in which they are called */
    unsigned count;         /* of items */
};

/* ngx_stream_core_module, stream level only. */
extern struct settings_key stream_main_key;
struct stream_main {
    struct vec servers;                       /* struct stream_server *, in order */
    struct variable_set variables;            /* all known variables */
    struct vec listens;                       /* struct stream_listen * */
    struct vec hooks;                         /* const struct stream_module *, of all modules */
    const struct stream_handshake *handshake; /* TLS; NULL: no module implements it */
    struct generation *generation;            /* of this reading */
    struct str hostname;                      /* of the machine, lower case */
    int64_t server_names_hash_bucket_size, server_names_hash_max_size; /* accepted and ignored */
    int64_t variables_hash_bucket_size, variables_hash_max_size;       /* accepted and ignored */
};

/* ngx_stream_core_module, server level. A member without a comment is the value of the directive of
 * that name. */
extern struct settings_key stream_server_key;
struct stream_server {
    struct vec names;             /* struct server_name: as written, in order */
    struct str name;              /* the first, for $server_name */
    void **settings;              /* by table index: every module's settings */
    const struct conf_node *node; /* the block */
    struct stream_main *main;     /* of the stream block */
    struct vec listens;           /* struct stream_listen *: its addresses */
    bool has_listen;              /* it has a `listen` line */
    bool tcp_nodelay;
    uint64_t preread_buffer_size;
    uint64_t preread_timeout_ms;
    uint64_t proxy_protocol_timeout_ms;
    /* How many times a session may have passed through this service. */
    int64_t max_self_hops;
    uint64_t session_memory_limit; /* bytes of its arena; 0 = none */
    struct template *udp_flow_key;
    unsigned flow_ids;                  /* enum datagram_ids, by the key */
    struct resolver_settings *resolver; /* or NULL */
    uint64_t resolver_timeout_ms;
    struct log_sink *error_log;     /* the main level's, if it has none of its own */
    enum log_level error_log_level; /* derived: the lowest level of all sinks */
    session_handler content;        /* set by the rows of proxy_pass, return, pass */
    /* Scripts for the handshake of this session with a backend; set by a module, or NULL. */
    const struct tls_client_hooks *(*backend_hooks)(struct session *session);
    /* The group that content passes sessions to, for health_check; NULL: there is none, or it
     * differs by session. */
    struct upstream_group *group;
    const struct tls_client_settings *tls; /* TLS settings for that group; NULL: plain */
    struct session_handlers phases[STREAM_PHASE_COUNT]; /* the handlers that run in this server */
};

/* An address and its servers: listener->user. */
struct stream_listen {
    struct listen_address address;        /* first member; common to all protocols */
    struct stream_server *default_server; /* for names that no server has */
    struct vec servers;                   /* struct stream_server *: in order */
    struct server_names names;            /* of all of them */
    bool is_udp;
    const struct tls_hooks *tls_hooks; /* scripts of its handshakes; or NULL */
    struct log log;                    /* for connections without a session: the default server's */
};

/* The main settings of this reading; NULL without a stream block. */
struct stream_main *stream_main_of(struct conf *conf);

static inline struct stream_server *scope_stream_server(const struct conf_scope *scope)
{
    return conf_settings(scope, &stream_server_key);
}

/* A module's settings in a server. */
static inline void *stream_settings(const struct stream_server *server,
                                    const struct settings_key *key)
{
    return server->settings[key->number];
}

#endif
