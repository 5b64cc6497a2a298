/* A tunnel: after 101 or an accepted CONNECT bytes go both ways, unread, until both sides have
 * ended. Where the client's bytes have no frames around them a relay carries them, and the request
 * continues without a fiber. */
#include <errno.h>

#include "base/fatal.h"
#include "http/exchange/tunnel.h"
#include "http/request/engine.h"
#include "http/request/wire.h"
#include "http/routing/connection_settings.h"
#include "net/relay/relay.h"

#define TUNNEL_MAGIC 0x70221e00u

/* A tunnel by a relay; in the request's arena. */
struct tunnel {
    uint32_t magic;
    bool is_detached; /* the request's fiber has left: it ends with the relay */
    struct exchange *x;
    const struct conn_owner *backend_owner; /* of the connection, to be put back */
    struct relay relay;
};

/* ---- the end ---- */

void tunnel_tell_timeout(struct exchange *x)
{
    if (x->protocol->timed_out != NULL) {
        x->protocol->timed_out(x, true);
    } else {
        log_error(&x->request->log, ETIMEDOUT, "upstream timed out");
    }
}

/* The backend has done its part. */
static void leave_backend(struct exchange *x)
{
    attempt_end(x, 0);
    exchange_leave_connection(x, false);
    upstream_pick_done(&x->pick, PEER_SERVED);
    x->request->response.progress = RESPONSE_COMPLETE;
}

static void relay_has_ended(struct relay *relay, enum relay_why why, enum relay_end side)
{
    struct tunnel *tunnel = container_of(relay, struct tunnel, relay);
    struct exchange *x = tunnel->x;
    struct request *request = x->request;
    struct conn *backend = x->connection->conn;

    backend->owner = tunnel->backend_owner;
    backend->user = x->connection;
    request->tunnel_received += relay->sides[RELAY_CLIENT].received;
    x->attempt->bytes_received += relay->sides[RELAY_BACKEND].received;
    /* Bytes of a tunnel, which are no response body. */
    x->body_received += relay->sides[RELAY_BACKEND].received;
    if (x->tunnel_byte_ms == 0) {
        x->tunnel_byte_ms = relay->sides[RELAY_BACKEND].first_ms;
    }
    if (why == RELAY_TIMED_OUT) {
        tunnel_tell_timeout(x);
    }
    request->log.action = NULL;
    request->tunnel = NULL;
    if (tunnel->is_detached) {
        leave_backend(x);
        upstream_pick_end(&x->pick);
        request_resume(request);
    }
}

/* ---- what the loop tells ---- */

static void backend_moves(struct conn *conn)
{
    struct tunnel *tunnel = conn->user;

    CHECK_MAGIC(tunnel, TUNNEL_MAGIC);
    relay_move(&tunnel->relay);
}

static void backend_is_due(struct conn *conn)
{
    struct tunnel *tunnel = conn->user;

    CHECK_MAGIC(tunnel, TUNNEL_MAGIC);
    relay_check_time(&tunnel->relay);
}

static const struct conn_owner backend_owner = {.input = backend_moves,
                                                .drained = backend_moves,
                                                .timed_out = backend_is_due};

static void client_moves(struct request *request)
{
    relay_move(&request->exchange->tunnel->relay);
}

static void client_is_due(struct request *request)
{
    relay_check_time(&request->exchange->tunnel->relay);
}

static void client_is_gone(struct request *request)
{
    relay_abort(&request->exchange->tunnel->relay);
}

static const struct request_tunnel client_owner = {client_moves, client_is_due, client_is_gone};

/* ---- the beginning ---- */

/* True: the relay continues, without this fiber. */
static bool start_relay(struct exchange *x)
{
    struct request *request = x->request;
    struct tunnel *tunnel = arena_new(&request->arena, struct tunnel);
    struct conn *backend = x->connection->conn;

    if (!request->incoming.is_read) {
        request_keep_head(request);
        request->incoming.is_read = true;
    }
    *tunnel = (struct tunnel){
        .magic = TUNNEL_MAGIC,
        .x = x,
        .backend_owner = backend->owner,
        .relay = {.timeout_ms = x->settings->read_timeout_ms,
                  .ended = relay_has_ended,
                  .sides = {[RELAY_CLIENT] = {.conn = request->wire->bare(request),
                                              .stall_timeout_ms =
                                                  request->location->connections->send_timeout_ms,
                                              .is_half_close_on = 1},
                            [RELAY_BACKEND] = {.conn = backend,
                                               .stall_timeout_ms = x->settings->send_timeout_ms}}},
    };
    x->tunnel = tunnel;
    /* What lies in its buffer was counted when it was read. */
    x->attempt->bytes_received -= conn_input_len(backend);
    backend->owner = &backend_owner;
    backend->user = tunnel;
    request->tunnel = &client_owner;
    relay_start(&tunnel->relay);
    tunnel->is_detached = request->tunnel != NULL;
    return tunnel->is_detached;
}

/* Both ways. HANDLER_NEXT: it is over; HANDLER_DONE: it continues without this fiber. MAY WAIT. */
static enum handler_result carry(struct exchange *x)
{
    x->request->log.action = "proxying upgraded connection";
    conn_set_nodelay(x->connection->conn, true);
    if (tunnel_is_framed(x->request)) {
        return tunnel_pump(x) ? HANDLER_NEXT : HANDLER_CLOSED;
    }
    return tunnel_await_body(x) && start_relay(x) ? HANDLER_DONE : HANDLER_NEXT;
}

enum handler_result tunnel_relay(struct exchange *x)
{
    struct request *request = x->request;

    if (request != request->main) {
        exchange_log(x, LOG_ERROR, 0, "upstream switched protocols in a subrequest");
        return request_fail(request, 502);
    }
    if (upload_is_under_way(x)) {
        request->incoming.is_streamed = true;
    } else {
        request_keep_head(request);
        request->incoming.is_read = true;
    }
    request->keepalive = false;
    request->response.framing = FRAMING_TUNNEL;
    request->response.raw_head = x->response.raw_head;
    request->response.content_length = -1;
    enum handler_result result = response_start(request);
    if (result != HANDLER_NEXT && result != HANDLER_DONE) {
        return result;
    }
    request_flush(request);
    /* Any response but these says that there is no tunnel (RFC 9110, 9.3.6). */
    result = request->response.status < 300 ? carry(x) : HANDLER_NEXT;
    if (result != HANDLER_NEXT) {
        return result;
    }
    if (tunnel_is_framed(request) && !request->wire->send_body(request, NULL, true)) {
        request->is_cancelled = true;
    }
    leave_backend(x);
    return HANDLER_DONE;
}
