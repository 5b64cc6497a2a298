/* ngx_stream_proxy_module: shared by its files. */
#ifndef STREAM_MODULES_PROXY_PROXY_H
#define STREAM_MODULES_PROXY_PROXY_H

#include "net/relay/relay.h"
#include "shared/tls/client.h"
#include "shared/upstream/attempts.h"
#include "shared/upstream/bind.h"
#include "stream/session/session.h"
#include "upstream/connection.h"
#include "upstream/upstream.h"

enum proxy_protocol { PROXY_PROTOCOL_OFF, PROXY_PROTOCOL_V1, PROXY_PROTOCOL_V2 };

/* A member without a comment is the value of the directive of its name. */
struct proxy_settings {
    struct upstream_group *group; /* a constant target of proxy_pass; NULL: target is used */
    struct template *target;      /* a target with variables; or NULL */
    uint64_t connect_timeout_ms;
    uint64_t timeout_ms;
    uint64_t buffer_size;
    struct template *upload_rate, *download_rate;
    const struct bind_settings *bind; /* or NULL */
    bool bind_dynamic;                /* the address is found for each attempt */
    bool next_upstream;
    int64_t next_upstream_tries;
    uint64_t next_upstream_timeout_ms;
    bool socket_keepalive;
    uint64_t socket_sndbuf, socket_rcvbuf; /* 0 = the system's default */
    bool half_close;
    bool session_drop;
    unsigned proxy_protocol;     /* enum proxy_protocol */
    int64_t requests, responses; /* datagrams; responses -1 = not set */
    bool ssl;
    struct vec ssl_alpn; /* struct template * */
    struct tls_client_settings tls;
};

extern struct settings_key proxy_key;

/* A session and its backend, from the first attempt on. */
struct proxying {
    struct session *session;
    const struct proxy_settings *settings;
    struct upstream_pick pick;
    struct upstream_connection *connection; /* to the backend, when it is connected; or NULL */
    struct attempt *attempt;                /* the last one of the session's attempts */
    struct attempt first;                   /* memory for the first attempt, usually the only one */
    struct relay relay;
    uint64_t attempt_ms; /* when the attempt began */
    uint64_t start_ms;   /* when the first one began */
    uint32_t first_sent; /* bytes of its input that were sent with the connect */
    bool is_relaying;
    bool has_answered; /* the backend has sent something */
    bool is_dropped;   /* ended by proxy_session_drop */
};
/* A hundred thousand of them may be idle; the allocator's next size is 640. */
_Static_assert(sizeof(struct proxying) <= 512, "an idle session takes two kilobytes");

/* connect.c: the header of this version (enum proxy_protocol) for the session, in its arena. */
struct str proxy_header(struct session *session, unsigned version);
/* connect.c: may another peer be tried? */
bool proxy_may_try_next(const struct proxying *proxying);
/* connect.c: connects to the next peer. The last thing that a fiber of the session does. MAY
 * WAIT. */
enum session_step proxy_next_peer(struct proxying *proxying);

/* connect.c: the content handler of a server with proxy_pass. MAY WAIT. */
enum session_step proxy_pass_session(struct session *session);

/* carry.c: relays between the client and the connected backend until the session ends. */
enum session_step proxy_carry(struct proxying *proxying);
/* carry.c: releases everything that belongs to the proxy; the session belongs to the caller. */
void proxy_let_go(struct proxying *proxying, enum peer_outcome outcome);
/* carry.c: does proxy_session_drop end the session, because its peer is gone? Logged if so. */
bool proxy_is_dropped(struct proxying *proxying);
/* carry.c: the rate in bytes per second; 0 = no limit. An invalid value is logged and means no
 * limit. */
uint64_t proxy_rate(struct session *session, const struct template *template);
/* carry.c: adds the backend to the session's log lines. */
void proxy_describe(const struct session *session, struct writer *out);
/* carry.c: the holder of a session until UDP takes over: counts, log lines, abort. */
extern const struct session_holder proxy_holder;

#endif
