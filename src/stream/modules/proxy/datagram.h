/* Sessions of UDP with their backend: what connect.c and carry.c need of datagram.c. */
#ifndef STREAM_MODULES_PROXY_DATAGRAM_H
#define STREAM_MODULES_PROXY_DATAGRAM_H

#include "net/datagram/list.h"
#include "net/datagram/connection.h"
#include "stream/modules/proxy/proxy.h"

/* A session of UDP. */
struct datagram_proxying {
    struct proxying base;
    struct datagram_connection connection; /* to the backend */
    struct timer timeout;                  /* proxy_timeout since the last datagram */
    struct timer pace;                     /* when a rate allows more */
    bool is_timed;                         /* the two are made */
    bool
        keeps; /* held has what the client said so far, for another peer: nobody has answered yet */
    bool held_waits;   /* held has what the upload rate does not allow yet */
    bool is_refused;   /* the peer was not there at last */
    bool is_noted;     /* the connection leads to this machine, and its end is known as ours
                          (net/conn/own.h) */
    bool has_header;   /* the header of the PROXY protocol has left, or there is none */
    struct str header; /* the PROXY header, which is the same for all peers; in the session's arena;
                          empty: not made yet */
    struct datagram_list held;
    uint64_t requests, responses;        /* datagrams of the client, of the backend */
    uint64_t received, sent;             /* bytes from and to the backend */
    uint64_t forwarded;                  /* bytes sent to the backend without headers */
    uint64_t upload_rate, download_rate; /* bytes per second; 0 = no limit */
    uint64_t began_ms;                   /* since when the rates count */
};

/* Everything is at its beginning. Freed by proxy_let_go. */
struct proxying *proxy_datagrams_new(void);
/* Opens the socket to the peer that was picked; logs failures. local: or NULL. hops: how often the
 * session came from this service itself. */
enum upstream_connect_result proxy_datagrams_connect(struct proxying *base,
                                                     const struct addr *local, unsigned hops);
int proxy_datagrams_fd(const struct proxying *base);
/* Datagrams pass both ways until the session's end. */
enum session_step proxy_datagrams_carry(struct proxying *base);
void proxy_datagrams_let_go(struct proxying *base);
/* Bytes from and to the backend so far. */
void proxy_datagrams_count(const struct proxying *base, uint64_t *received, uint64_t *sent);

#endif
