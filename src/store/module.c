/* ngx_redis_store_module: the block `redis_store`. */
#include <errno.h>
#include <stdlib.h>

#include "base/fs.h"
#include "base/parse.h"
#include "server/generation.h"
#include "server/module.h"
#include "store/private.h"
#include "upstream/settings/resolver_rows.h"

enum {
    PORT_REDIS = 6379,
    PORT_SENTINEL = 26379,
    PASSWORD_MAX = 4096, /* bytes of the file */
    ZONE_SIZE = 8 * 4096,
    DATABASE_MAX = 65535,
    REPLY_MAX = 1 << 20, /* for a store without a block */
};

static struct settings_key store_key;
static const char zone_tag;

/* ---- the stores of a reading ---- */

static struct store **stores_of(struct conf *conf)
{
    return conf_state(conf, "redis stores", sizeof(struct store *));
}

const struct store *store_first(struct conf *conf)
{
    return *stores_of(conf);
}

const struct store *store_after(const struct store *store)
{
    return store->next;
}

struct str store_name(const struct store *store)
{
    return store->name;
}

const struct store_counts *store_counts_of(const struct store *store)
{
    return store->counts;
}

bool store_is_cluster(const struct store *store)
{
    return store->settings->mode == STORE_CLUSTER;
}

uint64_t store_reply_max(const struct store *store)
{
    return store->settings->reply_max;
}

/* The store with this name, created when it is first named. */
static struct store *store_find_or_make(struct conf *conf, const struct conf_node *node,
                                        struct str name)
{
    struct store **link = stores_of(conf);

    while (*link != NULL && !str_equal((*link)->name, name)) {
        link = &(*link)->next;
    }
    if (*link == NULL) {
        *link = arena_new(conf->arena, struct store);
        (*link)->name = name;
        (*link)->node = node;
    }
    return *link;
}

struct store *store_named(struct conf *conf, const struct conf_node *node, struct str name)
{
    struct store *first = NULL;
    unsigned count = 0;

    if (name.len != 0) {
        return store_find_or_make(conf, node, name);
    }
    for (struct store *store = *stores_of(conf); store != NULL; store = store->next) {
        if (!store->has_no_block) {
            first = first == NULL ? store : first;
            count++;
        }
    }
    if (count != 1) {
        conf_error(conf, node,
                   first == NULL ? "\"sync\" needs a \"redis_store\""
                                 : "\"sync\" must name one of the stores: \"sync=%.*s\"",
                   first == NULL ? 0 : (int) first->name.len,
                   first == NULL ? "" : first->name.data);
        return NULL;
    }
    return first;
}

/* ---- rows ---- */

static bool server_apply(struct conf_scope *scope, const struct directive *row,
                         struct conf_node *node, void *settings)
{
    struct store_settings *own = settings;
    struct store_server *server = vec_add(&own->servers, scope->conf->arena, struct store_server);

    server->node = node;
    server->is_resolved = node->count == 3;
    if (node->count == 3 && !str_is(node->args[2], "resolve")) {
        return conf_error(scope->conf, node, "invalid parameter \"%.*s\"", STR_ARG(node->args[2]));
    }
    return true;
}

static bool mode_apply(struct conf_scope *scope, const struct directive *row,
                       struct conf_node *node, void *settings)
{
    static const char *const words[] = {[STORE_STANDALONE] = "standalone",
                                        [STORE_SENTINEL] = "sentinel",
                                        [STORE_CLUSTER] = "cluster"};
    struct store_settings *own = settings;

    for (unsigned i = 0; i < sizeof(words) / sizeof(*words); i++) {
        if (str_is(node->args[1], words[i]) && (node->count == 3) == (i == STORE_SENTINEL)) {
            own->mode = i;
            own->primary = i == STORE_SENTINEL ? node->args[2] : STR_NONE;
            return true;
        }
    }
    return conf_error(scope->conf, node, "invalid mode \"%.*s\"", STR_ARG(node->args[1]));
}

static void clear_password(void *arg)
{
    struct str *text = arg;

    explicit_bzero((char *) (uintptr_t) text->data, text->len);
}

/* Reads the first line of the file. */
static bool password_file_apply(struct conf_scope *scope, const struct directive *row,
                                struct conf_node *node, void *settings)
{
    struct store_settings *own = settings;
    struct conf *conf = scope->conf;
    struct str name = conf_full_name(conf, node->args[1], true), *whole;

    whole = arena_new(conf->arena, struct str);
    if (!fs_read_all(conf->arena, arena_cstr(conf->arena, name), PASSWORD_MAX, whole)) {
        return conf_errno(conf, node, errno, "cannot read \"%.*s\"", STR_ARG(name));
    }
    arena_on_free(conf->arena, clear_password, whole);
    struct str rest = *whole;
    own->password = str_cut(&rest, '\n');
    if (str_ends(own->password, STR("\r"))) {
        own->password.len--;
    }
    return own->password.len != 0 ||
           conf_error(conf, node, "no password in \"%.*s\"", STR_ARG(name));
}

/* ---- the block ---- */

static bool server_finish(struct conf *conf, const struct store_settings *own,
                          struct store_server *server, struct str text)
{
    struct addr_list list;

    server->port = own->mode == STORE_SENTINEL ? PORT_SENTINEL : PORT_REDIS;
    server->host = text;
    if (!str_starts(text, STR("unix:")) && !addr_split_port(text, &server->host, &server->port)) {
        return conf_error(conf, server->node, "invalid port in \"%.*s\"", STR_ARG(text));
    }
    if (server->is_resolved) {
        return own->resolver != NULL ||
               conf_error(conf, server->node, "\"resolve\" needs a \"resolver\" in this block");
    }
    if (!addr_parse(conf->arena, text, server->port, false, &list)) {
        return conf_error(conf, server->node, "%s in \"%.*s\"", list.error, STR_ARG(text));
    }
    for (size_t i = 0; i < list.count; i++) {
        *vec_add(&server->addrs, conf->arena, struct addr) = list.items[i];
    }
    return true;
}

/* Creates the memory of the counters, which is kept over a reload. */
static bool store_declare(struct conf *conf, struct conf_node *node, struct store *store)
{
    store->is_declared = true;
    store->node = node;
    store->zone =
        generation_zone(conf->generation, node,
                        arena_printf(conf->arena, "redis_store %.*s", STR_ARG(store->name)),
                        ZONE_SIZE, &zone_tag);
    if (store->zone == NULL) {
        return false;
    }
    if (store->zone->root == NULL) {
        store->zone->root = slab_alloc(store->zone->slab, sizeof(struct store_counts));
    }
    store->counts = store->zone->root;
    return store->counts != NULL || conf_error(conf, node, "no memory for a store");
}

static bool has_timeouts(const struct store *store, const struct store_one_server *wanted)
{
    return store->settings->timeout_ms == wanted->timeout_ms &&
           store->settings->connect_timeout_ms == wanted->connect_timeout_ms;
}

struct store *store_of_server(struct conf *conf, struct conf_node *node,
                              const struct store_one_server *wanted)
{
    struct str name = arena_printf(conf->arena, "%.*s/%lld", STR_ARG(wanted->address),
                                   (long long) wanted->database);
    struct store *store = store_find_or_make(conf, node, name);

    if (store->is_declared && !has_timeouts(store, wanted)) {
        name = arena_printf(conf->arena, "%.*s/%llums/%llums", STR_ARG(name),
                            (unsigned long long) wanted->connect_timeout_ms,
                            (unsigned long long) wanted->timeout_ms);
        store = store_find_or_make(conf, node, name);
    }
    if (store->is_declared) {
        return store;
    }
    struct store_settings *own = arena_new(conf->arena, struct store_settings);
    struct store_server *server = vec_add(&own->servers, conf->arena, struct store_server);

    *own = (struct store_settings){.servers = own->servers,
                                   .database = wanted->database,
                                   .timeout_ms = wanted->timeout_ms,
                                   .connect_timeout_ms = wanted->connect_timeout_ms,
                                   .reply_max = REPLY_MAX};
    server->node = node;
    store->settings = own;
    store->has_no_block = true;
    return server_finish(conf, own, server, wanted->address) && store_declare(conf, node, store)
               ? store
               : NULL;
}

/* Registers the name, which zones in later lines may use. */
static bool store_apply(struct conf_scope *scope, const struct directive *row,
                        struct conf_node *node, void *settings)
{
    struct conf *conf = scope->conf;
    struct str name = node->args[1];

    if (name.len == 0 || str_is(name, "strict")) {
        return conf_error(conf, node, "invalid name \"%.*s\" of a store", STR_ARG(name));
    }
    struct store *store = store_find_or_make(conf, node, name);
    if (store->is_declared) {
        return conf_error(conf, node, "duplicate redis_store \"%.*s\"", STR_ARG(name));
    }
    return store_declare(conf, node, store);
}

static bool store_enter(struct conf_scope *scope, const struct directive *row,
                        struct conf_node *node, void *settings)
{
    struct conf *conf = scope->conf;
    struct conf_scope *inner = conf_enter(scope, node, IN_REDIS_STORE, NULL, NULL);

    if (inner == NULL) {
        return false;
    }
    struct store_settings *own = conf_settings(inner, &store_key);
    store_find_or_make(conf, node, node->args[1])->settings = own;
    if (own->servers.count == 0) {
        return conf_error(conf, node, "no \"server\" in redis_store \"%.*s\"",
                          STR_ARG(node->args[1]));
    }
    if (own->mode == STORE_CLUSTER && own->database != 0) {
        return conf_error(conf, node, "a cluster has no \"database\" but 0");
    }
    if (own->user.len != 0 && own->password.len == 0) {
        return conf_error(conf, node, "\"user\" needs a \"password_file\"");
    }
    vec_each(struct store_server, server, &own->servers) {
        if (!server_finish(conf, own, server, server->node->args[1])) {
            return false;
        }
    }
    return !own->uses_tls || client_tls_finish(conf, node, "redis_store", &own->tls);
}

static bool stores_configured(struct conf *conf, struct generation *generation)
{
    bool is_ok = true;

    for (const struct store *store = store_first(conf); store != NULL; store = store->next) {
        if (!store->is_declared) {
            is_ok = conf_error(conf, store->node, "no redis_store is named \"%.*s\"",
                               STR_ARG(store->name));
        }
    }
    return store_tables_check(conf) && is_ok;
}

/* ---- workers ---- */

static bool stores_start(struct generation *generation)
{
    for (struct store *store = *stores_of(&generation->conf); store != NULL; store = store->next) {
        store->is_running = true;
        if (!store_route_start(store)) {
            log_alert(&generation->log, ENOMEM, "redis_store \"%.*s\" is not used",
                      STR_ARG(store->name));
            store->is_running = false;
        }
    }
    store_tables_start(&generation->conf, worker_slot == 0 && worker_role == WORKER_SERVES);
    return true;
}

static void stores_quit(struct generation *generation)
{
    store_tables_end(&generation->conf);
    for (struct store *store = *stores_of(&generation->conf); store != NULL; store = store->next) {
        if (store->is_running) {
            store_route_end(store);
        }
    }
}

/* The worker does not wait for replies: the fibers that wait for them return. */
static void stores_abort(struct generation *generation)
{
    stores_quit(generation);
    for (struct store *store = *stores_of(&generation->conf); store != NULL; store = store->next) {
        store_route_close(store);
    }
}

static void stores_end(struct generation *generation)
{
    for (struct store *store = *stores_of(&generation->conf); store != NULL; store = store->next) {
        if (store->is_running) {
            store_route_end(store);
            store_route_free(store);
        }
    }
}

#define S struct store_settings
#define IN IN_REDIS_STORE
static const struct directive main_rows[] = {
    {"redis_store", IN_MAIN, .type = TYPE_BLOCK, .apply = store_apply, .enter = store_enter,
     ROW_SOURCE, ARGS(1, 1), .repeat = REPEAT_CUSTOM, .syntax = "name",
     .doc = "Defines a store in Redis or Valkey for state that several nodes share: zones with "
            "`sync`. Each worker opens one connection to it. If no zone uses the store, nothing "
            "is stored."},
    {0},
};

static const struct directive store_rows[] = {
    {"server", IN, CUSTOM_FIELD(S, servers, server_apply), ARGS(1, 2), .repeat = REPEAT_APPEND,
     .syntax = "address[:port] [resolve]",
     .doc = "Address of a server. If there are several, standalone servers are tried in turn, "
            "while sentinels and cluster nodes are queried for the others. The default port is "
            "6379, or 26379 for sentinels. With `resolve`, the name is resolved again while the "
            "server runs."},
    {"mode", IN, CUSTOM_FIELD(S, mode, mode_apply), ARGS(1, 2), .initial = "standalone",
     .syntax = "standalone | sentinel primary | cluster",
     .doc = "Role of the servers: the store itself, sentinels that monitor this primary, or "
            "nodes of a cluster."},
    {"user", IN, STRING(S, user), .syntax = "name", .doc = "ACL user name; by default `default`."},
    {"password_file", IN, CUSTOM_FIELD(S, password, password_file_apply), ARGS(1, 1),
     .syntax = "file",
     .doc = "File with the password on its first line. It is read when the configuration is "
            "loaded."},
    {"database", IN, NUMBER(S, database), .min = 0, .max = DATABASE_MAX, .initial = "0",
     .doc = "Number of the database."},
    {"prefix", IN, STRING(S, prefix), .initial = "portunus:", .syntax = "string",
     .doc = "Prefix of all keys. Services that share a Redis server need different prefixes."},
    {"timeout", IN, MSEC(S, timeout_ms), .min = 1, .max = 60000, .initial = "10ms",
     .doc = "Time after which a request stops waiting for the store and continues with the "
            "state of this node."},
    {"connect_timeout", IN, MSEC(S, connect_timeout_ms), .min = 1, .max = 60000, .initial = "1s",
     .doc = "Timeout for connecting, including the TLS handshake and authentication. No request "
            "waits for it longer than `timeout`."},
    {"reply_max", IN, SIZE(S, reply_max), .min = 65536, .max = 1 << 30, .initial = "1m",
     .doc = "Largest size of a reply. The connection to a server that sends a larger one is "
            "closed."},
    {"ssl", IN, FLAG(S, uses_tls), .initial = "off",
     .doc = "Whether connections to the store use TLS. Connections to sentinels do not."},
    CLIENT_TLS_ROWS(IN, S, tls,
                    "Name that the server's certificate must have. By default, it is the name in "
                    "`server`, or the address reported by a sentinel or a cluster node."),
    RESOLVER_ROWS(IN, S),
    {0},
};
#undef IN
#undef S

static const struct directive_table main_table = {.rows = main_rows, .contexts = IN_MAIN};
static const struct directive_table store_table = {.key = &store_key,
                                                   .rows = store_rows,
                                                   .contexts = IN_REDIS_STORE,
                                                   .size = sizeof(struct store_settings)};

const struct module ngx_redis_store_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_redis_store_module",
    .kind = MODULE_CORE,
    .tables = (const struct directive_table *const[]){&main_table, &store_table, NULL},
    .configured = stores_configured,
    .worker_start = stores_start,
    .worker_quit = stores_quit,
    .worker_abort = stores_abort,
    .worker_end = stores_end,
};
