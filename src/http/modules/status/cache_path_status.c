/* ngx_cache_path_status_module: a page with the size and use of caches. */
#include "base/buf.h"
#include "cache/cache.h"
#include "http/request/request.h"
#include "http/routing/hooks.h"
#include "server/generation.h"
#include "server/module.h"

static void write_cache(const struct cache *cache, void *arg)
{
    struct buf *out = arg;
    struct cache_stats stats;

    cache_stats_of(cache, &stats);
    buf_printf(out, "zone: %.*s\npath: %.*s\nsize: %llu\n", STR_ARG(cache->name),
               STR_ARG(cache->path->name), (unsigned long long) stats.bytes);
    if (stats.max_size == INT64_MAX) {
        buf_printf(out, "max_size: off\n");
    } else {
        buf_printf(out, "max_size: %lld\n", (long long) stats.max_size);
    }
    buf_printf(out, "entries: %llu\nstate: %s\n\n", (unsigned long long) stats.entries,
               stats.is_cold ? "cold" : "warm");
}

static enum handler_result cache_path_status_show(struct request *request)
{
    struct buf out = {0};

    if ((request->method & (METHOD_GET | METHOD_HEAD)) == 0) {
        return request_fail(request, 405);
    }
    cache_each(generation_now, write_cache, &out);
    return response_gathered(request, 200, STR("text/plain"), &out);
}

static bool status_apply(struct conf_scope *scope, const struct directive *row,
                         struct conf_node *node, void *settings)
{
    content_set(scope_location(scope), cache_path_status_show, NULL);
    return true;
}

static const struct directive status_rows[] = {
    {"cache_path_status", IN_LOCATION, CUSTOM(status_apply), ARGS(0, 0),
     .doc = "Responds with the state of each *_cache_path: its zone and directory, bytes "
            "on disk, the size limit, the number of entries, and whether the directory has "
            "been read completely since the start (warm) or not yet (cold)."},
    {0},
};
static const struct http_module status_hooks = {.variables = NULL};

const struct module ngx_cache_path_status_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_cache_path_status_module",
    .kind = MODULE_HTTP,
    .table = {.rows = status_rows},
    .hooks = &status_hooks,
};
