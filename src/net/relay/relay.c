/* Passes bytes between two connections: through a buffer of the worker, or through a pipe for large
 * flows. */
#include "net/relay/relay.h"

#include <errno.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "net/relay/pipe.h"

#define RELAY_MAGIC 0x4e1a7000u
#define BUFFER_SIZE 16384u        /* default of relay.buffer_size */
#define BUFFER_MOST (64 * 1024u)  /* maximum of relay.buffer_size */
#define TURN_BUDGET (256 * 1024u) /* bytes in one direction before others get their turn */
#define FULL_BUFFERS 2            /* after so many full buffers in a row a flow is large */
/* A flow that moves less than this at a time is not large any more. */
#define LARGE_AGAIN (32 * 1024u)

/* One for the worker: what is read into it is written before anything else runs. */
static char buffer[BUFFER_MOST];

/* ---- limits ---- */

/* Bytes that the rate allows to read from a side now: a second's worth at the beginning of each
 * second of the relay, as in nginx. */
static uint64_t allowed_by_rate(const struct relay *relay, const struct relay_side *side)
{
    uint64_t seconds = (clock_now.now_ms - relay->started_ms) / 1000 + 1;
    uint64_t allowed;

    if (side->rate == 0 || __builtin_mul_overflow(side->rate, seconds, &allowed)) {
        return UINT64_MAX;
    }
    return allowed > side->received ? allowed - side->received : 0;
}

/* Was everything read for this end delivered, or can it never be? */
static bool is_delivered(const struct relay *relay, enum relay_end to)
{
    const struct conn *conn = relay->sides[to].conn;
    const struct relay_pipe *pipe = relay->sides[relay_other(to)].pipe;

    return conn->is_broken || (conn_unsent(conn) == 0 && (pipe == NULL || pipe->held == 0));
}

/* Do the other end and the state of the relay allow reading from this end? */
static bool net_relay_is_wanted(const struct relay *relay, enum relay_end from)
{
    const struct conn *to = relay->sides[relay_other(from)].conn;

    return !relay->is_ending && !relay->sides[from].is_input_over && !to->is_broken &&
           is_delivered(relay, relay_other(from));
}

/* May a read give something: bytes, an end, or an error? */
static bool has_pending(const struct conn *conn)
{
    return conn->is_readable || conn->in_start != conn->in_end || conn->is_input_closed ||
           conn->is_broken;
}

/* Is the unread remainder on the socket, so that the loop reports it after conn_watch? */
static bool is_watched_for_input(const struct conn *conn)
{
    return conn->in_start == conn->in_end && !conn->is_broken;
}

/* ---- moving ---- */

/* Reads what arrived before the connection broke during a write. Gives what recv does. */
static ssize_t read_of_broken(const struct conn *conn, char *at, size_t size)
{
    ssize_t n;

    if (conn->transport != NULL) {
        return -1;
    }
    do {
        n = recv(conn->source.fd, at, size, MSG_DONTWAIT);
    } while (n == -1 && errno == EINTR);
    return n;
}

/* Reads into the buffer until it has `most` bytes or nothing is left. Gives the bytes; 0: nothing
 * now, or the end. */
static size_t read_some(struct relay_side *side, size_t most)
{
    struct conn *conn = side->conn;
    size_t total = 0;
    ssize_t n;

    do {
        bool is_rest = conn->is_broken && conn->in_start == conn->in_end;

        n = is_rest ? read_of_broken(conn, buffer + total, most - total)
                    : conn_read(conn, buffer + total, most - total);
        total += n > 0 ? (size_t) n : 0;
        /* A TLS transport gives one record at a time. */
    } while (n > 0 && total < most && conn->transport != NULL && conn->is_readable);
    conn_input_release(conn);
    side->is_input_over = n == 0 || (n < 0 && conn->is_broken);
    return total;
}

/* Writes what the other end accepts from the pipe. */
static void pour(struct relay *relay, enum relay_end from)
{
    struct relay_pipe *pipe = relay->sides[from].pipe;
    struct conn *to = relay->sides[relay_other(from)].conn;

    pipe->held -= (uint32_t) conn_splice_out(to, pipe->read_fd, pipe->held);
}

static void note_received(struct relay_side *side, size_t n)
{
    if (side->received == 0) {
        side->first_ms = clock_now.now_ms;
    }
    side->received += n;
}

static void give_pipe(struct relay_side *side)
{
    if (side->pipe != NULL) {
        relay_pipe_give(side->pipe);
        side->pipe = NULL;
    }
}

/* Moves bytes by the pipe. Gives the bytes read; 0: nothing now, or the end. */
static size_t move_by_pipe(struct relay *relay, enum relay_end from, size_t most)
{
    struct relay_side *side = &relay->sides[from];
    struct relay_pipe *pipe = side->pipe;
    ssize_t n = conn_splice_in(side->conn, pipe->write_fd, most < pipe->size ? most : pipe->size);

    if (n <= 0) {
        side->is_input_over = n == 0 || side->conn->is_broken;
        return 0;
    }
    pipe->held = (uint32_t) n;
    note_received(side, (size_t) n);
    pour(relay, from);
    return (size_t) n;
}

/* The first piece always leaves at once, so a session that sends a single piece does not need
 * TCP_NODELAY. */
static void mind_delay(struct relay_side *to, bool is_second)
{
    if (to->wants_nodelay && is_second) {
        to->wants_nodelay = 0;
        conn_set_nodelay(to->conn, true);
    }
}

/* Moves bytes by the buffer; results as above. */
static size_t move_by_buffer(struct relay *relay, enum relay_end from, size_t most)
{
    struct relay_side *side = &relay->sides[from], *to = &relay->sides[relay_other(from)];
    size_t n = read_some(side, most);

    if (n != 0) {
        note_received(side, n);
        mind_delay(to, to->conn->queued != 0);
        conn_write_now(to->conn, (struct str){buffer, n});
        mind_delay(to, conn_unsent(to->conn) != 0);
    }
    return n;
}

/* Has this direction a pipe, or can it get one? Otherwise the buffer is used. */
static bool get_pipe(struct relay *relay, enum relay_end from)
{
    struct relay_side *side = &relay->sides[from];
    const struct conn *conn = side->conn;
    const struct conn *to = relay->sides[relay_other(from)].conn;

    if (!side->is_large || conn->is_broken || conn->in_start != conn->in_end ||
        conn->transport != NULL || to->transport != NULL) {
        return false;
    }
    if (side->pipe == NULL) {
        side->pipe = relay_pipe_take();
    }
    return side->pipe != NULL;
}

/* Does the rate allow reading from this end now? If not, sets the backend's timer to when it
 * does. */
static bool is_in_time(struct relay *relay, const struct relay_side *side)
{
    struct conn *backend = relay->sides[RELAY_BACKEND].conn;

    if (side->rate == 0 || allowed_by_rate(relay, side) != 0) {
        return true;
    }
    uint64_t at_ms = relay->started_ms + side->received / side->rate * 1000;
    if (at_ms < backend->timer.deadline_ms) {
        conn_set_deadline(backend, at_ms);
    }
    return false;
}

/* Can a read from this end give something that the other end accepts now? */
static bool may_move(struct relay *relay, enum relay_end from)
{
    struct relay_side *side = &relay->sides[from];

    return has_pending(side->conn) && net_relay_is_wanted(relay, from) && is_in_time(relay, side);
}

/* Moves bytes in one direction until nothing is left, the other end is full, or the turn's budget
 * is used. */
static void carry(struct relay *relay, enum relay_end from)
{
    struct relay_side *side = &relay->sides[from];
    uint64_t budget = side->conn->turn_budget != 0 ? side->conn->turn_budget : TURN_BUDGET;
    uint64_t moved = 0;
    unsigned full = 0;

    if (side->pipe != NULL) {
        pour(relay, from);
    }
    while ((moved < budget || !is_watched_for_input(side->conn)) && may_move(relay, from)) {
        uint64_t allowed = allowed_by_rate(relay, side);
        uint64_t most = get_pipe(relay, from) ? budget - moved : relay->buffer_size;
        most = allowed < most ? allowed : most;
        size_t n = side->pipe != NULL ? move_by_pipe(relay, from, (size_t) most)
                                      : move_by_buffer(relay, from, (size_t) most);

        if (n == 0) {
            break;
        }
        moved += n;
        full = n == relay->buffer_size ? full + 1 : 0;
        side->is_large |= full == FULL_BUFFERS;
    }
    if (moved != 0 && moved < LARGE_AGAIN && !side->conn->is_readable) {
        side->is_large = 0;
    }
    if (side->pipe != NULL && side->pipe->held == 0) {
        give_pipe(side);
    }
}

/* Has the loop report events; at once, if input is left for the next turn. */
static void watch(struct relay *relay, enum relay_end end)
{
    struct conn *conn = relay->sides[end].conn;

    if ((!conn->source.is_registered || (conn->is_readable && may_move(relay, end))) &&
        !conn_watch(conn)) {
        conn_fail(conn, errno);
    }
}

/* ---- ends ---- */

static void net_relay_finish(struct relay *relay, enum relay_why why, enum relay_end side)
{
    for (unsigned i = 0; i < 2; i++) {
        give_pipe(&relay->sides[i]);
        timer_clear(&relay->sides[i].conn->timer);
    }
    relay->is_over = 1;
    relay->ended(relay, why, side);
}

static void begin_end(struct relay *relay, enum relay_why why, enum relay_end side)
{
    relay->is_ending = 1;
    relay->why = why;
    relay->side = side;
}

/* Updates the relay by the state of this end: passes its end on, or begins to end the relay. */
static void look_at_end(struct relay *relay, enum relay_end end)
{
    struct relay_side *side = &relay->sides[end];
    const struct relay_side *other = &relay->sides[relay_other(end)];

    if (side->conn->is_broken) {
        if (side->is_input_over || other->conn->is_broken) {
            begin_end(relay, RELAY_BROKEN, end);
        }
    } else if (side->is_input_over && !side->is_end_passed) {
        if (!side->is_half_close_on || other->is_input_over) {
            begin_end(relay, RELAY_CLOSED, end);
        } else if (is_delivered(relay, relay_other(end))) {
            side->is_end_passed = 1;
            conn_shutdown_output(other->conn);
        }
    }
}

static void note_activity(struct relay *relay)
{
    const struct relay_side *client = &relay->sides[RELAY_CLIENT];
    const struct relay_side *backend = &relay->sides[RELAY_BACKEND];
    uint64_t moved =
        client->received + client->conn->sent + backend->received + backend->conn->sent;

    if (moved != relay->moved) {
        relay->moved = moved;
        relay->active_ms = clock_now.now_ms;
    }
}

/* ---- time ---- */

static uint64_t later(uint64_t a_ms, uint64_t b_ms)
{
    return a_ms > b_ms ? a_ms : b_ms;
}

/* When the relay times out, as of now. */
static uint64_t silence_ends(const struct relay *relay)
{
    const struct relay_side *sides = relay->sides;
    uint64_t moved_ms = later(sides[0].conn->moved_ms, sides[1].conn->moved_ms);

    return later(relay->active_ms, moved_ms) + relay->timeout_ms;
}

/* When this end times out because it accepted nothing. */
static uint64_t stall_ends(const struct relay *relay, enum relay_end end)
{
    const struct relay_side *side = &relay->sides[end];

    return side->stall_timeout_ms == 0 || is_delivered(relay, end)
               ? NO_DEADLINE
               : side->conn->moved_ms + side->stall_timeout_ms;
}

/* Only moves the timer forward: while bytes move, it fires and is set again. */
static void mind_stalls(struct relay *relay)
{
    struct conn *client = relay->sides[RELAY_CLIENT].conn;

    for (enum relay_end end = RELAY_CLIENT; end <= RELAY_BACKEND; end++) {
        uint64_t at_ms = stall_ends(relay, end);

        if (at_ms < client->timer.deadline_ms) {
            conn_set_deadline(client, at_ms);
        }
    }
}

/* ---- interface ---- */

void relay_move(struct relay *relay)
{
    CHECK_MAGIC(relay, RELAY_MAGIC);
    if (relay->is_over) {
        return;
    }
    timer_clear(&relay->sides[RELAY_BACKEND].conn->timer);
    carry(relay, RELAY_CLIENT);
    carry(relay, RELAY_BACKEND);
    watch(relay, RELAY_CLIENT);
    watch(relay, RELAY_BACKEND);
    note_activity(relay);
    for (enum relay_end end = RELAY_CLIENT; end <= RELAY_BACKEND && !relay->is_ending; end++) {
        look_at_end(relay, end);
    }
    if (relay->is_ending && is_delivered(relay, RELAY_CLIENT) &&
        is_delivered(relay, RELAY_BACKEND)) {
        net_relay_finish(relay, relay->why, relay->side);
        return;
    }
    mind_stalls(relay);
}

void relay_start(struct relay *relay)
{
    relay->magic = RELAY_MAGIC;
    if (relay->buffer_size == 0) {
        relay->buffer_size = BUFFER_SIZE;
    }
    if (relay->buffer_size > BUFFER_MOST) {
        relay->buffer_size = BUFFER_MOST;
    }
    relay->started_ms = relay->active_ms = clock_now.now_ms;
    for (unsigned i = 0; i < 2; i++) {
        conn_unpark(relay->sides[i].conn);
        conn_input_release(
            relay->sides[i].conn); /* its bytes may have been sent with the connect */
    }
    conn_set_deadline(relay->sides[RELAY_CLIENT].conn, clock_now.now_ms + relay->timeout_ms);
    relay_move(relay);
}

void relay_check_time(struct relay *relay)
{
    CHECK_MAGIC(relay, RELAY_MAGIC);
    if (relay->is_over) {
        return;
    }
    for (enum relay_end end = RELAY_CLIENT; end <= RELAY_BACKEND; end++) {
        if (stall_ends(relay, end) <= clock_now.now_ms) {
            net_relay_finish(relay, RELAY_STALLED, end);
            return;
        }
    }
    if (silence_ends(relay) <= clock_now.now_ms) {
        net_relay_finish(relay, RELAY_TIMED_OUT, RELAY_CLIENT);
        return;
    }
    conn_set_deadline(relay->sides[RELAY_CLIENT].conn, silence_ends(relay));
    relay_move(relay);
}

void relay_abort(struct relay *relay)
{
    CHECK_MAGIC(relay, RELAY_MAGIC);
    if (!relay->is_over) {
        net_relay_finish(relay, RELAY_ABORTED, RELAY_CLIENT);
    }
}
