/* ngx_http_slowfs_module: rows, variable, hooks. */
#include "http/exchange/cache/purge.h"
#include "http/modules/content/slowfs/slowfs.h"
#include "http/request/temp_file.h"
#include "http/routing/hooks.h"
#include "http/variables/variables.h"
#include "server/module.h"

struct settings_key slowfs_key;

static struct offload_shares shares;
const struct offload_pool slowfs_pool = {
    .name = STR_INIT("slowfs"),
    .waiting = "files wait to be read from slow storage",
    .threads = 16,
    .queue = 4096,
    .shares = &shares,
    .may_stall = true,
};

static bool cache_apply(struct conf_scope *scope, const struct directive *row,
                        struct conf_node *node, void *settings)
{
    struct slowfs_settings *own = settings;

    own->cache = NULL;
    if (str_is(node->args[1], "off")) {
        return true;
    }
    own->cache = cache_use(scope->conf, node, node->args[1]);
    return own->cache != NULL;
}

static bool valid_apply(struct conf_scope *scope, const struct directive *row,
                        struct conf_node *node, void *settings)
{
    return cache_valid_read(scope, node, &((struct slowfs_settings *) settings)->valid);
}

static bool temp_path_apply(struct conf_scope *scope, const struct directive *row,
                            struct conf_node *node, void *settings)
{
    return temp_path_read(scope, node, &((struct slowfs_settings *) settings)->temp_path);
}

static bool purge_apply(struct conf_scope *scope, const struct directive *row,
                        struct conf_node *node, void *settings)
{
    return purge_place_read(scope, node, slowfs_key_of);
}

static bool slowfs_finish(struct conf_scope *scope, void *settings)
{
    const struct slowfs_settings *own = settings;

    if (own->cache != NULL && own->valid.count == 0 && scope->context != IN_HTTP) {
        conf_warn(scope->conf, scope->node,
                  "nothing is kept: no \"slowfs_cache_valid\" for \"slowfs_cache\"");
    }
    return true;
}

#define S struct slowfs_settings
static const struct directive slowfs_rows[] = {
    {"slowfs_cache", IN_HTTP_ALL, CUSTOM_FIELD(S, cache, cache_apply), ARGS(1, 1),
     .syntax = "zone | off",
     .doc = "Zone that keeps copies of the location's files, for files on slow storage."},
    {"slowfs_cache_key", IN_HTTP_ALL, TEMPLATE(S, key),
     .doc = "Key of a copy; by default, the path of the file."},
    {"slowfs_cache_path", IN_HTTP, CUSTOM(cache_path_apply), ARGS(2, ARGS_ANY),
     .repeat = REPEAT_CUSTOM,
     .syntax = "path [levels=levels] keys_zone=name:size [inactive=time] [max_size=size]",
     .doc = "Directory for copies, on fast storage, and the zone with its index. The other "
            "parameters of *_cache_path are accepted, too."},
    {"slowfs_cache_min_uses", IN_HTTP_ALL, NUMBER(S, min_uses), .initial = "1",
     .doc = "Number of requests for a file after which it is copied."},
    {"slowfs_cache_valid", IN_HTTP_ALL, CUSTOM_FIELD(S, valid, valid_apply), ARGS(1, ARGS_ANY),
     .repeat = REPEAT_APPEND, .syntax = "[code ...] time",
     .doc = "Time for which a copy is used without checking the file: for files (200), "
            "redirects to directories (301), and files that may not be read or do not "
            "exist (403, 404)."},
    {"slowfs_cache_purge", IN_LOCATION, CUSTOM(purge_apply), ARGS(2, 2), .syntax = "zone key",
     .doc = "Each request to this location removes the copy with the key from the zone. If "
            "the key ends with an asterisk, all copies with this prefix are removed."},
    {"slowfs_big_file_size", IN_HTTP_ALL, SIZE(S, big_file_size), .initial = "128k",
     .doc = "For files larger than this, the first request does not wait for the copy: the "
            "file itself is sent while the copy is made."},
    {"slowfs_temp_path", IN_HTTP_ALL, CUSTOM_FIELD(S, temp_path, temp_path_apply), ARGS(1, 4),
     .syntax = "path [level1 [level2 [level3]]]",
     .doc = "Directory for incomplete copies; by default, they are next to their final "
            "path in the cache."},
    {0},
};
#undef S

static bool slowfs_get_status(struct variable_env *env, const struct variable *variable,
                              struct str *out)
{
    struct str status = slowfs_status(variable_request(env));

    return status.len != 0 && variable_give(out, status);
}

static const struct variable slowfs_variables[] = {
    {.name = STR_INIT("slowfs_cache_status"),
     .doc = "Result of the cache lookup: HIT, MISS or EXPIRED.",
     .get = slowfs_get_status,
     .flags = VARIABLE_VOLATILE},
    {.name = {NULL, 0}},
};

static const struct phase_hook slowfs_phases[] = {
    {PHASE_CONTENT, .name = "slowfs", .run = slowfs_answer,
     .when = SETTING(slowfs_key, struct slowfs_settings, cache)},
    {.run = NULL},
};

static void quit(struct generation *generation)
{
    slowfs_copies_end(generation);
}

static const struct http_module slowfs_hooks = {
    .variables = slowfs_variables,
    .phases = slowfs_phases,
};

const struct module ngx_http_slowfs_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_slowfs_module",
    .kind = MODULE_HTTP,
    .table = {.key = &slowfs_key,
              .rows = slowfs_rows,
              .contexts = IN_HTTP_LOCATION_SETTINGS,
              .size = sizeof(struct slowfs_settings),
              .finish = slowfs_finish},
    .hooks = &slowfs_hooks,
    .worker_quit = quit,
    .worker_abort = quit,
};
