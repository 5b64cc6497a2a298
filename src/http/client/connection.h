/* What all requests of one client connection share, whatever its wire format. */
#ifndef HTTP_CLIENT_CONNECTION_H
#define HTTP_CLIENT_CONNECTION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "event/loop.h"
#include "http/routing/settings.h"
#include "net/addr/addr.h"
#include "net/conn/conn.h"
#include "net/conn/proxy_protocol.h"

struct pinned_connections;
struct request;

/*
 * Where a connection stands, from its accept to its end. stages.c has the table of them: what the
 * loop tells at each, and what becomes of it when the worker goes.
 */
enum connection_stage {
    STAGE_PROXY_HEADER, /* the PROXY protocol's header is awaited */
    STAGE_HANDSHAKE,    /* that of TLS */
    STAGE_DETECTION,    /* which protocol a client on a plain socket begins with is being seen */
    STAGE_SERVING,      /* its protocol reads requests and answers them */
    STAGE_IDLE,         /* the same, between requests: parked without buffers */
    STAGE_LINGERING,    /* our side is shut; what still comes is read and dropped */
    STAGE_ENDING,       /* to be closed at the end of this turn, when its log lines are written */
};

/* Bytes of a fresh input buffer; more than client_header_buffer_size's 1k, since it is released
 * when the connection is idle. Of requests it may be smaller: see v1/heads.c. */
#define CONNECTION_FIRST_BUFFER 4096

#define HTTP_CONNECTION_MAGIC 0x477c0227u

/* What is known of a connection only once somebody asked; given back while it rests. */
struct connection_details {
    struct addr local;          /* our side's address; len 0 = not asked yet */
    struct proxy_header *proxy; /* of the PROXY protocol, or NULL; owned */
    struct pinned_connections
        *pinned;           /* backends' connections that are this client's alone, or NULL; owned */
    size_t address_length; /* of address; 0 = not made yet */
    char address[ADDR_TEXT_MAX]; /* client's address as text */
};

/* Small: it stays while the connection is idle. Of one process, freed with the connection. */
struct http_connection {
    uint32_t magic;
    uint32_t requests; /* begun so far, the current one included */
    struct conn *conn; /* for wire formats and this folder: others ask the functions below */
    const struct http_protocol *protocol;
    void *wire_state;                   /* of the protocol, or NULL */
    const struct http_listen *listen;   /* the local address is taken into account already */
    uint64_t start_ms;                  /* monotonic time of the accept */
    struct connection_details *details; /* or NULL */
    const struct http_location
        *last_location; /* of the last request: its timeouts apply between requests */
    const struct http_server *secure_server; /* that the TLS handshake chose by name; or NULL */
    uint64_t linger_until_ms;                /* end of lingering; 0 = it need not */
    struct deferred settle; /* something changed: the protocol sees to it this turn */
    uint8_t stage;          /* enum connection_stage */
    bool is_last;           /* no further request is read */
    bool is_aborted;        /* this server breaks it off */
    bool wants_reset : 1;   /* is to be ended with a reset, not a close */
    uint8_t hops_known;     /* 1 + how often its requests came round; 0 = not asked yet */
};

/* Worker hooks of reload and quit: lets idle connections go, to a successor where there is one. */
void connections_quit(void);
/* The worker ends now: breaks off what is open; requests end within the next turns. */
void connections_abort(void);

/* ---- the connection ---- */

/*
 * Makes one for what a listener has brought, which is spoken with by `protocol`; counts it. conn
 * has addresses, number and TLS of it. TCP continues in tcp.h. Other transports, whose conn has no
 * descriptor and which bring requests as streams, call connection_set_local and connection_serve,
 * end by themselves, and call connection_free then.
 */
struct http_connection *connection_on(const struct http_listen *listen, struct conn *conn,
                                      const struct http_protocol *protocol);
/* Its protocol is spoken from now on; what has come already is to be reported by the caller. */
void connection_serve(struct http_connection *connection, const struct http_protocol *protocol);
/* Frees all but conn, which is given. */
struct conn *connection_free(struct http_connection *connection);
/* Its protocol is spoken no more: what that kept of it is freed. */
void connection_leave_protocol(struct http_connection *connection);
/* The request that is worked on, where requests of a connection take turns; else NULL. */
struct request *connection_current(const struct http_connection *connection);

/* The details, made when first needed. */
struct connection_details *connection_details(struct http_connection *connection);
/* Client's address as text, without port; "unix:" for a unix socket. */
struct str connection_address(struct http_connection *connection);
/*
 * How often requests of this connection were passed on by this very service already
 * (net/conn/own.h). To be asked once its first bytes were read: by then the worker that connected
 * has noted it.
 */
unsigned connection_ask_hops(struct http_connection *connection);
static inline unsigned connection_hops(struct http_connection *connection)
{
    return connection->hops_known != 0 ? connection->hops_known - 1u
                                       : connection_ask_hops(connection);
}
/*
 * The server whose settings hold for what no request has chosen a server for: the one that the TLS
 * handshake named, as with nginx, else the default of the address.
 */
static inline const struct http_server *connection_server(const struct http_connection *connection)
{
    return connection->secure_server != NULL ? connection->secure_server
                                             : connection->listen->default_server;
}
/* Our side's address (getsockname once where the listener is a wildcard, unless it was set). */
const struct addr *connection_local(struct http_connection *connection);
void connection_set_local(struct http_connection *connection, const struct addr *local);
/* The other end has another address from now on: its text is made again. */
static inline void connection_peer_changed(struct http_connection *connection)
{
    if (connection->details != NULL) {
        connection->details->address_length = 0;
    }
}

/* The other end's address; len 0: a unix socket without a name. */
static inline void connection_peer(const struct http_connection *connection, struct addr *out)
{
    conn_peer(connection->conn, out);
}
/* The same where it is IPv4 and nobody needs it as a text that is kept (connection_address); else
 * NULL. */
static inline const struct sockaddr_in *connection_brief_ipv4(
    const struct http_connection *connection)
{
    const struct conn *conn = connection->conn;

    return conn->address_length == sizeof(conn->peer.v4) && connection->details == NULL
               ? &conn->peer.v4
               : NULL;
}
/* $connection, and what log lines begin with. */
static inline uint64_t connection_number(const struct http_connection *connection)
{
    return conn_number(connection->conn);
}
/* What net/tls/tls.h is asked of; NULL: the connection is not encrypted. */
static inline struct conn *connection_tls(const struct http_connection *connection)
{
    return connection->conn->transport != NULL ? connection->conn : NULL;
}
/* The client's connection to which an accepted conn belongs. */
static inline struct http_connection *connection_of(const struct conn *conn)
{
    return conn->user;
}
/* The socket, or -1: a transport that has none of its own. */
static inline int connection_fd(const struct http_connection *connection)
{
    return connection->conn->source.fd;
}

/* What carries it, for those who pass it on to net/tls, net/relay or lua/sockets: they do not look
 * into it (make lint checks it). */
static inline struct conn *connection_carrier(const struct http_connection *connection)
{
    return connection->conn;
}

/* Has the client closed its sending side, or broken off, with no input left to read? */
static inline bool connection_peer_is_gone(const struct http_connection *connection)
{
    return conn_peer_is_gone(connection->conn);
}
/* Its protocol looks at it as if the loop had reported input. The connection may be gone
 * afterwards. */
static inline void connection_report_input(const struct http_connection *connection)
{
    connection->conn->owner->input(connection->conn);
}
/* Waits until the client has taken all that was given; timed out when it took nothing for so long.
 * MAY WAIT. */
static inline enum wait_result connection_wait_sent(const struct http_connection *connection,
                                                    uint64_t timeout_ms)
{
    return conn_wait_sent(connection->conn, 1, timeout_ms);
}
/* What is given from here on leaves at once, short as it may be (TCP_NODELAY). */
static inline void connection_send_at_once(const struct http_connection *connection)
{
    conn_set_nodelay(connection->conn, true);
}

/* Before what may take long, once the response was sent: its last bytes do not wait for the end of
 * the connection. */
static inline void connection_push(struct http_connection *connection)
{
    conn_push(connection->conn);
}

/* A log for lines about the connection itself, when no request is there: filled for use on the
 * stack. */
void connection_log(const struct http_connection *connection, const char *action, struct log *out);

/* What such a line says that it is doing. */
const char *connection_action(const struct http_connection *connection);

#endif
