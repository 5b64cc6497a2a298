/* ngx_http_debug_conn_module (Tengine's): the connections of the worker that handles the request,
 * to clients and to backends. */
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "http/client/connection.h"
#include "http/request/request.h"
#include "http/routing/hooks.h"
#include "net/conn/conn.h"
#include "net/shards/listener.h"
#include "net/tls/tls.h"
#include "server/generation.h"
#include "server/module.h"

#define BLOCKS_MOST 1000 /* connections that are listed individually */

struct page {
    const struct request *asking;
    struct buf blocks;
    unsigned count;
};

/* Writes one block. Addresses of functions would help attackers, so handlers have none. */
static void begin_block(struct page *page, int fd, struct str addr, uint64_t sent)
{
    buf_printf(
        &page->blocks,
        "--------- [%u] --------\nconns[i]: %u\n      fd: %d\n    addr: %.*s\n    sent: %llu\n",
        page->count, page->count - 1, fd, STR_ARG(addr), (unsigned long long) sent);
}

static void end_block(struct page *page, const char *action, unsigned requests)
{
    buf_printf(&page->blocks,
               "  action: %s\n handler: r:%016X w:%016X\nrequests: %u\npoolsize: %u\n", action, 0,
               0, requests, 0);
}

static void put_request(struct page *page, const struct request *request)
{
    buf_printf(&page->blocks,
               "********* request ******\n     uri: %s://%.*s%.*s\n handler: r:%016X w:%016X\n"
               "startsec: %lld\npoolsize: %zu\n",
               request_is_encrypted(request) ? "https" : "http", STR_ARG(request->head.host),
               STR_ARG(request->uri), 0, 0,
               (long long) clock_now.seconds -
                   (long long) (clock_now.now_ms - request->start_ms) / 1000,
               request->arena.used);
}

/* The connection as one of an HTTP client; NULL: it is another one. */
static const struct http_connection *http_of(const struct conn *conn)
{
    const struct http_connection *connection = conn->user;

    return conn->listener != NULL && connection != NULL &&
                   connection->magic == HTTP_CONNECTION_MAGIC
               ? connection
               : NULL;
}

static void add_connection(struct conn *conn, void *arg)
{
    struct page *page = arg;
    const struct http_connection *connection = http_of(conn);
    struct addr peer = {.len = 0};
    char text[ADDR_TEXT_MAX];

    if (page->count++ >= BLOCKS_MOST) {
        return;
    }
    conn_peer(conn, &peer);
    size_t length = addr_format(&peer, conn->listener == NULL, text);
    begin_block(page, conn->source.fd, (struct str){text, length}, conn->sent);
    const char *action = conn->is_idle            ? "keepalive"
                         : conn->listener == NULL ? "(null: backend)"
                         : conn->log->action      ? conn->log->action
                                                  : "(null)";
    end_block(page, action, connection == NULL ? 0 : connection->requests);
    const struct request *current = connection == NULL ? NULL
                                    : page->asking->connection == connection
                                        ? page->asking
                                        : connection_current(connection);
    if (current != NULL) {
        put_request(page, current);
    }
}

static void add_listeners(struct page *page)
{
    for (const struct listener *listener = generation_now->listeners; listener != NULL;
         listener = listener->next) {
        page->count++;
        begin_block(page, listener->shards == NULL ? -1 : shard_fd(listener->shards, worker_slot),
                    listener->text, 0);
        end_block(page, "(null: listening)", 0);
    }
}

static enum handler_result debug_conn_show(struct request *request)
{
    struct page page = {.asking = request};
    struct buf out = {0};

    if ((request->method & (METHOD_GET | METHOD_HEAD)) == 0) {
        return request_fail(request, 405);
    }
    add_listeners(&page);
    conn_each(add_connection, &page);
    buf_printf(&out, "pid:%d\nconnections:%u\n", (int) getpid(), page.count);
    buf_append(&out, buf_str(&page.blocks));
    buf_free(&page.blocks);
    return response_gathered(request, 200, STR("text/plain"), &out);
}

static bool debug_conn_apply(struct conf_scope *scope, const struct directive *row,
                             struct conf_node *node, void *settings)
{
    content_set(scope_location(scope), debug_conn_show, NULL);
    return true;
}

static const struct directive debug_conn_rows[] = {
    {"debug_conn", IN_SERVER | IN_LOCATION, CUSTOM(debug_conn_apply), ARGS(0, 0),
     .doc = "Responds with the number of connections of the worker that handles the "
            "request, including listening sockets, and a block for each of up to 1000: its "
            "descriptor, address, bytes sent, state, number of requests, and the current "
            "request."},
    {0},
};
static const struct http_module debug_conn_hooks = {.variables = NULL};

const struct module ngx_http_debug_conn_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_debug_conn_module",
    .kind = MODULE_HTTP,
    .table = {.rows = debug_conn_rows},
    .hooks = &debug_conn_hooks,
};
