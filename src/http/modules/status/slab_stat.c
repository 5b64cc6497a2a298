/* ngx_http_slab_stat_module (Tengine's): the use of shared memory zones. */
#include "base/buf.h"
#include "http/request/request.h"
#include "http/routing/hooks.h"
#include "server/generation.h"
#include "server/module.h"

/* Offsets are relative to the beginning of the zone: addresses would only help attackers. */
static void write_zone(struct buf *out, const struct zone *zone)
{
    struct slab_stats stats;
    unsigned long long page_kb;

    slab_stats_of(zone->slab, &stats);
    page_kb = stats.page_size / 1024;
    buf_printf(out, "* shared memory: %.*s\n", STR_ARG(zone->name));
    buf_printf(out, "total:%12llu(KB) free:%12llu(KB) size:%12llu(KB)\n",
               (unsigned long long) zone->size / 1024, stats.free_pages * page_kb, page_kb);
    buf_printf(out, "pages:%12llu(KB) start:%016zX end:%016zX\n", stats.pages * page_kb,
               stats.start, stats.end);
    for (unsigned i = 0; i < SLAB_CLASSES; i++) {
        const struct slab_class *class = &stats.classes[i];

        buf_printf(out, "slot:%12zu(Bytes) total:%12llu used:%12llu reqs:%12llu fails:%12llu\n",
                   class->size, (unsigned long long) class->total, (unsigned long long) class->used,
                   (unsigned long long) class->requests, (unsigned long long) class->failed);
    }
}

static enum handler_result slab_stat_show(struct request *request)
{
    struct buf out = {0};

    if ((request->method & (METHOD_GET | METHOD_HEAD)) == 0) {
        return request_fail(request, 405);
    }
    for (const struct zone *zone = generation_now->zones; zone != NULL; zone = zone->next) {
        if (zone->slab != NULL) {
            write_zone(&out, zone);
        }
    }
    return response_gathered(request, 200, STR("text/plain"), &out);
}

static bool slab_stat_apply(struct conf_scope *scope, const struct directive *row,
                            struct conf_node *node, void *settings)
{
    content_set(scope_location(scope), slab_stat_show, NULL);
    return true;
}

static const struct directive slab_stat_rows[] = {
    {"slab_stat", IN_SERVER | IN_LOCATION, CUSTOM(slab_stat_apply), ARGS(0, 0),
     .doc = "Responds with statistics of shared memory zones: their size, free pages, and "
            "the allocations of each size class."},
    {0},
};
static const struct http_module slab_stat_hooks = {.variables = NULL};

const struct module ngx_http_slab_stat_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_slab_stat_module",
    .kind = MODULE_HTTP,
    .table = {.rows = slab_stat_rows},
    .hooks = &slab_stat_hooks,
};
