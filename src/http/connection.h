/* What all requests of one client connection share, whatever its wire format. */
#ifndef HTTP_CONNECTION_H
#define HTTP_CONNECTION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/log.h"
#include "event/loop.h"
#include "http/head_scan.h"
#include "http/settings.h"
#include "net/addr.h"
#include "net/conn.h"
#include "net/proxy_protocol.h"

struct link_tie;
struct request;

struct http_connection;

/* What a worker asks of its connections, whatever they speak: v1, v2. On the loop's stack; the connection may
 * be gone afterwards. */
struct http_protocol {
    void (*quit)(struct http_connection *http);  /* the worker is on its way out */
    void (*abort)(struct http_connection *http); /* … at once: break off */
};

#define HTTP_CONNECTION_MAGIC 0x477c0227u

/* What is known of a connection only once somebody asked; given back while it rests. */
struct connection_details {
    struct addr local;          /* our side's address; len 0 = not asked yet */
    struct proxy_header *proxy; /* of the PROXY protocol, or NULL; owned */
    struct link_tie *tie;  /* backends' connections that are this client's alone, or NULL; owned */
    struct head_scan scan; /* of a head that is there in part */
    size_t address_length; /* of address; 0 = not made yet */
    char address[ADDR_TEXT_MAX]; /* client's address as text */
};

/* Small: it stays while the connection is idle. Of one process, freed with the connection. */
struct http_connection {
    uint32_t magic;
    uint32_t requests; /* begun so far, the current one included */
    struct conn *conn;
    const struct http_protocol *protocol;
    void *wire_state;                 /* of the protocol: struct v2_connection *; NULL with v1 */
    const struct http_listen *listen; /* the local address is taken into account already */
    struct request *current;          /* that is worked on, or NULL */
    struct list unfinished;           /* requests whose response is not wholly sent, oldest first */
    uint64_t start_ms;                /* monotonic time of the accept */
    struct connection_details *details; /* or NULL */
    const struct http_location
        *rest_location;                      /* of the last request: whose keep-alive times hold */
    const struct http_server *secure_server; /* that the TLS handshake chose by name; or NULL */
    uint64_t linger_until_ms;                /* end of lingering; while state says so */
    struct deferred settle;    /* a request ended outside of the pump: see to it this turn */
    uint16_t unfinished_count; /* requests on that list */
    uint8_t state;             /* enum v1_state */
    bool is_last;              /* no further request is read */
    bool is_pumping;           /* the pump is on the stack below */
    bool was_parsed_partly;    /* a head is there in part: its time runs */
    bool wants_reset;          /* is to be ended with a reset, not a close */
    uint8_t hops_known;        /* 1 + how often its requests came round; 0 = not asked yet */
};

/*
 * Of ngx_http_ssl_module, handed up: what http_accepted is on addresses that speak TLS. NULL: the module is
 * not there, and `listen … ssl` an error.
 */
extern void (*http_secure_accepted)(struct listener *listener, int fd, const struct addr *peer);

/* Called for each listener of http (struct listener). */
void http_accepted(struct listener *listener, int fd, const struct addr *peer);
void http_handed_over(struct listener *listener, int fd, const struct addr *peer, const void *state,
                      size_t size);

/* Worker hooks of reload and quit: lets idle connections go, to a successor where there is one. */
void connections_quit(void);
/* The worker ends now: breaks off what is open; requests end within the next turns. */
void connections_abort(void);

/* Makes and ends; the latter closes the connection, frees what is left of its requests and counts.
 */
struct http_connection *connection_new(const struct http_listen *listen, int fd,
                                       const struct addr *peer, const struct conn_owner *owner);
void connection_close(struct http_connection *http);
/* The same with a reset instead of a close. */
void connection_reset(struct http_connection *http);

/* The details, made when first needed. */
struct connection_details *connection_details(struct http_connection *http);
/* Client's address as text, without port; "unix:" for a unix socket. */
struct str connection_address(struct http_connection *http);
/*
 * How often requests of this connection were passed on by this very service already (net/own.h). To be asked once
 * its first bytes were read: by then whoever connected has told of it.
 */
unsigned connection_ask_hops(struct http_connection *http);
static inline unsigned connection_hops(struct http_connection *http)
{
    return http->hops_known != 0 ? http->hops_known - 1u : connection_ask_hops(http);
}
/* Our side's address (getsockname once where the listener is a wildcard). */
const struct addr *connection_local(struct http_connection *http);

/* A log for lines about the connection itself, when no request is there: filled for use on the
 * stack. */
void connection_log(const struct http_connection *http, const char *action, struct log *out);

#endif
