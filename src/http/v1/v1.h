/* HTTP/1 on the wire: the faces of this folder's parts to each other. */
#ifndef HTTP_V1_V1_H
#define HTTP_V1_V1_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "http/connection.h"
#include "http/request.h"
#include "http/v1/chunked.h"
#include "http/v1/parser.h"

/* Where a connection stands. */
enum v1_state {
    V1_PROXY,     /* the PROXY protocol's header is awaited */
    V1_READING,   /* a request head is awaited or there in part, or requests are worked on */
    V1_RESTING,   /* idle between requests: parked */
    V1_LINGERING, /* our side is shut; what still comes is read and dropped */
    V1_ENDING,    /* to be closed at the end of this turn, when its log lines are written */
};

/* The reading of one request's body; in the request's arena. */
struct v1_body {
    struct chunked chunked;
    uint64_t left;               /* bytes to come, of a body with a length */
    uint64_t decoded;            /* bytes that came, of a chunked one */
    uint32_t burst;              /* bytes taken since this fiber last let others run */
    bool is_started;             /* something was asked for: 100 (Continue) is out */
    bool is_at_trailers;         /* the last chunk was seen */
    struct fields_scan trailers; /* … how far they were looked at */
};

extern const struct http_wire v1_wire;

/* Bytes of a fresh input buffer; more than client_header_buffer_size's 1k, since rest gives it back. */
#define V1_FIRST_BUFFER 4096

/* What the loop tells of a connection, unless it lingers (connection.c). */
extern const struct conn_owner v1_owner;
extern const struct conn_owner v1_lingering_owner;
extern const struct http_protocol v1_protocol;

/* A connection from an accepted or handed over descriptor, which is closed when there is no room: NULL. */
struct http_connection *v1_make(struct listener *listener, int fd, const struct addr *peer);
/* Its first state and deadline. */
void v1_begin(struct http_connection *http);

/* heads.c: reads and starts requests while there is input and nothing to wait for. */
void v1_pump(struct http_connection *http);
/* Reads the PROXY protocol's header. False: the connection waits for more of it, or is gone. */
bool v1_read_proxy_header(struct http_connection *http);
/* The log line of a head that was there in part when the client left (400) or its time was up (408). */
void v1_log_open_head(struct http_connection *http, unsigned status, int error, const char *reason);

/* rest.c: idle from now on. The connection may be gone afterwards. */
void v1_rest(struct http_connection *http);

/* Sees to a connection whose requests ended or whose output moved: logs and recycles what was sent,
 * reads the next or rests. The connection may be gone afterwards. */
void v1_settle(struct http_connection *http);

/* When the worker quits: does the connection, once it rests, go over to the newer generation? */
bool v1_can_hand_over(const struct http_connection *http);

/* The end of a request on the wire (request_run calls it last, on the fiber): decides about keeping
 * the connection. */
void v1_request_ended(struct request *request, enum flow flow);

/*
 * Fills a new request from its head: version, host, server, framing (RFC 9112, 6.3). 0, or the status
 * to refuse it with (logged). From a head that is bad already it takes what it can, for the log.
 */
unsigned v1_request_setup(struct request *request, const struct head *head);

/* Reads and drops what follows until the client closes or time is up (RFC 9112, 9.6). */
void v1_linger(struct http_connection *http, const struct http_location *location);

ssize_t v1_read_body(struct request *request, void *at, size_t size);

#endif
