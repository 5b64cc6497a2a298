/* Connections between requests: they are kept without buffers, and pass to the next worker on a
 * reload. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fatal.h"
#include "base/clock.h"
#include "http/client/stages.h"
#include "http/routing/connection_settings.h"
#include "server/generation.h"

#define SETTLED_MS 1000 /* between two times that a connection is given to a sibling */
#define LATELY_MS 100   /* since it was busy: others are no load */

/* What goes with a descriptor to the next generation's worker. */
struct handover_state {
    uint32_t requests;
    uint32_t number_low; /* of the connection, in logs */
    uint32_t number_high;
    uint32_t left_ms; /* until keepalive_timeout, which is a location's; 0 = not said */
    uint64_t start_ms;
};

bool connection_can_hand_over(const struct http_connection *connection)
{
    return handover_now != NULL && connection->conn->transport == NULL &&
           !connection->listen->address.is_proxy_protocol &&
           handover_now->takes(handover_now, connection->listen->address.listener);
}

static uint32_t left_ms(const struct http_connection *connection)
{
    uint64_t left = connection->last_location->connections->keepalive_timeout_ms;

    if (connection->conn->is_idle) {
        uint64_t deadline_ms = connection->conn->timer.deadline_ms;

        left = deadline_ms > clock_now.now_ms ? deadline_ms - clock_now.now_ms : 1;
    }
    return left < UINT32_MAX ? (uint32_t) left : UINT32_MAX;
}

/* Gives an idle connection to another worker. True: it is gone from here. */
static bool give_to(struct http_connection *connection, struct handover *to)
{
    const struct conn *conn = connection->conn;
    struct handover_state state = {.requests = connection->requests,
                                   .number_low = conn->number_low,
                                   .number_high = conn->number_high,
                                   .left_ms = left_ms(connection),
                                   .start_ms = connection->start_ms};
    int copy = fcntl(conn->source.fd, F_DUPFD_CLOEXEC, 0);

    if (copy == -1) {
        return false;
    }
    if (!to->send(to, connection->listen->address.listener, copy, &state, sizeof(state))) {
        close(copy);
        return false;
    }
    event_remove(&connection->conn->source); /* the connection lives on over there */
    connection_close(connection);            /* closes the descriptor of this process only */
    return true;
}

/* Passes an idle connection to the new worker of this slot. True: it is gone from here. */
static bool hand_over(struct http_connection *connection)
{
    return connection_can_hand_over(connection) && give_to(connection, handover_now);
}

/* Was it busy of late, and did it not come from a sibling just now? */
static bool is_worth_giving(const struct http_connection *connection)
{
    const struct conn *conn = connection->conn;
    uint64_t idle_since_ms =
        conn->timer.deadline_ms - connection->last_location->connections->keepalive_timeout_ms;

    return clock_now.now_ms - idle_since_ms < LATELY_MS &&
           (conn->handed_over_ms == 0 ||
            (uint32_t) clock_now.now_ms - conn->handed_over_ms >= SETTLED_MS);
}

bool idle_hand_over(struct conn *conn, struct handover *to)
{
    struct http_connection *connection = conn->user;

    return connection->stage == STAGE_IDLE && connection->requests != 0 &&
           conn->transport == NULL && conn_input_len(conn) == 0 && connection->details == NULL &&
           !connection->listen->address.is_proxy_protocol && is_worth_giving(connection) &&
           give_to(connection, to);
}

/* keepalive_min_timeout: is the connection still to get a last answer although the worker quits? */
static bool is_too_young(const struct http_connection *connection)
{
    return clock_now.now_ms - connection->start_ms <
           connection->last_location->connections->keepalive_min_timeout_ms;
}

void idle_quit(struct http_connection *connection)
{
    CHECK_MAGIC(connection, HTTP_CONNECTION_MAGIC);
    struct conn *conn = connection->conn;

    if (!conn->is_idle || conn_input_len(conn) != 0 || connection->requests == 0) {
        return; /* a client that has just connected is about to speak */
    }
    if (hand_over(connection) || worker_is_replaced) {
        return;
    }
    if (is_too_young(connection)) {
        conn_set_deadline(conn,
                          connection->start_ms +
                              connection->last_location->connections->keepalive_min_timeout_ms);
    } else {
        connection_close(connection);
    }
}

void connection_go_idle(struct http_connection *connection)
{
    CHECK_MAGIC(connection, HTTP_CONNECTION_MAGIC);
    struct conn *conn = connection->conn;

    if (worker_is_quitting && connection->requests != 0) {
        if (hand_over(connection)) {
            return;
        }
        if (!worker_is_replaced && !is_too_young(connection)) {
            connection_close(connection);
            return;
        }
    }
    connection->stage = STAGE_IDLE; /* the loop tells the protocol still */
    if (connection->details != NULL && connection->details->proxy == NULL &&
        connection->details->pinned == NULL) {
        free(connection->details);
        connection->details = NULL;
    }
    conn_set_deadline(conn,
                      clock_now.now_ms +
                          (connection->requests == 0
                               ? connection_server(connection)->client_header_timeout_ms
                               : connection->last_location->connections->keepalive_timeout_ms));
    if (!conn_park(conn)) {
        connection_close(connection);
    }
}

void idle_resume(struct http_connection *connection, const void *state, size_t size)
{
    CHECK_MAGIC(connection, HTTP_CONNECTION_MAGIC);
    struct conn *conn = connection->conn;
    uint32_t life = conn->life;
    uint64_t timeout_ms = 0;

    if (size == sizeof(struct handover_state)) {
        struct handover_state from;
        memcpy(&from, state, sizeof(from));
        connection->requests = from.requests;
        connection->start_ms = from.start_ms;
        connection->conn->number_low = from.number_low;
        connection->conn->number_high = from.number_high;
        connection->conn->handed_over_ms = (uint32_t) clock_now.now_ms | 1;
        timeout_ms = from.left_ms;
    }
    connection_go_idle(connection);
    if (timeout_ms != 0 && conn->life == life && conn->is_idle) {
        conn_set_deadline(conn, clock_now.now_ms + timeout_ms);
    }
}
