/* Idle connections: kept for the next request, within the limits of their group. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "net/shards/listener.h"
#include "upstream/connections/connections.h"

/* How often idle connections are looked at that other workers may need. */
#define SHARE_EVERY_MS 100
/* How long it is assumed that a peer ends idle connections as soon as it was seen to. */
#define ENDS_BELIEVED_MS 60000
/* A request has to reach the peer before the connection's time is over: this part of it is left,
 * and so much at most. */
#define MARGIN_PART 4
#define MARGIN_MAX_MS 1000

/* ---- pools ---- */

struct str pool_key(const struct upstream_pick *pick)
{
    const struct keepalive_slices *slices = pick->group->slices;
    struct str on;

    if (pick->env == NULL) {
        return STR_NONE;
    }
    if (slices->switch_on != NULL) {
        on = template_text(slices->switch_on, pick->env);
        if (on.len == 0 || str_is(on, "0")) {
            return STR_NONE;
        }
    }
    return str_head(template_text(slices->key, pick->env), slices->key_length_max);
}

struct str pool_key_dup(struct str key)
{
    char *copy;

    if (key.len == 0) {
        return STR_NONE;
    }
    copy = malloc(key.len);
    if (copy == NULL) {
        fatal_no_memory(key.len);
    }
    memcpy(copy, key.data, key.len);
    return (struct str){copy, key.len};
}

/* The pool of idle connections of this kind, or NULL. The one that is used comes first among those
 * with a key. */
static struct idle_pool *pool_find(const struct upstream_group *group,
                                   const struct upstream_connection_kind *kind)
{
    struct group_state *state = group->worker_state;
    const void *tag = group->is_keepalive_local ? kind->tag : NULL;

    list_each(item, &state->pools) {
        struct idle_pool *pool = container_of(item, struct idle_pool, in_group);

        if (pool->kind.tag == tag && str_equal(pool->kind.key, kind->key)) {
            if (kind->key.len != 0) {
                list_remove(item);
                list_push_front(&state->pools, item);
            }
            return pool;
        }
    }
    return NULL;
}

/* Off the pool; it stays open. */
static void pool_remove(struct upstream_connection *connection)
{
    list_remove(&connection->in_pool);
    connection->pool->count--;
    connection->pool = NULL;
    connection->local->idle--;
    conn_backend_is_busy(connection->conn, true);
    timer_clear(&connection->conn->timer);
}

static struct upstream_connection *longest_idle_of(const struct idle_pool *pool)
{
    return container_of(pool->connections.prev, struct upstream_connection, in_pool);
}

void idle_close(struct upstream_connection *connection)
{
    if (connection->pool != NULL) {
        pool_remove(connection);
    } else {
        pinned_idle_ends(connection);
    }
    upstream_connection_destroy(connection);
}

static void pool_empty(struct idle_pool *pool)
{
    while (pool->count != 0) {
        idle_close(longest_idle_of(pool));
    }
}

static void pool_free(struct group_state *state, struct idle_pool *pool)
{
    pool_empty(pool);
    list_remove(&pool->in_group);
    state->keys -= pool->kind.key.len != 0;
    free((char *) pool->kind.key.data);
    free(pool);
}

/* The key that was used least recently goes, with its connections. */
static void drop_one_key(struct group_state *state)
{
    for (struct list *item = state->pools.prev; item != &state->pools; item = item->prev) {
        struct idle_pool *pool = container_of(item, struct idle_pool, in_group);

        if (pool->kind.key.len != 0) {
            pool_free(state, pool);
            return;
        }
    }
}

static struct idle_pool *pool_new(const struct upstream_group *group,
                                  const struct upstream_connection_kind *kind)
{
    struct group_state *state = group->worker_state;
    struct idle_pool *pool = calloc(1, sizeof(*pool));

    if (kind->key.len != 0 && state->keys >= group->slices->keys_max) {
        drop_one_key(state);
    }
    if (pool == NULL) {
        fatal_no_memory(sizeof(*pool));
    }
    pool->kind.tag = group->is_keepalive_local ? kind->tag : NULL;
    pool->kind.key = pool_key_dup(kind->key);
    list_init(&pool->connections);
    list_push_front(&state->pools, &pool->in_group);
    state->keys += kind->key.len != 0;
    return pool;
}

/* ---- all pools of this worker ---- */

static struct list states = {&states, &states}; /* struct group_state by in_pools */

void pools_start(struct group_state *state)
{
    list_init(&state->pools);
    list_push_back(&states, &state->in_pools);
}

void pools_forget(struct group_state *state)
{
    list_remove(&state->in_pools);
}

/* ---- what happens to an idle one ---- */

void pool_note_end(struct peer_local *local, uint64_t idle_ms)
{
    if (clock_now.now_ms >= local->ends_until_ms || idle_ms <= local->ends_after_ms) {
        local->ends_after_ms = idle_ms;
        local->ends_until_ms = clock_now.now_ms + ENDS_BELIEVED_MS;
    }
}

/* The peer ended it, or sent bytes that nobody asked for. */
static void idle_ended(struct upstream_connection *connection)
{
    if (!connection->is_doomed) { /* it was not announced (GOAWAY) */
        pool_note_end(connection->local, clock_now.now_ms - connection->idle_since_ms);
    }
    idle_close(connection);
}

static void idle_input(struct conn *conn)
{
    struct upstream_connection *connection = conn->user;

    if (connection->idle_input != NULL) {
        if (!connection->idle_input(connection) || conn->is_peer_closed) {
            idle_ended(connection);
        }
        return;
    }
    if (conn->is_peer_closed || conn->is_broken || conn->is_input_closed ||
        conn_fill(conn, 512, 512) || conn->is_input_closed || conn->is_broken) {
        idle_ended(connection);
    }
}

static void idle_timed_out(struct conn *conn)
{
    idle_close(conn->user);
}

static const struct conn_owner idle_owner = {.input = idle_input, .timed_out = idle_timed_out};

/* ---- where a peer allows few connections ---- */

static struct timer share_timer; /* set while there are idle ones to such peers */

static void share_later(void)
{
    if (share_timer.fire != NULL && share_timer.deadline_ms == NO_DEADLINE) {
        timer_set(&share_timer, clock_now.now_ms + SHARE_EVERY_MS);
    }
}

/* Gives whether it has idle ones to such peers still. */
static bool share_pools(struct group_state *state)
{
    bool is_needed = false;

    list_each(item, &state->pools) {
        struct idle_pool *pool = container_of(item, struct idle_pool, in_group);

        list_each(at, &pool->connections) {
            struct upstream_connection *connection =
                container_of(at, struct upstream_connection, in_pool);
            struct peer_local *local = connection->local;

            if (local->open_max == 0) {
                continue;
            }
            if (list_is_empty(&local->waiters) && peer_waiting(local->cell) != 0 &&
                peer_open(local->cell) >= local->open_max) {
                idle_close(connection);
            } else {
                is_needed = true;
            }
        }
    }
    return is_needed;
}

/* Idle ones here while requests of other workers wait for one: these have nobody else to help them.
 */
static void share_idle(struct timer *timer)
{
    bool is_needed = false;

    list_each(item, &states) {
        is_needed |= share_pools(container_of(item, struct group_state, in_pools));
    }
    if (is_needed) {
        share_later();
    }
}

/* ---- taking and keeping ---- */

bool upstream_connection_is_sound(struct upstream_connection *connection)
{
    struct conn *conn = connection->conn;

    if (connection->idle_input != NULL && conn->is_readable &&
        !connection->idle_input(connection)) {
        return false;
    }
    if (conn->is_peer_closed || conn->is_broken || conn->is_input_closed) {
        return false;
    }
    return !conn->is_readable || connection->idle_input != NULL ||
           (!conn_fill(conn, 512, 512) && !conn->is_input_closed && !conn->is_broken);
}

bool upstream_connection_kind_is(const struct upstream_connection_kind *a,
                                 const struct upstream_connection_kind *b)
{
    return a->tag == b->tag && a->language == b->language && a->identity == b->identity &&
           a->hops == b->hops && str_equal(a->key, b->key);
}

/* Will the peer keep it open until a request has come to it, by all that it said and did? */
static bool is_stored_for_now(const struct upstream_connection *connection)
{
    const struct peer_local *local = connection->local;
    uint64_t limit_ms = connection->keeps_ms;

    if (clock_now.now_ms < local->ends_until_ms && local->ends_after_ms < limit_ms) {
        limit_ms = local->ends_after_ms;
    }
    uint64_t margin_ms = limit_ms / MARGIN_PART;
    margin_ms = margin_ms < MARGIN_MAX_MS ? margin_ms : MARGIN_MAX_MS;
    return clock_now.now_ms - connection->idle_since_ms < limit_ms - margin_ms;
}

struct upstream_connection *pool_take(const struct upstream_group *group, struct peer_local *local,
                                      const struct upstream_connection_kind *kind,
                                      const struct upstream_connection_options *options)
{
    struct idle_pool *pool = local->idle == 0 ? NULL : pool_find(group, kind);

    if (pool == NULL) {
        return NULL;
    }
    list_each(item, &pool->connections) {
        struct upstream_connection *connection =
            container_of(item, struct upstream_connection, in_pool);

        if (connection->local != local || connection->is_taken ||
            !upstream_connection_kind_is(&connection->kind, kind)) {
            continue;
        }
        if (options->is_unrepeatable) {
            connection->conn->is_readable =
                1; /* the socket is asked: its end may have come just now */
        }
        if (!upstream_connection_is_sound(connection)) {
            idle_ended(connection);
            continue;
        }
        if (options->is_unrepeatable &&
            (options->is_unpromised || !is_stored_for_now(connection))) {
            idle_close(connection);
            return NULL; /* those that follow became idle before it */
        }
        pool_remove(connection);
        connection->conn->owner = connection->owner;
        return connection;
    }
    return NULL;
}

void pool_drop(const struct upstream_group *group, struct peer_local *local,
               const struct upstream_connection_kind *kind)
{
    struct idle_pool *pool = local->idle == 0 ? NULL : pool_find(group, kind);

    if (pool == NULL) {
        return;
    }
    list_each(item, &pool->connections) {
        struct upstream_connection *connection =
            container_of(item, struct upstream_connection, in_pool);

        if (connection->local == local && !connection->is_taken &&
            upstream_connection_kind_is(&connection->kind, kind)) {
            idle_close(connection);
        }
    }
}

bool upstream_connection_lay_down(struct upstream_connection *connection)
{
    const struct upstream_group *group = connection->group;
    struct conn *conn = connection->conn;
    bool has_time = (int64_t) connection->requests < group->keepalive_requests &&
                    clock_now.now_ms - connection->opened_ms < group->keepalive_time_ms;
    bool is_wanted = group->keepalive != 0 || (connection->pinned != NULL && group->keeps_logins);

    if (!is_wanted || !has_time || worker_is_quitting || group->set->is_quitting ||
        conn->is_broken || conn->is_input_closed || conn->is_peer_closed ||
        conn_unsent(conn) != 0 || conn->in_start != conn->in_end) {
        return false;
    }
    conn_input_release(conn);
    connection->owner = conn->owner;
    conn->owner = &idle_owner;
    if (!conn_watch(conn)) {
        conn->owner = connection->owner;
        return false;
    }
    connection->idle_since_ms = clock_now.now_ms;
    uint64_t timeout_ms = group->keepalive_timeout_ms;
    conn_set_deadline(conn,
                      clock_now.now_ms +
                          (timeout_ms < connection->keeps_ms ? timeout_ms : connection->keeps_ms));
    conn_backend_is_busy(conn, false);
    return true;
}

bool pool_keep(struct upstream_connection *connection)
{
    const struct upstream_group *group = connection->group;
    bool has_key = connection->kind.key.len != 0;

    if ((has_key && group->slices->keys_max == 0) || !upstream_connection_lay_down(connection)) {
        return false;
    }
    struct idle_pool *pool = pool_find(group, &connection->kind);
    if (pool == NULL) {
        pool = pool_new(group, &connection->kind);
    }
    if (pool->count >= (has_key ? group->slices->connections : group->keepalive)) {
        idle_close(longest_idle_of(pool));
    }
    list_push_front(&pool->connections, &connection->in_pool);
    connection->pool = pool;
    pool->count++;
    connection->local->idle++;
    if (connection->local->open_max != 0) {
        share_later();
    }
    return true;
}

/* ---- closing ---- */

bool pool_close_one(const struct upstream_group *group, const struct peer_local *local)
{
    if (local->idle == 0) {
        return false;
    }
    list_each(item, &group->worker_state->pools) {
        struct idle_pool *pool = container_of(item, struct idle_pool, in_group);

        for (struct list *at = pool->connections.prev; at != &pool->connections; at = at->prev) {
            struct upstream_connection *connection =
                container_of(at, struct upstream_connection, in_pool);

            if (connection->local == local) {
                idle_close(connection);
                return true;
            }
        }
    }
    return false;
}

void pools_close_peer(struct group_state *state, const struct peer_local *local)
{
    list_each(item, &state->pools) {
        struct idle_pool *pool = container_of(item, struct idle_pool, in_group);

        if (local->idle == 0) {
            break;
        }
        list_each(at, &pool->connections) {
            struct upstream_connection *connection =
                container_of(at, struct upstream_connection, in_pool);

            if (connection->local == local) {
                idle_close(connection);
            }
        }
    }
    pinned_close(state, local);
}

void pools_close(struct group_state *state)
{
    list_each(item, &state->pools) {
        pool_empty(container_of(item, struct idle_pool, in_group));
    }
    pinned_close(state, NULL);
}

void pools_free(struct group_state *state)
{
    list_each(item, &state->pools) {
        pool_free(state, container_of(item, struct idle_pool, in_group));
    }
    pools_forget(state);
}

/* ---- giving way ---- */

/* Of a group's idle connections to an address, the one that became idle first, or `found` where
 * that did. */
static struct upstream_connection *older_to(const struct group_state *state,
                                            const struct addr *addr,
                                            struct upstream_connection *found)
{
    list_each(item, &state->pools) {
        struct idle_pool *pool = container_of(item, struct idle_pool, in_group);

        list_each(at, &pool->connections) {
            struct upstream_connection *connection =
                container_of(at, struct upstream_connection, in_pool);

            if (addr_equal(&connection->addr, addr) &&
                (found == NULL || connection->idle_since_ms < found->idle_since_ms)) {
                found = connection;
            }
        }
    }
    return found;
}

bool upstream_connection_give_way(const struct upstream_connection *waiting)
{
    struct upstream_connection *found = NULL;

    list_each(item, &states) {
        const struct group_state *state = container_of(item, struct group_state, in_pools);

        found = older_to(state, &waiting->addr, found);
    }
    if (found == NULL) {
        return false;
    }
    idle_close(found);
    return true;
}

static bool (*make_room_else)(void); /* what was done before we were asked */

/* The one whose time is up first, of a group and of what was found before. */
static struct upstream_connection *longest_idle(const struct group_state *state,
                                                struct upstream_connection *found)
{
    list_each(item, &state->pools) {
        struct idle_pool *pool = container_of(item, struct idle_pool, in_group);
        struct upstream_connection *connection = pool->count == 0 ? NULL : longest_idle_of(pool);

        if (connection != NULL && (found == NULL || connection->conn->timer.deadline_ms <
                                                        found->conn->timer.deadline_ms)) {
            found = connection;
        }
    }
    return found;
}

/* Clients that rest first: they come back by themselves at no cost for a request under way. */
static bool pool_make_room(void)
{
    struct upstream_connection *found = NULL;

    if (make_room_else != NULL && make_room_else()) {
        return true;
    }
    list_each(item, &states) {
        found = longest_idle(container_of(item, struct group_state, in_pools), found);
    }
    if (found == NULL && !pinned_close_one()) {
        return false;
    }
    conn_pool.given_way++;
    if (found != NULL) {
        idle_close(found);
    }
    return true;
}

void pools_worker_start(void)
{
    timer_init(&share_timer, share_idle);
    if (acceptors_make_room != pool_make_room) {
        make_room_else = acceptors_make_room;
        acceptors_make_room = pool_make_room;
    }
}

void pools_worker_end(void)
{
    timer_remove(&share_timer);
    share_timer.fire = NULL;
}
