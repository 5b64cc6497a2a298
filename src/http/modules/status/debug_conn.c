/* ngx_http_debug_conn_module (Tengine's): the connections of the worker that answers, to clients and to backends. */
#include <unistd.h>

#include "base/buf.h"
#include "http/request/request.h"
#include "http/routing/hooks.h"
#include "net/conn/conn.h"
#include "server/module.h"

#define LINES_MOST 1000 /* connections that are listed one by one */

struct page {
    struct buf lines;
    unsigned count;
};

static void add_connection(struct conn *conn, void *arg)
{
    struct page *page = arg;
    struct addr peer = {.len = 0};
    char text[ADDR_TEXT_MAX];

    if (page->count++ >= LINES_MOST) {
        return;
    }
    conn_peer(conn, &peer);
    size_t length = addr_format(&peer, true, text);
    buf_printf(&page->lines, "*%llu %s %.*s%s%s sent:%llu queued:%llu unread:%u\n",
               (unsigned long long) conn->number_high << 32 | conn->number_low,
               conn->listener == NULL ? "backend" : "client", (int) length, text,
               conn->transport == NULL ? "" : " tls", conn->is_idle ? " idle" : "",
               (unsigned long long) conn->sent, (unsigned long long) (conn->queued - conn->sent),
               conn->in_end - conn->in_start);
}

static enum flow show(struct request *request)
{
    struct page page = {.count = 0};
    struct buf out = {0};

    if ((request->method & (METHOD_GET | METHOD_HEAD)) == 0) {
        return request_fail(request, 405);
    }
    conn_each(add_connection, &page);
    buf_printf(&out, "pid:%d\nconnections:%u\n", (int) getpid(), page.count);
    buf_append(&out, buf_str(&page.lines));
    buf_free(&page.lines);
    return response_gathered(request, STR("text/plain"), &out);
}

static bool debug_conn_apply(struct conf_scope *scope, const struct directive *row,
                             struct conf_node *node, void *settings)
{
    content_set(scope_location(scope), show, NULL);
    return true;
}

static const struct directive debug_conn_rows[] = {
    {"debug_conn", IN_SERVER | IN_LOCATION, CUSTOM(debug_conn_apply), ARGS(0, 0),
     .doc =
         "Answers with the number of connections of the worker that answers, and a line for each, up to 1000: its number in the log, its other "
         "end, bytes sent, waiting to be sent, and received but not read."},
    {0},
};
static const struct directive_table debug_conn_table = {.rows = debug_conn_rows};
static const struct directive_table *const debug_conn_tables[] = {&debug_conn_table, NULL};
static const struct http_module debug_conn_hooks = {.variables = NULL};

const struct module ngx_http_debug_conn_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_debug_conn_module",
    .kind = MODULE_HTTP,
    .tables = debug_conn_tables,
    .hooks = &debug_conn_hooks,
};
