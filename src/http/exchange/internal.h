/* What the parts of an exchange show to each other. */
#ifndef HTTP_EXCHANGE_INTERNAL_H
#define HTTP_EXCHANGE_INTERNAL_H

#include "http/exchange/exchange.h"

/* How a try ended. */
enum try_result {
    TRY_ANSWERED,  /* x->answer holds a final head, the link is open */
    TRY_FAILED,    /* *failure tells; the link is gone */
    TRY_CANCELLED, /* the client left */
};

/* Why a try failed, and what the client is told when nobody else can help. */
struct failure {
    unsigned kind;   /* enum next_upstream, one bit; 0 = our own trouble */
    unsigned status; /* 502, 504, or what the backend answered */
};

/* exchange.c: looks into the cache, then asks a backend. FLOW_NEXT: a slice that is not the last is done.
 * MAY WAIT. */
enum flow exchange_once(struct exchange *x);
/* exchange.c: asks a backend and passes its answer on. MAY WAIT. */
enum flow exchange_fetch(struct exchange *x);
/* *_intercept_errors: the answer has an error page here, and *flow leads to it. */
bool exchange_intercepts(struct exchange *x, enum flow *flow);

/* attempt.c: one try with pick->peer: connect, send, read the head. MAY WAIT. */
enum try_result exchange_try(struct exchange *x, struct failure *failure);
/* Notes the start of a try in x->attempts, under the name of a peer or group. */
void attempt_begin(struct exchange *x, struct str name);
/* … and its end: times, bytes. status 0 leaves it as it is. */
void attempt_end(struct exchange *x, unsigned status);
/* Ends what a try has open: the uploading fiber, the share of the link. */
void exchange_leave_link(struct exchange *x, bool is_reusable);

/* The log line for a backend that closed or broke off too early. */
void exchange_log_early_end(struct exchange *x);

/* ---- sent_body.c, the rest of it: exchange.h ---- */

/* What has to be had of the body before anything else: all of it, unless it is streamed. Gives what
 * request_read_body does. MAY WAIT. */
enum flow sent_body_prepare(struct exchange *x);
/* The same right before the head is made: a body of which a part is gone meanwhile is none. MAY WAIT. */
enum flow sent_body_settle(struct exchange *x);
/* The head goes to a peer now: nothing of the body has. */
void sent_body_begin(struct exchange *x);
/* The next piece; NULL: the end alone. False: that is not what was announced; the body counts as cut. */
bool sent_body_give(struct exchange *x, const struct body_piece *piece, bool is_last);
/* It will not be whole. refusal: what the client is told, or 0. */
void sent_body_cut(struct exchange *x, unsigned refusal);

/* upload.c: the request's body on its way to the backend while its answer may come already. What goes wrong with
 * the client's part is in x->sent. */
bool upload_start(struct exchange *x);
void upload_stop(struct exchange *x);
/* Is the body still on its way? */
bool upload_is_under_way(const struct exchange *x);
/* Waits for its end. False: it was not sent whole, or the wait was cancelled. MAY WAIT. */
bool upload_join(struct exchange *x);

/*
 * relay.c: the accepted answer's body to the client, the cache, the store. The response's head was not
 * started yet. MAY WAIT.
 */
enum flow relay_answer(struct exchange *x);

/* Reads an answer's body that nobody wants, as far as it is there. True: it was whole. */
bool exchange_skip_body(struct exchange *x);

/* tunnel.c: bytes both ways until one side ends. MAY WAIT. */
enum flow tunnel_relay(struct exchange *x);

/*
 * Waits for something to happen at the backend, within read_timeout of the last byte (or send_timeout
 * while the request is still leaving). WAIT_TIMED_OUT is logged. MAY WAIT.
 */
struct patience {
    uint64_t since_ms; /* the last byte either way */
    uint64_t sent;     /* conn->sent then */
    unsigned at_once;  /* reads that did not have to wait, in a row */
};
void patience_begin(struct exchange *x, struct patience *patience);
/* More has come without waiting; others get their turn now and then. False: cancelled. MAY WAIT. */
bool patience_goes_on(struct exchange *x, struct patience *patience);
enum wait_result patience_wait(struct exchange *x, struct patience *patience);

/* secure.c: how the connection of this exchange speaks TLS. */
struct link_tls;
void exchange_secure(struct exchange *x, struct link_tls *out);

/* ---- logins.c ---- */

/* The backends' connections that belong to the client's, or NULL. */
struct link_tie *logins_tie(const struct exchange *x);
/* Before a link is opened: the client's own come first. Does the request log in, so that its link is to be bound? */
bool logins_choose_link(struct exchange *x, struct link_options *options);
/* x->link belongs to the client's connection from now on. */
void logins_bind(struct exchange *x);
/* The head of an answer is there: does the backend want such a login? */
void logins_note_answer(struct exchange *x);

/* ---- cached.c ---- */

/* Looks into the cache where this place has one. FLOW_NEXT: a backend is to be asked (and x->cached
 * says whether its answer is stored). MAY WAIT. */
enum flow cached_lookup(struct exchange *x);
/* A failure of this kind: is there a stale response that may be given instead? */
bool cached_may_serve_stale(const struct exchange *x, unsigned kind);
enum flow cached_serve_stale(struct exchange *x);
/* The backend's head is there. FLOW_NEXT: relay it; else it was answered from the cache (304). */
enum flow cached_accept(struct exchange *x);
/* A part of the body, its end, or that it was cut short. */
void cached_write(struct exchange *x, struct str bytes);
void cached_end(struct exchange *x, bool is_whole);
/* Is the answer being stored, so that it is to be read to its end though the client left? */
bool cached_is_filling(const struct exchange *x);
/* May a stored answer come of this exchange? */
bool cached_wants_fill(const struct exchange *x);
/* Lets go of the entry. */
void cached_close(struct exchange *x);

/* ---- store.c: *_store ---- */

struct store;
bool store_begin(struct exchange *x);
void store_write(struct exchange *x, struct str bytes);
void store_end(struct exchange *x, bool is_whole);

#endif
