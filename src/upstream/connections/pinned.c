/* Connections of one client alone, because it may have logged in on them: whose they are, and which
 * are idle. */
#include "upstream/pinned.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "server/generation.h"
#include "upstream/connections/connections.h"

#define PINNED_MAX 8 /* of one client's connection; those beyond serve one request */
#define IDLE_SHARE 4 /* of all connections of a worker one in so many may be idle here */
#define LOG_EVERY_MS 60000

struct pinned_connections {
    struct list
        connections; /* struct upstream_connection by in_pinned: the one used last is first */
    unsigned count;
};

/* Those that are idle, of all clients of this worker; by in_pool, the one that came last is first.
 */
static struct list idle = {&idle, &idle};
static unsigned idle_count;
static uint64_t logged_ms; /* when it was logged last that there are too many */

/* ---- whose they are ---- */

static void unbind(struct upstream_connection *connection)
{
    connection->pinned->count--;
    list_remove(&connection->in_pinned);
    connection->pinned = NULL;
}

void upstream_connection_bind(struct upstream_connection *connection,
                              struct pinned_connections **at)
{
    if (connection->pinned != NULL || connection->is_doomed) {
        return;
    }
    if (*at == NULL) {
        *at = calloc(1, sizeof(**at));
        if (*at == NULL) {
            fatal_no_memory(sizeof(**at));
        }
        list_init(&(*at)->connections);
    }
    struct pinned_connections *pinned = *at;
    if (connection->users > 1 || pinned->count == PINNED_MAX) {
        connection->is_doomed = true;
        return;
    }
    connection->pinned = pinned;
    pinned->count++;
    list_push_front(&pinned->connections, &connection->in_pinned);
}

void pinned_forget(struct upstream_connection *connection)
{
    if (connection->pinned != NULL) {
        unbind(connection);
    }
}

void pinned_end(struct pinned_connections *pinned)
{
    if (pinned == NULL) {
        return;
    }
    list_each(item, &pinned->connections) {
        struct upstream_connection *connection =
            container_of(item, struct upstream_connection, in_pinned);

        unbind(connection);
        if (connection->users != 0) {
            connection->is_doomed = true;
        } else {
            pinned_idle_ends(connection);
            upstream_connection_destroy(connection);
        }
    }
    free(pinned);
}

/* ---- idle connections ---- */

static struct upstream_connection *longest_idle(void)
{
    return list_is_empty(&idle) ? NULL
                                : container_of(idle.prev, struct upstream_connection, in_pool);
}

void pinned_idle_ends(struct upstream_connection *connection)
{
    list_remove(&connection->in_pool);
    timer_clear(&connection->conn->timer);
    conn_backend_is_busy(connection->conn, true);
    idle_count--;
}

bool pinned_close_one(void)
{
    struct upstream_connection *connection = longest_idle();

    if (connection != NULL) {
        idle_close(connection);
    }
    return connection != NULL;
}

/* Clients decide how many there are, so their share of the worker's connections is limited. */
static void keep_in_bounds(void)
{
    if (idle_count < conn_pool.limit / IDLE_SHARE) {
        return;
    }
    counters_mine->limited++;
    if (logged_ms == 0 || clock_now.now_ms - logged_ms >= LOG_EVERY_MS) {
        logged_ms = clock_now.now_ms;
        log_warn(
            log_main, 0,
            "%u idle upstream connections belong to clients that logged in on them, closing the oldest",
            idle_count);
    }
    pinned_close_one();
}

bool pinned_keep(struct upstream_connection *connection)
{
    if (!upstream_connection_lay_down(connection)) {
        return false;
    }
    keep_in_bounds();
    list_push_front(&idle, &connection->in_pool);
    idle_count++;
    return true;
}

struct upstream_connection *pinned_take(struct pinned_connections *pinned,
                                        const struct peer_local *local,
                                        const struct upstream_connection_kind *kind)
{
    list_each(item, &pinned->connections) {
        struct upstream_connection *connection =
            container_of(item, struct upstream_connection, in_pinned);

        if (connection->users != 0 || connection->local != local ||
            !upstream_connection_kind_is(&connection->kind, kind)) {
            continue;
        }
        if (!upstream_connection_is_sound(connection)) {
            idle_close(connection);
            continue;
        }
        pinned_idle_ends(connection);
        list_remove(&connection->in_pinned);
        list_push_front(&pinned->connections, &connection->in_pinned);
        connection->conn->owner = connection->owner;
        return connection;
    }
    return NULL;
}

void pinned_close(const struct group_state *state, const struct peer_local *local)
{
    list_each(item, &idle) {
        struct upstream_connection *connection =
            container_of(item, struct upstream_connection, in_pool);

        if (connection->group->worker_state == state &&
            (local == NULL || connection->local == local)) {
            idle_close(connection);
        }
    }
}

/* ---- the peer that has them ---- */

static struct peer *find_peer(const struct peer_set *set, const struct peer_local *local)
{
    for (unsigned i = 0; i < set->count; i++) {
        if (set->peers[i].local == local) {
            return &set->peers[i];
        }
    }
    return NULL;
}

struct peer *pinned_peer(const struct pinned_connections *pinned, const struct upstream_pick *pick)
{
    list_each(item, &pinned->connections) {
        const struct upstream_connection *connection =
            container_of(item, struct upstream_connection, in_pinned);
        struct peer *peer;

        if (connection->group != pick->group) {
            continue;
        }
        peer = find_peer(&pick->list->primary, connection->local);
        return peer != NULL ? peer : find_peer(&pick->list->backup, connection->local);
    }
    return NULL;
}
