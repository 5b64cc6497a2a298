/* What all requests of one client connection share: its making, its names, its end. */
#include "http/client/stages.h"

#include <stdlib.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "http/client/forwarded.h"
#include "http/client/guards.h"
#include "net/conn/own.h"
#include "server/generation.h"
#include "upstream/pinned.h"

/* Free http_connection structs, last in, first out. */
struct free_connection {
    struct free_connection *next;
};
static struct free_connection *free_connections;

static struct http_connection *connection_take(void)
{
    struct free_connection *first = free_connections;

    if (first != NULL) {
        free_connections = first->next;
        return memset(first, 0, sizeof(struct http_connection));
    }
    struct http_connection *connection = calloc(1, sizeof(*connection));
    if (connection == NULL) {
        fatal_no_memory(sizeof(*connection));
    }
    return connection;
}

static void give_back(struct http_connection *connection)
{
    struct free_connection *freed = (struct free_connection *) (void *) connection;

    connection->magic = 0;
    freed->next = free_connections;
    free_connections = freed;
}

struct http_connection *connection_on(const struct http_listen *listen, struct conn *conn,
                                      const struct http_protocol *protocol)
{
    struct http_connection *connection = connection_take();

    connection->magic = HTTP_CONNECTION_MAGIC;
    connection->conn = conn;
    conn->log = &((struct http_listen *) listen)->log;
    conn->listener = listen->address.listener;
    conn->user = connection;
    connection->listen = listen;
    connection->protocol = protocol;
    connection->last_location = listen->default_server->root;
    connection->start_ms = clock_now.now_ms;
    deferred_init(&connection->settle, connection_settle);
    counters_mine->active++;
    return connection;
}

void connection_leave_protocol(struct http_connection *connection)
{
    CHECK_MAGIC(connection, HTTP_CONNECTION_MAGIC);
    if (connection->wire_state != NULL) {
        connection->protocol->end(connection);
        connection->wire_state = NULL;
    }
}

struct request *connection_current(const struct http_connection *connection)
{
    bool takes_turns = connection->wire_state != NULL && connection->protocol->current != NULL;

    return takes_turns ? connection->protocol->current(connection) : NULL;
}

struct conn *connection_free(struct http_connection *connection)
{
    CHECK_MAGIC(connection, HTTP_CONNECTION_MAGIC);
    struct conn *conn = connection->conn;

    loop_undefer(&connection->settle);
    connection_leave_protocol(connection);
    if (connection->details != NULL) {
        pinned_end(connection->details->pinned);
        free(connection->details->proxy);
        free(connection->details);
    }
    give_back(connection);
    counters_mine->active--;
    return conn;
}

struct connection_details *connection_details(struct http_connection *connection)
{
    CHECK_MAGIC(connection, HTTP_CONNECTION_MAGIC);
    if (connection->details == NULL) {
        connection->details = calloc(1, sizeof(*connection->details));
        if (connection->details == NULL) {
            fatal_no_memory(sizeof(*connection->details));
        }
    }
    return connection->details;
}

struct str connection_address(struct http_connection *connection)
{
    struct connection_details *details = connection_details(connection);

    if (details->address_length == 0) {
        struct addr peer;

        conn_peer(connection->conn, &peer);
        if (peer.len == 0 || peer.any.sa_family == AF_UNIX) {
            memcpy(details->address, "unix:", 5);
            details->address_length = 5;
        } else {
            details->address_length = addr_format(&peer, false, details->address);
        }
    }
    return (struct str){details->address, details->address_length};
}

unsigned connection_ask_hops(struct http_connection *connection)
{
    unsigned hops = conn_hops(connection->conn);

    connection->hops_known = (uint8_t) (hops < UINT8_MAX ? hops + 1 : UINT8_MAX);
    return hops;
}

const struct addr *connection_local(struct http_connection *connection)
{
    if (!connection->listen->address.needs_local_address) {
        return &connection->listen->address.listener->addr;
    }
    struct connection_details *details = connection_details(connection);

    if (details->local.len == 0) {
        socklen_t len = sizeof(details->local) - offsetof(struct addr, any);

        if (getsockname(connection->conn->source.fd, &details->local.any, &len) == 0) {
            details->local.len = len;
        }
    }
    return &details->local;
}

void connection_set_local(struct http_connection *connection, const struct addr *local)
{
    CHECK_MAGIC(connection, HTTP_CONNECTION_MAGIC);
    connection_details(connection)->local = *local;
}

/* ", client: A, server: ADDR": what a line about a connection without a request ends with. */
static void describe_client(const struct log *log, struct writer *out)
{
    struct http_connection *connection = log->subject;
    struct str address = connection_address(connection);
    struct str server = connection->listen->address.listener->text;

    log_member(out, "client");
    writer_put(out, address);
    log_member(out, "server");
    writer_put(out, server);
}

void connection_log(const struct http_connection *connection, const char *action, struct log *out)
{
    *out = connection->listen->log;
    out->connection = conn_number(connection->conn);
    out->action = action;
    out->describe = describe_client;
    out->subject = (void *) connection;
}

/* ---- how often a client may do what costs more here than there ---- */

bool client_guard_count(struct client_guard *guard, const struct client_guard_limit *limit)
{
    uint32_t now_ms = (uint32_t) clock_now.now_ms;
    uint64_t forgiven = (uint64_t) (now_ms - guard->since_ms) * limit->rate / 1000;

    if (guard->count == 0) {
        guard->since_ms = now_ms;
    } else if (forgiven != 0) {
        guard->count -= guard->count < forgiven ? guard->count : (uint32_t) forgiven;
        guard->since_ms = now_ms;
    }
    return ++guard->count <= limit->burst;
}

void client_guard_report(const struct http_connection *connection, const char *action,
                         const char *what)
{
    struct log log;

    connection_log(connection, action, &log);
    log_error(&log, 0, "client sent too many %s", what);
    counters_mine->limited++;
}

/* ---- fields X-Forwarded-For ---- */

void forwarded_follow_all(const struct forwarded *forwarded, const struct fields *fields,
                          struct addr *client)
{
    for (uint32_t i = fields->count; i-- > 0;) {
        const struct field *field = &fields->items[i];

        if (field->id == FIELD_X_FORWARDED_FOR && !field->is_removed &&
            !forwarded_follow(forwarded, field->value, client)) {
            return;
        }
    }
}
