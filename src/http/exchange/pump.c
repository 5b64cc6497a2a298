/* Tunnels by fibers: where the client's bytes have frames around them, and while the request's body
 * is still on its way, which goes first, as it was announced. */
#include <errno.h>

#include "base/clock.h"
#include "http/exchange/tunnel.h"
#include "http/request/engine.h"
#include "http/request/wire.h"
#include "http/routing/connection_settings.h"

/* More bytes than this on their way to one side, and the other is not read. */
#define UNSENT_MAX (64 * 1024)
#define READ_SIZE (16 * 1024)

/* Both directions; on the stack of the request's fiber. */
struct pump {
    struct exchange *x;
    struct fiber_handle upward; /* the fiber from client to backend */
    uint64_t active_ms;         /* a byte went either way then */
    bool is_over;               /* one direction has broken off: the other is to end */
};

/* Waits for room towards a side. False: it broke, does not read, or the tunnel is over. MAY WAIT.
 */
static bool wait_for_room(struct conn *conn, uint64_t timeout_ms)
{
    conn_flush(conn);
    if (conn_unsent(conn) < UNSENT_MAX) {
        return !conn->is_broken;
    }
    return conn_wait_sent(conn, UNSENT_MAX / 2, timeout_ms) == WAIT_READY;
}

/* Bytes to the client; MAY WAIT. False: it is gone. */
static bool give_down(struct request *request, struct str bytes)
{
    if (tunnel_is_framed(request)) {
        struct body_piece piece = {.bytes = bytes, .fd = -1, .is_volatile = true, .is_flush = true};
        return request->wire->send_body(request, &piece, false);
    }
    conn_write(request->wire->bare(request), bytes);
    return true;
}

/* Bytes went to the backend. False: it takes no more, and the tunnel is over. MAY WAIT. */
static bool has_gone_up(struct pump *pump)
{
    struct exchange *x = pump->x;

    pump->active_ms = clock_now.now_ms;
    pump->is_over = !wait_for_room(x->connection->conn, x->settings->send_timeout_ms);
    return !pump->is_over;
}

/* From client to backend, with its end. MAY WAIT. */
static void pump_frames_up(struct pump *pump)
{
    struct exchange *x = pump->x;
    struct request *request = x->request;
    struct conn *backend = x->connection->conn;
    char *room = arena_text(&request->arena, READ_SIZE);

    for (;;) {
        ssize_t n = request->wire->read_body(request, room, READ_SIZE);

        if (n == 0) {
            conn_shutdown_output(backend);
            return;
        }
        if (n < 0) {
            pump->is_over = true;
            return;
        }
        conn_write(backend, (struct str){room, (size_t) n});
        if (!has_gone_up(pump)) {
            return;
        }
    }
}

static void run_upward(void *arg)
{
    struct pump *pump = arg;

    /* The new protocol begins after the request, whose body may still be on its way (RFC
     * 9110, 7.8). */
    if (!upload_join(pump->x)) {
        pump->is_over = true;
    } else {
        pump->active_ms = clock_now.now_ms;
        pump_frames_up(pump);
    }
    if (pump->is_over && pump->x->connection != NULL) {
        wait_signal(&pump->x->connection->wake);
    }
}

/* Is there more to do for the fibers? Where the client's bytes have no frames a relay takes over
 * from the body's end on. */
static bool goes_on(const struct pump *pump)
{
    return tunnel_is_framed(pump->x->request) || upload_is_under_way(pump->x);
}

/* Until when something has to go either way. The request's body has time limits of its own, by
 * which its fiber ends. */
static uint64_t pump_end(const struct pump *pump)
{
    const struct exchange_settings *settings = pump->x->settings;

    return upload_is_under_way(pump->x) ? clock_now.now_ms + settings->send_timeout_ms
                                        : pump->active_ms + settings->read_timeout_ms;
}

/* From backend to client. False: the tunnel is over. MAY WAIT. */
static bool pump_down(struct pump *pump)
{
    struct exchange *x = pump->x;
    struct request *request = x->request;
    const struct channel *channel = x->protocol->channel;

    while (goes_on(pump)) {
        struct str input = exchange_input(x);

        if (input.len != 0) {
            bool is_given = give_down(request, input);
            exchange_consume(x, input.len);
            x->body_received += input.len;
            pump->active_ms = clock_now.now_ms;
            if (x->tunnel_byte_ms == 0) {
                x->tunnel_byte_ms = clock_now.now_ms;
            }
            if (!is_given || (!tunnel_is_framed(request) &&
                              !wait_for_room(request->wire->bare(request),
                                             request->location->connections->send_timeout_ms))) {
                return false;
            }
        }
        if (channel->fill(x)) {
            continue;
        }
        if (pump->is_over || exchange_has_ended(x)) {
            return false;
        }
        enum wait_result result = exchange_wait(x, pump_end(pump));
        if (result == WAIT_CANCELLED) {
            return false;
        }
        if (result == WAIT_TIMED_OUT && clock_now.now_ms >= pump_end(pump)) {
            tunnel_tell_timeout(x);
            return false;
        }
    }
    return true;
}

bool tunnel_await_body(struct exchange *x)
{
    struct pump pump = {.x = x, .active_ms = clock_now.now_ms};

    return pump_down(&pump) && (x->upload == NULL || upload_join(x));
}

bool tunnel_pump(struct exchange *x)
{
    struct pump pump = {.x = x, .active_ms = clock_now.now_ms};

    if (request_fiber_start(run_upward, &pump, &pump.upward) == FIBER_NO_STACK) {
        log_crit(&x->request->log, 0, "no stack for a tunnel");
        return false;
    }
    pump_down(&pump);
    fiber_cancel_and_join(&pump.upward);
    return true;
}
