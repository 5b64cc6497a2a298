/* ngx_http_debug_pool_module (Tengine's): the memory of arenas in the worker that handles the
 * request. */
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "http/request/request.h"
#include "http/routing/hooks.h"
#include "server/module.h"

/* A line in Tengine's format. */
struct line {
    uint64_t bytes;
    uint64_t taken; /* in total so far */
    uint64_t used;  /* now */
    uint64_t large; /* bytes of that in large allocations */
};

static void put_line(struct buf *out, const struct line *line, const char *name)
{
    buf_printf(out, "size:%12llu num:%12llu cnum:%12llu lnum:%12llu %s\n",
               (unsigned long long) line->bytes, (unsigned long long) line->taken,
               (unsigned long long) line->used, (unsigned long long) line->large, name);
}

static void put_lines(struct buf *out, const struct arena_stats *stats)
{
    const struct line lines[] = {
        {(uint64_t) stats->blocks * ARENA_BLOCK_SIZE, stats->blocks_taken, stats->blocks, 0},
        {stats->large_bytes, stats->large_taken, stats->large, stats->large},
        {(uint64_t) stats->free_blocks * ARENA_BLOCK_SIZE, 0, stats->free_blocks, 0},
    };
    static const char *const names[] = {"blocks", "large pieces", "free blocks"};
    struct line sum = {0};

    for (unsigned i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        sum = (struct line){sum.bytes + lines[i].bytes, sum.taken + lines[i].taken,
                            sum.used + lines[i].used, sum.large + lines[i].large};
        put_line(out, &lines[i], names[i]);
    }
    put_line(out, &sum, "[SUMMARY]");
}

static enum handler_result debug_pool_show(struct request *request)
{
    struct buf out = {0};
    struct arena_stats stats;

    if ((request->method & (METHOD_GET | METHOD_HEAD)) == 0) {
        return request_fail(request, 405);
    }
    arena_stats_of(&stats);
    buf_printf(&out, "pid:%d\n", (int) getpid());
    put_lines(&out, &stats);
    return response_gathered(request, 200, STR("text/plain"), &out);
}

static bool debug_pool_apply(struct conf_scope *scope, const struct directive *row,
                             struct conf_node *node, void *settings)
{
    content_set(scope_location(scope), debug_pool_show, NULL);
    return true;
}

static const struct directive debug_pool_rows[] = {
    {"debug_pool", IN_SERVER | IN_LOCATION, CUSTOM(debug_pool_apply), ARGS(0, 0),
     .doc = "Responds with the arena memory of the worker that handles the request, "
            "including its configuration: bytes, the number of allocations so far, the "
            "number in use, and the number of large ones. Memory outside of arenas is not "
            "included."},
    {0},
};
static const struct http_module debug_pool_hooks = {.variables = NULL};

const struct module ngx_http_debug_pool_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_debug_pool_module",
    .kind = MODULE_HTTP,
    .table = {.rows = debug_pool_rows},
    .hooks = &debug_pool_hooks,
};
