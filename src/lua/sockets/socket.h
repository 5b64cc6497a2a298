/* Inside src/lua/sockets: a socket object and what its files share.
 * Implemented in socket.c, connect.c, send.c, tls.c and udp.c. */
#ifndef LUA_SOCKETS_SOCKET_H
#define LUA_SOCKETS_SOCKET_H

#include <inttypes.h>

#include "base/buf.h"
#include "lua/sockets/sockets.h"
#include "lua/sockets/take.h"
#include "lua/vm/function.h"
#include "lua/vm/settings.h"
#include "upstream/connection.h"

#define SOCKET_MAGIC 0x50c4e700u
#define SOCKET_POINTER "%016" PRIXPTR /* as lines of the log have a pointer */
#define SOCKET_NAME_MAX 320           /* bytes of "host:port(address)" */

/* Fields of a socket's table, by number: what a script finds there is known to it. */
enum {
    SOCKET_STATE = 1,           /* the struct script_socket, once it was connected */
    SOCKET_CONNECT_TIMEOUT = 2, /* ms, or nil: as lua_socket_connect_timeout says */
    SOCKET_KEY = 3,             /* of its pool */
    SOCKET_SEND_TIMEOUT = 4,
    SOCKET_READ_TIMEOUT = 5,
    SOCKET_BIND = 6,        /* a string: the address that it is bound to */
    SOCKET_CERTIFICATE = 7, /* setclientcert: pointers to a chain and to a key … */
    SOCKET_KEY_OF_CERTIFICATE = 8,
    SOCKET_CERTIFICATE_OBJECTS = 9, /* the two objects that key and certificate point to */
    SOCKET_BIND_PORT = 10,          /* a number: the port of SOCKET_BIND, 0 = any */
};

/* What it does. */
enum socket_stage { SOCKET_IDLE, SOCKET_RESOLVING, SOCKET_CONNECTING, SOCKET_OPEN };

struct socket_pool;

/* A userdata. */
struct script_socket {
    uint32_t magic;
    enum socket_stage stage;
    struct script_resource resource;      /* in the subject's list while that lives */
    struct script_subject *subject;       /* whom it works for; NULL: that has ended */
    struct script_source *source;         /* NULL while it is not open */
    struct script_conn_source own_source; /* of a conn of its own */
    struct conn *conn;                    /* that is sent to, or NULL; its own unless is_borrowed */
    struct socket_pool *pool;             /* in which it has a place, or NULL */
    unsigned reused;                      /* times that conn was taken out of a pool */
    bool is_borrowed;                     /* over somebody else's connection */
    bool is_reading, is_writing, is_shaking; /* a thread waits in it */
    bool has_read_last;    /* the end, or a failure, was reported: nothing is read any more */
    bool has_sent_last;    /* likewise of sending */
    bool is_touched;       /* bytes went or came since it was connected */
    uint64_t tls_identity; /* how TLS was made on it; 0 = it was not by us */
    void *store;           /* X509_STORE that the next handshake trusts; a reference; or NULL */
    struct buf gathered;   /* of the receive that is under way */
    size_t buffer_size;    /* lua_socket_buffer_size, never 0 */
    size_t
        buffer_rest;  /* bytes that have arrived and are left of the current buffer of that size */
    struct addr peer; /* of a conn of its own */
    char name[SOCKET_NAME_MAX]; /* "host:port(address)", for the log; or empty */
};

/* ---- socket.c */

/* The object of the table at index 1, which must be one: an error is thrown else. NULL: it was
 * never connected. */
struct script_socket *socket_check(lua_State *L);
/* The same for what only a socket with a connection of its own can do: an error is thrown for one
 * over somebody else's. */
struct script_socket *socket_check_own(lua_State *L);
/* A fresh one, on the stack. */
struct script_socket *socket_new(lua_State *L);
/* It is the subject's from now on. */
void socket_join(struct script_socket *socket, struct script_subject *subject);
/* The object stays on the stack: scripts may take it out of its table while its function waits. */
void socket_hold(lua_State *L);
/* That of the table at index 1, made where there is none, and the thread's subject's from now on.
 */
struct script_socket *socket_make(lua_State *L, struct script_thread *thread);
/* An error is thrown where it is not the thread's subject's. */
void socket_demand_own(lua_State *L, const struct script_thread *thread,
                       const struct script_socket *socket);
/* Closes what it has; it may be connected again. */
void socket_close(struct script_socket *socket);

/* ---- connect.c */

struct idle_conn;
/* The connection is the socket's from now on. */
void socket_attach(struct script_socket *socket, const struct idle_conn *idle,
                   uint64_t buffer_size);
/* How a connection is to be made, and what came of it. */
struct socket_reaching {
    struct addr local; /* our own address; len 0: any */
    uint64_t timeout_ms;
    struct conn *conn; /* that was made */
    int error;         /* errno of a failure */
};
/* A fresh connection to socket->peer. What goes wrong is logged. MAY WAIT. */
enum upstream_connect_result socket_reach(struct script_thread *thread,
                                          struct script_socket *socket,
                                          struct socket_reaching *reaching);

/* A thread was killed in the middle of something: nobody knows what is left on the way. Closes it,
 * once no other thread is in it. */
void socket_abandon(struct script_socket *socket);

const struct script_settings *socket_settings(const struct script_thread *thread);

/* A log of what goes wrong with a socket. */
struct socket_log {
    struct log log;         /* to be written to */
    const struct log *base; /* the subject's */
    const char *name;       /* whom it talks to; or empty */
};
/* Lines say whom it talks to (NULL, or empty: nobody); and there are none with
 * lua_socket_log_errors off. */
void socket_log_begin(const struct script_thread *thread, const char *name, struct socket_log *out);
/* "stream " or nothing, before "lua tcp socket …". */
const char *socket_log_prefix(const struct script_thread *thread);
/* An errno as scripts see it: "connection refused". `room` has ERROR_TEXT_MAX bytes. */
#define ERROR_TEXT_MAX 80
const char *socket_error_text(int error, char *room);

/* Does a thread wait in the socket, or in another one over the same connection? */
bool socket_is_read(const struct script_socket *socket);
bool socket_is_written(const struct script_socket *socket);
bool socket_is_shaking(const struct script_socket *socket);

/* A timeout of the table at index 1: of the field, or as settings say. */
uint64_t socket_timeout(lua_State *L, int field, uint64_t usual);

/* nil and "socket busy …", pushed; or 0. */
int socket_fail_busy(lua_State *L, const struct script_socket *socket);

/* ---- the functions, in files of their own */

extern const struct script_row socket_read_rows[], socket_send_rows[], socket_connect_rows[],
    socket_option_rows[], socket_keep_rows[], socket_shutdown_rows[];
void socket_tls_add(lua_State *L); /* adds sslhandshake and related methods to the table on top */

void script_udp_add(lua_State *L); /* ngx.socket.udp */

#endif
