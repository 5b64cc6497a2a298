/* Connections to peers, kept for the next request where that is allowed.
 * Implemented in connections/connect.c, connections/connection.c and connections/pool.c. */
#ifndef UPSTREAM_CONNECTION_H
#define UPSTREAM_CONNECTION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "fiber/fiber.h"
#include "net/conn/conn.h"
#include "net/quic/quic.h"
#include "net/tls/tls.h"
#include "upstream/pinned.h"
#include "upstream/upstream.h"

/* TLS on a connection. Lives at least as long as the call. */
struct upstream_connection_tls {
    struct tls_context *context;
    struct str preface; /* goes in the clear before the handshake: a PROXY header; or empty */
    struct tls_client_options options; /* its identity tells connections of different ones apart */
    bool timeout_is_info; /* a handshake that takes too long is logged at level info, not error */
};

/* QUIC on a connection; lives as long as the connection, and QUIC's part of its end. */
struct upstream_connection_quic {
    struct quic_settings settings;
    const struct quic_secrets *secrets; /* for connection ids and reset tokens; NULL: random */
};

/* How a connection is to be made. Lives at least as long as the call. */
struct upstream_connection_options {
    const struct addr *local;                  /* *_bind; NULL = any */
    bool is_transparent;                       /* IP_TRANSPARENT: local need not be ours */
    bool keepalive;                            /* SO_KEEPALIVE */
    uint64_t send_buffer;                      /* SO_SNDBUF; 0 = as it is */
    uint64_t receive_buffer;                   /* SO_RCVBUF */
    uint64_t send_lowat;                       /* SO_SNDLOWAT; no effect on Linux */
    const void *tag;                           /* who may share an idle connection: same tag only */
    const void *language;                      /* the protocol that is spoken on it; or NULL */
    const struct upstream_connection_tls *tls; /* NULL = plain */
    const struct upstream_connection_quic
        *quic; /* by QUIC, with the TLS above, without a preface; NULL = by TCP */
    struct pinned_connections
        *pinned;          /* of the client's connection: its own come first; NULL = none */
    bool is_private;      /* the request is to be bound: none that others use now */
    bool wants_fresh;     /* no kept one */
    bool is_unrepeatable; /* no kept one that the peer is known to end about now */
    bool is_unpromised; /* no kept connection at all: nothing says that the peer keeps them open */
    bool is_alone;      /* nobody may have the connection before or after */
    bool is_datagram;   /* UDP, of one peer: no connection is made, and no TLS */
    unsigned hops;      /* how often the request came from this service itself (net/conn/own.h) */
    bool tells_timeout; /* the caller logs a timeout itself */
    /*
     * What is said as soon as a fresh plain connection is up; all of it was sent, or is queued,
     * when it is given. Over TCP it leaves with the segment that ends the handshake: a segment, and
     * a wake-up of the peer, less.
     */
    struct str first;
    unsigned open_max; /* connections to the peer in all workers; 0 = no limit. Above it the
                                     request waits for one in the order of coming */
};

enum upstream_connect_result {
    UPSTREAM_CONNECT_OK,
    UPSTREAM_CONNECT_FAILED,    /* see error: logged as nginx does, `connect() failed` */
    UPSTREAM_CONNECT_TIMED_OUT, /* logged: `upstream timed out`, unless tells_timeout */
    UPSTREAM_CONNECT_CANCELLED,
    UPSTREAM_CONNECT_ERROR, /* our own trouble (descriptors, *_bind): logged; the peer is not to
                       blame, nginx answers 500 */
};

/*
 * Requests of one kind may use each other's connections. All that makes a connection what it is for
 * the peer is in here: what is spoken, our own address, what was announced, names and certificates
 * of both sides.
 */
struct upstream_connection_kind {
    const void *tag, *language; /* as upstream_connection_options say; of pools: language is NULL */
    struct str key;             /* of the group's slices; empty = none */
    uint64_t identity; /* of the rest; 0 = from any address of ours, in plain. Of pools: 0 */
    unsigned
        hops; /* to a peer that may be ourselves: as upstream_connection_options say. Of pools: 0 */
};

#define UPSTREAM_CONNECTION_MAGIC 0x11c00f1eu

/*
 * A connection to a peer. The conn's user is this struct and its owner wakes `wake`; a protocol
 * that shares the connection among requests puts an owner of its own there and keeps its state
 * here.
 *
 * TCP_NODELAY is not set at first: a request that leaves by one write does not need it. Code that
 * may write again before the peer has answered sets it.
 */
struct upstream_connection {
    uint32_t magic;
    struct conn *conn;
    struct quic_connection
        *quic; /* that bears conn, which has no socket then: the protocol adopts it; NULL = TCP */
    uint64_t quic_code; /* a protocol says: with which code of its own QUIC closes it */
    struct upstream_group *group;
    struct peer_cell *cell;
    struct peer_local *local;             /* what this worker has open to the peer */
    struct addr addr;                     /* of the peer */
    struct upstream_connection_kind kind; /* the key is the connection's own */
    struct idle_pool *pool;               /* while it is idle, else NULL */
    struct list in_pool; /* while it is idle: in the pool; else among the peer's busy ones */
    struct pinned_connections *pinned; /* of the one client that may have it, or NULL */
    struct list in_pinned;
    const struct conn_owner *owner; /* while it is idle: the protocol's, to be put back */
    bool is_quiet;                  /* a protocol says: all that was asked was answered, so that it
                                       may end with a reset and leave no TIME_WAIT */
    bool is_taken; /* a protocol says: no request may join the one that is on it, or take it when it
                      is idle */
    bool is_doomed; /* closes when the last user lets go */
    uint64_t opened_ms;
    uint64_t idle_since_ms; /* while it is idle */
    uint64_t keeps_ms;      /* a protocol says: so long the peer keeps it open while it is idle;
                               UINT64_MAX = not known */
    unsigned requests;      /* carried so far, the current ones included */
    bool is_reused;         /* was kept: when it fails before an answer began, the peer is not
                                    to blame and the request may be repeated on another */
    struct wait_point wake; /* input, its end, drained output, failure */

    /* A protocol's own: state lives with the connection. */
    void *state;
    void (*state_free)(struct upstream_connection *connection);
    /* While it is idle: input has come. False: it closes. NULL: whatever comes closes it. */
    bool (*idle_input)(struct upstream_connection *connection);
    unsigned users;     /* requests on it now */
    unsigned users_max; /* as the protocol set it; 1 unless it multiplexes. Connections are shared
                                    only while cell->multiplexes is not 0 */
};

/*
 * A connection for pick->peer: an idle one, a shared one with room, or a fresh one, connected, its
 * TLS handshake done. MAY WAIT: for these; for its turn under open_max. *error gets the errno.
 */
enum upstream_connect_result upstream_connection_open(
    struct upstream_pick *pick, const struct upstream_connection_options *options,
    uint64_t connect_timeout_ms, struct upstream_connection **out, int *error);

/* An address that is to be reached, whether a group has it or not. */
struct upstream_target {
    struct addr addr;
    struct str name;       /* as the log calls it */
    const struct log *log; /* of whom it is for */
};

/*
 * A fresh connection to the target that is up, its TLS handshake done; conn_close ends it. No group
 * counts it. Of the options those hold that make a connection. MAY WAIT. *error gets the errno;
 * what went wrong was logged.
 */
enum upstream_connect_result upstream_connection_reach(
    const struct upstream_target *target, const struct upstream_connection_options *options,
    uint64_t deadline_ms, struct conn **out, int *error);

/* This request is done with it and it may carry another: to the idle pool, within the group's
 * limits, else closed. */
void upstream_connection_keep(struct upstream_connection *connection);
/* It is in doubt: closed. With other users on it: when the last of them lets go. */
void upstream_connection_close(struct upstream_connection *connection);
/* A kept connection ended as it was used, without a word: the peer may end others as soon. */
void upstream_connection_note_end(const struct upstream_pick *pick);
/*
 * A request waits on a fresh connection and hears nothing: the peer may serve few connections at a
 * time, and one that is idle here, whatever its kind, may have its turn. Closes the one that was
 * idle longest. False: there is none.
 */
bool upstream_connection_give_way(const struct upstream_connection *waiting);
/* The conn's owner for a connection that carries one request at a time: wakes connection->wake. */
extern const struct conn_owner upstream_connection_owner;

#endif
