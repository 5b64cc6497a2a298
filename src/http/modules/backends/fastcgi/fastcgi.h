/* Shared by the files of ngx_http_fastcgi_module. Implemented in connection.c, facts.c, params.c,
 * processes.c, response.c and send.c. */
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
    KEEP_CONN_AUTO, /* according to the facts of the backend */
};

/* A part of a value. */
struct fastcgi_part {
    struct str text;
    const struct variable *variable; /* used instead of the text; or NULL */
    /* The variable's get function, if it may be called directly. */
    bool (*get)(struct variable_env *env, const struct variable *variable, struct str *out);
};

/* A parameter that is not constant, and the constant ones before it. */
struct fastcgi_step {
    struct str ready; /* constant pairs, framed; followed by at least WORD readable bytes */
    /* Bytes of `ready` with the framing and name of this parameter after it; the value's length has
     * one byte there. Without parts: the length of `ready`. */
    size_t framed;
    struct str name; /* empty: the last step, which has only `ready` */
    const struct template *value;
    struct fastcgi_part *parts; /* of the value, if it can be split */
    unsigned count;             /* of parts; 0 = the template is evaluated */
    bool skips_empty;           /* if_not_empty */
};

/* The parameters of a location, prepared. */
struct fastcgi_plan {
    struct fastcgi_step *steps;
    unsigned count;
    struct params fields; /* without configured ones: the parameters from the client's fields */
};

/* Settings of a location, besides those of the family. */
struct fastcgi_settings {
    struct pass_target target;
    struct vec list;  /* struct param: fastcgi_param */
    unsigned inherit; /* an enum list_inherit, for `list` */
    struct str index;
    struct regex *split;     /* fastcgi_split_path_info; NULL = none */
    unsigned keep_conn;      /* an enum keep_conn */
    struct vec catch_stderr; /* struct str */

    /* Derived. */
    const struct fastcgi_plan *plan;
    const void *plan_of; /* list.items of which the plan was made */
    size_t plan_count;   /* number of items of which the plan was made */
};

/* ---- fastcgi.c ---- */

/* $fastcgi_script_name, $fastcgi_path_info; ended by an empty name. */
extern const struct variable fastcgi_variables[];

/* ---- params.c ---- */

/* Prepares the parameters of a location, in the configuration's arena. */
const struct fastcgi_plan *fastcgi_plan_new(struct conf *conf, const struct vec *list);

/* protocol.make_request: makes BEGIN_REQUEST and PARAMS as x->head, for request id 1 and a
 * connection that is not kept; the offsets at which these are changed later are known. */
bool fastcgi_make_request(struct exchange *x);

/* ---- connection.c, shared.c ---- */

/* Response bytes of a request on a shared connection that have not been read. */
struct fastcgi_pending {
    char *data; /* from conn_buffer_alloc, or NULL */
    uint32_t size;
    uint32_t start, end; /* unread bytes are [start, end) */
};

/* A request on a connection, in the terms of FastCGI. In the arena of the HTTP request, used for
 * one attempt after the other. */
struct fastcgi_stream {
    struct exchange *x;
    struct fastcgi_connection *connection; /* NULL between attempts */
    struct wait_point *wake;        /* where its fiber waits: own_wake, or the connection's */
    struct wait_point own_wake;     /* for a shared connection */
    struct list in_pending;         /* in the connection's `pending` */
    struct fastcgi_pending reading; /* input of the exchange; for a shared connection */
    struct fastcgi_pending
        arriving;                /* received since the exchange looked; for a shared connection */
    struct output_share records; /* what was queued for the request */
    uint64_t given;              /* bytes of body passed on */
    uint64_t noise;              /* bytes of stderr, and of records without content */
    uint64_t head_received;      /* attempt->bytes_received at the end of the header */
    /* Used until the header has ended. Bytes between parts of the header, in the input buffer of an
     * exclusive connection: */
    uint32_t joined;
    /* Bytes other than payload that came after payload of `reading`, and of `arriving`: */
    uint32_t late, arriving_late;
    uint16_t id;              /* on the connection; 0 = none (any more) */
    unsigned protocol_status; /* an enum record_end */
    bool asks;                /* send FCGI_GET_VALUES before BEGIN_REQUEST */
    bool keeps;     /* BEGIN_REQUEST has FCGI_KEEP_CONN: the connection may carry another request */
    bool is_first;  /* because of the question only: no facts are known */
    bool is_strict; /* an end of the connection without END_REQUEST is an error */
    bool owes_params_end; /* the end of its parameters was not sent */
    bool has_begun;       /* the response header was read */
    bool is_stdout_closed;
    bool has_ended; /* END_REQUEST was received */
    bool is_bad;    /* protocol error: logged */
    bool is_caught; /* stderr contained a text of fastcgi_catch_stderr */
    bool is_excess; /* the body is longer than Content-Length */
    bool has_heard; /* for a shared connection: payload was received */
    bool is_full;   /* for a shared connection: so much is unread that its input is paused */
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

/* protocol.wants_whole_connection: true if the backend must be slowed down, because the spool has
 * no file or the rate is limited. */
bool fastcgi_wants_whole_connection(const struct exchange *x);

/* protocol.send_head and send_body. */
void fastcgi_send_head(struct exchange *x);
void fastcgi_send_body(struct exchange *x, const struct body_piece *piece, bool is_last);

/* Logs what a backend wrote to stderr, and searches it for fastcgi_catch_stderr. */
void fastcgi_note_stderr(struct fastcgi_stream *stream, struct str text);
/* Counts a record of this size that carries no payload. False: too many, the stream has failed;
 * logged. */
bool fastcgi_bear_noise(struct fastcgi_stream *stream, size_t size);

/* ---- facts.c ---- */

/* protocol.open_max: the most connections to the peer, as far as it is known. MAY WAIT, for some
 * milliseconds. */
unsigned fastcgi_open_max(const struct exchange *x);

/* Are the facts neither known nor requested? */
bool fastcgi_facts_are_unknown(const struct peer_cell *cell);
/* Claims the request for facts. False if it was claimed before. */
bool fastcgi_facts_claim(struct peer_cell *cell);
/* Releases the claim without an answer, so that the facts can be requested again. */
void fastcgi_facts_release(struct peer_cell *cell);
/* Stores the facts of the backend; all 0 if it gave no answer. max_conns: of the `server`
 * directive, or 0. */
void fastcgi_facts_settle(struct peer_cell *cell, struct backend_facts facts, unsigned max_conns);

/* Do the facts say that keeping connections to this peer is useful? */
bool fastcgi_facts_keep(const struct peer_cell *cell);
/* Does the backend accept a limited number of connections, with one request at a time on each? */
bool fastcgi_facts_are_scarce(const struct peer_cell *cell);
/* The most concurrent requests on one connection; 1 = no multiplexing. */
unsigned fastcgi_facts_users_max(const struct peer_cell *cell);
/* May this request look for more processes now? If so, the next one may after pause_ms. With a
 * pause of 0 it only allows the next one to look at once. */
bool fastcgi_facts_may_look(struct peer_cell *cell, uint64_t pause_ms);
/* The backend has refused a second request on a connection. */
void fastcgi_facts_no_multiplexing(struct peer_cell *cell);

/* ---- processes.c ---- */

/* If more requests are in progress than the backend is known to have processes, checks whether
 * there is one more. MAY WAIT, for some milliseconds. */
void fastcgi_processes_look(const struct exchange *x);
/* Send FCGI_GET_VALUES on this new connection, to see when a process accepts it? */
bool fastcgi_processes_asks(const struct upstream_connection *connection);
/* The answer has arrived; if it took long, there are fewer processes than assumed. */
void fastcgi_processes_answered(const struct upstream_connection *connection);

/* ---- response.c ---- */

enum head_result fastcgi_read_head(struct exchange *x);
enum body_result fastcgi_read_body(struct exchange *x, struct str *data);
enum body_result fastcgi_body_ended(struct exchange *x);

#endif
