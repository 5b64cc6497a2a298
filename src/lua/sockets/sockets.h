/* ngx.socket, and sockets over connections that others own.
 * Implemented in pool.c, send.c, socket.c, tables.c and tls.c. */
#ifndef LUA_SOCKETS_SOCKETS_H
#define LUA_SOCKETS_SOCKETS_H

#include <lua.h>

#include "lua/vm/thread.h"
#include "net/conn/conn.h"

struct script_socket;

/* How more bytes came. */
enum script_got {
    SCRIPT_GOT_BYTES,
    SCRIPT_GOT_END,
    SCRIPT_GOT_NOTHING, /* in time */
    SCRIPT_GOT_FAILURE, /* the source's `error` tells */
    SCRIPT_GOT_CANCELLED,
};

/* Where the bytes of a socket come from. Embedded in what has them; lives as long as the socket or
 * its subject. */
struct script_source {
    /* Bytes that have arrived and were not taken; and takes some of them. */
    struct str (*input)(struct script_source *source);
    void (*consume)(struct script_source *source, size_t count);
    /* Gets more; `wanted`: how many are asked for, as a hint. MAY WAIT. */
    enum script_got (*more)(struct script_source *source, size_t wanted, uint64_t timeout_ms);
    const char *error; /* of a failure: as Lua sees it, "connection reset by peer" */
    struct conn *conn; /* that they come over, for getfd; or NULL */
    bool is_shaking;   /* a handshake is under way over conn, which is neither read nor sent to */
    bool fails_again;  /* reading again after a failure reports it again; else the socket is closed
                          for reading */
};

/* What a socket over somebody else's connection can do. */
struct script_face {
    struct script_source *source;
    struct conn *conn; /* that is sent to, or NULL: it is only read. Never closed here */
};

/* Adds ngx.socket to the table on top. Once for each VM. */
void script_sockets_add(lua_State *L);

/*
 * Pushes a socket object over a connection that somebody else has: ngx.req.socket. It is of the
 * thread's subject, and dead once that has ended. What conn and source point to lives as long.
 * conn's owner, when there is one, must have a NULL `input` or conn_wake_input.
 */
void script_socket_push(lua_State *L, struct script_thread *thread, const struct script_face *face);

/* What settimeout said to the socket at index 1 of how long connecting and handshakes may take, or
 * the settings do. */
uint64_t script_socket_connect_timeout(lua_State *L, const struct script_thread *thread);

/* A source that reads a conn. */
struct script_conn_source {
    struct script_source source; /* its conn is read */
    size_t buffer_size;          /* bytes of the first buffer */
    char error[80];              /* the text of its failure */
};
void script_conn_source_init(struct script_conn_source *source, struct conn *conn,
                             size_t buffer_size);

/* The worker ends, or the configuration is replaced: idle connections of all pools are closed, and
 * none is kept any more. */
void script_sockets_quit(void);

/* The text of an argument that is a string, a number, nil, a boolean, or a table of such and of
 * tables; it takes the argument's place. An error is thrown for others. */
struct str script_check_pieces(lua_State *L, int index);

#endif
