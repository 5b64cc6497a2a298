/* Connections between requests: they are kept without buffers, and pass to the next worker on a reload. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "http/client/stages.h"
#include "server/generation.h"

/* What goes with a descriptor to the next generation's worker. */
struct handover_state {
    uint32_t requests;
    uint64_t start_ms;
};

bool connection_can_hand_over(const struct http_connection *http)
{
    return handover_now != NULL && http->conn->transport == NULL &&
           !http->listen->address.is_proxy_protocol &&
           handover_now->takes(handover_now, http->listen->address.listener);
}

/* Passes an idle connection to the new worker of this slot. True: it is gone from here. */
static bool hand_over(struct http_connection *http)
{
    struct handover_state state = {http->requests, http->start_ms};
    struct listener *listener = http->listen->address.listener;

    if (!connection_can_hand_over(http)) {
        return false;
    }
    int copy = fcntl(http->conn->source.fd, F_DUPFD_CLOEXEC, 0);
    if (copy == -1) {
        return false;
    }
    if (!handover_now->send(handover_now, listener, copy, &state, sizeof(state))) {
        close(copy);
        return false;
    }
    event_remove(&http->conn->source); /* the connection lives on over there … */
    connection_close(http);            /* … this is our descriptor of it */
    return true;
}

/* keepalive_min_timeout: is the connection still to get a last answer although the worker quits? */
static bool is_too_young(const struct http_connection *http)
{
    return clock_now.now_ms - http->start_ms < http->rest_location->keepalive_min_timeout_ms;
}

void idle_quit(struct http_connection *http)
{
    struct conn *conn = http->conn;

    if (!conn->is_idle || conn_input(conn).len != 0 || http->requests == 0) {
        return; /* a client that has just connected is about to speak */
    }
    if (hand_over(http) || worker_is_replaced) {
        return;
    }
    if (is_too_young(http)) {
        conn_set_deadline(conn, http->start_ms + http->rest_location->keepalive_min_timeout_ms);
    } else {
        connection_close(http);
    }
}

void connection_go_idle(struct http_connection *http)
{
    struct conn *conn = http->conn;
    const struct http_location *location = http->rest_location;

    if (worker_is_quitting && http->requests != 0) {
        if (hand_over(http)) {
            return;
        }
        if (!worker_is_replaced && !is_too_young(http)) {
            connection_close(http);
            return;
        }
    }
    http->stage = STAGE_IDLE; /* the loop tells the protocol still */
    if (http->details != NULL && http->details->proxy == NULL && http->details->tie == NULL) {
        free(http->details);
        http->details = NULL;
    }
    conn_set_deadline(conn,
                      clock_now.now_ms + (http->requests == 0
                                              ? connection_server(http)->client_header_timeout_ms
                                              : location->keepalive_timeout_ms));
    if (!conn_park(conn)) {
        connection_close(http);
    }
}

void idle_resume(struct http_connection *http, const void *state, size_t size)
{
    if (size == sizeof(struct handover_state)) {
        struct handover_state from;
        memcpy(&from, state, sizeof(from));
        http->requests = from.requests;
        http->start_ms = from.start_ms;
    }
    connection_go_idle(http);
}
