/* A tunnel: after 101 or an accepted CONNECT bytes go both ways, unread, until both sides have ended. What is left of the
 * request's body goes first, as it was announced. */
#include <errno.h>

#include "base/clock.h"
#include "http/client/connection.h"
#include "http/exchange/internal.h"
#include "http/request/engine.h"
#include "http/request/wire.h"

/* More bytes than this on their way to one side, and the other is not read. */
#define UNSENT_MAX (64 * 1024)
#define READ_SIZE (16 * 1024)

/* Both directions; on the stack of the request's fiber. */
struct tunnel {
    struct exchange *x;
    struct fiber_handle upward; /* the fiber from client to backend */
    uint64_t active_ms;         /* a byte went either way then */
    bool is_over;               /* one direction has broken off: the other is not to go on */
};

/* Waits for room towards a side. False: it broke, does not read, or the tunnel is over. MAY WAIT. */
static bool wait_for_room(struct conn *conn, uint64_t timeout_ms)
{
    conn_flush(conn);
    if (conn_unsent(conn) < UNSENT_MAX) {
        return !conn->is_broken;
    }
    return conn_wait_sent(conn, UNSENT_MAX / 2, timeout_ms) == WAIT_READY;
}

/* Is the client's connection shared by several requests, so that their bytes have frames around them? */
static bool is_framed(const struct request *request)
{
    return request->version >= HTTP_2;
}

/* Bytes to the client; MAY WAIT. False: it is gone. */
static bool give_down(struct request *request, struct str bytes)
{
    if (is_framed(request)) {
        struct body_piece piece = {.bytes = bytes, .fd = -1, .is_volatile = true, .is_flush = true};
        return request->wire->send_body(request, &piece, false);
    }
    conn_write(request->conn, bytes);
    return true;
}

/* Bytes went to the backend. False: it takes no more, and the tunnel is over. MAY WAIT. */
static bool has_gone_up(struct tunnel *tunnel)
{
    struct exchange *x = tunnel->x;

    tunnel->active_ms = clock_now.now_ms;
    tunnel->is_over = !wait_for_room(x->link->conn, x->settings->send_timeout_ms);
    return !tunnel->is_over;
}

/* From client to backend; what it has ended, the backend is told. MAY WAIT. */
static void pump_up(struct tunnel *tunnel)
{
    struct exchange *x = tunnel->x;
    struct conn *client = x->request->conn;
    struct conn *backend = x->link->conn;

    if (!x->request->is_body_read) {
        request_keep_head(x->request);
        x->request->is_body_read = true;
    }
    for (;;) {
        struct str input = conn_input(client);

        if (input.len != 0) {
            conn_write(backend, input);
            conn_consume(client, input.len);
            x->request->body_received += input.len;
            if (!has_gone_up(tunnel)) {
                return;
            }
        }
        if (conn_fill(client, READ_SIZE, READ_SIZE)) {
            continue;
        }
        if (client->is_broken) {
            tunnel->is_over = true;
            return;
        }
        if (client->is_input_closed) {
            conn_shutdown_output(backend);
            return;
        }
        if (conn_wait_input(client, FIBER_NEVER) != WAIT_READY) {
            return;
        }
    }
}

/* The same where the client's bytes come in frames among those of other requests. MAY WAIT. */
static void pump_frames_up(struct tunnel *tunnel)
{
    struct exchange *x = tunnel->x;
    struct request *request = x->request;
    struct conn *backend = x->link->conn;
    char *room = arena_text(&request->arena, READ_SIZE);

    for (;;) {
        ssize_t n = request->wire->read_body(request, room, READ_SIZE);

        if (n == 0) {
            conn_shutdown_output(backend);
            return;
        }
        if (n < 0) {
            tunnel->is_over = true;
            return;
        }
        conn_write(backend, (struct str){room, (size_t) n});
        if (!has_gone_up(tunnel)) {
            return;
        }
    }
}

static void run_upward(void *arg)
{
    struct tunnel *tunnel = arg;

    /* The new protocol begins after the request, whose body may still be on its way (RFC 9110, 7.8). */
    if (!upload_join(tunnel->x)) {
        tunnel->is_over = true;
    } else if (is_framed(tunnel->x->request)) {
        pump_frames_up(tunnel);
    } else {
        pump_up(tunnel);
    }
    if (tunnel->is_over && tunnel->x->link != NULL) {
        wait_signal(&tunnel->x->link->wake);
    }
}

static void tell_timeout(struct exchange *x)
{
    if (x->protocol->timed_out != NULL) {
        x->protocol->timed_out(x, true);
    } else {
        log_error(&x->request->log, ETIMEDOUT, "upstream timed out");
    }
}

/* From backend to client, until the backend's end or the tunnel's. MAY WAIT. */
static void pump_down(struct tunnel *tunnel)
{
    struct exchange *x = tunnel->x;
    struct request *request = x->request;
    const struct channel *channel = x->protocol->channel;
    struct conn *client = request->conn;

    while (!tunnel->is_over) {
        struct str input = channel->input(x);

        if (input.len != 0) {
            bool is_given = give_down(request, input);
            channel->consume(x, input.len);
            x->body_received += input.len;
            x->attempt->response_length = x->body_received;
            tunnel->active_ms = clock_now.now_ms;
            if (!is_given || (!is_framed(request) &&
                              !wait_for_room(client, request->location->send_timeout_ms))) {
                return;
            }
        }
        if (channel->fill(x)) {
            continue;
        }
        if (channel->has_ended(x)) {
            return;
        }
        enum wait_result result =
            channel->wait(x, tunnel->active_ms + x->settings->read_timeout_ms);
        if (result == WAIT_CANCELLED) {
            return;
        }
        if (result == WAIT_TIMED_OUT &&
            clock_now.now_ms >= tunnel->active_ms + x->settings->read_timeout_ms) {
            tell_timeout(x);
            return;
        }
    }
}

/* Both ways, until one is over. False: there is no fiber for it. MAY WAIT. */
static bool pump(struct exchange *x)
{
    struct tunnel tunnel = {.x = x, .active_ms = clock_now.now_ms};

    x->request->log.action = "proxying upgraded connection";
    conn_set_nodelay(x->link->conn, true);
    if (request_fiber_start(run_upward, &tunnel, &tunnel.upward) == FIBER_NO_STACK) {
        log_crit(&x->request->log, 0, "no stack for a tunnel");
        return false;
    }
    pump_down(&tunnel);
    fiber_cancel_and_join(&tunnel.upward);
    return true;
}

enum flow tunnel_relay(struct exchange *x)
{
    struct request *request = x->request;

    if (upload_is_under_way(x)) {
        request->is_body_streamed = true;
    } else {
        request_keep_head(request);
        request->is_body_read = true;
    }
    request->keepalive = false;
    request->response.is_tunnel = true;
    request->response.raw_head = x->answer.raw_head;
    request->response.content_length = -1;
    enum flow flow = response_start(request);
    if (flow != FLOW_NEXT && flow != FLOW_DONE) {
        return flow;
    }
    conn_flush(request->conn);
    if (request->response.status < 300 && !pump(x)) {
        return FLOW_CLOSED; /* any other answer says that there is no tunnel (RFC 9110, 9.3.6) */
    }
    if (is_framed(request) && !request->wire->send_body(request, NULL, true)) {
        request->is_cancelled = true;
    }
    attempt_end(x, 0);
    exchange_leave_link(x, false);
    upstream_pick_done(&x->pick, PEER_SERVED);
    request->response.is_complete = true;
    return FLOW_DONE;
}
