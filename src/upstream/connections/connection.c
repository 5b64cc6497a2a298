/* Connections to peers that requests use: when they may be opened, and where they go. */
#include "upstream/connection.h"

#include <errno.h>
#include <stdlib.h>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/fatal.h"
#include "net/conn/own.h"
#include "upstream/connections/connections.h"

/* Connections that other workers close are noticed so late at most. */
#define POLL_MS 5
/* Where other workers wait for connections, too, every so many of ours goes to them. */
#define TURNS_OF_OURS 4

/* What a request wants; on its fiber's stack. */
struct connection_request {
    struct upstream_pick *pick;
    const struct upstream_connection_options *options;
    struct upstream_connection_kind kind;
    uint64_t deadline_ms;
};

/* A request that waits for a connection to its peer; on its fiber's stack. */
struct upstream_connection_waiter {
    struct list node; /* in peer_local.waiters */
    struct wait_point wake;
};

#define USE_ADD(member, n)                                                                         \
    atomic_store_explicit(&(member), atomic_load_explicit(&(member), memory_order_relaxed) + (n),  \
                          memory_order_relaxed)

/* ---- life ---- */

static struct list free_connections = {&free_connections,
                                       &free_connections}; /* by in_pool; last in, first out */

static struct upstream_connection *upstream_connection_new(const struct connection_request *wanted,
                                                           struct conn *conn)
{
    struct upstream_pick *pick = wanted->pick;
    struct list *free_one = list_pop_front(&free_connections);
    struct upstream_connection *connection;

    if (free_one != NULL) {
        connection = container_of(free_one, struct upstream_connection, in_pool);
    } else {
        connection = malloc(sizeof(*connection));
        if (connection == NULL) {
            fatal_no_memory(sizeof(*connection));
        }
    }
    *connection = (struct upstream_connection){
        .magic = UPSTREAM_CONNECTION_MAGIC,
        .conn = conn,
        .quic = wanted->options->quic != NULL ? conn->user : NULL,
        .group = pick->group,
        .cell = pick->peer->cell,
        .local = pick->peer->local,
        .addr = pick->peer->addr,
        .kind = wanted->kind,
        .is_doomed = wanted->options->is_alone,
        .opened_ms = clock_now.now_ms,
        .keeps_ms = UINT64_MAX,
        .users_max = 1,
    };
    connection->kind.key = pool_key_dup(wanted->kind.key);
    list_init(&connection->in_pool);
    list_init(&connection->in_pinned);
    conn->owner = &upstream_connection_owner;
    conn->user = connection;
    pick->group->worker_state->users++;
    return connection;
}

/* One more connection may be open, or is idle: who waits first looks again. */
static void wake_waiter(struct peer_local *local)
{
    if (!list_is_empty(&local->waiters)) {
        wait_signal_later(
            &container_of(local->waiters.next, struct upstream_connection_waiter, node)->wake);
    }
}

void upstream_connection_destroy(struct upstream_connection *connection)
{
    struct peer_local *local = connection->local;
    struct peer_cell *cell = connection->cell;

    if (connection->state_free != NULL) {
        connection->state_free(connection);
    }
    pinned_forget(connection);
    if (connection->quic != NULL) {
        quic_backend_close(connection);
    } else if (connection->is_quiet && connection->conn->is_tcp &&
               conn_unsent(connection->conn) == 0) {
        conn_reset(connection->conn);
    } else {
        conn_close(connection->conn);
    }
    USE_ADD(peer_use_mine(cell)->open, -1u);
    connection->group->worker_state->users--;
    wake_waiter(local);
    cell_let_go(cell, local);
    free((char *) connection->kind.key.data);
    connection->magic = 0;
    connection->conn = NULL;
    list_push_front(&free_connections, &connection->in_pool);
}

/* ---- the owner of a connection that carries one request at a time ---- */

static void wake_owner(struct conn *conn)
{
    struct upstream_connection *connection = conn->user;

    wait_signal(&connection->wake);
}

const struct conn_owner upstream_connection_owner = {.input = wake_owner, .drained = wake_owner};

/* ---- opening ---- */

/* Of one with an address of ours, or TLS. As good as equal: two have the same number by accident
 * once in 2^64. */
static uint64_t identity_of(const struct upstream_connection_options *options)
{
    const struct addr *local = options->local;
    const struct upstream_connection_tls *tls = options->tls;

    const uint64_t words[] = {
        local == NULL ? 0 : keyed_hash((struct str){(const char *) &local->any, local->len}),
        local != NULL && options->is_transparent,
        tls == NULL ? 0 : tls->options.identity,
        tls == NULL || tls->preface.len == 0 ? 0 : keyed_hash(tls->preface),
    };

    return keyed_hash((struct str){(const char *) words, sizeof(words)}) | 1;
}

/* One of the connections in use that has room for another request. */
static struct upstream_connection *find_shared(const struct peer_local *local,
                                               const struct upstream_connection_kind *kind)
{
    if (atomic_load_explicit(&local->cell->multiplexes, memory_order_relaxed) == 0) {
        return NULL;
    }
    list_each(item, &local->busy) {
        struct upstream_connection *connection =
            container_of(item, struct upstream_connection, in_pool);

        if (connection->users < connection->users_max && connection->pinned == NULL &&
            !connection->is_taken && !connection->conn->is_input_paused &&
            upstream_connection_kind_is(&connection->kind, kind) && !connection->is_doomed &&
            !connection->conn->is_broken && !connection->conn->is_peer_closed &&
            (int64_t) connection->requests < connection->group->keepalive_requests) {
            return connection;
        }
    }
    return NULL;
}

/* One that is open already, or NULL. */
static struct upstream_connection *reuse(const struct connection_request *wanted)
{
    const struct upstream_connection_options *options = wanted->options;
    struct peer_local *local = wanted->pick->peer->local;
    struct upstream_connection *connection = NULL;

    if (options->wants_fresh) {
        pool_drop(wanted->pick->group, local, &wanted->kind);
    }
    if (options->wants_fresh || options->is_alone) {
        return NULL;
    }
    if (__builtin_expect(options->pinned != NULL, 0)) {
        connection = pinned_take(options->pinned, local, &wanted->kind);
    }
    if (connection == NULL) {
        connection = pool_take(wanted->pick->group, local, &wanted->kind, options);
    }
    if (connection == NULL && !options->is_private) {
        connection = find_shared(local, &wanted->kind);
    }
    if (connection != NULL) {
        connection->is_reused = true;
    }
    return connection;
}

/*
 * Counts one more connection as ours, if the peer allows it; an idle one of ours gives way. Counted
 * first and looked at then, so that workers that do this at one time go below the limit rather than
 * above. False: nothing was counted.
 */
static bool reserve(const struct connection_request *wanted)
{
    const struct peer_local *local = wanted->pick->peer->local;
    struct peer_use *mine = peer_use_mine(local->cell);
    unsigned open_max = local->open_max;

    if (open_max == 0) {
        USE_ADD(mine->open, 1);
        return true;
    }
    do {
        atomic_fetch_add(&mine->open, 1);
        if (peer_open(local->cell) <= open_max) {
            return true;
        }
        atomic_fetch_sub(&mine->open, 1);
    } while (pool_close_one(wanted->pick->group, local));
    return false;
}

/* A fresh one; it was reserved. */
static enum upstream_connect_result open_fresh(const struct connection_request *wanted,
                                               struct upstream_connection **out, int *error)
{
    struct upstream_pick *pick = wanted->pick;
    struct conn *conn;
    enum upstream_connect_result result =
        upstream_connect(pick, wanted->options, wanted->deadline_ms, &conn, error);

    if (result != UPSTREAM_CONNECT_OK) {
        USE_ADD(peer_use_mine(pick->peer->cell)->open, -1u);
        wake_waiter(pick->peer->local);
        return result;
    }
    *out = upstream_connection_new(wanted, conn);
    return UPSTREAM_CONNECT_OK;
}

/* Until it is our turn, and a connection is free or was reserved. *out stays NULL in the latter
 * case. */
static enum upstream_connect_result wait_for_turn(const struct connection_request *wanted,
                                                  struct upstream_connection_waiter *self,
                                                  struct upstream_connection **out)
{
    const struct peer_local *local = wanted->pick->peer->local;
    uint64_t deadline_ms = wanted->deadline_ms;

    for (;;) {
        bool is_first = local->waiters.next == &self->node;
        uint64_t poll_ms = clock_now.now_ms + POLL_MS;

        if (is_first) {
            *out = reuse(wanted);
            if (*out != NULL || reserve(wanted)) {
                return UPSTREAM_CONNECT_OK;
            }
        }
        if (clock_now.now_ms >= deadline_ms) {
            return UPSTREAM_CONNECT_TIMED_OUT;
        }
        if (fiber_wait(&self->wake, is_first && poll_ms < deadline_ms ? poll_ms : deadline_ms) ==
            WAIT_CANCELLED) {
            return UPSTREAM_CONNECT_CANCELLED;
        }
    }
}

/* As many connections are open as the peer allows: in the order of coming. */
static enum upstream_connect_result open_in_turn(const struct connection_request *wanted,
                                                 struct upstream_connection **out, int *error)
{
    struct peer_local *local = wanted->pick->peer->local;
    struct peer_use *mine = peer_use_mine(local->cell);
    struct upstream_connection_waiter self = {.wake = {0}};

    list_push_back(&local->waiters, &self.node);
    USE_ADD(mine->waiting, 1);
    enum upstream_connect_result result = wait_for_turn(wanted, &self, out);
    USE_ADD(mine->waiting, -1u);
    list_remove(&self.node);
    if (result == UPSTREAM_CONNECT_OK && *out == NULL) {
        return open_fresh(wanted, out, error);
    }
    wake_waiter(local);
    if (result == UPSTREAM_CONNECT_TIMED_OUT) {
        *error = ETIMEDOUT;
        if (!wanted->options->tells_timeout) {
            log_error(wanted->pick->log, ETIMEDOUT, "upstream timed out");
        }
    }
    return result;
}

enum upstream_connect_result upstream_connection_open(
    struct upstream_pick *pick, const struct upstream_connection_options *options,
    uint64_t connect_timeout_ms, struct upstream_connection **out, int *error)
{
    struct peer_local *local = pick->peer->local;
    struct connection_request wanted = {.pick = pick,
                                        .options = options,
                                        .kind = {.tag = options->tag,
                                                 .language = options->language},
                                        .deadline_ms = clock_now.now_ms + connect_timeout_ms};

    if (options->local != NULL || options->tls != NULL) {
        wanted.kind.identity = identity_of(options);
    }
    /* A peer that may be this service itself: the connection carries the number of passes, for
     * max_self_hops. */
    if (__builtin_expect(options->hops != 0, 0) &&
        (options->quic == NULL ? own_may_be(&pick->peer->addr)
                               : own_may_take_datagrams(&pick->peer->addr))) {
        wanted.kind.hops = options->hops;
    }
    if (pick->group->slices != NULL) {
        wanted.kind.key = pool_key(pick);
    }
    *out = NULL;
    *error = 0;
    local->open_max = options->open_max;
    enum upstream_connect_result result = UPSTREAM_CONNECT_OK;
    if (__builtin_expect(list_is_empty(&local->waiters), 1)) {
        *out = reuse(&wanted);
    }
    if (*out == NULL) {
        result = list_is_empty(&local->waiters) && reserve(&wanted)
                     ? open_fresh(&wanted, out, error)
                     : open_in_turn(&wanted, out, error);
    }
    struct upstream_connection *connection = *out;
    if (connection != NULL) {
        if (connection->users++ == 0) {
            list_push_front(&local->busy, &connection->in_pool);
            connection->wake.is_signalled = false;
        }
        connection->requests++;
    }
    return result;
}

/* ---- letting go ---- */

void upstream_connection_note_end(const struct upstream_pick *pick)
{
    pool_note_end(pick->peer->local, 0);
}

/* Does another worker wait for a connection, of which max_conns allows no more? Ours come first
 * TURNS_OF_OURS times. */
static bool others_wait(struct peer_local *local)
{
    struct peer_cell *cell = local->cell;

    if (peer_open(cell) < local->open_max) {
        return false;
    }
    uint32_t ours = atomic_load_explicit(&peer_use_mine(cell)->waiting, memory_order_relaxed);
    if (peer_waiting(cell) == ours) {
        return false;
    }
    if (ours == 0 || ++local->turns >= TURNS_OF_OURS) {
        local->turns = 0;
        return true;
    }
    return false;
}

void upstream_connection_keep(struct upstream_connection *connection)
{
    struct peer_local *local = connection->local;

    CHECK_MAGIC(connection, UPSTREAM_CONNECTION_MAGIC);
    if (--connection->users != 0) {
        wake_waiter(local);
        return;
    }
    list_remove(&connection->in_pool);
    if (connection->is_doomed || local->holds == 0 ||
        (local->open_max != 0 && others_wait(local)) ||
        !(connection->pinned != NULL ? pinned_keep(connection) : pool_keep(connection))) {
        upstream_connection_destroy(connection);
        return;
    }
    wake_waiter(local);
}

void upstream_connection_close(struct upstream_connection *connection)
{
    CHECK_MAGIC(connection, UPSTREAM_CONNECTION_MAGIC);
    connection->is_doomed = true;
    if (--connection->users == 0) {
        list_remove(&connection->in_pool);
        upstream_connection_destroy(connection);
    }
}
