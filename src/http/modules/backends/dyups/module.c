/* ngx_http_dyups_module (Tengine's): requests change upstream groups while the service runs. */
#include "http/modules/backends/dyups/dyups.h"
#include "http/modules/backends/dyups/store.h"
#include "http/routing/hooks.h"
#include "server/module.h"

static struct settings_key dyups_key;

static bool interface_apply(struct conf_scope *scope, const struct directive *row,
                            struct conf_node *node, void *settings)
{
    struct conf_node **used = conf_state(scope->conf, "dyups interface", sizeof(*used));
    struct store_sync_words *sync = conf_state(scope->conf, "dyups sync", sizeof(*sync));
    struct store_sync_words words = {0};
    bool is_sync;

    for (unsigned i = 1; i < node->count; i++) {
        if (!store_sync_read(scope->conf, node, node->args[i], false, &words, &is_sync)) {
            return false;
        }
        if (!is_sync) {
            return conf_error(scope->conf, node, "invalid parameter \"%.*s\"",
                              STR_ARG(node->args[i]));
        }
    }
    if (!store_sync_check(scope->conf, node, &words)) {
        return false;
    }
    if (words.is_wanted) {
        *sync = words; /* all interfaces change the same groups */
    }
    *used = node;
    content_set(scope_location(scope), dyups_answer, NULL);
    return true;
}

/* New groups are read in the scope of this http block. */
static bool dyups_finish(struct conf_scope *scope, void *settings)
{
    struct dyups_settings *own = settings;
    struct dyups_settings **state = conf_state(scope->conf, "dyups", sizeof(*state));

    own->outer = scope;
    *state = own;
    return true;
}

static struct dyups_settings *settings_of(struct conf *conf)
{
    return *(struct dyups_settings **) conf_state(conf, "dyups", sizeof(struct dyups_settings *));
}

static bool end(struct conf *conf, struct http_main *main)
{
    static const char user;
    struct conf_node *node =
        *(struct conf_node **) conf_state(conf, "dyups interface", sizeof(struct conf_node *));
    struct dyups_settings *own = settings_of(conf);

    if (node == NULL || own == NULL) {
        return true;
    }
    own->node = node;
    own->variables = conf_variables(conf);
    own->zone = generation_zone(conf->generation, node, STR("_dyups"), own->zone_size, &user);
    if (own->zone == NULL) {
        return false;
    }
    own->sync = *(struct store_sync_words *) conf_state(conf, "dyups sync", sizeof(own->sync));
    if (!store_prepare(own->zone)) {
        return conf_error(conf, node, "zone \"_dyups\" is too small: dyups_shm_zone_size");
    }
    return !own->sync.is_wanted || dyups_table_new(conf, node, own);
}

static bool dyups_worker_start(struct generation *generation)
{
    struct dyups_settings *own = settings_of(&generation->conf);

    if (own != NULL && own->zone != NULL) {
        dyups_start(own, upstream_set_of(&generation->conf, &upstream_http));
    }
    return true;
}

static void dyups_worker_quit(struct generation *generation)
{
    if (dyups_now == settings_of(&generation->conf)) {
        dyups_quit();
    }
}

static void dyups_worker_end(struct generation *generation)
{
    if (dyups_now == settings_of(&generation->conf)) {
        dyups_end();
    }
}

#define S struct dyups_settings
static const struct directive rows[] = {
    {"dyups_read_msg_timeout", IN_HTTP, MSEC(S, read_ms), .initial = "1s", .min = 1,
     .max = INT32_MAX,
     .doc = "Interval at which a worker reads the changes that other workers made to "
            "groups. A request that selects a group by a variable sees a change "
            "immediately."},
    {"dyups_read_msg_log", IN_HTTP, FLAG(S, logs_reads), .initial = "off",
     .doc = "Logs each change that a worker reads, at the level `notice`."},
    {"dyups_shm_zone_size", IN_HTTP, SIZE(S, zone_size), .initial = "2m",
     .doc = "Size of the shared memory for the texts of changed groups. Its contents "
            "survive a reload that does not change the size."},
    {"dyups_trylock", IN_HTTP, FLAG(S, trylock), .initial = "off",
     .doc = "Accepted and ignored: changes do not wait for a lock, so none is rejected with "
            "409."},
    {"dyups_upstream_conf", IN_HTTP, OBSOLETE, ARGS(1, 1), .syntax = "path",
     .doc = "Accepted and ignored: Tengine has not read this file since version 2.2."},
    {0},
};

static const struct directive interface_rows[] = {
    {"dyups_interface", IN_LOCATION, CUSTOM(interface_apply), ARGS(0, 2), .repeat = REPEAT_CUSTOM,
     .syntax = "[sync[=store]] [sync_interval=time]",
     .doc = "Provides an interface to groups of servers: GET /list, GET /detail and GET "
            "/upstream/NAME return them, POST /upstream/NAME changes one, where the body is "
            "the contents of an `upstream` block, and DELETE /upstream/NAME removes one. "
            "Requests that are passed to a group by a variable use the changed group. A "
            "client with access can direct requests to any address: restrict it with "
            "`allow`. With `sync` changes reach all nodes that share a `redis_store`."},
    {0},
};

static const struct directive_table table = {.key = &dyups_key,
                                             .rows = rows,
                                             .contexts = IN_HTTP,
                                             .size = sizeof(struct dyups_settings),
                                             .finish = dyups_finish};
static const struct directive_table interface_table = {.rows = interface_rows};
static const struct directive_table *const tables[] = {&table, &interface_table, NULL};
static const struct http_module hooks = {.end = end};

const struct module ngx_http_dyups_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_dyups_module",
    .kind = MODULE_HTTP,
    .tables = tables,
    .hooks = &hooks,
    .worker_start = dyups_worker_start,
    .worker_quit = dyups_worker_quit,
    .worker_abort = dyups_worker_quit,
    .worker_end = dyups_worker_end,
};
