/* ngx_discovery_module: the block `discovery`. */
#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "server/module.h"
#include "upstream/discovery/private.h"
#include "upstream/settings/resolver_rows.h"

enum { ENDPOINTS_MOST = 4096, ZONE_LEAST = 8 * 4096 };

#define POD_FOLDER "/var/run/secrets/kubernetes.io/serviceaccount/"

static struct settings_key discovery_key;
static const char zone_tag;

/* ---- `server` ---- */

static bool server_apply(struct conf_scope *scope, const struct directive *row,
                         struct conf_node *node, void *settings)
{
    struct discovery_settings *own = settings;
    struct discovery_server *server =
        vec_add(&own->servers, scope->conf->arena, struct discovery_server);

    server->node = node;
    server->is_resolved = node->count == 3;
    if (node->count == 3 && !str_is(node->args[2], "resolve")) {
        return conf_error(scope->conf, node, "invalid parameter \"%.*s\"", STR_ARG(node->args[2]));
    }
    return true;
}

static bool url_error(struct conf *conf, const struct conf_node *node, const char *what,
                      struct str url)
{
    return conf_error(conf, node, "%s in \"%.*s\"", what, STR_ARG(url));
}

/* http://HOST[:PORT][/PATH] */
static bool split_url(struct conf *conf, struct discovery_server *server,
                      const struct conf_node *node, struct str url)
{
    struct str rest = url;

    server->is_secure = str_starts(url, STR("https://"));
    if (!server->is_secure && !str_starts(url, STR("http://"))) {
        return url_error(conf, node, "no \"http://\" or \"https://\"", url);
    }
    rest = str_skip(rest, server->is_secure ? 8 : 7);
    const char *slash = str_find_char(rest, '/');
    server->authority = slash == NULL ? rest : str_from(rest.data, slash);
    server->path = str_skip(rest, server->authority.len);
    while (str_ends(server->path, STR("/"))) {
        server->path.len--;
    }
    for (size_t i = 0; i < url.len; i++) {
        if ((unsigned char) url.data[i] <= ' ' || url.data[i] == '?' || url.data[i] == '#') {
            return url_error(conf, node, "invalid character", url);
        }
    }
    server->port = server->is_secure ? 443 : 80;
    if (!addr_split_port(server->authority, &server->host, &server->port)) {
        return url_error(conf, node, "invalid port", url);
    }
    if (str_starts(server->host, STR("[")) && str_ends(server->host, STR("]"))) {
        server->host = str_head(str_skip(server->host, 1), server->host.len - 2);
    }
    return server->host.len != 0 || url_error(conf, node, "no host", url);
}

static bool server_finish(struct conf *conf, const struct discovery_settings *own,
                          struct discovery_server *server, struct str url)
{
    const struct conf_node *node = server->node;
    struct addr_list list;

    if (!split_url(conf, server, node, url)) {
        return false;
    }
    if (server->is_resolved) {
        return own->resolver != NULL ||
               conf_error(conf, node, "\"resolve\" needs a \"resolver\" in this block");
    }
    if (!addr_parse(conf->arena, server->authority, server->port, false, &list)) {
        return conf_error(conf, node, "%s in \"%.*s\"", list.error, STR_ARG(url));
    }
    for (size_t i = 0; i < list.count; i++) {
        *vec_add(&server->addrs, conf->arena, struct addr) = list.items[i];
    }
    return true;
}

/* ---- the block ---- */

/* In a pod: the API server, the token and the authority that it was given. */
static bool pod_defaults(struct conf *conf, struct conf_node *node, struct discovery_settings *own)
{
    const char *host = getenv("KUBERNETES_SERVICE_HOST");
    const char *port = getenv("KUBERNETES_SERVICE_PORT");

    if (host == NULL || port == NULL) {
        return conf_error(conf, node,
                          "no \"server\" in discovery \"%.*s\", and KUBERNETES_SERVICE_HOST is not "
                          "in the environment",
                          STR_ARG(node->args[1]));
    }
    struct discovery_server *server = vec_add(&own->servers, conf->arena, struct discovery_server);
    server->node = node;
    if (own->token_file.len == 0) {
        own->token_file = STR(POD_FOLDER "token");
    }
    if (own->tls.trusted.len == 0) {
        own->tls.trusted = STR(POD_FOLDER "ca.crt");
    }
    return server_finish(conf, own, server,
                         arena_printf(conf->arena,
                                      strchr(host, ':') == NULL ? "https://%s:%s"
                                                                : "https://[%s]:%s",
                                      host, port));
}

static bool check_login(struct conf *conf, const struct conf_node *node,
                        const struct discovery_settings *own)
{
    if (own->type != DISCOVERY_ETCD && own->user.len != 0) {
        return conf_error(conf, node, "\"user\" is of discoveries of type etcd");
    }
    if (own->type == DISCOVERY_ETCD && own->token_file.len != 0) {
        return conf_error(conf, node, "etcd has a \"user\", and no \"token_file\"");
    }
    return (own->user.len == 0) == (own->password_file.len == 0) ||
           conf_error(conf, node, "\"user\" and \"password_file\" need each other");
}

static bool discovery_apply(struct conf_scope *scope, const struct directive *row,
                            struct conf_node *node, void *settings)
{
    struct conf *conf = scope->conf;
    struct str name = node->args[1];

    if (discovery_find(conf, name) != NULL) {
        return conf_error(conf, node, "duplicate discovery \"%.*s\"", STR_ARG(name));
    }
    struct discovery **place = discoveries_of(conf);
    while (*place != NULL) {
        place = &(*place)->next;
    }
    *place = arena_new(conf->arena, struct discovery);
    (*place)->name = name;
    (*place)->node = node;
    (*place)->bell = -1;
    return true;
}

static bool servers_finish(struct conf *conf, struct conf_node *node,
                           struct discovery_settings *own)
{
    bool uses_tls = false;

    if (own->servers.count == 0 && own->type == DISCOVERY_KUBERNETES) {
        if (!pod_defaults(conf, node, own)) {
            return false;
        }
    } else if (own->servers.count == 0) {
        return conf_error(conf, node, "no \"server\" in discovery \"%.*s\"",
                          STR_ARG(node->args[1]));
    } else {
        vec_each(struct discovery_server, server, &own->servers) {
            if (!server_finish(conf, own, server, server->node->args[1])) {
                return false;
            }
        }
    }
    vec_each(struct discovery_server, server, &own->servers) {
        uses_tls |= server->is_secure;
    }
    return !uses_tls || client_tls_finish(conf, node, "discovery", &own->tls);
}

static bool discovery_enter(struct conf_scope *scope, const struct directive *row,
                            struct conf_node *node, void *settings)
{
    struct conf *conf = scope->conf;
    struct conf_scope *inner = conf_enter(scope, node, IN_DISCOVERY, NULL, NULL);

    if (inner == NULL) {
        return false;
    }
    struct discovery_settings *own = conf_settings(inner, &discovery_key);
    struct discovery *discovery = discovery_find(conf, node->args[1]);
    discovery->settings = own;
    if (own->type == DISCOVERY_NO_TYPE) {
        return conf_error(conf, node, "no \"type\" in discovery \"%.*s\"", STR_ARG(node->args[1]));
    }
    if (!check_login(conf, node, own) || !servers_finish(conf, node, own)) {
        return false;
    }
    discovery->zone =
        generation_zone(conf->generation, node,
                        arena_printf(conf->arena, "discovery %.*s", STR_ARG(node->args[1])),
                        own->zone_size, &zone_tag);
    if (discovery->zone == NULL) {
        return false;
    }
    if (discovery->zone->root == NULL) {
        discovery->zone->root = slab_alloc(discovery->zone->slab, sizeof(struct discovery_zone));
    }
    discovery->shared = discovery->zone->root;
    return discovery->shared != NULL || conf_error(conf, node, "no memory for a discovery");
}

static void bell_close(void *arg)
{
    close((int) (intptr_t) arg);
}

/* The bell is of this generation: those of others have other services. */
static bool discoveries_configured(struct conf *conf, struct generation *generation)
{
    if (!discovery_bind(conf)) {
        return false;
    }
    for (struct discovery *discovery = *discoveries_of(conf); discovery != NULL;
         discovery = discovery->next) {
        discovery->bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        if (discovery->bell == -1) {
            return conf_errno(conf, discovery->node, errno, "eventfd() failed");
        }
        arena_on_free(conf->arena, bell_close, (void *) (intptr_t) discovery->bell);
        if (discovery->settings->state_file.len != 0) {
            discovery_state_read(conf, discovery);
        }
    }
    return true;
}

/* ---- workers ---- */

static bool discoveries_start(struct generation *generation)
{
    for (struct discovery *discovery = *discoveries_of(&generation->conf); discovery != NULL;
         discovery = discovery->next) {
        if (!discovery_worker_start(discovery)) {
            return false;
        }
    }
    return true;
}

static void discoveries_quit(struct generation *generation)
{
    for (struct discovery *discovery = *discoveries_of(&generation->conf); discovery != NULL;
         discovery = discovery->next) {
        discovery_worker_quit(discovery);
    }
}

static void discoveries_end(struct generation *generation)
{
    for (struct discovery *discovery = *discoveries_of(&generation->conf); discovery != NULL;
         discovery = discovery->next) {
        discovery_worker_end(discovery);
    }
}

static const struct directive_word type_words[] = {{"consul", DISCOVERY_CONSUL},
                                                   {"etcd", DISCOVERY_ETCD},
                                                   {"kubernetes", DISCOVERY_KUBERNETES},
                                                   {NULL, 0}};

#define S struct discovery_settings
#define IN IN_DISCOVERY
static const struct directive main_rows[] = {
    {"discovery", IN_MAIN, .type = TYPE_BLOCK, .apply = discovery_apply, .enter = discovery_enter,
     ROW_SOURCE, ARGS(1, 1), .repeat = REPEAT_CUSTOM, .syntax = "name",
     .doc = "Defines a service registry that provides the servers of groups, for `server "
            "consul:…`, `etcd:…` and `kubernetes:…`. One worker watches it, and only if a group "
            "has such servers."},
    {0},
};

static const struct directive discovery_rows[] = {
    {"type", IN, ENUM(S, type, type_words), .syntax = "consul | etcd | kubernetes",
     .doc = "Type of the registry."},
    {"server", IN, CUSTOM_FIELD(S, servers, server_apply), ARGS(1, 2), .repeat = REPEAT_APPEND,
     .syntax = "url [resolve]",
     .doc = "URL of a registry server, such as `https://10.0.0.1:2379`. If there are several, "
            "the next one is used after a failure. With `resolve`, the name is resolved for "
            "each connection. In a Kubernetes pod, the default is the cluster's API server."},
    {"token_file", IN, CONF_PATH(S, token_file), .syntax = "file",
     .doc = "File with the token for Consul (an ACL token) or Kubernetes (a service account "
            "token). It is read for each request, so it may change at any time. Workers must be "
            "able to read it."},
    {"user", IN, STRING(S, user), .syntax = "name", .doc = "User name for etcd."},
    {"password_file", IN, CONF_PATH(S, password_file), .syntax = "file",
     .doc = "File with the password of the user. It is read for each login."},
    {"state", IN, PATH(S, state_file), .syntax = "file",
     .doc = "File that keeps the addresses across restarts. They are used until the registry "
            "has answered. Workers must be able to write to its directory."},
    {"endpoints_max", IN, NUMBER(S, endpoints_max), .min = 1, .max = ENDPOINTS_MOST,
     .initial = "1000",
     .doc = "Largest number of addresses of a service. A response with more is rejected, and "
            "the addresses remain unchanged."},
    {"answer_max", IN, SIZE(S, answer_max), .min = 4096, .max = 64 << 20, .initial = "4m",
     .doc = "Largest size of a response, and of an event of a watch."},
    {"zone_size", IN, SIZE(S, zone_size), .min = ZONE_LEAST, .max = 1 << 30, .initial = "1m",
     .doc = "Size of the shared memory for the addresses of all services: 24 bytes for each "
            "address, and twice that while they change."},
    {"connect_timeout", IN, MSEC(S, connect_timeout_ms), .min = 1, .max = 60000, .initial = "5s",
     .doc = "Timeout for connecting to the registry, including the TLS handshake."},
    {"read_timeout", IN, MSEC(S, read_timeout_ms), .min = 1, .max = 3600000, .initial = "10s",
     .doc = "Timeout for a response. Watches wait longer, as set by `watch_time`."},
    {"watch_time", IN, MSEC(S, wait_ms), .min = 1000, .max = 600000, .initial = "5m",
     .doc = "Longest duration of a watch. A new watch is then started."},
    CLIENT_TLS_ROWS(
        IN, S, tls,
        "Name that the server's certificate must have; by default, the host in the URL."),
    RESOLVER_ROWS(IN, S),
    {0},
};
#undef IN
#undef S

static const struct directive_table main_table = {.rows = main_rows, .contexts = IN_MAIN};
static const struct directive_table discovery_table = {.key = &discovery_key,
                                                       .rows = discovery_rows,
                                                       .contexts = IN_DISCOVERY,
                                                       .size = sizeof(struct discovery_settings)};

const struct module ngx_discovery_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_discovery_module",
    .kind = MODULE_CORE,
    .tables = (const struct directive_table *const[]){&main_table, &discovery_table, NULL},
    .configured = discoveries_configured,
    .worker_start = discoveries_start,
    .worker_quit = discoveries_quit,
    .worker_abort = discoveries_quit,
    .worker_end = discoveries_end,
};
