/* What the parts of an exchange show to each other. */
#ifndef HTTP_EXCHANGE_INTERNAL_H
#define HTTP_EXCHANGE_INTERNAL_H

#include "base/clock.h"
#include "http/client/connection.h"
#include "http/exchange/exchange.h"

/* How an attempt ended. */
enum attempt_result {
    ATTEMPT_ANSWERED,  /* x->response holds a final head, the connection is open */
    ATTEMPT_FAILED,    /* *failure says why; the connection is gone */
    ATTEMPT_CANCELLED, /* the client left */
};

/* Why an attempt failed, and what the client gets if no other peer answers. */
struct failure {
    unsigned kind;   /* enum next_upstream, one bit; 0 = our own trouble */
    unsigned status; /* 502, 504, or what the backend answered */
};

/* exchange.c: asks a backend and passes its response on. HANDLER_NEXT: it is_followed, and the
 * response is to continue. MAY WAIT. */
enum handler_result exchange_fetch(struct exchange *x);
/* *_intercept_errors: the response has an error page here, and *result leads to it. */
bool exchange_intercepts(struct exchange *x, enum handler_result *result);

/* Does another location answer instead, an error page or what X-Accel-Redirect names? *result leads
 * to it. */
static inline bool exchange_is_replaced(struct exchange *x, enum handler_result *result)
{
    const struct upstream_response *response = &x->response;

    return ((response->status >= 300 || response->has_no_page) && exchange_intercepts(x, result)) ||
           ((response->fields.seen & FIELD_BIT(FIELD_X_ACCEL_REDIRECT)) != 0 &&
            upstream_response_redirects(x, result));
}

/* attempt.c: pick->peer is asked until it answers or fails: connect, send, read the head. MAY WAIT.
 */
enum attempt_result exchange_ask_peer(struct exchange *x, struct failure *failure);
/* Notes the start of an attempt in x->attempts, under the name of a peer or group. */
void attempt_begin(struct exchange *x, struct str name);
/* Notes the end of the attempt: times, bytes. status 0 leaves it as it is. */
void attempt_end(struct exchange *x, unsigned status);
/* Ends what an attempt has open: the uploading fiber, the share of the connection. */
void exchange_leave_connection(struct exchange *x, bool is_reusable);

/* The log line for a backend that closed or broke off too early. */
void exchange_log_early_end(struct exchange *x);

/* ---- sent_body.c, the rest of it: exchange.h ---- */

/* What has to be had of the body before anything else: all of it, unless it is streamed. Gives what
 * request_read_body does. MAY WAIT. */
enum handler_result sent_body_prepare(struct exchange *x);
/* The next piece; NULL: the end alone. False: that is not what was announced; the body counts as
 * cut. */
bool sent_body_give(struct exchange *x, const struct body_piece *piece, bool is_last);
/* It will not be whole. refusal: the status that the client gets, or 0. */
void sent_body_cut(struct exchange *x, unsigned refusal);

/* upload.c: the request's body on its way to the backend while its response may come already. What
 * goes wrong with the client's part is in x->sent. */
bool upload_start(struct exchange *x);
void upload_stop(struct exchange *x);
/* Is the body still on its way? */
bool upload_is_under_way(const struct exchange *x);
/* Waits for its end. False: it was not sent whole, or the wait was cancelled. MAY WAIT. */
bool upload_join(struct exchange *x);

/*
 * relay.c: the accepted response's body to the client and the cache hook. The response's head was
 * not started yet. MAY WAIT.
 */
enum handler_result relay_response(struct exchange *x);

/* Reads a response's body that nobody wants, as far as it is there. True: it was whole. */
bool exchange_skip_body(struct exchange *x);

/* tunnel.c: bytes both ways until one side ends. MAY WAIT. */
enum handler_result tunnel_relay(struct exchange *x);

/* Bytes of this exchange that the socket took, from some number on. */
static inline uint64_t sent_so_far(const struct exchange *x)
{
    const struct channel *channel = x->protocol->channel;

    return channel->sent != NULL ? channel->sent(x) : x->connection->conn->sent;
}

/*
 * Waits for something to happen at the backend. What counts is whose turn it is: while bytes of the
 * request are on their way, the socket has to take some within send_timeout; while the client's
 * part of the body is awaited, upload.c watches the client, and nothing is asked of the backend;
 * after that it has to show itself within read_timeout of the last byte either way. WAIT_TIMED_OUT
 * is logged. MAY WAIT.
 */
struct io_deadline {
    uint64_t since_ms; /* the last byte either way */
    uint64_t sent;     /* sent_so_far then */
    uint64_t received; /* attempt->bytes_received then */
    unsigned at_once;  /* reads that did not have to wait, in a row */
};
static inline void io_deadline_begin(const struct exchange *x, struct io_deadline *deadline)
{
    deadline->since_ms = clock_now.now_ms;
    deadline->sent = sent_so_far(x);
    deadline->received = x->attempt->bytes_received;
    deadline->at_once = 0;
}
/* More has come without waiting; others get their turn now and then. False: cancelled. MAY WAIT. */
bool io_deadline_extend(struct exchange *x, struct io_deadline *deadline);
enum wait_result io_deadline_wait(struct exchange *x, struct io_deadline *deadline);

/* ---- logins.c ---- */

/* The backends' connections that belong to the client's, or NULL. */
static inline struct pinned_connections *logins_pinned(const struct exchange *x)
{
    const struct connection_details *details = x->request->connection->details;

    return details == NULL ? NULL : details->pinned;
}

/* Fields that such a login comes in. */
#define LOGIN_IDS (FIELD_BIT(FIELD_AUTHORIZATION) | FIELD_BIT(FIELD_PROXY_AUTHORIZATION))

/* A request has one of them: does it log in so, and is its connection to be bound? */
bool logins_are_asked_for(const struct exchange *x);
/* x->connection belongs to the client's connection from now on. */
void logins_bind(struct exchange *x);
/* The head of a response is there: does the backend want such a login? */
void logins_note_response(struct exchange *x);

#endif
