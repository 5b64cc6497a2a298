/* HTTP/1 on the wire: the faces of this folder's parts to each other.
 * Implemented in body.c, connection.c, heads.c and setup.c. */
#ifndef HTTP_V1_V1_H
#define HTTP_V1_V1_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "http/client/tcp.h"
#include "http/client/protocol.h"
#include "http/request/request.h"
#include "base/chunked.h"
#include "http/message/parser.h"
#include "http/request/wire.h"

#define V1_CONNECTION_MAGIC 0x43c011c7u

/* A client's connection while it speaks HTTP/1: http_connection.wire_state. Small: it stays while
 * the connection is idle. */
struct v1_connection {
    struct http_connection *connection;
    struct conn *conn;           /* of it */
    struct request *current;     /* that is worked on, or NULL */
    struct list unfinished;      /* requests whose response is not wholly sent, oldest first */
    struct head_scan *open_head; /* of a head that is there in part: its time runs; or NULL */
    uint32_t magic;
    uint16_t unfinished_count; /* requests on that list */
    bool is_pumping;           /* the pump is on the stack below */
    bool logs_first;           /* the newest of them has to be logged before the next one begins */
};

/* The reading of one request's body; in the request's arena. */
struct v1_body {
    struct chunked chunked;
    uint64_t left;               /* bytes to come, of a body with a length */
    uint64_t decoded;            /* bytes that came, of a chunked one */
    uint32_t burst;              /* bytes taken since this fiber last let others run */
    bool is_started;             /* something was asked for: 100 (Continue) is out */
    bool is_at_trailers;         /* the last chunk was seen */
    struct fields_scan trailers; /* how far the trailers were scanned */
};

extern const struct http_wire v1_wire;

/* What the bytes of a request's connection go over. */
static inline struct conn *v1_conn(const struct request *request)
{
    return request->connection->conn;
}

/* What heads of responses say at a location, laid out (module.c). */
struct v1_texts {
    struct str head_200;     /* "HTTP/1.1 200 OK\r\nServer: …\r\nDate: " */
    struct str server_field; /* "Server: …\r\n", or empty */
};

extern struct settings_key v1_key; /* struct v1_texts */

/* HTTP/1, for which ngx_http_core_module registers: what clients speak who ask for nothing else
 * (connection.c). */
extern const struct http_protocol v1_protocol;

/* heads.c: reads and starts requests while there is input and nothing to wait for. */
void v1_pump(struct v1_connection *c);
/* No head is there in part any more. */
void v1_forget_open_head(struct v1_connection *c);
/* The log line of a head that was there in part when the client left (400) or its time was up
 * (408). */
void v1_log_open_head(struct v1_connection *c, unsigned status, int error, const char *reason);

/* Sees to a connection whose requests ended or whose output moved: logs and recycles what was sent,
 * reads the next or rests. The connection may be gone afterwards. */
void v1_settle(struct http_connection *connection);

/* The end of a request on the wire (request_run calls it last, on the fiber): decides about keeping
 * the connection. */
void v1_request_ended(struct request *request, enum handler_result result);
/* See struct http_wire (connection.c). */
void v1_log_first(struct request *request);
struct request *v1_former(const struct request *request);

/*
 * Fills a new request from its head: version, host, server, framing (RFC 9112, 6.3). 0, or the
 * status to refuse it with (logged). From a head that is bad already it takes what it can, for the
 * log.
 */
unsigned v1_request_setup(struct request *request, const struct head *head);

ssize_t v1_read_body(struct request *request, void *at, size_t size);
bool v1_has_whole_body(const struct request *request, uint64_t most);

#endif
