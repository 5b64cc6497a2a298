/* Pools of connections that scripts keep, and who waits for one. Each VM has its own. */
#ifndef LUA_SOCKETS_POOL_H
#define LUA_SOCKETS_POOL_H

#include <lua.h>

#include "base/str.h"
#include "net/conn/conn.h"

struct socket_pool;

/* A connection that rests, or is handed on. */
struct idle_conn {
    struct conn *conn; /* NULL: none */
    unsigned reused;   /* times that it was taken out of a pool */
    uint64_t tls_identity;
};

/* Makes the pools of a VM; they go with it, and their connections are closed. */
void pools_begin(lua_State *L);

/* The pool of this key, or NULL. */
struct socket_pool *socket_pool_find(lua_State *L, struct str key);
/* The same, made where there is none: with so many places. backlog: how many may wait for one; -1:
 * nobody is held up. */
struct socket_pool *socket_pool_make(lua_State *L, struct str key, unsigned size, int64_t backlog);

/* How one came to a place in a pool. */
enum pool_entry {
    POOL_REUSED,  /* a connection is in *out */
    POOL_FRESH,   /* the caller makes one */
    POOL_CROWDED, /* too many wait */
    POOL_TIMED_OUT,
    POOL_CANCELLED,
};

/* A place for one more connection, and perhaps one that rests. socket_pool_leave, or
 * socket_pool_keep, gives the place back. MAY WAIT where the pool has a backlog. */
enum pool_entry socket_pool_enter(struct socket_pool *pool, uint64_t deadline_ms,
                                  struct idle_conn *out);
/* The same without waiting and without a limit: for pools without a backlog. */
void socket_pool_join(struct socket_pool *pool);
/* Is the pool one that holds up those who want more connections than it has places? */
bool socket_pool_has_backlog(const struct socket_pool *pool);
/* A connection of the pool was closed, or failed. The pool may be gone after this. */
void socket_pool_leave(struct socket_pool *pool);
/* A connection rests: goes to who waits for one, or is kept for so long (0: without end), and the
 * one that rests longest goes where there is no place. The pool is not the caller's any more. */
void socket_pool_keep(struct socket_pool *pool, const struct idle_conn *idle, uint64_t timeout_ms);

#endif
