/* An exchange: one request passed on to a backend, and its response brought back, over as many
 * attempts as it takes. What all protocols share; a protocol adds how requests are written and
 * responses are read. Implemented in exchange.c, attempt.c, channel.c, relay.c, response.c,
 * sent_body.c and upload.c. */
#ifndef HTTP_EXCHANGE_EXCHANGE_H
#define HTTP_EXCHANGE_EXCHANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "http/exchange/options/pass.h"
#include "http/exchange/options/settings.h"
#include "http/message/head_scan.h"
#include "http/request/request.h"
#include "shared/upstream/attempts.h"
#include "upstream/connection.h"
#include "upstream/upstream.h"

struct exchange;

/* How looking at the response's head went. */
enum head_result {
    HEAD_MORE, /* not whole yet */
    HEAD_DONE, /* x->response is filled: a final response or an interim one (status below 200, not
                  101) */
    HEAD_BAD,  /* malformed or too big: logged; the attempt failed (invalid_header) */
};

/* How taking the next part of the response's body went. */
enum body_result {
    BODY_MORE, /* nothing now: wait */
    BODY_DATA, /* *data holds some; valid until the channel is asked again */
    BODY_END,  /* it was whole; the protocol has set x->is_reusable */
    BODY_BAD,  /* malformed or cut short: logged */
};

/* What a backend answered. */
struct upstream_response {
    unsigned status;     /* 100 to 599 */
    struct str reason;   /* of the status line, or empty */
    struct str raw_head; /* goes to clients of HTTP/1 byte for byte; or empty: as it was read */
    enum http_version version; /* that it speaks; HTTP only */
    struct fields fields;      /* as they came, in order; bytes live in the request's arena */
    struct fields *trailers;   /* after the body, or NULL */
    struct fields_scan scan;   /* of the line or lines that are being read: what came of them */
    bool may_have_trailers; /* also after a body of announced length: it ends when that is known */
    int64_t content_length; /* of its body; -1 = not announced */
    bool has_no_body;       /* 204, 304, answer to HEAD, … */
    bool is_upgrade;        /* 101, or 2xx to CONNECT: bytes both ways from here on */
    bool is_of_head;        /* stored, and without its page: nothing but HEAD was asked for */
    bool has_no_page; /* a failure that is a status alone, as memcached's: the error page is ours */
};

/* What the bytes of one request are sent through and come back by: the whole connection, or a share
 * of one (FastCGI requests, HTTP/2 streams). All functions look at x->connection. */
struct channel {
    /* After upstream_connection_open: this exchange is now on x->connection. False: it cannot be
     * (logged), the attempt failed. NULL: it is. */
    bool (*begin)(struct exchange *x);
    /* The next three, wait and unsent may be NULL: what the connection itself has. Call
     * exchange_input and so on, below. */
    /* Bytes that arrived and were not consumed. */
    struct str (*input)(struct exchange *x);
    void (*consume)(struct exchange *x, size_t n); /* the first n of them are used */
    /* Tries to get more without waiting. True: input grew. False: nothing now, or the end: see
     * ended. */
    bool (*fill)(struct exchange *x);
    /* Has the backend sent its last byte (or broken off: errno in x->connection->conn->error)?
     * Asked when fill said no. */
    bool (*has_ended)(struct exchange *x);
    /* Waits until fill may have more, or queued output moved. MAY WAIT. */
    enum wait_result (*wait)(struct exchange *x, uint64_t deadline_ms);
    /* Bytes of this exchange that are queued and not yet taken by the socket. */
    uint64_t (*unsent)(struct exchange *x);
    /* Where requests share a connection, else NULL: bytes of this one that the socket took. */
    uint64_t (*sent)(const struct exchange *x);
    /* Waits until more of the request's body may be sent; timed out when the peer took nothing of
     * it for so long. MAY WAIT. */
    enum wait_result (*wait_room)(struct exchange *x, uint64_t timeout_ms);
    /* Wakes the fiber that waits in wait_room. */
    void (*nudge)(struct exchange *x);
    /* Optional: when the peer last took something of it; NULL: when the connection's queue last
     * moved. */
    uint64_t (*moved_ms)(const struct exchange *x);
    /* Optional: when the backend last showed that it is alive, by something that no reader hears of
     * (HTTP/2: PING, SETTINGS, WINDOW_UPDATE). 0 = never. */
    uint64_t (*heard_ms)(const struct exchange *x);
    /* Optional: bytes that came for the response after its head, as they came, with what frames
     * them. NULL: all that arrived on the connection since. */
    uint64_t (*body_received)(struct exchange *x);
    /* Optional: must what arrives be taken at once, because others' responses come after it? Then
     * nobody waits for the client: the spool takes it, or the request ends. NULL: no. */
    bool (*must_drain)(const struct exchange *x);
    /* This exchange leaves the connection: kept for others, or closed. x->connection becomes NULL.
     * NULL: no other uses it now. */
    void (*end)(struct exchange *x, bool is_reusable);
};

/* What one request has queued on a connection that others use at the same time: channel.sent and
 * unsent of such channels, so that nobody takes others' progress for its own. */
struct output_share {
    uint64_t queued; /* bytes */
    uint64_t end;    /* conn->queued after the last of them */
};

/* The last `bytes` of the connection's queue are the request's. */
static inline void output_share_add(struct output_share *share, const struct conn *conn,
                                    uint64_t bytes)
{
    share->queued += bytes;
    share->end = conn->queued;
}

/* Bytes that the socket has not taken, counted from the end: others' may be among them. */
static inline uint64_t output_share_unsent(const struct output_share *share,
                                           const struct conn *conn)
{
    uint64_t left = share->end > conn->sent ? share->end - conn->sent : 0;

    return left < share->queued ? left : share->queued;
}

/* The channel of protocols that have a connection for themselves (channel.c). */
extern const struct channel whole_connection;

/* A protocol towards backends. One constant for each module. */
struct protocol {
    const struct exchange_family *family; /* its options */
    struct str name;                      /* before "://" in logs: "http", "fastcgi" */
    struct str secure_name; /* the name over TLS: "https"; empty where that is not possible */
    struct str scheme;      /* "xy://": may stand before a target that variables make; or empty */
    struct str alpn;        /* ALPN that is offered there, in wire form; or empty */
    const struct channel *channel; /* what its requests go through */
    bool is_quic;                  /* over QUIC, and so over TLS, not TCP */
    bool wants_length;  /* applications read as much of a body as was announced: CGI's kind */
    bool offers_ranges; /* of responses to the whole, as memcached's values, whose heads cannot say
                           it */
    bool has_logins;    /* HTTP: clients may be known by the connection (logins.c) */
    /* Writes x->head (and what it needs in x->state) once, before the first attempt. False: status
     * set in request->response. NULL where the handler sets x->head. */
    bool (*make_request)(struct exchange *x);
    /* Queues the head on x->connection; NULL: x->head as it is. */
    void (*send_head)(struct exchange *x);
    /* Queues a part of the request's body, framed; piece may be NULL with is_last. NULL: raw bytes.
     */
    void (*send_body)(struct exchange *x, const struct body_piece *piece, bool is_last);
    /* Before each attempt: parsers start again. */
    void (*begin_response)(struct exchange *x);
    enum head_result (*read_head)(struct exchange *x);
    /* NULL where each response is an upgrade: those have no body. */
    enum body_result (*read_body)(struct exchange *x, struct str *data);
    /* Optional: the response's head was accepted; changes fields on their way to the client
     * (proxy_redirect, proxy_cookie_*). */
    void (*adapt_field)(struct exchange *x, struct field *field);
    /* The backend closed where the body's end did not follow from a length: BODY_END or BODY_BAD.
     * NULL: cut short. */
    enum body_result (*body_ended)(struct exchange *x);
    /* Optional: the cache's key where no *_cache_key is written. */
    struct str (*default_cache_key)(struct exchange *x);
    /* Optional: tells the log that the peer was not reached in time, or that its tunnel rested for
     * too long (is_connected). NULL: `upstream timed out`. */
    void (*timed_out)(struct exchange *x, bool is_connected);
    /* Optional: a connection that nobody else uses meanwhile is needed, though the backend would
     * take several requests: the client's pace, or a limit of ours, is to hold it back. */
    bool (*wants_whole_connection)(const struct exchange *x);
    /* Optional: connections are kept though nobody ordered it: what goes once takes none of them.
     */
    bool (*keeps_unasked)(const struct exchange *x);
    /* Optional: connections to this peer at most (FCGI_MAX_CONNS); 0 = no limit. */
    unsigned (*open_max)(const struct exchange *x);
};

/* How the request's body is passed on. */
enum sent_body_mode {
    SENT_BODY_NONE,     /* not at all */
    SENT_BODY_WHOLE,    /* read before a peer is asked */
    SENT_BODY_STREAMED, /* as it comes: request_buffering off, and it was not read yet */
};

/* The request's body on its way to one peer (sent_body.c): what was announced to the peer, and what
 * it got. */
#define SENT_BODY_UNKNOWN UINT64_MAX
struct sent_body {
    uint64_t announced; /* bytes; SENT_BODY_UNKNOWN: its end is marked where it comes */
    uint64_t given;     /* bytes that were given to the channel so far */
    uint64_t begun_ms;  /* when a piece was last given while nothing else was on its way */
    unsigned refusal;   /* status that the client's fault has: 400, 408, 413; 0 = it left */
    bool is_ended;      /* the last piece was given, and all that was announced: else the connection
                           carries no other */
    bool is_cut;        /* the body will never end: the client broke off */
    bool is_doubtful;   /* the head tells of another end: *_set_header, *_pass_request_body off */
};

/* The relay of a response (relay.c). */
struct exchange_relay {
    struct spool *spool; /* of what the client has not taken yet; NULL while it keeps up */
    bool is_buffered;    /* buffering on, and X-Accel-Buffering did not say no */
    uint64_t limit_rate; /* bytes per second read from the backend; 0 = none */
    bool is_peer_fine;   /* that the response ends is not the peer's fault */
};

/* What of an exchange's response is for the client. */
enum exchange_output {
    OUTPUT_RESPONSE, /* head and body */
    OUTPUT_HEAD,     /* the body is no part of what the client asked for */
    OUTPUT_BODY,     /* it continues the response that a former exchange began */
    OUTPUT_NONE,     /* nothing: the cache hook alone takes it */
};

/* What the cache hook says of an exchange (options/cache_hook.h); all is zero where there is none.
 */
struct exchange_cache {
    const struct exchange_cache_hook *hook; /* NULL: nothing is kept or cut here */
    struct exchange_caching *state;         /* what the hook knows of this exchange */
    bool is_cacheable;    /* the response may be stored: the whole of it is asked for, so the
                                client's Range and conditions (If-…) are not passed on; HEAD
                                becomes GET where cache_convert_head says so */
    bool outlives_client; /* it continues when the client leaves */
    bool is_kept; /* the response is being stored: it is read to its end, whether a client wants it
                     or not */
    enum exchange_output output; /* what of the response the client gets */
    bool is_served;              /* the cache hook gave the response */
    bool is_followed;      /* another exchange continues the client's response after this one */
    uint64_t whole_length; /* of what the response is the first part of; 0 = it is all there is */
    /* Of the response's body where it is a part; what is more goes to nobody. 0 = all there is. */
    uint64_t part_length;
    /* Where a stored response is renewed: its ETag and Last-Modified, sent as If-None-Match and
     * If-Modified-Since; empty = none. */
    struct str renews_etag;
    struct str renews_since;
};

#define EXCHANGE_MAGIC 0xe8c4a26eu

struct exchange {
    uint32_t magic;                  /* EXCHANGE_MAGIC */
    struct log_context log_context;  /* `, upstream: "…"` in the request's log lines */
    struct request *request;         /* whose exchange it is */
    const struct protocol *protocol; /* of the handler */
    const struct exchange_settings
        *settings;               /* of the location, or a copy with time limits of its own */
    const void *location_tag;    /* the location's, whatever copies were made */
    void *state;                 /* of the protocol, in the request's arena */
    void *channel_state;         /* of its channel, likewise */
    struct tunnel *tunnel;       /* once it is one, by a relay; or NULL */
    uint64_t tunnel_byte_ms;     /* its first byte came from the backend; 0 = none did */
    const void *module_settings; /* of the protocol's module at this location */

    /* Where to. One of group and target is set by the module's handler. */
    struct upstream_group *group;
    struct template *target; /* "host:port" with variables; the module has cut off scheme and URI */
    struct str target_text;  /* target, evaluated */
    uint16_t default_port;   /* where target_text has none */
    bool is_secure;          /* over TLS, as settings->tls says */
    struct str preface;      /* bytes that go before the handshake; empty = none */
    struct str url_tail;     /* URI part for `upstream: "http://1.2.3.4:80/uri"` in logs */

    /* What is sent. */
    struct str head;                 /* made by make_request */
    const struct template *set_body; /* proxy_set_body, evaluated when the client's body is there */
    struct str body_override;        /* set_body, evaluated; data NULL = the request's own body */
    enum sent_body_mode body_mode;   /* of the request's own body */
    bool is_chunked_out;             /* the protocol frames a body of unknown length */
    bool has_sent;                   /* something left for a backend: matters for non_idempotent */
    bool wants_fresh;                /* this attempt takes no kept connection */
    bool goes_once;                  /* what left for a peer may not leave again */
    bool was_reused;                 /* this attempt's connection was a kept one */
    bool was_refused;      /* this attempt's peer said that it has not looked at the request */
    uint64_t waits_ms;     /* nothing came on a fresh one for so long: idle ones give way, and again
                              after twice the time */
    uint64_t sent_before;  /* connection's conn->sent when this attempt began */
    struct sent_body sent; /* of this attempt */
    struct upload *upload; /* the body's way while the response is awaited, or NULL (upload.c) */

    struct upstream_pick pick;              /* the peer in use, and those that were attempted */
    struct upstream_connection *connection; /* NULL between attempts */
    bool is_reusable; /* the connection may carry another request when this one ends */
    struct upstream_response response; /* of this attempt, once its head is read */
    uint64_t body_received;            /* bytes of the response's body, decoded */

    struct vec attempts;       /* struct attempt */
    struct attempt *attempt;   /* the current one */
    uint64_t start_ms;         /* of the first attempt */
    uint64_t attempt_start_ms; /* of this one */

    struct exchange_relay relay;
    struct exchange_cache cache;
};

/* A fresh exchange for the request, with its body's rules from the settings; replaces
 * request->exchange. The handler sets group or target, url_tail and so on, then calls exchange_run.
 */
struct exchange *exchange_new(struct request *request, const struct protocol *protocol,
                              const struct exchange_settings *settings,
                              const void *module_settings);

/* Time limits that a request sets for itself, in place of those of its location (Tengine's
 * $upstream_*_time). */
enum own_timeout { OWN_CONNECT, OWN_SEND, OWN_READ, OWN_TIMEOUTS };
void exchange_set_timeout(struct request *request, enum own_timeout which, uint64_t ms);
/* 0 = it has not. */
uint64_t exchange_own_timeout(struct request *request, enum own_timeout which);

/* It goes where a *_pass directive says. A text with variables is evaluated; the protocol's scheme
 * may stand before it. */
void exchange_set_target(struct exchange *x, const struct pass_target *target);

/*
 * The whole story: read the body, look into the cache, choose a peer, connect, send, read the head,
 * try the next where that may help, relay, keep or close. MAY WAIT. Returns what a handler returns.
 */
enum handler_result exchange_run(struct exchange *x);

/*
 * How long the body is that a backend gets: what is announced is what this says; -1 = streamed, and
 * not known. A streamed one is whole: who has taken a part of it cannot pass on the rest.
 */
int64_t sent_body_length(const struct exchange *x);

/* It is read before it is sent, after all. */
static inline void sent_body_buffer(struct exchange *x)
{
    if (x->body_mode == SENT_BODY_STREAMED) {
        x->body_mode = SENT_BODY_WHOLE;
    }
}
/* The same at once: what request_read_body says. MAY WAIT. */
enum handler_result sent_body_hold(struct exchange *x);

/* Of a streamed body: is all that was taken of it at hand still, so that another peer can have it?
 */
bool upload_is_kept(const struct exchange *x);

/* Queues raw bytes of a piece on the connection: what send_body = NULL does, for protocols that add
 * frames around. The piece's memory must live until the attempt ends. */
void exchange_send_piece(struct exchange *x, const struct body_piece *piece);

/* Bytes per second that *_limit_rate of this location lets come; 0 = as they come. */
uint64_t exchange_limit_rate(const struct exchange *x);

/* Copies bytes of the channel's input that fields point to into the request's arena. */
struct str exchange_keep(struct exchange *x, struct str bytes);

/* Log lines about the backend: ` while ACTION, client: …, upstream: "…"` is put after them. */
void exchange_log(struct exchange *x, enum log_level level, int error, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The name of the group that it goes to, or went to; empty where it was none yet, or an address
 * found at run time. */
struct str exchange_group_name(const struct exchange *x);

/* OpenSSL's object of its connection to a backend; NULL: it has none, or is not encrypted. */
struct ssl_st *exchange_ssl(const struct exchange *x);

/* The exchange of a request that is or was under way, or NULL. */
static inline struct exchange *request_exchange(const struct request *request)
{
    return request->exchange;
}

/* ---- the channel of an exchange, which as a rule is its connection ---- */

static inline struct str exchange_input(struct exchange *x)
{
    const struct channel *channel = x->protocol->channel;

    return channel->input == NULL ? conn_input(x->connection->conn) : channel->input(x);
}

static inline void exchange_consume(struct exchange *x, size_t n)
{
    const struct channel *channel = x->protocol->channel;

    if (channel->consume == NULL) {
        conn_consume(x->connection->conn, n);
    } else {
        channel->consume(x, n);
    }
}

static inline bool exchange_has_ended(struct exchange *x)
{
    const struct channel *channel = x->protocol->channel;
    const struct conn *conn = x->connection->conn;

    return channel->has_ended == NULL ? conn->is_input_closed || conn->is_broken
                                      : channel->has_ended(x);
}

/* MAY WAIT. */
static inline enum wait_result exchange_wait(struct exchange *x, uint64_t deadline_ms)
{
    const struct channel *channel = x->protocol->channel;

    return channel->wait == NULL ? fiber_wait(&x->connection->wake, deadline_ms)
                                 : channel->wait(x, deadline_ms);
}

static inline uint64_t exchange_unsent(struct exchange *x)
{
    const struct channel *channel = x->protocol->channel;

    return channel->unsent == NULL ? conn_unsent(x->connection->conn) : channel->unsent(x);
}

/* ---- answers to clients (response.c) ---- */

/*
 * Describes the accepted response in request->response: status, the fields that are not hidden
 * here, what X-Accel-Buffering, -Limit-Rate and -Charset ask for; Location, Refresh and Set-Cookie
 * through protocol->adapt_field. False: it cannot be passed on; logged.
 */
bool response_from_upstream(struct exchange *x);
/* Is the response passed on buffered: what *_buffering says, or its X-Accel-Buffering? */
bool exchange_is_buffered(const struct exchange *x);

/* What of an interim response, or of the fields after a body, the client may see; in the request's
 * arena. Trailers: NULL = none came. */
struct fields *upstream_interim_fields(struct exchange *x);
struct fields *upstream_trailers(struct exchange *x);

/*
 * X-Accel-Redirect: true when the response names another location, and *result is what the handler
 * returns. The fields that go with it are in the response.
 */
bool upstream_response_redirects(struct exchange *x, enum handler_result *result);

#endif
