/* What a configuration says about stream: the main level, servers, and the addresses they listen
 * on. Implemented in session.c. */
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

/* What a handler says; never a status, which is in session->status. */
enum session_step {
    SESSION_NEXT,  /* the next handler, and after the last one the next phase */
    SESSION_SKIP,  /* nobody else of this phase is asked */
    SESSION_MORE,  /* of preread: more of the client's input is needed; it is asked again then */
    SESSION_ENDED, /* the session is over; status says how */
    SESSION_LEFT,  /* of content: it continues without a fiber; its owner ends it by session_end */
};
typedef enum session_step (*session_handler)(struct session *session);

/* Phases in which modules may have handlers, in order. Those before preread do not wait for the
 * client. */
enum stream_phase {
    STREAM_POST_ACCEPT, /* who the client is */
    STREAM_PREACCESS,   /* how many there may be */
    STREAM_ACCESS,      /* who is let in */
    STREAM_SECURE,  /* after the TLS handshake, where the address has one: is its outcome good? */
    STREAM_PREREAD, /* looks at what the client said first; session->preread */
    STREAM_LOG,     /* the session is over */
    STREAM_PHASE_COUNT
};

/* A list of functions, made when the configuration is read, walked for each session. */
struct session_handlers {
    session_handler *items; /* in the order in which they are called */
    unsigned count;         /* of items */
};

/* ngx_stream_core_module, stream level alone. */
extern struct settings_key stream_main_key;
struct stream_main {
    struct vec servers;                       /* struct stream_server *, in order */
    struct variable_set variables;            /* all that are known */
    struct vec listens;                       /* struct stream_listen * */
    struct vec hooks;                         /* const struct stream_module *, of all modules */
    const struct stream_handshake *handshake; /* of TLS; NULL: no module has it */
    struct generation *generation;            /* of this reading */
    struct str hostname;                      /* of the machine, lower case */
    int64_t server_names_hash_bucket_size, server_names_hash_max_size; /* understood */
    int64_t variables_hash_bucket_size, variables_hash_max_size;       /* understood */
};

/* ngx_stream_core_module, server level. A member without a comment is the value of the directive of
 * its name. */
extern struct settings_key stream_server_key;
struct stream_server {
    struct vec names;             /* struct server_name: as written, in order */
    struct str name;              /* the first, for $server_name */
    void **settings;              /* by table index: every module's settings */
    const struct conf_node *node; /* the block */
    struct stream_main *main;     /* above it */
    struct vec listens;           /* struct stream_listen * it is on */
    bool has_listen;              /* a `listen` line was written */
    bool tcp_nodelay;
    uint64_t preread_buffer_size;
    uint64_t preread_timeout_ms;
    uint64_t proxy_protocol_timeout_ms;
    int64_t max_self_hops;         /* how often a session may come from this service itself */
    uint64_t session_memory_limit; /* bytes of its arena; 0 = none */
    struct template *udp_flow_key;
    unsigned flow_ids;                  /* ids that the key names; enum datagram_ids */
    struct resolver_settings *resolver; /* or NULL */
    uint64_t resolver_timeout_ms;
    struct log_sink *error_log;     /* main's, when it has none of its own */
    enum log_level error_log_level; /* derived: the least important that any sink takes */
    session_handler content;        /* of proxy_pass, return, pass: set by their rows */
    /* Scripts in handshakes with backends, for this session; of a module, or NULL. */
    const struct tls_client_hooks *(*backend_hooks)(struct session *session);
    /* Where content passes sessions on to, for health_check; NULL: nowhere, or that is known for
     * each session only … */
    struct upstream_group *group;
    const struct tls_client_settings *tls; /* settings of TLS to that group; NULL: plain */
    struct session_handlers phases[STREAM_PHASE_COUNT]; /* what this server really runs */
};

/* An address, and the servers behind it: hangs on struct listener.user. */
struct stream_listen {
    struct listen_address address;        /* first: what all protocols have of one */
    struct stream_server *default_server; /* for names that nobody has */
    struct vec servers;                   /* struct stream_server *: in order */
    struct server_names names;            /* of all of them */
    bool is_udp;
    const struct tls_hooks *tls_hooks; /* scripts that are asked in its handshakes; or NULL */
    struct log log; /* for lines about connections without a session: the default server's */
};

/* Main of the reading; NULL where there is no stream block. */
struct stream_main *stream_main_of(struct conf *conf);

static inline struct stream_server *scope_stream_server(const struct conf_scope *scope)
{
    return conf_settings(scope, &stream_server_key);
}

/* What a module's table says for a server. */
static inline void *stream_settings(const struct stream_server *server,
                                    const struct settings_key *key)
{
    return server->settings[key->number];
}

#endif
