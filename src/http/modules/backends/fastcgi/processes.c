/* Backends that are several processes on one socket, each of which serves one connection at a time
 * and reports this (libfcgi: FCGI_MAX_CONNS=1, FCGI_MAX_REQS=1). The number of processes is not
 * reported. Under load one more connection is opened: if FCGI_GET_VALUES is answered on it at once,
 * a process was free, and connections_max of the peer's cell rises by one. */
#include <errno.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "http/modules/backends/fastcgi/connection.h"

#define ANSWER_MS 10   /* a free process answers within this time */
#define PAUSE_MS 10000 /* until the next attempt, after none answered */
/* A connection that was answered this late waited for another one to end. */
#define LATE_MS 250
#define PROCESSES_MAX 1024

static bool is_of_processes(const struct peer_cell *cell)
{
    return atomic_load_explicit(&cell->requests_max, memory_order_relaxed) == 1 &&
           fastcgi_facts_are_scarce(cell);
}

static const struct conn_owner asking_owner = {.input = NULL};

/* Does a process accept this connection and answer on it? MAY WAIT. */
static bool is_answered(struct conn *conn, uint64_t deadline_ms)
{
    if (conn_wait_connected(conn, deadline_ms) != WAIT_READY || conn->is_broken) {
        return false;
    }
    conn_write(conn, get_values_record);
    conn_write(conn, get_values_record); /* libfcgi answers a record when it sees the next */
    if (!conn_flush(conn)) {
        return false;
    }
    while (conn_wait_input(conn, deadline_ms) == WAIT_READY) {
        while (conn_fill(conn, 512, 512)) {
            struct str input = conn_input(conn);

            if (input.len >= RECORD_HEADER_SIZE) {
                return record_read(input.data).type == RECORD_GET_VALUES_RESULT;
            }
        }
        if (conn->is_input_closed || conn->is_broken) {
            break;
        }
    }
    return false;
}

/* Is another process free? Sends FCGI_GET_VALUES on a new connection, which is closed again. MAY
 * WAIT. */
static bool is_another_free(const struct exchange *x)
{
    const struct addr *addr = &x->pick.peer->addr;
    int fd = socket(addr->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd == -1) {
        return false;
    }
    if (connect(fd, &addr->any, addr->len) == -1 && errno != EINPROGRESS) {
        close(fd);
        return false;
    }
    struct conn *conn = conn_new(fd, addr, &asking_owner, &x->request->log);
    if (conn == NULL) {
        close(fd);
        return false;
    }
    bool is_free = is_answered(conn, clock_now.now_ms + ANSWER_MS);
    conn_close(conn);
    return is_free;
}

void fastcgi_processes_look(const struct exchange *x)
{
    struct peer_cell *cell = x->pick.peer->cell;
    uint32_t known = atomic_load_explicit(&cell->connections_max, memory_order_relaxed);

    if (!is_of_processes(cell) || known >= PROCESSES_MAX || peer_active(cell) <= known ||
        peer_open(cell) < known || !fastcgi_facts_may_look(cell, PAUSE_MS)) {
        return;
    }
    if (is_another_free(x)) {
        atomic_compare_exchange_strong(&cell->connections_max, &known, known + 1);
        fastcgi_facts_may_look(cell, 0); /* there may be more: no pause before the next attempt */
    }
}

bool fastcgi_processes_asks(const struct upstream_connection *connection)
{
    return !connection->is_reused && is_of_processes(connection->cell);
}

void fastcgi_processes_answered(const struct upstream_connection *connection)
{
    struct peer_cell *cell = connection->cell;
    uint32_t known = atomic_load_explicit(&cell->connections_max, memory_order_relaxed);

    if (clock_now.now_ms - connection->opened_ms > LATE_MS && known > 1) {
        atomic_compare_exchange_strong(&cell->connections_max, &known, known - 1);
    }
}
