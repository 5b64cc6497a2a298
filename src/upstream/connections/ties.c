/* Connections of one client alone, because it may have logged in by them: who has them, and where they rest. */
#include "upstream/ties.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "server/generation.h"
#include "upstream/connections/connections.h"

#define LINKS_MAX 8     /* of one client's connection; those beyond serve one request */
#define RESTING_SHARE 4 /* of all connections of a worker one in so many may rest here */
#define TOLD_EVERY_MS 60000

struct link_tie {
    struct list links; /* struct upstream_connection by in_tie: the one used last is first */
    unsigned count;
};

/* Those that rest, of all ties of this worker; by in_pool, the one that came last is first. */
static struct list resting = {&resting, &resting};
static unsigned resting_count;
static uint64_t told_ms; /* when the log was told last that there are too many */

/* ---- who has which ---- */

static void unbind(struct upstream_connection *connection)
{
    connection->tie->count--;
    list_remove(&connection->in_tie);
    connection->tie = NULL;
}

void upstream_connection_bind(struct upstream_connection *connection, struct link_tie **at)
{
    if (connection->tie != NULL || connection->is_doomed) {
        return;
    }
    if (*at == NULL) {
        *at = calloc(1, sizeof(**at));
        if (*at == NULL) {
            fatal_no_memory(sizeof(**at));
        }
        list_init(&(*at)->links);
    }
    struct link_tie *tie = *at;
    if (connection->users > 1 || tie->count == LINKS_MAX) {
        connection->is_doomed = true;
        return;
    }
    connection->tie = tie;
    tie->count++;
    list_push_front(&tie->links, &connection->in_tie);
}

void tie_forget(struct upstream_connection *connection)
{
    if (connection->tie != NULL) {
        unbind(connection);
    }
}

void tie_end(struct link_tie *tie)
{
    if (tie == NULL) {
        return;
    }
    list_each(item, &tie->links) {
        struct upstream_connection *connection =
            container_of(item, struct upstream_connection, in_tie);

        unbind(connection);
        if (connection->users != 0) {
            connection->is_doomed = true;
        } else {
            tie_rest_ends(connection);
            upstream_connection_destroy(connection);
        }
    }
    free(tie);
}

/* ---- rest ---- */

static struct upstream_connection *longest_resting(void)
{
    return list_is_empty(&resting)
               ? NULL
               : container_of(resting.prev, struct upstream_connection, in_pool);
}

void tie_rest_ends(struct upstream_connection *connection)
{
    list_remove(&connection->in_pool);
    timer_clear(&connection->conn->timer);
    conn_backend_is_busy(connection->conn, true);
    resting_count--;
}

bool tie_close_one(void)
{
    struct upstream_connection *connection = longest_resting();

    if (connection != NULL) {
        idle_close(connection);
    }
    return connection != NULL;
}

/* Clients decide how many there are; what they leave to others has a bound. */
static void keep_in_bounds(void)
{
    if (resting_count < conn_pool.limit / RESTING_SHARE) {
        return;
    }
    counters_mine->limited++;
    if (told_ms == 0 || clock_now.now_ms - told_ms >= TOLD_EVERY_MS) {
        told_ms = clock_now.now_ms;
        log_warn(log_main, 0,
                 "%u upstream connections rest that clients have logged in by, closing the oldest",
                 resting_count);
    }
    tie_close_one();
}

bool tie_keep(struct upstream_connection *connection)
{
    if (!upstream_connection_may_rest(connection)) {
        return false;
    }
    keep_in_bounds();
    if (!upstream_connection_lay_down(connection)) {
        return false;
    }
    list_push_front(&resting, &connection->in_pool);
    resting_count++;
    return true;
}

struct upstream_connection *tie_take(struct link_tie *tie, const struct peer_local *local,
                                     const struct upstream_connection_kind *kind)
{
    list_each(item, &tie->links) {
        struct upstream_connection *connection =
            container_of(item, struct upstream_connection, in_tie);

        if (connection->users != 0 || connection->local != local ||
            !upstream_connection_kind_is(&connection->kind, kind)) {
            continue;
        }
        if (!upstream_connection_is_sound(connection)) {
            idle_close(connection);
            continue;
        }
        tie_rest_ends(connection);
        list_remove(&connection->in_tie);
        list_push_front(&tie->links, &connection->in_tie);
        connection->conn->owner = connection->owner;
        return connection;
    }
    return NULL;
}

void ties_close(const struct group_state *state, const struct peer_local *local)
{
    list_each(item, &resting) {
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

struct peer *tie_peer(const struct link_tie *tie, const struct upstream_pick *pick)
{
    list_each(item, &tie->links) {
        const struct upstream_connection *connection =
            container_of(item, struct upstream_connection, in_tie);
        struct peer *peer;

        if (connection->group != pick->group) {
            continue;
        }
        peer = find_peer(&pick->list->primary, connection->local);
        return peer != NULL ? peer : find_peer(&pick->list->backup, connection->local);
    }
    return NULL;
}
