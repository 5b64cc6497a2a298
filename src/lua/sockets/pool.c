/* Pools of connections that scripts keep. */
#include "lua/sockets/pool.h"

#include <lauxlib.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "base/list.h"
#include "lua/sockets/sockets.h"

#define BUCKETS 64u

/* The pools of a VM. A userdata. */
struct socket_pools {
    struct list node;             /* in all_pools */
    struct list buckets[BUCKETS]; /* struct socket_pool */
};

struct socket_pool {
    struct list node;     /* in its bucket */
    struct list idle;     /* struct rested, that came last first */
    struct list waiting;  /* struct waiter, that came first first */
    unsigned connections; /* in use, resting, and being made */
    unsigned resting_count;
    unsigned waiting_count;
    unsigned size;   /* places */
    int64_t backlog; /* who may wait; -1: nobody is held up */
    struct str key;  /* on the heap, after the struct */
};

/* A connection that rests. */
struct rested {
    struct list node; /* in the pool's list */
    struct socket_pool *pool;
    struct idle_conn idle;
};

/* A fiber that waits for a place. On its stack. */
struct waiter {
    struct list node;
    struct wait_point wake;
    struct idle_conn idle; /* what it was given; without conn: the place alone */
    bool was_served;
};

static struct list all_pools = {&all_pools, &all_pools}; /* struct socket_pools */
static char registry_key; /* its address: where a VM's pools are in the registry */

/* ---- pools ---- */

static struct socket_pools *pools_of(lua_State *L)
{
    lua_pushlightuserdata(L, &registry_key);
    lua_rawget(L, LUA_REGISTRYINDEX);
    struct socket_pools *pools = lua_touserdata(L, -1);
    lua_pop(L, 1);
    return pools;
}

static struct list *script_pool_bucket_of(struct socket_pools *pools, struct str key)
{
    return &pools->buckets[str_hash(key) % BUCKETS];
}

struct socket_pool *socket_pool_find(lua_State *L, struct str key)
{
    list_each(item, script_pool_bucket_of(pools_of(L), key)) {
        struct socket_pool *pool = container_of(item, struct socket_pool, node);

        if (str_equal(pool->key, key)) {
            return pool;
        }
    }
    return NULL;
}

struct socket_pool *socket_pool_make(lua_State *L, struct str key, unsigned size, int64_t backlog)
{
    struct socket_pool *pool = socket_pool_find(L, key);

    if (pool != NULL) {
        return pool;
    }
    pool = calloc(1, sizeof(*pool) + key.len);
    if (pool == NULL) {
        fatal_no_memory(sizeof(*pool) + key.len);
    }
    list_init(&pool->idle);
    list_init(&pool->waiting);
    pool->size = size;
    pool->backlog = backlog;
    memcpy(pool + 1, key.data, key.len);
    pool->key = (struct str){(char *) (pool + 1), key.len};
    list_push_front(script_pool_bucket_of(pools_of(L), key), &pool->node);
    return pool;
}

bool socket_pool_has_backlog(const struct socket_pool *pool)
{
    return pool->backlog >= 0;
}

static void socket_pool_free_if_unused(struct socket_pool *pool)
{
    if (pool->connections == 0 && pool->waiting_count == 0) {
        list_remove(&pool->node);
        free(pool);
    }
}

/* ---- connections that rest ---- */

/* Off the list; the place stays taken. */
static struct idle_conn rested_take(struct rested *rested)
{
    struct idle_conn idle = rested->idle;

    list_remove(&rested->node);
    rested->pool->resting_count--;
    timer_clear(&idle.conn->timer);
    conn_backend_is_busy(idle.conn, true);
    free(rested);
    return idle;
}

static void rested_close(struct rested *rested)
{
    struct socket_pool *pool = rested->pool;
    struct idle_conn idle = rested_take(rested);

    conn_close(idle.conn);
    socket_pool_leave(pool);
}

/* Its end, or bytes that nobody asked for. What TLS says for itself is none. */
static void rested_input(struct conn *conn)
{
    if (conn_fill(conn, 512, 512) || conn->is_input_closed || conn->is_broken ||
        conn->is_peer_closed) {
        rested_close(conn->user);
        return;
    }
    conn_input_release(conn);
}

static void rested_timed_out(struct conn *conn)
{
    rested_close(conn->user);
}

static const struct conn_owner rested_owner = {.input = rested_input,
                                               .timed_out = rested_timed_out};

static void rest(struct socket_pool *pool, const struct idle_conn *idle, uint64_t timeout_ms)
{
    struct rested *rested = malloc(sizeof(*rested));

    if (rested == NULL) {
        fatal_no_memory(sizeof(*rested));
    }
    if (pool->resting_count >= pool->size) {
        rested_close(container_of(pool->idle.prev, struct rested, node));
    }
    *rested = (struct rested){.pool = pool, .idle = *idle};
    list_push_front(&pool->idle, &rested->node);
    pool->resting_count++;
    idle->conn->user = rested;
    idle->conn->owner = &rested_owner;
    conn_backend_is_busy(idle->conn, false);
    conn_input_release(idle->conn);
    if (timeout_ms != 0) {
        conn_set_deadline(idle->conn, clock_now.now_ms + timeout_ms);
    }
    if (!conn_watch(idle->conn)) {
        rested_close(rested);
    }
}

/* ---- places ---- */

/* Gives the first who waits what has become free. False: nobody waits. */
static bool script_pool_serve(struct socket_pool *pool, const struct idle_conn *idle)
{
    struct list *first = list_pop_front(&pool->waiting);

    if (first == NULL) {
        return false;
    }
    struct waiter *waiter = container_of(first, struct waiter, node);
    list_init(&waiter->node);
    pool->waiting_count--;
    waiter->idle = *idle;
    waiter->was_served = true;
    wait_signal_later(&waiter->wake);
    return true;
}

void socket_pool_join(struct socket_pool *pool)
{
    pool->connections++;
}

void socket_pool_leave(struct socket_pool *pool)
{
    const struct idle_conn none = {.conn = NULL};

    if (!script_pool_serve(pool, &none)) {
        pool->connections--;
        socket_pool_free_if_unused(pool);
    }
}

void socket_pool_keep(struct socket_pool *pool, const struct idle_conn *idle, uint64_t timeout_ms)
{
    if (!script_pool_serve(pool, idle)) {
        rest(pool, idle, timeout_ms);
    }
}

/* MAY WAIT. */
static enum pool_entry await_place(struct socket_pool *pool, uint64_t deadline_ms,
                                   struct idle_conn *out)
{
    struct waiter waiter = {.was_served = false};

    list_push_back(&pool->waiting, &waiter.node);
    pool->waiting_count++;
    enum wait_result result = fiber_wait(&waiter.wake, deadline_ms);
    if (waiter.was_served) {
        *out = waiter.idle;
        return waiter.idle.conn != NULL ? POOL_REUSED : POOL_FRESH;
    }
    list_remove(&waiter.node);
    pool->waiting_count--;
    socket_pool_free_if_unused(pool);
    return result == WAIT_CANCELLED ? POOL_CANCELLED : POOL_TIMED_OUT;
}

enum pool_entry socket_pool_enter(struct socket_pool *pool, uint64_t deadline_ms,
                                  struct idle_conn *out)
{
    *out = (struct idle_conn){.conn = NULL};
    if (!list_is_empty(&pool->idle)) {
        *out = rested_take(container_of(pool->idle.next, struct rested, node));
        return POOL_REUSED;
    }
    if (!socket_pool_has_backlog(pool) || pool->connections < pool->size) {
        pool->connections++;
        return POOL_FRESH;
    }
    if (pool->waiting_count >= (uint64_t) pool->backlog) {
        return POOL_CROWDED;
    }
    return await_place(pool, deadline_ms, out);
}

/* ---- all pools ---- */

static void socket_pool_empty(struct socket_pool *pool)
{
    unsigned count =
        pool->resting_count; /* the pool goes with its last connection, when none is in use */

    while (count-- != 0) {
        rested_close(container_of(pool->idle.prev, struct rested, node));
    }
}

static void pools_empty(struct socket_pools *pools)
{
    for (unsigned i = 0; i < BUCKETS; i++) {
        for (struct list *item = pools->buckets[i].next; item != &pools->buckets[i];) {
            struct list *next = item->next;

            socket_pool_empty(container_of(item, struct socket_pool, node));
            item = next;
        }
    }
}

/* The VM ends: all that had a place has left it, or leaves it no more. */
static int pools_end(lua_State *L)
{
    struct socket_pools *pools = lua_touserdata(L, 1);

    pools_empty(pools);
    list_remove(&pools->node);
    return 0;
}

void pools_begin(lua_State *L)
{
    lua_pushlightuserdata(L, &registry_key);
    struct socket_pools *pools = lua_newuserdata(L, sizeof(*pools));

    for (unsigned i = 0; i < BUCKETS; i++) {
        list_init(&pools->buckets[i]);
    }
    list_push_back(&all_pools, &pools->node);
    lua_newtable(L);
    lua_pushcfunction(L, pools_end);
    lua_setfield(L, -2, "__gc");
    lua_setmetatable(L, -2);
    lua_rawset(L, LUA_REGISTRYINDEX);
}

void script_sockets_quit(void)
{
    list_each(item, &all_pools) {
        pools_empty(container_of(item, struct socket_pools, node));
    }
}
