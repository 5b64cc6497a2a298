/* Sessions: one client of stream, from its accept to its log line. Implemented in session.c,
 * datagram.c, drain.c, stages.c and variables.c. */
#ifndef STREAM_SESSION_SESSION_H
#define STREAM_SESSION_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/str.h"
#include "conf/template.h"
#include "fiber/fiber.h"
#include "net/addr/addr.h"
#include "net/conn/conn.h"
#include "net/conn/proxy_protocol.h"
#include "stream/session/settings.h"

struct datagram_flow;
struct datagram_queue;
struct keyed_data;

#define SESSION_MAGIC 0x5e551070u

/* The status of a session, as in $status. */
enum session_status {
    SESSION_OK = 200,
    SESSION_BAD_REQUEST = 400,
    SESSION_FORBIDDEN = 403,
    SESSION_INTERNAL_ERROR = 500,
    SESSION_BAD_GATEWAY = 502,
    SESSION_UNAVAILABLE = 503,
};

/* The stages of a session. stages.c has a table of them: the callbacks of the loop, and what log
 * lines say. */
enum session_stage {
    SESSION_PROXY_HEADER, /* waits for the PROXY header */
    SESSION_BEGINNING,    /* runs the phases up to access */
    SESSION_HANDSHAKE,    /* runs the TLS handshake */
    SESSION_PREREADING,   /* waits for, or looks at, the client's first bytes */
    SESSION_CONTENT,      /* the content handler runs on a fiber */
    SESSION_CARRIED,      /* content without a fiber: the loop or a relay calls it */
};

/* Callbacks of a content handler that continues without a fiber (SESSION_LEFT). */
struct session_holder {
    /* The worker ends, or worker_shutdown_timeout has passed: ends the session by session_end. */
    void (*abort)(struct session *session);
    /* Current bytes from and to the client, in addition to those that the session has counted; or
     * NULL. */
    void (*count)(const struct session *session, uint64_t *received, uint64_t *sent);
    /* UDP: another datagram of the client. */
    void (*received)(struct session *session, struct str datagram);
    /* Adds the backend to log lines; or NULL. */
    void (*describe)(const struct session *session, struct writer *out);
};

/* The subject of stream's variables. */
extern const struct subject_kind session_subject;

/*
 * A session. Small: while client and backend are silent it exists without a fiber and without
 * buffers. Information about it is in its arena, which uses no memory before there is any.
 * conn.user points to it, and the magic number is the first member.
 */
struct session {
    uint32_t magic;          /* SESSION_MAGIC */
    uint16_t status;         /* enum session_status; 0 = unknown yet */
    uint8_t stage;           /* enum session_stage */
    uint8_t next_handler;    /* in the phase of that stage: the handler to continue with */
    uint16_t counted_by;     /* with is_counted: the series */
    bool is_secure : 1;      /* the TLS handshake is complete */
    bool is_over : 1;        /* it is ending: nothing new may begin */
    bool is_over_memory : 1; /* session_memory_limit was reached */
    bool is_held_back : 1;   /* held back UDP answers were logged: see datagram_send */
    bool is_counted : 1;     /* counted at its beginning, by the module that counts sessions */
    bool has_client : 1;     /* client is the address that a proxy reports (realip) */
    /* TCP connection to the client; NULL for UDP, and after it was passed on */
    struct conn *conn;
    struct datagram_flow *flow;     /* UDP; NULL for TCP, and after it ended */
    struct datagram_queue *waiting; /* UDP datagrams that content has not taken; owned; or NULL */
    const struct stream_listen *listen;
    /* With the settings in force; the name in TLS may change it. */
    const struct stream_server *server;
    struct fiber *fiber;         /* that runs the session, while it waits; else NULL */
    struct variable_env env;     /* for evaluating variables and templates */
    struct arena arena;          /* for everything that is valid as long as the session */
    struct arena_account memory; /* limit of the arena */
    struct log log;              /* sinks and level follow the server */
    uint64_t start_ms;           /* monotonic time of the accept */
    uint64_t received;           /* bytes taken from the client; see session_count */
    uint64_t sent;              /* bytes sent to a UDP client; for TCP the connection counts them */
    struct proxy_header *proxy; /* PROXY header, or NULL; owned */
    const struct addr *client;  /* in the arena, with has_client */
    struct keyed_data *data;    /* data of modules: see session_data */
    const struct session_holder *holder; /* of the content handler, from its start on; or NULL */
    void *content;                       /* data of the content handler */
    struct vec attempts; /* struct attempt: attempts with backends, for $upstream_… */
};

/* ---- for handlers */

/* The client's input that nothing has consumed yet, for preread and content. For UDP: the
 * datagram. */
struct str session_input(const struct session *session);

/* `return session_fail(session, SESSION_FORBIDDEN);` */
static inline enum session_step session_fail(struct session *session, unsigned status)
{
    session->status = (uint16_t) status;
    return SESSION_ENDED;
}

/*
 * Data of a module for a session, found by the address of an object of the module: `size` bytes in
 * the session's arena, zeroed at the first call. Size 0: NULL if there is none yet.
 */
void *session_data(struct session *session, const void *key, size_t size);

/* Continues with the settings of another server of the address. */
void session_set_server(struct session *session, const struct stream_server *server);
/* Continues with the server of this name (lower case), which the client sent. False: no server has
 * the name, and the default one is used. Captures of a regular expression are stored in the
 * session. */
bool session_choose_server(struct session *session, struct str name);

/* The client's address: the peer's, or that which a trusted proxy reports. len 0: a unix socket
 * without a name. */
void session_client(const struct session *session, struct addr *out);
/* The address of the peer itself. */
void session_peer(const struct session *session, struct addr *out);
/* Sets the address that session_client gives from now on. */
void session_set_client(struct session *session, const struct addr *client);
/* The client's address as text, without port; "unix:" for a unix socket. In the arena. */
struct str session_client_text(struct session *session);
/* Our address that the client connected to; false if the system does not report it. */
bool session_local(const struct session *session, struct addr *out);

/* Current bytes from and to the client. */
void session_count(const struct session *session, uint64_t *received, uint64_t *sent);
/* The number of the connection, for the log. */
uint64_t session_number(const struct session *session);

/*
 * For preread handlers that wait and read on their own. Between these calls the loop wakes only the
 * handler's fiber for input (conn_wait_input), and preread_timeout is stopped; it starts again
 * after them.
 */
void session_hold_input(struct session *session);
void session_release_input(struct session *session);

/* ---- for TCP */

/* Is it a TCP session with its client connected? UDP sessions have no connection. */
static inline bool session_has_connection(const struct session *session)
{
    return session->conn != NULL;
}
/* The client's connection, for code that passes it to net/tls without looking into it (make lint
 * checks this). NULL for UDP. */
static inline struct conn *session_carrier(const struct session *session)
{
    return session->conn;
}
/* Writes to the client. */
void session_write(struct session *session, struct str text);
/* Replaces the first `used` bytes of the input by other bytes, with which session_input then
 * begins. */
void session_replace_input(struct session *session, size_t used, struct str bytes);

/* ---- for UDP */

/* Sends a datagram to the client, and counts it. At most DATAGRAM_MOST bytes. */
void session_send_datagram(struct session *session, struct str datagram);
/* Waits for a datagram of the client, which session_input then gives. One fiber at a time. MAY
 * WAIT. */
enum wait_result session_wait_datagram(struct session *session, uint64_t deadline_ms);
/* Does a fiber wait for a datagram? */
bool session_is_awaited(const struct session *session);
/* Consumes the datagram that session_input gives. */
void session_drop_datagram(struct session *session);
/*
 * Passes the queued datagrams to the content handler's holder; each is counted when it arrives. To
 * be called once, after session_carry. The session may be over when this returns.
 */
void session_take_datagrams(struct session *session);

/* ---- life */

/*
 * Continues the session without a fiber: `holder` has it until it calls session_end. The last thing
 * that a content handler does: `return session_carry(session, &holder);`
 */
enum session_step session_carry(struct session *session, const struct session_holder *holder);

/*
 * Ends the session with its status when the client has received all output, or when it accepts none
 * for timeout_ms. No fiber is used meanwhile. The last thing that a content handler does.
 */
enum session_step session_end_sent(struct session *session, uint64_t timeout_ms);

/*
 * Ends the session with this status: runs the log phase, frees everything, closes the connection.
 * On the loop's stack, or as the last thing of its fiber.
 */
void session_end(struct session *session, unsigned status);

/* Ends the session without a log line and gives its connection to the caller. */
struct conn *session_part(struct session *session);

/* The session of a connection that stream accepted; NULL: the connection belongs to another
 * protocol. */
struct session *session_of(const struct conn *conn);

static inline struct session *variable_session(struct variable_env *env)
{
    return container_of(env, struct session, env);
}

/* The client's address, for variables by address. For a subject that is not a session, *out is
 * unchanged. */
void variable_session_client(struct variable_env *env, struct addr *out);

#endif
