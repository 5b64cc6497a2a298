/* Requests. */
#ifndef HTTP_REQUEST_REQUEST_H
#define HTTP_REQUEST_REQUEST_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "base/arena.h"
#include "base/list.h"
#include "base/log.h"
#include "base/str.h"
#include "conf/template.h"
#include "fiber/fiber.h"
#include "http/client/connection.h"
#include "http/message/fields.h"
#include "http/request/response.h"
#include "http/routing/settings.h"
#include "net/addr/addr.h"

/* What rewriting has made of the URI since the location was chosen. */
enum uri_state {
    URI_KEPT,      /* nothing */
    URI_REWRITTEN, /* it need not begin with the location's name any more: `rewrite ... break` */
    URI_MOVED,     /* likewise, and post-rewrite searches a location for it */
};

/* Whether a span of the request is recorded: decided by the module that traces, and kept here,
 * since each request is asked for it. */
enum trace_decision { TRACE_UNDECIDED, TRACE_SKIPPED, TRACE_RECORDED };

enum http_version { HTTP_0_9 = 9, HTTP_1_0 = 10, HTTP_1_1 = 11, HTTP_2 = 20, HTTP_3 = 30 };

#define URI_CHANGES_MAX 10
#define REQUEST_MAGIC 0x4e00e575u

/* Where a request continues after HANDLER_AGAIN. */
enum restart {
    RESTART_SERVER,   /* server-rewrite, then the search of a location: internal redirects */
    RESTART_LOCATION, /* the search of a location: after a rewrite there */
    RESTART_NAMED,    /* rewrite of request->location, which was chosen by name */
};

struct keyed_data;
struct request;
struct request_body;
struct subrequests;

/* A client that a trusted proxy in front of us speaks for. */
struct client {
    struct addr addr; /* port 0 = not known */
    struct str text;  /* without port */
};

/* What variables of http are asked of. */
extern const struct subject_kind request_subject;

/* Code that works for a request and adds to its log lines, after the request's own words. It is in
 * a struct that lives as long as the request, and is put into request->log_contexts. */
struct log_context {
    void (*describe)(const struct log_context *log_context, struct writer *out);
    struct log_context *next; /* tells after it */
};

/*
 * Called when the client has left: does work on the request continue all the same: then its fiber
 * is not cancelled. Asked each time that something tells of it, on whatever stack; never of a
 * connection that this server ends itself.
 */
struct abort_watcher {
    bool (*goes_on)(struct abort_watcher *watcher);
};

/* Called for each piece of a request's body as it is read. It is in a struct that lives as long as
 * the request. */
struct body_watcher {
    void (*received)(struct body_watcher *watcher, size_t size);
};

/*
 * What the head of a request says of where it goes: the wire formats fill it, and a subrequest has
 * its parent's. Method and fields, which modules change, are beside it in struct request; where
 * they change the field Host, host and port follow (request/field_change.h).
 */
struct request_head {
    struct str line;           /* as received, without line end */
    enum http_version version; /* that the client speaks */
    struct str target;         /* as received: $request_uri */
    struct str host;           /* lower case, no port; from target or Host */
    struct str port;           /* digits after the host, or empty */
    struct str scheme;         /* from an absolute target; empty else */
};

/* The body of a request on its way in: what its head said of it, and how far reading it is. */
struct incoming_body {
    int64_t length;         /* as Content-Length has it; -1 = none or chunked */
    int64_t sent_length;    /* the same as the client's head had it: a body given instead changes
                               nothing of that */
    uint64_t passed_length; /* with is_length_given: so much of the body is passed on at most */
    uint64_t timeout_ms;    /* who reads it waits so long for more, and may try again after that; 0:
                               client_body_timeout */
    uint64_t received;      /* bytes as received, frames included */
    struct request_body *body;    /* once it was read; or NULL */
    struct fields *trailers;      /* of a chunked one, once it was read; or NULL */
    struct body_watcher *watcher; /* or NULL */
    unsigned refusal;        /* what is wrong with it: 400, 408, 413; 0 = nothing that is known */
    unsigned is_chunked : 1; /* Transfer-Encoding: chunked */
    unsigned expects_continue : 1; /* Expect: 100-continue not answered yet */
    unsigned is_read : 1;          /* read or discarded to its end */
    unsigned is_taken : 1;         /* a part of it, at least, was: only who has that can have all */
    unsigned is_late : 1;          /* with timeout_ms: nothing came in time */
    unsigned is_lost : 1;          /* it was asked for when a part was gone: it counts as empty */
    unsigned is_too_slow : 1;      /* it came too slowly: unlike after a silence, 408 is sent */
    unsigned
        is_length_given : 1;  /* its Content-Length is one that a script or a directive has set */
    unsigned is_limited : 1;  /* it is read for use: client_max_body_size holds */
    unsigned is_streamed : 1; /* it is being passed on while the answer is given */
    unsigned reads_no_further : 1; /* reading it stops where it would have to wait */
};

/*
 * The response on its way to the client: what the wire counts of it, and how fast it goes.
 * Positions of HTTP/1 are those of the connection (conn->queued, conn->sent); HTTP/2 and HTTP/3
 * count per stream.
 */
struct request_delivery {
    uint64_t interim_bytes; /* of interim responses */
    uint64_t start;         /* position where the response began, interim ones included */
    uint64_t head_end;      /* position after its head: `end` less the bytes of the body */
    uint64_t end;           /* position after its last byte */
    uint64_t sent;       /* position that was sent when the request was recycled, at most `end` */
    uint64_t limit_rate; /* bytes per second in force; 0 = none */
    uint64_t limit_rate_after; /* bytes that go before the limit holds */
    bool is_limit_set;         /* limit_rate was computed or assigned */
    bool is_after_set;         /* limit_rate_after was computed: that of the location is not used */
};

struct request_trace;

/* What is called on the way of a request that is observed; each may be NULL. None of these may
 * wait. Times are those of clock_read_ns. */
struct request_trace_calls {
    /* A handler of a phase was asked. */
    void (*asked)(struct request_trace *trace, struct request *request, request_handler run,
                  enum handler_result result, uint64_t began_ns);
    /* A location was found for request->uri. */
    void (*located)(struct request_trace *trace, struct request *request);
    /* Its content was produced, or was not. */
    void (*produced)(struct request_trace *trace, struct request *request,
                     enum handler_result result, uint64_t began_ns);
    /* A subrequest has ended. */
    void (*ended)(struct request_trace *trace, struct request *request);
    /* What a look-up in the response cache found: as $upstream_cache_status. */
    void (*looked_up)(struct request_trace *trace, struct request *request, struct str status,
                      uint64_t began_ns);
};

/* An observer of a request and of its subrequests (debug_request, spans). It lives as long as the
 * main request. */
struct request_trace {
    struct request_trace *next;
    const struct request_trace_calls *calls;
};

/* One more observer. Subrequests that began before are not observed. */
void request_observe(struct request *request, struct request_trace *trace);
/* The observer of the request with these calls; NULL: there is none. */
struct request_trace *request_observer(const struct request *request,
                                       const struct request_trace_calls *calls);

/*
 * A request. Lives in its own arena; everything it points to lives at least as long: its head in
 * the connection's input buffer (kept until the request is recycled), the generation.
 */
struct request {
    uint32_t magic;                     /* REQUEST_MAGIC */
    struct arena arena;                 /* of all that lives as long as the request */
    struct arena_account memory;        /* of a main request: what it and its subrequests take */
    const struct http_wire *wire;       /* how its response goes out */
    void *wire_state;                   /* of the wire */
    struct http_connection *connection; /* what the requests of one connection share */
    struct fiber *fiber;                /* that works on it, while it waits; else NULL */
    struct request *parent;             /* of a subrequest */
    struct request *main;               /* itself when it is none */
    struct log log;                     /* sinks and level follow the location */
    const struct client *client; /* who asks, where that is not the other end of the connection:
                                     request_set_client; of a main request; or NULL */

    const struct http_server *server;      /* that it is for */
    const struct http_location *location;  /* whose settings hold now */
    const struct http_location *answering; /* whose handler answers: the last location that named
                                              one; NULL = that passes it on, but settings hold that
                                              say not where to */

    struct request_head head;

    /* What is asked for now; it begins as the head has it. */
    struct str method_name; /* as received, or GET where a page stands in for another */
    unsigned method;        /* enum http_method */
    /* Internal redirects change it. */
    struct str uri;  /* decoded, normalised path */
    struct str args; /* after '?', as received */

    struct incoming_body incoming;
    struct fields headers;               /* as received */
    struct abort_watcher *abort_watcher; /* or NULL */

    struct response response; /* what it is answered with */

    struct variable_env env; /* where its variables and templates are evaluated */

    uint64_t start_ms;        /* first byte of the head, monotonic */
    uint64_t received_ms;     /* when the last byte came so far: of the head or the body */
    uint64_t responded_ms;    /* when the head of the response was given to the wire; 0 = not yet */
    uint64_t head_size;       /* bytes of line and headers */
    uint64_t ordinal;         /* of this request on its connection: 1 is the first */
    uint64_t tunnel_received; /* bytes that the client sent after the head through a tunnel */
    struct request_delivery delivery;
    struct request_trace *trace; /* its observers; NULL, but for one that is looked at */
    struct request_pace *pace;   /* how fast its client is; NULL = nothing asks that: see pace.h */
    struct list node;        /* on the connection's list of requests that are not recycled yet */
    struct keyed_data *data; /* what modules keep for it: see request_data */

    const struct request_tunnel *tunnel; /* its connection's bytes go without a fiber; or NULL */
    struct exchange *exchange; /* the last one with a backend, or NULL; see exchange/exchange.h */
    struct log_context *log_contexts;      /* what else is added to its log lines; see below */
    enum restart restart;                  /* meaningful with HANDLER_AGAIN */
    enum uri_state uri_state;              /* of uri, at this location */
    enum trace_decision trace_decision;    /* of a main request */
    unsigned uri_changes;                  /* left of URI_CHANGES_MAX */
    unsigned redirects;                    /* internal ones so far, to names too */
    unsigned subrequests;                  /* of a main request: begun so far */
    unsigned subrequests_running;          /* of a main request: that have not ended */
    struct subrequests *subrequests_begun; /* its own ones; NULL = none */
    unsigned keepalive : 1;                /* the connection is kept after this response */
    unsigned is_internal : 1;              /* after an internal redirect */
    unsigned is_pipelined : 1;   /* its head was in the buffer before the response to the former was
                                    sent */
    unsigned uri_has_quoted : 1; /* the target held %XX */
    unsigned is_error_redirect : 1;   /* an error page is being asked for */
    unsigned is_lingering_forced : 1; /* the connection closes only after what the client still
                                         sends was read */
    unsigned
        has_own_headers : 1; /* of a subrequest: what it changes in them its parent does not see */
    unsigned is_completed : 1;    /* the whole response was given to the client: "OK" */
    unsigned is_cancelled : 1;    /* the client is gone */
    unsigned is_counted : 1;      /* its beginning was, by the module that counts requests */
    unsigned is_post_action : 1;  /* post_action runs: output goes nowhere */
    unsigned is_timed_out : 1;    /* the client did not read in time */
    unsigned is_over_memory : 1;  /* of a main request: request_memory_limit was reached */
    unsigned is_target_stale : 1; /* uri or args were changed: target does not say them any more */
};

/* A request in a fresh arena, headers empty, for this connection. */
struct request *request_new(struct http_connection *connection, const struct http_wire *wire);
void request_free(struct request *request);
/* Its memory counts as that of this main request from here on. */
void request_count_for(struct request *request, struct request *main);

/*
 * What a module keeps for a request, found by the address of something of its own: `size` bytes in
 * its arena, cleared when they are asked for first. Size 0: NULL when there is none yet.
 */
void *request_data(struct request *request, const void *key, size_t size);

/* Before more is read of its connection than the wire does by itself: see struct http_wire,
 * keep_head. */
void request_keep_head(struct request *request);
/* What was given so far leaves now, not at the end of the turn. */
void request_flush(struct request *request);
/* Is its client out of reach, since the connection broke? */
bool request_has_lost_client(const struct request *request);

/* Is the client's connection encrypted? */
static inline bool request_is_encrypted(const struct request *request)
{
    return connection_tls(request->connection) != NULL;
}

/* The client: the other end of the connection (len 0: a unix socket without a name), or whom it
 * speaks for. */
void request_client(const struct request *request, struct addr *out);
/* The same as text, without port; "unix:" for a unix socket. Lives as long as the request. */
struct str request_client_text(const struct request *request);
/* From here on this client asks, for subrequests and the log, too. Variables that were used keep
 * their values. */
void request_set_client(struct request *request, const struct addr *addr);

/* From here on this is asked for, with these arguments: the target as the client sent it does not
 * say so any more. Nothing else assigns these members (make lint checks it). */
static inline void request_set_uri(struct request *request, struct str uri, struct str args)
{
    request->uri = uri;
    request->args = args;
    request->is_target_stale = true;
}
/* The same while the head is read: the target says so. has_quoted: with %XX in it. */
static inline void request_set_uri_of_target(struct request *request, struct str uri,
                                             struct str args, bool has_quoted)
{
    request_set_uri(request, uri, args);
    request->is_target_stale = false;
    request->uri_has_quoted = has_quoted;
}
/* For files: they are looked for under another URI. Gives the former, which is put back in the same
 * way; the target stays what it is. */
static inline struct str request_swap_uri(struct request *request, struct str uri)
{
    struct str former = request->uri;
    bool is_target_stale = request->is_target_stale;

    request_set_uri(request, uri, request->args);
    request->is_target_stale = is_target_stale;
    return former;
}

/* From here on a GET, as pages are asked for that stand in for another. */
static inline void request_become_get(struct request *request)
{
    request->method = METHOD_GET;
    request->method_name = STR("GET");
}

/* Answers with an error status: `return request_fail(request, 404);` */
static inline enum handler_result request_fail(struct request *request, unsigned status)
{
    request->response.status = status;
    return HANDLER_FAIL;
}

/* So many bytes are kept for it outside its arena: they count towards request_memory_limit. */
void request_count_memory(struct request *request, size_t size);
static inline void request_uncount_memory(struct request *request, size_t size)
{
    request->arena.account->used -= size;
}

/* Internal redirects (4): new URI and arguments, restart at server-rewrite. Returns what the
 * handler returns. */
enum handler_result request_redirect(struct request *request, struct str uri, struct str args);
enum handler_result request_redirect_named(struct request *request, struct str name);

/* The part of the URI after the last dot of its last segment; empty when there is none. */
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

/* The request that an environment is part of. */
static inline struct request *variable_request(struct variable_env *env)
{
    return container_of(env, struct request, env);
}

/* The code for logs and $status: what was decided last, 0 while nothing is. */
static inline unsigned request_status(const struct request *request)
{
    return request->response.error_status != 0 ? request->response.error_status
                                               : request->response.status;
}

/* Bytes of this response that the client's socket took; the second without the head. */
uint64_t request_bytes_sent(const struct request *request);
uint64_t request_body_bytes_sent(const struct request *request);

#endif
