/* What a configuration says about http: the main level, servers, locations, and the addresses they
 * listen on. */
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

/* A list of functions, made when the configuration is read, walked for each request. */
struct handler_list {
    request_handler *items; /* in the order in which they are called */
    unsigned count;         /* of items */
};

/* ngx_http_core_module, http level alone. */
struct http_main {
    struct vec servers;            /* struct http_server * */
    struct variable_set variables; /* all that are known */
    struct vec listens;            /* struct http_listen * */
    struct vec protocols; /* const struct http_protocol *: that are spoken with clients, the usual
                             one first */
    struct str *offers;   /* what clients are offered in TLS, by the set of protocols that are on */
    const struct http_handshake *handshake; /* of TLS; NULL: no module has it */
    struct vec
        locations; /* struct http_location *: every location, unnamed ones and servers' own too */
    struct http_hooks *hooks;      /* phases and filters of all modules, in order; see hooks.h */
    struct handler_list post_read; /* for every request, before anything else */
    request_handler unanswered;    /* for what nobody has answered */
    int64_t server_names_hash_bucket_size, server_names_hash_max_size; /* understood */
    int64_t variables_hash_bucket_size, variables_hash_max_size;       /* understood */
    struct generation *generation;                                     /* of this reading */
    struct str hostname;    /* of the machine, lower case */
    uint64_t degraded_from; /* bytes of memory: see request/degraded.h; 0 = never */
};

/* ngx_http_core_module, server level. A member without a comment is the value of the directive of
 * its name. */
struct http_server {
    struct vec names;           /* struct server_name: as written, in order */
    struct str name;            /* the first, for $server_name and redirects */
    struct http_location *root; /* settings of the server block itself, and its locations */
    struct map named;           /* "@name" -> struct http_location * */
    void **settings;            /* by table index, server level */
    uint64_t client_header_buffer_size;
    struct buffers large_client_header_buffers;
    uint64_t client_header_timeout_ms;                /* for a whole head */
    uint64_t connection_pool_size, request_pool_size; /* accepted: memory grows by itself */
    int64_t max_headers;                              /* fields of a request at most */
    int64_t max_self_hops;          /* how often a request may come from this service itself */
    bool ignore_invalid_headers;    /* fields with bad names are dropped, not refused */
    bool merge_slashes;             /* "//" in a path is one */
    bool underscores_in_headers;    /* names with '_' are good ones */
    struct head_limits head_limits; /* derived */
    struct vec early_read;          /* client_body_early_read: struct template * */
    struct vec listens;             /* struct http_listen * it is on */
    struct handler_list rewrite;    /* server-rewrite phase */
    const struct conf_node *node;   /* the block */
    struct http_main *main;         /* above it */
    bool has_listen;                /* a `listen` line was written */
    bool accepts_connect; /* some location of it makes tunnels: CONNECT is not refused at once */
    bool accepts_connect_1_0; /* nor is CONNECT of HTTP/1.0 */
};

/* Where the names of one address are distinguished: attached to struct listener.user. */
struct http_listen {
    struct listen_address address;      /* first: what all protocols have of one */
    struct http_server *default_server; /* for names that nobody has */
    struct vec servers;                 /* struct http_server *: in order, default first or not */
    struct server_names names;          /* of all of them */
    bool has_names; /* false: the default server takes all, nothing is looked up */
    const struct http_protocol *protocol; /* that is spoken with clients who ask for no other */
    const struct http_protocol *asked;    /* that a `listen` line asks for, or NULL */
    const struct tls_hooks *tls_hooks;    /* scripts that are asked in its handshakes; or NULL */
    uint8_t stage; /* enum connection_stage: of connections after the PROXY protocol's header */
    bool allows_plain_http; /* with is_ssl: a plain request is sent to https://, not refused */
    struct log log; /* for lines about connections that have no request yet: the default server's */
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

/* The handler of a location: set by its directive (empty_gif, proxy_pass …). */
struct content_handler {
    request_handler run;          /* NULL: those of the phases directory and content are asked */
    const void *settings;         /* that run reads; its own affair */
    struct upstream_group *group; /* of a *_pass, or NULL: none, or one with variables */
    const struct tls_client_settings *tls; /* settings of TLS to that group; or NULL */
    bool carries;         /* a *_pass: holds in `if` and limit_except blocks of the location, too */
    bool redirects_slash; /* at "/a/" "/a" is answered with 301 */
};

/*
 * ngx_http_core_module, location level: also http, server, if and limit_except blocks. A member
 * without a comment is the value of the directive of its name (docs/directives/).
 */
/* error_log_tag: what else error log lines of requests say. */
struct log_tag {
    const char *name;
    struct template *value;
};

struct http_location {
    /* Identity and tree; not inherited. */
    struct str name;               /* "/a/", "\.php$", "@x"; empty for a server's own */
    enum location_kind kind;       /* how name is compared */
    struct http_location *parent;  /* the location around it; NULL for a server's own */
    struct http_server *server;    /* that it belongs to */
    const struct conf_node *node;  /* the block */
    void **settings;               /* by table index: every module's settings at this location */
    struct location_index *index;  /* nested locations, for the search; NULL when there are none */
    struct vec nested;             /* struct http_location *: inside this block, in order */
    struct regex *regex;           /* of LOCATION_REGEX */
    struct http_location *limited; /* limit_except block, or NULL */
    unsigned allowed_methods; /* the methods that the block does not limit; enum http_method bits */
    struct content_handler content; /* who answers here */
    /* Scripts in handshakes with backends, for this request; of a module, or NULL. */
    const struct tls_client_hooks *(*backend_hooks)(struct request *request);
    bool is_internal; /* `internal`; inherited */
    bool is_bare;   /* a fetch of ours: handlers and filters of the blocks around are not its own */
    bool has_steps; /* something is to be done here before the content: any of these lists, or
                       limit_except */
    struct handler_list rewrite, preaccess, access, precontent,
        log; /* what this place really runs */
    /* Where it has no handler of its own: asked in turn for what ends in a slash; and for all that
     * is not answered then. */
    struct handler_list directory_handlers, content_handlers;
    header_filter *header_filters; /* NULL-ended, in order */
    /* NULL-ended, by rank; NULL when there are none: see request/hooks.h. */
    const struct coding_hook **encoders; /* content codings that are applied here */
    const struct coding_hook *
        *coded_files; /* content codings of which precompressed files are sent */

    /* Its other settings, each in a header of its own: a change there concerns who uses it. */
    const struct file_settings *files;             /* file_settings.h */
    const struct body_settings *bodies;            /* body_settings.h: of requests */
    const struct connection_settings *connections; /* connection_settings.h: of clients */
    const struct response_settings *responses;     /* response_settings.h */
    uint64_t request_memory_limit;                 /* 0 = none */

    /* Access. */
    unsigned satisfy;
    uint64_t auth_delay_ms;

    /* Logs and names. */
    struct vec error_log_tags; /* struct log_tag */
    bool retry_cached_connection;
    const struct resolver_settings *resolver; /* see resolver.h; NULL = none was written */
    uint64_t resolver_timeout_ms;             /* for finding the addresses of one name */
    struct log_sink *error_log;               /* chain */
    enum log_level error_log_level;
    bool log_subrequest;
    bool request_time_cache; /* off: what tells how long a request took reads the clock */
};

/* Tables of ngx_http_core_module. */
extern struct settings_key http_main_key;
extern struct settings_key http_server_key;
extern struct settings_key http_location_key;
extern struct settings_key file_settings_key;
extern struct settings_key body_settings_key;
extern struct settings_key connection_settings_key;
extern struct settings_key response_settings_key;

/* The http settings of a reading; NULL before the http block. */
struct http_main *http_main_of(struct conf *conf);
void http_main_set(struct conf *conf, struct http_main *main);

/* Inside a server or location block (rows' apply): the thing itself. */
static inline struct http_location *scope_location(const struct conf_scope *scope)
{
    return conf_settings(scope, &http_location_key);
}
static inline struct http_server *scope_server(const struct conf_scope *scope)
{
    return conf_settings(scope, &http_server_key);
}

/* A module's settings of the server level. */
static inline void *server_settings(const struct http_server *server,
                                    const struct settings_key *key)
{
    return server->settings[key->number];
}

/* This handler answers at the place; settings are what it reads, or NULL. The last one said holds.
 */
static inline void content_set(struct http_location *location, request_handler run,
                               const void *settings)
{
    location->content.run = run;
    location->content.settings = settings;
}

/* A module's settings at a location, for a request. */
static inline void *location_settings(const struct http_location *location,
                                      const struct settings_key *key)
{
    return location->settings[key->number];
}

/* ---- made when the configuration is read ---- */

/* `server_name` (servers.c). */
bool server_name_apply(struct conf_scope *scope, const struct directive *row,
                       struct conf_node *node, void *settings);

/* `location` blocks (locations.c), and when a server is read: its search structures. */
bool location_enter(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                    void *settings);
bool locations_finish(struct conf *conf, struct http_location *root);

/*
 * A block without a name that has settings of the location level (`if`, limit_except): its settings
 * are a child of the enclosing location's. NULL after errors.
 */
struct http_location *location_enter_unnamed(struct conf_scope *scope, struct conf_node *node,
                                             uint32_t context);

/* Once the main level's log is known: locations without error_log of their own get it
 * (http/config/core_finish.c). */
void locations_set_logs(struct http_main *main, struct log_sink *fallback);

/* ---- searches ---- */

/* The server of a name on this address; see server_names_find. */
static inline const struct http_server *server_find(const struct http_listen *listen,
                                                    struct str host, struct variable_env *env)
{
    const struct server_name *name = server_names_find(&listen->names, host, env);

    return name == NULL ? listen->default_server : name->owner;
}

/*
 * The location of a URI below a server's root. Regex captures are left in env. *lacks_slash: the
 * URI and a slash are the name of a location that wants it.
 */
const struct http_location *location_find(const struct http_location *root, struct str uri,
                                          struct variable_env *env, bool *lacks_slash);

#endif
