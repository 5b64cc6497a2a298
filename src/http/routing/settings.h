/* Settings of http: the main level, servers, locations, and the addresses they listen on. */
#ifndef HTTP_ROUTING_SETTINGS_H
#define HTTP_ROUTING_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/map.h"
#include "base/str.h"
#include "conf/directive.h"
#include "conf/regex.h"
#include "conf/template.h"
#include "http/message/handler_result.h"
#include "http/message/head_limits.h"
#include "http/message/methods.h"
#include "net/addr/addr.h"
#include "net/shards/listener.h"
#include "server/generation.h"
#include "shared/listen/address.h"
#include "shared/names/server_names.h"

struct body_settings;
struct coding_hook;
struct connection_settings;
struct file_settings;
struct http_handshake;
struct http_protocol;
struct request;
struct response_settings;

typedef enum handler_result (*request_handler)(struct request *request);
typedef void (*header_filter)(struct request *request);

/* A list of functions, made when the configuration is read, and called for each request. */
struct handler_list {
    request_handler *items; /* in the order of calls */
    unsigned count;         /* number of items */
};

/* ngx_http_core_module, http level only. */
struct http_main {
    struct vec servers;            /* struct http_server * */
    struct variable_set variables; /* all known variables */
    struct vec listens;            /* struct http_listen * */
    struct vec protocols; /* const struct http_protocol *: for clients, the default one first */
    struct str *offers;   /* ALPN lists for TLS, indexed by the set of enabled protocols */
    const struct http_handshake *handshake; /* for TLS; NULL: no module provides it */
    /* struct http_location *: every location, including unnamed ones and those of servers. */
    struct vec locations;
    struct http_hooks *hooks;      /* phases and filters of all modules, in order; see hooks.h */
    struct handler_list post_read; /* called for every request first */
    request_handler unanswered;    /* called if there is no response */
    int64_t server_names_hash_bucket_size, server_names_hash_max_size; /* accepted and ignored */
    int64_t variables_hash_bucket_size, variables_hash_max_size;       /* accepted and ignored */
    struct generation *generation;                                     /* this configuration */
    struct str hostname;    /* of the host, in lower case */
    uint64_t degraded_from; /* bytes of memory: see request/degraded.h; 0 = never */
};

/* ngx_http_core_module, server level. A member without a comment has the value of the directive
 * with its name. */
struct http_server {
    struct vec names;           /* struct server_name: as written, in order */
    struct str name;            /* the first name, for $server_name and redirects */
    struct http_location *root; /* settings of the server block itself, and its locations */
    struct map named;           /* "@name" -> struct http_location * */
    void **settings;            /* by table index, server level */
    uint64_t client_header_buffer_size;
    struct buffers large_client_header_buffers;
    uint64_t client_header_timeout_ms; /* for the whole header */
    uint64_t connection_pool_size,
        request_pool_size;          /* accepted and ignored: memory grows as needed */
    int64_t max_headers;            /* most fields of a request */
    int64_t max_self_hops;          /* most passes of a request through this service */
    bool ignore_invalid_headers;    /* fields with invalid names are dropped rather than rejected */
    bool merge_slashes;             /* "//" in a path becomes "/" */
    bool underscores_in_headers;    /* names may contain '_' */
    struct head_limits head_limits; /* derived */
    struct vec early_read;          /* client_body_early_read: struct template * */
    struct vec listens;             /* struct http_listen *: its addresses */
    struct handler_list rewrite;    /* server-rewrite phase */
    const struct conf_node *node;   /* its block */
    struct http_main *main;         /* above it */
    bool has_listen;                /* it has a `listen` directive */
    bool accepts_connect;     /* some location makes tunnels: CONNECT is not rejected at once */
    bool accepts_connect_1_0; /* nor is CONNECT in HTTP/1.0 */
};

/* An address, and the servers with their names on it: in struct listener.user. */
struct http_listen {
    struct listen_address address;      /* must be first: common to all protocols */
    struct http_server *default_server; /* for unknown names */
    struct vec servers;                 /* struct http_server *: in order, default first or not */
    struct server_names names;          /* names of all of them */
    bool has_names; /* false: the default server handles all requests, names are not looked up */
    const struct http_protocol *protocol; /* for clients that select no other */
    const struct http_protocol *asked; /* the protocol that a `listen` directive selects, or NULL */
    const struct tls_hooks *tls_hooks; /* scripts that run in handshakes; or NULL */
    uint8_t stage;          /* enum connection_stage: after the header of the PROXY protocol */
    bool allows_plain_http; /* with is_ssl: a plain HTTP request is redirected to https:// rather
                               than rejected */
    struct log log; /* for connections without a request so far: that of the default server */
};

enum satisfy { SATISFY_ALL, SATISFY_ANY };
enum location_kind {
    LOCATION_PREFIX,
    LOCATION_EXACT,
    LOCATION_PREFIX_NO_REGEX,
    LOCATION_REGEX,
    LOCATION_NAMED,
    LOCATION_UNNAMED
};

/* The handler of a location, set by its directive (empty_gif, proxy_pass …). */
struct content_handler {
    request_handler run;  /* NULL: the handlers of the phases directory and content are used */
    const void *settings; /* for use by run */
    struct upstream_group *group;          /* of a *_pass; NULL: none, or one with variables */
    const struct tls_client_settings *tls; /* TLS settings for that group; or NULL */
    bool carries; /* a *_pass: also effective in `if` and limit_except blocks of the location */
    bool redirects_slash; /* in "/a/": "/a" gets 301 */
};

/* error_log_tag: additional data in error log lines of requests. */
struct log_tag {
    const char *name;
    struct template *value;
};

/* ngx_http_core_module, location level: also http, server, if and limit_except blocks. A member
 * without a comment has the value of the directive with its name (docs/directives/). */
struct http_location {
    /* Identity and tree; not inherited. */
    struct str name;               /* "/a/", "\.php$", "@x"; empty for that of a server */
    enum location_kind kind;       /* how name is compared */
    struct http_location *parent;  /* the enclosing location; NULL for that of a server */
    struct http_server *server;    /* its server */
    const struct conf_node *node;  /* its block */
    void **settings;               /* by table index: settings of every module in this location */
    struct location_index *index;  /* nested locations, for the search; NULL if there are none */
    struct vec nested;             /* struct http_location *: nested in this block, in order */
    struct regex *regex;           /* of LOCATION_REGEX */
    struct http_location *limited; /* limit_except block, or NULL */
    unsigned
        allowed_methods; /* bits of enum http_method: the methods that the block does not limit */
    struct content_handler content; /* its content handler */
    /* Scripts for handshakes with backends, for this request; set by a module, or NULL. */
    const struct tls_client_hooks *(*backend_hooks)(struct request *request);
    bool is_internal; /* `internal`; inherited */
    bool is_bare; /* an internal request of the server: handlers and filters of the enclosing blocks
                     do not apply */
    bool has_steps; /* there are steps before the content: one of these lists, or limit_except */
    struct handler_list rewrite, preaccess, access, precontent, log; /* the active handlers */
    /* Without a content handler: called in order for URIs with a trailing slash; and for all that
     * have no response after that. */
    struct handler_list directory_handlers, content_handlers;
    header_filter *header_filters; /* NULL-ended, in order */
    /* NULL-ended, by rank; NULL if there are none: see request/hooks.h. */
    const struct coding_hook **encoders;    /* content codings that filters apply */
    const struct coding_hook **coded_files; /* content codings of precompressed files */

    /* Further settings, each in a header of its own: a change there affects only files that use
     * it. */
    const struct file_settings *files;  /* file_settings.h */
    const struct body_settings *bodies; /* body_settings.h: request bodies */
    const struct connection_settings
        *connections;                          /* connection_settings.h: connections to clients */
    const struct response_settings *responses; /* response_settings.h */
    uint64_t request_memory_limit;             /* 0 = unlimited */

    /* Access. */
    unsigned satisfy;
    uint64_t auth_delay_ms;

    /* Logs and names. */
    struct vec error_log_tags; /* struct log_tag */
    bool retry_cached_connection;
    const struct resolver_settings *resolver; /* see resolver.h; NULL = not set */
    uint64_t resolver_timeout_ms;             /* timeout of one lookup */
    struct log_sink *error_log;               /* chain */
    enum log_level error_log_level;
    bool log_subrequest;
    bool request_time_cache; /* off: $request_time reads the system clock */
};

/* Tables of ngx_http_core_module. */
extern struct settings_key http_main_key;
extern struct settings_key http_server_key;
extern struct settings_key http_location_key;
extern struct settings_key file_settings_key;
extern struct settings_key body_settings_key;
extern struct settings_key connection_settings_key;
extern struct settings_key response_settings_key;

/* The http settings of a configuration; NULL before the http block. */
struct http_main *http_main_of(struct conf *conf);
void http_main_set(struct conf *conf, struct http_main *main);

/* In a server or location block (apply functions of rows): the server or location. */
static inline struct http_location *scope_location(const struct conf_scope *scope)
{
    return conf_settings(scope, &http_location_key);
}
static inline struct http_server *scope_server(const struct conf_scope *scope)
{
    return conf_settings(scope, &http_server_key);
}

/* A module's settings at the server level. */
static inline void *server_settings(const struct http_server *server,
                                    const struct settings_key *key)
{
    return server->settings[key->number];
}

/* Sets the content handler of a location; `settings` is for its use, or NULL. The last call is
 * effective. */
static inline void content_set(struct http_location *location, request_handler run,
                               const void *settings)
{
    location->content.run = run;
    location->content.settings = settings;
}

/* A module's settings in a location, for a request. */
static inline void *location_settings(const struct http_location *location,
                                      const struct settings_key *key)
{
    return location->settings[key->number];
}

/* ---- reading the configuration ---- */

/* `server_name` (servers.c). */
bool server_name_apply(struct conf_scope *scope, const struct directive *row,
                       struct conf_node *node, void *settings);

/* `location` blocks (locations.c), and their search structures, made after a server was read. */
bool location_enter(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                    void *settings);
bool locations_finish(struct conf *conf, struct http_location *root);

/* Enters a block without a name that has settings of the location level (`if`, limit_except): its
 * settings are derived from the enclosing location's. NULL after errors. */
struct http_location *location_enter_unnamed(struct conf_scope *scope, struct conf_node *node,
                                             uint32_t context);

/* Called when the main level's log is known: sets it in locations without error_log
 * (http/config/core_finish.c). */
void locations_set_logs(struct http_main *main, struct log_sink *fallback);

/* ---- searches ---- */

/* The server with this name on this address; see server_names_find. */
static inline const struct http_server *server_find(const struct http_listen *listen,
                                                    struct str host, struct variable_env *env)
{
    const struct server_name *name = server_names_find(&listen->names, host, env);

    return name == NULL ? listen->default_server : name->owner;
}

/* The location of a URI below a server's root. Regex captures are stored in env. *lacks_slash: the
 * URI plus a slash is the name of a location that redirects. */
const struct http_location *location_find(const struct http_location *root, struct str uri,
                                          struct variable_env *env, bool *lacks_slash);

#endif
