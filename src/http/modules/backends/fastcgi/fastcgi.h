/* ngx_http_fastcgi_module: what its files show to each other.
 * Implemented in connection.c, facts.c, params.c, processes.c, response.c and send.c. */
#ifndef HTTP_MODULES_BACKENDS_FASTCGI_FASTCGI_H
#define HTTP_MODULES_BACKENDS_FASTCGI_FASTCGI_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "conf/regex.h"
#include "fiber/fiber.h"
#include "http/exchange/exchange.h"
#include "http/exchange/heads/params.h"
#include "http/exchange/probe/records.h"
#include "upstream/peer.h"

struct fastcgi_connection;

/* fastcgi_keep_conn. */
enum keep_conn {
    KEEP_CONN_OFF,
    KEEP_CONN_ON,
    KEEP_CONN_AUTO, /* as the backend says when it is asked */
};

/* A part of a value. */
struct fastcgi_part {
    struct str text;
    const struct variable *variable; /* instead of text, or NULL */
    /* The variable's own get, when it may be asked directly. */
    bool (*get)(struct variable_env *env, const struct variable *variable, struct str *out);
};

/* A parameter that is not constant, with what stands before it. */
struct fastcgi_step {
    struct str ready; /* constant pairs, framed; a word may be read after them */
    size_t framed;    /* bytes of ready with the frame and name of this one after it: the
                                    value's length has one byte there. Without parts: ready's */
    struct str name;  /* empty: ready is all, the last step */
    const struct template *value;
    struct fastcgi_part *parts; /* of the value, when they can be separated */
    unsigned count;             /* of parts; 0 = the template is evaluated */
    bool skips_empty;           /* if_not_empty */
};

/* The parameters of a location, laid out. */
struct fastcgi_plan {
    struct fastcgi_step *steps;
    unsigned count;
    struct params fields; /* no configured ones: what is added of the client's fields */
};

/* Settings of one location, besides the family's. */
struct fastcgi_settings {
    struct pass_target target;
    struct vec list;  /* struct param: fastcgi_param */
    unsigned inherit; /* enum list_inherit: of list */
    struct str index;
    struct regex *split;     /* fastcgi_split_path_info; NULL = none */
    unsigned keep_conn;      /* enum keep_conn */
    struct vec catch_stderr; /* struct str */

    /* Derived. */
    const struct fastcgi_plan *plan;
    const void *plan_of; /* the list's items that plan was made of */
    size_t plan_count;   /* number of the items that plan was made of */
};

/* ---- fastcgi.c ---- */

/* $fastcgi_script_name, $fastcgi_path_info; ended by an empty name. */
extern const struct variable fastcgi_variables[];

/* ---- params.c ---- */

/* Lays out the parameters of a location; in the configuration's arena. */
const struct fastcgi_plan *fastcgi_plan_new(struct conf *conf, const struct vec *list);

/* protocol.make_request: BEGIN_REQUEST and PARAMS as x->head, for request id 1 and a connection
 * that is not kept; where to put others is known. */
bool fastcgi_make_request(struct exchange *x);

/* ---- connection.c, shared.c ---- */

/* Answer bytes that wait to be read by a request on a shared connection. */
struct fastcgi_pending {
    char *data; /* pooled (conn_buffer_alloc), or NULL */
    uint32_t size;
    uint32_t start, end; /* bytes [start, end) are unread */
};

/*
 * A request's share of a connection: what FastCGI calls a request. In the arena of the HTTP
 * request, used for one attempt after the other.
 */
struct fastcgi_stream {
    struct exchange *x;
    struct fastcgi_connection *connection; /* NULL between attempts */
    struct wait_point *wake;         /* where its fiber waits: own_wake, or the connection's */
    struct wait_point own_wake;      /* of a shared connection */
    struct list in_pending;          /* among the connection's streams that are to be woken */
    struct fastcgi_pending reading;  /* what the exchange sees; of a shared connection */
    struct fastcgi_pending arriving; /* what has come since it looked; of a shared connection */
    struct output_share records;     /* of the request: what went out for it */
    uint64_t given;                  /* bytes of body handed on */
    uint64_t noise;                  /* bytes of stderr, and of records without content */
    uint64_t head_received;          /* attempt->bytes_received, up to the end of the head */
    /* Of use until the head has ended. Bytes between parts of the head, in the input buffer of a
     * connection of its own: */
    uint32_t joined;
    /* Bytes that are no payload and came after payload of `reading`, and of `arriving`: */
    uint32_t late, arriving_late;
    uint16_t id;              /* on the connection; 0 = it has none any more */
    unsigned protocol_status; /* enum record_end */
    bool asks;                /* FCGI_GET_VALUES goes before BEGIN_REQUEST */
    bool keeps;               /* BEGIN_REQUEST said so: the connection may carry another request */
    bool is_first;            /* of the question only: nothing is known of the backend */
    bool is_strict;           /* an end of the connection without END_REQUEST is a failure */
    bool owes_params_end;     /* its parameters have no end yet */
    bool has_begun;           /* the answer's head was read */
    bool is_stdout_closed;
    bool has_ended; /* END_REQUEST came */
    bool is_bad;    /* the backend broke the rules: logged */
    bool is_caught; /* stderr held a text of fastcgi_catch_stderr */
    bool is_excess; /* more body came than Content-Length said */
    bool has_heard; /* of a shared connection: payload came */
    bool is_full;   /* of a shared connection: so much is unread that its input is paused */
};

static inline struct fastcgi_stream *fastcgi_stream_of(const struct exchange *x)
{
    return x->state;
}

static inline const struct fastcgi_settings *fastcgi_settings_of(const struct exchange *x)
{
    return x->module_settings;
}

extern const struct channel fastcgi_channel;

/* protocol.wants_whole_connection: where the spool has no file, or the pace is limited, the backend
 * is held back. */
bool fastcgi_wants_whole_connection(const struct exchange *x);

/* protocol.send_head and send_body. */
void fastcgi_send_head(struct exchange *x);
void fastcgi_send_body(struct exchange *x, const struct body_piece *piece, bool is_last);

/* What a backend wrote to stderr: logged, and looked through for fastcgi_catch_stderr. */
void fastcgi_note_stderr(struct fastcgi_stream *stream, struct str text);
/* A record that says nothing of the answer, with so many bytes. False: there were more than any
 * request needs, and the stream is done for; logged. */
bool fastcgi_bear_noise(struct fastcgi_stream *stream, size_t size);

/* ---- facts.c ---- */

/* protocol.open_max: connections to the peer at most, as far as is known. MAY WAIT, for some
 * milliseconds. */
unsigned fastcgi_open_max(const struct exchange *x);

/* Has nobody asked the peer yet? */
bool fastcgi_facts_are_unknown(const struct peer_cell *cell);
/* Is this the one to ask? False when another did or does. */
bool fastcgi_facts_claim(struct peer_cell *cell);
/* The claim is given back without an answer: somebody else may ask. */
void fastcgi_facts_release(struct peer_cell *cell);
/* The backend said what it can, or gave no answer (facts are all 0 then). max_conns: of the
 * `server` line, or 0. */
void fastcgi_facts_settle(struct peer_cell *cell, struct backend_facts facts, unsigned max_conns);

/* Are connections to this peer worth keeping, by what it said? */
bool fastcgi_facts_keep(const struct peer_cell *cell);
/* Does the backend take a limited number of connections, and one request at a time on each? */
bool fastcgi_facts_are_scarce(const struct peer_cell *cell);
/* Requests at one time on one connection; 1 = it does not multiplex. */
unsigned fastcgi_facts_users_max(const struct peer_cell *cell);
/*
 * May this request look for more processes now? The next one may after pause_ms; a pause of 0 only
 * says that it may at once.
 */
bool fastcgi_facts_may_look(struct peer_cell *cell, uint64_t pause_ms);
/* It refused a second request on a connection. */
void fastcgi_facts_no_multiplexing(struct peer_cell *cell);

/* ---- processes.c ---- */

/* More requests are under way than the backend is known to have processes: asks whether there is
 * one more. MAY WAIT, for some milliseconds. */
void fastcgi_processes_look(const struct exchange *x);
/* Shall a fresh connection be asked whether somebody has taken it? */
bool fastcgi_processes_asks(const struct upstream_connection *connection);
/* It has answered; if it took long there are fewer processes than was thought. */
void fastcgi_processes_answered(const struct upstream_connection *connection);

/* ---- response.c ---- */

enum head_result fastcgi_read_head(struct exchange *x);
enum body_result fastcgi_read_body(struct exchange *x, struct str *data);
enum body_result fastcgi_body_ended(struct exchange *x);

#endif
