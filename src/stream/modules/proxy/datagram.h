/* UDP sessions with their backend: the interface of datagram.c for connect.c and carry.c. */
#ifndef STREAM_MODULES_PROXY_DATAGRAM_H
#define STREAM_MODULES_PROXY_DATAGRAM_H

#include "net/datagram/list.h"
#include "net/datagram/connection.h"
#include "stream/modules/proxy/proxy.h"

/* A UDP session. */
struct datagram_proxying {
    struct proxying base;
    struct datagram_connection connection; /* to the backend */
    struct timer timeout;                  /* runs out proxy_timeout after the last datagram */
    struct timer pace;                     /* runs out when a rate allows more */
    bool is_timed;                         /* both timers are initialized */
    bool
        /* Held has the client's datagrams so far, for another peer: no peer has answered yet. */
        keeps;
    bool held_waits; /* held has datagrams that the upload rate does not allow yet */
    bool is_refused; /* the last thing from the peer was a refusal */
    /* The connection leads to this machine, and is in the table of net/conn/own.h. */
    bool is_noted;
    bool has_header; /* the PROXY header was sent, or there is none */
    /* The PROXY header, equal for all peers; in the session's arena; empty: not made yet. */
    struct str header;
    struct datagram_list held;
    uint64_t requests, responses;        /* datagrams of the client, of the backend */
    uint64_t received, sent;             /* bytes from and to the backend */
    uint64_t forwarded;                  /* bytes sent to the backend, without headers */
    uint64_t upload_rate, download_rate; /* bytes per second; 0 = no limit */
    uint64_t began_ms;                   /* start time for the rates */
};

/* Allocates a session's state. Freed by proxy_let_go. */
struct proxying *proxy_datagrams_new(void);
/* Opens the socket to the picked peer; logs failures. local: or NULL. hops: how many times the
 * session has passed through this service. */
enum upstream_connect_result proxy_datagrams_connect(struct proxying *base,
                                                     const struct addr *local, unsigned hops);
int proxy_datagrams_fd(const struct proxying *base);
/* Relays datagrams both ways until the session ends. */
enum session_step proxy_datagrams_carry(struct proxying *base);
void proxy_datagrams_let_go(struct proxying *base);
/* Bytes from and to the backend so far. */
void proxy_datagrams_count(const struct proxying *base, uint64_t *received, uint64_t *sent);

#endif
