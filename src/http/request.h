/* Requests and the responses to them. */
#ifndef HTTP_REQUEST_H
#define HTTP_REQUEST_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "base/arena.h"
#include "base/list.h"
#include "base/log.h"
#include "base/str.h"
#include "conf/template.h"
#include "fiber/fiber.h"
#include "http/fields.h"
#include "http/settings.h"
#include "net/addr.h"
#include "net/conn.h"

enum http_version { HTTP_0_9 = 9, HTTP_1_0 = 10, HTTP_1_1 = 11, HTTP_2 = 20, HTTP_3 = 30 };

#define URI_CHANGES_MAX 10
#define REQUEST_MAGIC 0x4e00e575u

/* Where a request goes on after FLOW_AGAIN. */
enum restart {
    RESTART_SERVER,   /* server-rewrite, then the search of a location: internal redirects */
    RESTART_LOCATION, /* the search of a location: after a rewrite there */
    RESTART_NAMED,    /* rewrite of request->location, which was chosen by name */
};

struct request;
struct body_filter;
struct request_body;
struct subrequests;

/* A piece of a response body. Memory stays valid until it was sent, when release is called, or is
 * copied at once (is_volatile). */
struct body_piece {
    struct str bytes; /* of a memory piece */
    int fd;           /* of a file piece: bytes.data is NULL; else -1 */
    off_t offset;     /* of the file piece in it */
    uint64_t size;    /* bytes of the file piece */
    bool is_volatile; /* bytes are copied: the memory is reused after the call */
    bool
        is_flush; /* what was given so far shall leave now (a streaming handler waits for more); on a
                      piece without bytes a compressor, too, lets go what it holds */
    void (*release)(void *arg); /* or NULL */
    void *release_arg;          /* given to release */
};

/* How responses of one protocol version go to the wire: v1, v2, v3. */
struct http_wire {
    /* Writes the head. status, fields, content_length are final. */
    void (*send_head)(struct request *request);
    /* Takes the next piece; MAY WAIT for the client to drink when much is queued already. False:
     * the client is gone. */
    bool (*send_body)(struct request *request, const struct body_piece *piece, bool is_last);
    /* Sends an interim response (100, 103 with fields). */
    void (*send_interim)(struct request *request, unsigned status, const struct fields *fields);
    /* Reads decoded body bytes into memory: bytes, 0 = complete, -1 = failure (body_refusal set:
     * 400, 408; 0 = client gone, or there is nothing now and reads_no_further). MAY WAIT. */
    ssize_t (*read_body)(struct request *request, void *at, size_t size);
    /* The request was worked on to its end; the last thing its fiber does. FLOW_CLOSED: the client
     * is gone or shall be dropped. */
    void (*ended)(struct request *request, enum flow flow);
    /* Bytes that were given for this request and the client has not taken: does it keep up? UINT64_MAX: who gives
     * `more` of them waits. */
    uint64_t (*backlog)(const struct request *request, uint64_t more);
    /* Or NULL: its answer was given whole, though its fiber goes on for others' sake. MAY WAIT. */
    void (*answered)(struct request *request);
    /* Or NULL. All that is still to be given is in memory or in files, and stays there as long as the request: from
     * here on send_body keeps what the client does not take, and does not wait. */
    void (*leave)(struct request *request);
};

struct response {
    unsigned status;        /* 0 until somebody decides */
    unsigned error_status;  /* what an error page is shown for; for $status of the log when it was
                               not overwritten */
    struct str reason;      /* of a status line that a backend sent; empty = the standard phrase */
    int64_t content_length; /* bytes; -1 = not known */
    time_t last_modified;   /* -1 = none */
    struct str last_modified_text; /* the same as an HTTP date, when it is laid out already; else
                                      empty: who changes the one clears the other */
    struct str content_type;       /* without charset; empty = no field */
    struct str charset;            /* added as "; charset=" */
    struct str wanted_charset;     /* X-Accel-Charset of a backend: what the client shall get */
    struct str etag;               /* with quotes; empty = none */
    struct str location;           /* of a redirect, before it is made absolute */
    struct str
        raw_head; /* what HTTP/1 sends instead of a head of its own, byte for byte; or empty */
    struct fields fields;    /* all others, in order */
    uint64_t left_out;       /* FIELD_BIT of Date and Server: a backend's affair, none is added */
    struct fields *trailers; /* or NULL */
    struct str whole; /* the whole body, when a handler has it in memory; see response_memory */
    struct body_filter *filters; /* first body filter, or NULL: pieces go to the wire */
    uint64_t body_offset;        /* where the first piece that is given stands in the body; not 0
                                    with slices only, which may set it when the head was made */
    uint64_t range_start; /* of the one range that is cut out of the body, when the head is … */
    uint64_t range_end;   /* … made; 0 = none is */
    unsigned is_head_sent : 1;    /* the client may have seen it: nothing of it can change */
    unsigned is_complete : 1;     /* the last piece was given */
    unsigned is_header_only : 1;  /* HEAD, 204, 304: no body follows */
    unsigned is_chunked : 1;      /* set by the wire */
    unsigned allows_ranges : 1;   /* a handler that can serve ranges of this body sets it */
    unsigned is_tunnel : 1;       /* bytes both ways follow the head: no framing (101, CONNECT) */
    unsigned is_single_range : 1; /* several ranges at once are not served: the body may be long,
                                     and its pieces come one after the other */
    unsigned
        is_unconditional : 1;   /* a backend has acted: If-Match and its kin are not judged again */
    unsigned is_error_page : 1; /* an error page is being made: no second one unless recursive */
    unsigned is_built_in : 1;   /* the server's own page for a failure or a redirect */
    unsigned is_location_late : 1; /* it was written whole: sent behind Connection, as nginx does */
    unsigned is_modified_late : 1; /* a backend said last_modified: the same */
    unsigned has_early_field : 1;  /* one of fields is_early */
    unsigned needs_memory : 1;     /* a body filter needs bytes, not pieces of files: they are read
                                  before it (copy_filter.c) */
};

/* A client that a trusted proxy in front of us speaks for. */
struct client {
    struct addr addr; /* port 0 = it was not told */
    struct str text;  /* without port */
};

/*
 * A request. Lives in its own arena; everything it points to lives at least as long: its head in
 * the connection's input buffer (kept until the request is recycled), the generation.
 */
struct request {
    uint32_t magic;               /* REQUEST_MAGIC */
    struct arena arena;           /* of all that lives as long as the request */
    struct arena_account memory;  /* of a main request: what it and its subrequests take */
    struct conn *conn;            /* the client's; NULL when it is gone */
    const struct http_wire *wire; /* how its response goes out */
    void *wire_state;             /* of the wire */
    struct http_connection *http; /* what the requests of one connection share */
    struct fiber *fiber;          /* that works on it, while it waits; else NULL */
    struct request *parent;       /* of a subrequest */
    struct request *main;         /* itself when it is none */
    struct log log;               /* sinks and level follow the location */
    const struct client *client;  /* who asks, where that is not the other end of the connection:
                                     request_set_client; of a main request; or NULL */

    const struct http_server *server;     /* that it is for */
    const struct http_location *location; /* whose settings hold now */
    const struct http_location
        *answering; /* whose handler answers: the last place that named one; NULL =
                                              that passes it on, but settings hold that say not where to */

    /* The request line. */
    struct str line;           /* as received, without line end */
    struct str method_name;    /* as received, or GET where a page stands in for another */
    unsigned method;           /* enum http_method */
    enum http_version version; /* that the client speaks */
    struct str target;         /* as received: $request_uri */
    struct str host;           /* lower case, no port; from target or Host */
    struct str port;           /* digits after the host, or empty */
    struct str scheme;         /* from an absolute target; empty else */

    /* What is asked for now; internal redirects change it. */
    struct str uri;  /* decoded, normalised path */
    struct str args; /* after '?', as received */

    struct fields headers;     /* as received */
    struct fields *trailers;   /* of a chunked body, once it was read; or NULL */
    int64_t content_length;    /* of the request body; -1 = none or chunked */
    unsigned body_refusal;     /* what is wrong with it: 400, 408, 413; 0 = nothing that is known */
    struct request_body *body; /* once it was read; or NULL */

    struct response response; /* what it is answered with */

    struct variable_env env; /* where its variables and templates are evaluated */

    uint64_t start_ms;      /* first byte of the head, monotonic */
    uint64_t received_ms;   /* … of the last byte so far: its head's, or its body's */
    uint64_t responded_ms;  /* … when the head of its answer was given to the wire; 0 = not yet */
    uint64_t head_size;     /* bytes of line and headers */
    uint64_t body_received; /* bytes of the body as received, frames included */
    uint64_t out_start;     /* conn->queued when the response began */
    uint64_t out_head_end;  /* … when its head was written */
    uint64_t out_end;       /* conn->queued when its last byte was put there */
    uint64_t out_sent;      /* conn->sent when it was recycled, at most out_end */
    uint64_t limit_rate;    /* bytes per second in force; 0 = none */
    uint64_t limit_rate_after; /* bytes that go before the limit holds */
    struct list link;          /* on the connection's list of requests that are not recycled yet */
    struct request_data *data; /* what modules keep for it: see request_data */

    struct exchange *exchange; /* the last one with a backend, or NULL; see exchange/exchange.h */
    const struct http_location *alias_with_uri; /* try_files found a file below this location's
                                                   regex alias: the URI is added to it */
    enum restart restart;                       /* meaningful with FLOW_AGAIN */
    unsigned uri_changes;                       /* left of URI_CHANGES_MAX */
    unsigned subrequests;                       /* of a main request: begun so far */
    unsigned subrequests_running;               /* of a main request: that have not ended */
    struct subrequests *subrequests_begun;      /* its own ones; NULL = none */
    unsigned keepalive : 1;                     /* the connection goes on after this response */
    unsigned is_chunked_body : 1;               /* Transfer-Encoding: chunked */
    unsigned expects_continue : 1;              /* Expect: 100-continue not answered yet */
    unsigned is_body_read : 1;                  /* read or discarded to its end */
    unsigned is_body_taken : 1;  /* a part of it, at least, was: only who has that can have all */
    unsigned is_body_lost : 1;   /* it was asked for when a part was gone: it counts as empty */
    unsigned is_internal : 1;    /* after an internal redirect */
    unsigned is_pipelined : 1;   /* its head was in the buffer before the response to the former was
                                    sent */
    unsigned uri_has_quoted : 1; /* the target held %XX */
    unsigned uri_changed : 1;    /* by rewrite: post-rewrite searches the location again */
    unsigned is_error_redirect : 1; /* an error page is being asked for */
    unsigned
        is_lingering_forced : 1; /* the connection closes only after what the client still sends was read */
    unsigned is_limit_set : 1;     /* limit_rate was computed or assigned */
    unsigned is_completed : 1;     /* the whole response was given to the client: "OK" */
    unsigned is_cancelled : 1;     /* the client is gone */
    unsigned needs_slash : 1;      /* the location's name is the URI and a slash: 301 */
    unsigned is_post_action : 1;   /* post_action runs: output goes nowhere */
    unsigned reads_no_further : 1; /* body reading stops where it would have to wait */
    unsigned limits_body : 1;      /* it is read for use: client_max_body_size holds */
    unsigned is_body_streamed : 1; /* its body is being passed on while the answer is given */
    unsigned is_timed_out : 1;     /* the client did not drink in time */
    unsigned is_over_memory : 1;   /* of a main request: request_memory_limit was reached */
    unsigned is_target_stale : 1;  /* uri or args were changed: target does not say them any more */
    unsigned
        is_uri_rewritten : 1; /* by `rewrite ... break`: it need not begin with the location's name */
};

/* A filter of response bodies. It calls next when it has something; next takes all it is given (or
 * is dead), so nothing has to be kept. */
struct body_filter {
    struct body_filter *next; /* NULL: the wire */
    /* The next piece; MAY WAIT. False: the client is gone, stop. */
    bool (*send)(struct body_filter *filter, struct request *request,
                 const struct body_piece *piece, bool is_last);
};

/* The piece goes nowhere: the request is over its memory. Gives false. */
bool response_drop(const struct body_piece *piece);

/* What a filter calls with its output: the next filter, or the wire. MAY WAIT. */
static inline bool body_filter_next(struct body_filter *filter, struct request *request,
                                    const struct body_piece *piece, bool is_last)
{
    if (request->main->is_over_memory) {
        return response_drop(piece);
    }
    return filter->next != NULL ? filter->next->send(filter->next, request, piece, is_last)
                                : request->wire->send_body(request, piece, is_last);
}

/* ---- the way of a request (engine.c); names as in docs/architecture.md ---- */

/* Runs the whole request on a fiber; called by the wire when the head is whole and request->server
 * is chosen. */
void request_start(struct request *request);
/*
 * Is there a place for another request of a connection that has so many at work? Those that have none are served
 * first (worker_requests). request_start answers with 503 where there is none.
 */
bool request_may_begin(uint32_t of_connection);
/* So many more (or fewer) answers are held that no fiber works on: they take places, too. */
void requests_held(int more);
/*
 * Another fiber for a request that is worked on: see fiber_start_joinable. FIBER_NO_STACK also where the stacks that
 * are left are those of requests to come.
 */
enum fiber_started request_fiber_start(void (*run)(void *), void *arg, struct fiber_handle *handle);
/* The wire tells that all output was sent or lost: log phase, counters. Then the wire recycles the
 * request. */
void request_log(struct request *request);

/* A request in a fresh arena, headers empty, for this connection. */
struct request *request_new(struct conn *conn, struct http_connection *http,
                            const struct http_wire *wire);
void request_free(struct request *request);
/* Its memory counts as that of this main request from here on. */
void request_count_for(struct request *request, struct request *main);

/*
 * What a module keeps for a request, found by the address of something of its own: `size` bytes in its arena,
 * cleared when they are asked for first. Size 0: NULL when there is none yet.
 */
void *request_data(struct request *request, const void *key, size_t size);

/*
 * The head lies in the connection's input buffer. Who reads more into that (conn_fill) while the request
 * lives calls this first: the request takes the buffer over.
 */
void request_keep_head(struct request *request);

/* The client is gone: cancels the fiber if it waits. */
void request_cancel(struct request *request);

/* Who asks: the other end of the connection (len 0: a unix socket without a name), or whom it speaks for. */
void request_client(const struct request *request, struct addr *out);
/* The same as text, without port; "unix:" for a unix socket. Lives as long as the request. */
struct str request_client_text(const struct request *request);
/* From here on this client asks, for subrequests and the log, too. Variables that were used keep their values. */
void request_set_client(struct request *request, const struct addr *addr);

/* The number of a method's name (methods.c); METHOD_OTHER when it is none of the known. Names are in upper case
 * (RFC 9110, 9.1); in configurations any case will do. */
unsigned method_named(struct str name);
unsigned method_named_nocase(struct str name);
static inline unsigned request_method_of(struct str name)
{
    return name.len == 3 && memcmp(name.data, "GET", 3) == 0 ? METHOD_GET : method_named(name);
}

/* From here on a GET, as pages are asked for that stand in for another. */
static inline void request_become_get(struct request *request)
{
    request->method = METHOD_GET;
    request->method_name = STR("GET");
}

/* All passes of a request whose restart is set, error pages too: for subrequests. MAY WAIT. */
enum flow request_answer(struct request *request);
/* Its log handlers alone. */
void request_log_handlers(struct request *request);

/* Answers with an error status: `return request_fail(request, 404);` */
static inline enum flow request_fail(struct request *request, unsigned status)
{
    request->response.status = status;
    return FLOW_FAIL;
}

/* Internal redirects (4): new URI and arguments, restart at server-rewrite. Returns what the
 * handler returns. */
enum flow request_redirect(struct request *request, struct str uri, struct str args);
enum flow request_redirect_named(struct request *request, struct str name);

/* The part of the URI behind the last dot of its last segment; empty when there is none. */
struct str request_extension(const struct request *request);
/* The target from its path on: an absolute one without scheme and host. */
struct str request_origin_form(const struct request *request);
/* Splits "path?args" of a configuration's text, refuses unsafe paths ("..": false). */
bool request_split_uri(struct request *request, struct str text, struct str *uri, struct str *args);
/* Switches to a location: its server, settings and log. */
static inline void request_set_location(struct request *request,
                                        const struct http_location *location)
{
    request->location = location;
    request->server = location->server;
    request->memory.limit = location->request_memory_limit;
    request->log.sinks = location->error_log;
    request->log.level = location->error_log_level;
}

/* Counts one of the 10 URI changes; false when they are spent: message logged, status 500 set. */
bool request_count_change(struct request *request, const char *what);

/* ---- responses (response.c) ---- */

/* Runs the header filters, sends the head. FLOW_DONE when no body follows (HEAD, 304 …), FLOW_NEXT:
 * send the body; FLOW_FAIL/FLOW_CLOSED. */
enum flow response_start(struct request *request);
/* Body pieces, through the filters. MAY WAIT. False: the client is gone. */
bool response_send(struct request *request, const struct body_piece *piece, bool is_last);
/* A whole response of one memory piece (not volatile). The usual end of a small handler. */
enum flow response_memory(struct request *request, unsigned status, struct str content_type,
                          struct str body);
/* A redirect of the client: 301, 302, 303, 307, 308 with Location (relative ones are made absolute
 * as configured). */
enum flow response_redirect(struct request *request, unsigned status, struct str location);
/* What FLOW_FAIL leads to: error_page of the location, else the built-in page (special pages). */
enum flow response_error(struct request *request);
/*
 * The built-in page for a request that is not worked on: without filters, and without waiting, so that it can be
 * called on the loop's stack. Over HTTP/2 without a page.
 */
void response_refuse(struct request *request, unsigned status);
/* Has this place an error_page for the status that may be shown now? */
bool response_has_page(const struct request *request, unsigned status);
/* Sets content_type from the extension (types, default_type). */
void response_set_type(struct request *request);
/*
 * A filter makes another body of it: its length is not told any more, and no ranges of it are served. The
 * validators stay, the ETag as a weak one (RFC 9110, 8.8.1), or both are left out.
 */
void response_change_body(struct request *request, bool keeps_validators);
/* Puts a filter before those that are there: it sees what the handler gives (ranges, copies of files). */
static inline void response_add_filter(struct request *request, struct body_filter *filter)
{
    filter->next = request->response.filters;
    request->response.filters = filter;
}

/*
 * Puts a filter behind those that are there, next to the wire: for filters that change the body, so that
 * bytes pass them in the order in which the header filters ran (sub, ssi, gzip).
 */
static inline void response_append_filter(struct request *request, struct body_filter *filter)
{
    struct body_filter **at = &request->response.filters;

    while (*at != NULL) {
        at = &(*at)->next;
    }
    filter->next = NULL;
    *at = filter;
}

/* ---- request bodies (body.c) ---- */

/* A body that was read whole. */
struct request_body {
    struct str bytes;     /* when it is in memory */
    int fd;               /* temporary file, or -1; closed with the request */
    struct str file_name; /* of the file, or empty */
    uint64_t size;        /* decoded bytes */
};

/* Can it not be had whole any more? A part was taken, or it is malformed, or late. */
static inline bool request_body_is_gone(const struct request *request)
{
    return request->body == NULL && (request->is_body_taken || request->body_refusal != 0);
}
/* Is the announced length above client_max_body_size? Then true: logged, status 413. */
bool request_body_exceeds(struct request *request);
/* The same for one whose length is found out as it comes: is so much of it too much? */
bool request_body_is_too_large(struct request *request, uint64_t size);
/* Reads all of the body to memory or file as the location says. MAY WAIT. FLOW_NEXT = it is in
 * request->body; else FLOW_FAIL (status set), FLOW_CLOSED. One of which a part has gone elsewhere is empty. */
enum flow request_read_body(struct request *request);
/* For wires: what a wait for more of the body came to. False: time is up (408), or the client is gone. */
bool request_body_waited(struct request *request, enum wait_result result);
/* Decoded bytes as they come, for handlers that stream. MAY WAIT. */
ssize_t request_read_some(struct request *request, void *at, size_t size);
/*
 * Reads and drops what is left of the body, so that the next request can be found. MAY WAIT, within
 * lingering_time. False: there is still more, or the client is gone; the connection cannot be kept.
 */
bool request_drop_body(struct request *request);
/*
 * The part of that which is there already, before the response begins, so that a malformed body is
 * told from the answer. False: response.status says what is wrong with it, and is the answer's now.
 */
bool request_drop_arrived_body(struct request *request);

/* ---- files (file.c) ---- */

struct file;

/* The path of request->uri under root or alias (NUL-terminated). False: status set. root_length
 * gets the length of the root part. */
bool request_map_path(struct request *request, struct str *path, size_t *root_length);
/* Of an alias in force: the length of the URI's part that it replaces. False: it replaces the whole
 * (regex location). */
bool request_alias_prefix(const struct request *request, size_t *length);

#endif
