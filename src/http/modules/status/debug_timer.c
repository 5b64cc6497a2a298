/* ngx_http_debug_timer_module (Tengine's): the timers of the worker that handles the request. */
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "event/loop.h"
#include "http/request/request.h"
#include "http/routing/hooks.h"
#include "server/module.h"

#define BLOCKS_MOST 1000 /* timers that are listed individually */

struct page {
    struct buf blocks;
    unsigned count;
};

/* Writes one block. Overdue timers will fire in this turn. Memory addresses would help attackers,
 * so they are printed as zeros. */
static void add_timer(const struct timer *timer, void *arg)
{
    struct page *page = arg;
    uint64_t now_ms = clock_now.now_ms;

    if (page->count < BLOCKS_MOST) {
        buf_printf(&page->blocks,
                   "--------- [%u] --------\ntimers[i]: %016X\n    timer: %llu\n       ev: %016X\n"
                   "     data: %016X\n  handler: %016X\n   action: \n",
                   page->count, 0,
                   (unsigned long long) (timer->deadline_ms > now_ms ? timer->deadline_ms - now_ms
                                                                     : 0),
                   0, 0, 0);
    }
    page->count++;
}

static enum handler_result debug_timer_show(struct request *request)
{
    struct page page = {.count = 0};
    struct buf out = {0};

    if ((request->method & (METHOD_GET | METHOD_HEAD)) == 0) {
        return request_fail(request, 405);
    }
    timers_each(add_timer, &page);
    buf_printf(&out, "pid:%d\ntimer:%u\n", (int) getpid(), page.count);
    buf_append(&out, buf_str(&page.blocks));
    buf_free(&page.blocks);
    return response_gathered(request, 200, STR("text/plain"), &out);
}

static bool debug_timer_apply(struct conf_scope *scope, const struct directive *row,
                              struct conf_node *node, void *settings)
{
    content_set(scope_location(scope), debug_timer_show, NULL);
    return true;
}

static const struct directive debug_timer_rows[] = {
    {"debug_timer", IN_SERVER | IN_LOCATION, CUSTOM(debug_timer_apply), ARGS(0, 0),
     .doc = "Responds with the number of timers in the worker that handles the request, "
            "and the expiry of each of up to 1000."},
    {0},
};
static const struct http_module debug_timer_hooks = {.variables = NULL};

const struct module ngx_http_debug_timer_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_debug_timer_module",
    .kind = MODULE_HTTP,
    .table = {.rows = debug_timer_rows},
    .hooks = &debug_timer_hooks,
};
