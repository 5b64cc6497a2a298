/* Sends the output queue with as few system calls as possible. */
#define _GNU_SOURCE
#include "net/conn/conn.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "net/conn/private.h"

#define IOV_MOST 64 /* pieces of one sendmsg or writev */
/* bytes of one connection before the others get their turn */
#define TURN_BUDGET (2u * 1024 * 1024)

/* What one sending call did. */
struct sent {
    ssize_t n;      /* bytes, or -1 with errno */
    uint64_t asked; /* bytes passed to it */
};

/* After a short sendfile: is the file shorter than expected, or is only the socket full? */
static bool file_ended(const struct out_piece *piece, uint64_t n)
{
    struct stat st;

    return fstat(piece->fd, &st) == 0 && S_ISREG(st.st_mode) &&
           st.st_size <= piece->offset + (off_t) n;
}

/* The flags for a send of `size` bytes. The last bytes of the connection wait for the FIN, which
 * follows in this turn. */
static int send_flags(struct conn *conn, uint64_t size)
{
    if (!conn->is_last_output || size != conn_unsent(conn)) {
        return MSG_NOSIGNAL;
    }
    conn->is_fin_awaited = 1;
    return MSG_NOSIGNAL | MSG_MORE;
}

static struct sent send_file(struct conn *conn, struct out_piece *piece, uint64_t allowed)
{
    struct sent sent = {.asked = piece->size < allowed ? piece->size : allowed};
    off_t offset = piece->offset;

    if (conn->transport == NULL) {
        sent.n = sendfile(conn->source.fd, piece->fd, &offset, (size_t) sent.asked);
    } else {
        sent.n = conn->transport->sendfile(conn, piece->fd, offset, (size_t) sent.asked);
    }
    if (sent.n == 0 ||
        (sent.n > 0 && (uint64_t) sent.n < sent.asked && file_ended(piece, (uint64_t) sent.n))) {
        sent.n = -1;
        errno = EIO;
    }
    return sent;
}

/* Sends memory pieces from the head of the queue up to the first file. */
static struct sent send_gathered(struct conn *conn, uint64_t allowed)
{
    struct iovec iov[IOV_MOST];
    struct sent sent = {.asked = 0};
    int count = 0;
    const struct out_piece *piece = conn->out;

    for (; piece != NULL && piece->kind != OUT_FILE && count < IOV_MOST; piece = piece->next) {
        uint64_t size = piece->size < allowed - sent.asked ? piece->size : allowed - sent.asked;

        if (size == 0) {
            if (sent.asked == allowed) {
                break;
            }
            continue;
        }
        iov[count].iov_base = (void *) piece->at;
        iov[count].iov_len = (size_t) size;
        count++;
        sent.asked += size;
    }
    /* The next piece follows at once, unless a limit holds it back. */
    bool more_follows = piece != NULL && sent.asked < allowed;
    if (conn->transport != NULL) {
        sent.n = conn->transport->writev(conn, iov, count, more_follows);
        return sent;
    }
    int flags = more_follows ? MSG_NOSIGNAL | MSG_MORE : send_flags(conn, sent.asked);
    if (count == 1) {
        sent.n = send(conn->source.fd, iov[0].iov_base, iov[0].iov_len, flags);
    } else {
        struct msghdr message = {.msg_iov = iov, .msg_iovlen = (size_t) count};

        sent.n = sendmsg(conn->source.fd, &message, flags);
    }
    return sent;
}

static struct sent send_once(struct conn *conn, uint64_t allowed)
{
    struct out_piece *piece = conn->out;

    if (piece->kind == OUT_FILE) {
        if (conn->transport == NULL || conn->transport->sendfile != NULL) {
            return send_file(conn, piece, allowed);
        }
        if (!out_load_file(conn, allowed)) {
            return (struct sent){.n = -1};
        }
        piece = conn->out;
    }
    if (piece->next == NULL && conn->transport == NULL) {
        struct sent sent = {.asked = piece->size < allowed ? piece->size : allowed};

        sent.n =
            send(conn->source.fd, piece->at, (size_t) sent.asked, send_flags(conn, sent.asked));
        return sent;
    }
    return send_gathered(conn, allowed);
}

/* Output is left: the loop continues when the socket is writable, or at the next turn. */
static bool wait_to_send(struct conn *conn)
{
    conn->is_output_waiting = 1;
    if (!conn->is_writable) {
        return event_want_output(&conn->source);
    }
    loop_defer_next(&conn->flush);         /* the budget is used up */
    return event_add_input(&conn->source); /* so that a peer that leaves is noticed */
}

static void shut_down(struct conn *conn)
{
    conn->is_shutdown_wanted = conn->is_fin_awaited = 0;
    if (conn->transport != NULL && conn->transport->end != NULL) {
        conn->transport->end(conn);
    }
    /* It may fail with ENOTCONN if the peer was faster. */
    shutdown(conn->source.fd, SHUT_WR);
}

/* The common case: the queue is one piece of memory, and the socket accepts all of it. Otherwise
 * something is left, or the connection is broken. */
static void send_simple(struct conn *conn)
{
    struct out_piece *piece = conn->out;

    if (piece->next != NULL || piece->kind == OUT_FILE || conn->transport != NULL ||
        !conn->is_writable || piece->size - 1 >= TURN_BUDGET) {
        return;
    }
    ssize_t n =
        send(conn->source.fd, piece->at, (size_t) piece->size, send_flags(conn, piece->size));
    if (n < 0 || (uint64_t) n < piece->size) {
        if (n >= 0 || errno == EAGAIN) {
            conn->is_writable = 0;
            out_advance(conn, n > 0 ? (uint64_t) n : 0);
        } else if (errno != EINTR) {
            conn_break(conn, errno);
        }
        return;
    }
    conn->sent += (uint64_t) n;
    conn->out = NULL;
    conn->out_at = conn->out_end = NULL;
    out_piece_free(piece);
}

/* Sends what the socket accepts now, without callbacks. False: it is broken. */
static bool send_queue(struct conn *conn)
{
    uint64_t budget = conn->turn_budget != 0 ? conn->turn_budget : TURN_BUDGET;
    uint64_t sent_before = conn->sent;

    if (conn->is_broken) {
        return false;
    }
    if (conn->out_at != NULL) {
        /* The last piece is open and has grown. */
        conn->out_last->size = (uint64_t) (conn->out_at - conn->out_last->at);
    }
    if (conn->out != NULL) {
        send_simple(conn);
        if (conn->is_broken) {
            return false;
        }
    }
    while (conn->out != NULL) {
        if (conn->out->size == 0) {
            out_advance(conn, 0);
            continue;
        }
        if (!conn->is_writable || budget == 0) {
            break;
        }
        struct sent sent = send_once(conn, budget);
        if (sent.n < 0) {
            if (errno == EINTR) {
                continue;
            }
            if (errno != EAGAIN) {
                conn_break(conn, errno);
                return false;
            }
            conn->is_writable = 0;
            continue;
        }
        if ((uint64_t) sent.n < sent.asked && conn->transport == NULL) {
            conn->is_writable = 0;
        }
        budget -= (uint64_t) sent.n;
        out_advance(conn, (uint64_t) sent.n);
    }
    if (conn->out == NULL) {
        conn->is_output_waiting &= !conn->is_writable; /* see conn_want_drained */
        if (conn->is_shutdown_wanted) {
            shut_down(conn);
        }
        return true;
    }
    if (conn->sent != sent_before) {
        conn->moved_ms = clock_now.now_ms;
    }
    if (!wait_to_send(conn)) {
        conn_break(conn, errno);
        return false;
    }
    return true;
}

/* Is the queue as short as the waiting fiber needs? Clears the wait if it is. */
static bool take_output_wait(struct conn *conn)
{
    if (conn_unsent(conn) >= conn->output_wait_below && !conn->is_broken) {
        return false;
    }
    conn->output_wait_below = 0;
    return true;
}

bool conn_flush(struct conn *conn)
{
    CHECK_MAGIC(conn, CONN_MAGIC);
    if (!conn->is_input_due) {
        loop_undefer(&conn->flush);
    }
    bool is_sound = send_queue(conn);
    if (conn->output_wait_below != 0 && take_output_wait(conn)) {
        wait_signal_later(&conn->output_wait);
    }
    return is_sound;
}

/* Sends what the socket accepts of these bytes; the queue is empty. After that the connection may
 * be broken or not writable. */
static size_t send_directly(struct conn *conn, struct str bytes)
{
    size_t total = 0;

    while (total < bytes.len && conn->is_writable) {
        struct iovec iov = {(void *) (bytes.data + total), bytes.len - total};
        ssize_t n = conn->transport == NULL
                        ? send(conn->source.fd, iov.iov_base, iov.iov_len, MSG_NOSIGNAL)
                        : conn->transport->writev(conn, &iov, 1, false);

        if (n >= 0) {
            total += (size_t) n;
            if ((size_t) n < iov.iov_len && conn->transport == NULL) {
                conn->is_writable = 0;
            }
        } else if (errno == EAGAIN) {
            conn->is_writable = 0;
        } else if (errno != EINTR) {
            conn_break(conn, errno);
        }
    }
    conn->queued += total;
    conn->sent += total;
    return total;
}

size_t conn_offer(struct conn *conn, struct str bytes)
{
    CHECK_MAGIC(conn, CONN_MAGIC);
    assert(conn->out == NULL);
    return send_directly(conn, bytes);
}

bool conn_write_now(struct conn *conn, struct str bytes)
{
    CHECK_MAGIC(conn, CONN_MAGIC);
    if (conn->out == NULL) {
        bytes = str_skip(bytes, send_directly(conn, bytes));
        if (bytes.len == 0 || conn->is_broken) {
            return !conn->is_broken;
        }
        conn->moved_ms = clock_now.now_ms;
    }
    conn_write(conn, bytes);
    return conn_flush(conn);
}

void conn_want_drained(struct conn *conn)
{
    conn->is_output_waiting = 1;
    conn->is_writable = 0;
    conn->moved_ms = clock_now.now_ms;
    if (!event_want_output(&conn->source)) {
        conn_break(conn, errno);
    }
}

size_t conn_splice_out(struct conn *conn, int pipe, size_t size)
{
    size_t total = 0;

    assert(conn->transport == NULL && conn->out == NULL);
    while (total < size && conn->is_writable) {
        ssize_t n = splice(pipe, NULL, conn->source.fd, NULL, size - total,
                           SPLICE_F_MOVE | SPLICE_F_NONBLOCK);

        if (n > 0) {
            total += (size_t) n;
        } else if (n == 0 || errno == EAGAIN) {
            conn_want_drained(conn);
        } else if (errno != EINTR) {
            conn_break(conn, errno);
        }
    }
    conn->queued += total;
    conn->sent += total;
    return total;
}

void conn_flush_from_loop(struct conn *conn)
{
    uint32_t life = conn->life;
    bool had_waited = conn->is_output_waiting;

    if (!conn->is_input_due) {
        loop_undefer(&conn->flush);
    }
    bool was_broken = conn->is_broken;
    bool is_sound = send_queue(conn);
    if (conn->output_wait_below != 0 && take_output_wait(conn)) {
        wait_signal(&conn->output_wait);
        if (conn->life != life) {
            return;
        }
    }
    if (!is_sound) {
        if (!was_broken) {
            conn_call_input(conn);
        }
        return;
    }
    if (had_waited && conn->out == NULL && conn->owner->drained != NULL) {
        conn->owner->drained(conn);
    }
}

void conn_flush_deferred(struct deferred *deferred)
{
    struct conn *conn = container_of(deferred, struct conn, flush);
    uint32_t life = conn->life;

    if (conn->is_input_due) {
        conn->is_input_due = 0;
        conn_call_input(conn);
        if (conn->life != life) {
            return;
        }
    }
    if (conn->out != NULL) {
        conn_flush_from_loop(conn);
    }
}

enum wait_result conn_wait_output(struct conn *conn, uint32_t below, uint64_t deadline_ms)
{
    while (conn_flush(conn)) {
        if (conn_unsent(conn) < below) {
            return WAIT_READY;
        }
        conn->output_wait.is_signalled = false;
        conn->output_wait_below = below;
        enum wait_result result = fiber_wait(&conn->output_wait, deadline_ms);
        conn->output_wait_below = 0;
        if (result != WAIT_READY) {
            return result;
        }
    }
    return WAIT_CANCELLED;
}

enum wait_result conn_wait_sent(struct conn *conn, uint32_t below, uint64_t timeout_ms)
{
    uint64_t since_ms = clock_now.now_ms;

    for (;;) {
        enum wait_result result = conn_wait_output(conn, below, since_ms + timeout_ms);

        if (result != WAIT_TIMED_OUT || conn->moved_ms <= since_ms) {
            return result;
        }
        since_ms = conn->moved_ms;
    }
}

enum wait_result conn_wait_connected(struct conn *conn, uint64_t deadline_ms)
{
    int error = 0;
    socklen_t len = sizeof(error);

    conn->is_writable = 0;
    conn->output_wait.is_signalled = false;
    if (!event_add(&conn->source)) {
        conn_break(conn, errno);
        return WAIT_READY;
    }
    while (!conn->is_writable && !conn->is_broken) {
        enum wait_result result = fiber_wait(&conn->output_wait, deadline_ms);

        if (result != WAIT_READY) {
            return result;
        }
    }
    if (getsockopt(conn->source.fd, SOL_SOCKET, SO_ERROR, &error, &len) == -1) {
        error = errno;
    }
    if (error != 0) {
        conn_break(conn, error);
    }
    return WAIT_READY;
}

void conn_push(struct conn *conn)
{
    int on = 1;

    CHECK_MAGIC(conn, CONN_MAGIC);
    if (conn->is_fin_awaited && conn->is_tcp) {
        /* Setting the option sends what MSG_MORE held back, even if it was set already. */
        setsockopt(conn->source.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    }
}

void conn_shutdown_output(struct conn *conn)
{
    conn->is_shutdown_wanted = 1;
    conn_flush(conn);
}
