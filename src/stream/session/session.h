/* Sessions: one client of stream, from its accept to its log line.
 * Implemented in session.c, datagram.c, drain.c, stages.c and variables.c. */
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

/* What a session's status may be, as $status tells it. */
enum session_status {
    SESSION_OK = 200,
    SESSION_BAD_REQUEST = 400,
    SESSION_FORBIDDEN = 403,
    SESSION_INTERNAL_ERROR = 500,
    SESSION_BAD_GATEWAY = 502,
    SESSION_UNAVAILABLE = 503,
};

/* Where a session stands. stages.c has the table of them: whom the loop tells, what log lines say.
 */
enum session_stage {
    SESSION_PROXY_HEADER, /* the PROXY protocol's header is awaited */
    SESSION_BEGINNING,    /* phases up to access */
    SESSION_HANDSHAKE,    /* that of TLS */
    SESSION_PREREADING,   /* the client's first words are awaited, or looked at */
    SESSION_CONTENT,      /* its content handler works, on a fiber */
    SESSION_CARRIED,      /* content without a fiber: the loop or a relay calls it */
};

/* What a content handler without a fiber is called for. Of a handler that left the session with
 * SESSION_LEFT. */
struct session_holder {
    /* The worker ends, or worker_shutdown_timeout is over: end it. It calls session_end. */
    void (*abort)(struct session *session);
    /* Bytes from and to the client, as of now, besides those that the session has counted; or NULL.
     */
    void (*count)(const struct session *session, uint64_t *received, uint64_t *sent);
    /* Of UDP: one more datagram of the client's. */
    void (*received)(struct session *session, struct str datagram);
    /* Adds to log lines what is known of the backend; or NULL. */
    void (*describe)(const struct session *session, struct writer *out);
};

/* What variables of stream are asked of. */
extern const struct subject_kind session_subject;

/*
 * A session. Small: it stays while the client and a backend have nothing to say, without a fiber,
 * without buffers. What is found out about it is in its arena, which takes memory only when
 * something is. First member of what struct conn.user points to: the magic number.
 */
struct session {
    uint32_t magic;             /* SESSION_MAGIC */
    uint16_t status;            /* enum session_status; 0 = not known yet */
    uint8_t stage;              /* enum session_stage */
    uint8_t next_handler;       /* of the phase of that stage: the handler that continues */
    uint16_t counted_by;        /* with is_counted: the series */
    bool is_secure : 1;         /* the handshake of TLS is done */
    bool is_over : 1;           /* it is ending: nothing is to be begun */
    bool is_over_memory : 1;    /* session_memory_limit was reached */
    bool is_held_back : 1;      /* the log knows that answers of UDP were: see datagram_send */
    bool is_counted : 1;        /* its beginning was, by the module that counts sessions */
    bool has_client : 1;        /* client says whom the other end speaks for (realip) */
    struct conn *conn;          /* of TCP, to the client; NULL of UDP, and when it was passed on */
    struct datagram_flow *flow; /* of UDP; NULL of TCP, and when it was ended */
    struct datagram_queue
        *waiting; /* datagrams that content has not taken; of UDP; owned; or NULL */
    const struct stream_listen *listen;
    const struct stream_server *server; /* whose settings hold; the name in TLS may change it */
    struct fiber *fiber;                /* that works on it, while it waits; else NULL */
    struct variable_env env;            /* where its variables and templates are evaluated */
    struct arena arena;                 /* of all that lives as long as the session */
    struct arena_account memory;        /* limit of the arena */
    struct log log;                     /* sinks and level follow the server */
    uint64_t start_ms;                  /* monotonic time of the accept */
    uint64_t received; /* bytes from the client that were taken; see session_count */
    uint64_t sent;     /* bytes to the client: of UDP; with TCP its connection counts them */
    struct proxy_header *proxy; /* of the PROXY protocol, or NULL; owned */
    const struct addr *client;  /* in the arena, with has_client */
    struct keyed_data *data;    /* what modules keep for it: see session_data */
    const struct session_holder
        *holder;         /* of the content handler, from its beginning on; or NULL */
    void *content;       /* what the content handler keeps; its own */
    struct vec attempts; /* struct attempt: backends that were asked, for $upstream_… */
};

/* ---- for handlers */

/* What the client has said so far and nobody has taken: of preread, and of content. Of UDP: the
 * datagram. */
struct str session_input(const struct session *session);

/* `return session_fail(session, SESSION_FORBIDDEN);` */
static inline enum session_step session_fail(struct session *session, unsigned status)
{
    session->status = (uint16_t) status;
    return SESSION_ENDED;
}

/*
 * What a module keeps for a session, found by the address of something of its own: `size` bytes in
 * its arena, cleared when they are asked for first. Size 0: NULL when there is none yet.
 */
void *session_data(struct session *session, const void *key, size_t size);

/* Another server of its address takes it from here on. */
void session_set_server(struct session *session, const struct stream_server *server);
/* The server of this name (lower case), which the client named, takes the session. False: no server
 * has the name, and the default one takes the session. Groups of an expression are left in the
 * session. */
bool session_choose_server(struct session *session, struct str name);

/* Whose session it is: the other end of the connection, or whom it speaks for. len 0: a unix socket
 * without a name. */
void session_client(const struct session *session, struct addr *out);
/* The other end itself. */
void session_peer(const struct session *session, struct addr *out);
/* From here on this client has it. */
void session_set_client(struct session *session, const struct addr *client);
/* The client as text, without port; "unix:" of a unix socket. In the arena. */
struct str session_client_text(struct session *session);
/* Our side's address, of which the client knows; false when the system does not tell. */
bool session_local(const struct session *session, struct addr *out);

/* Bytes from and to the client, as of now. */
void session_count(const struct session *session, uint64_t *received, uint64_t *sent);
/* Number of the connection, for the log. */
uint64_t session_number(const struct session *session);

/*
 * For handlers of preread that wait, and read for themselves: between these two the loop tells
 * nobody but their fiber of what the client says (conn_wait_input), and preread_timeout stands
 * still; after them it begins again.
 */
void session_hold_input(struct session *session);
void session_release_input(struct session *session);

/* ---- of TCP */

/* Is it a session over TCP whose client is there? Those of UDP have no connection. */
static inline bool session_has_connection(const struct session *session)
{
    return session->conn != NULL;
}
/* What carries it, for those who pass it on to net/tls: they do not look into it (make lint checks
 * it). NULL of UDP. */
static inline struct conn *session_carrier(const struct session *session)
{
    return session->conn;
}
/* Writes to the client. */
void session_write(struct session *session, struct str text);
/* Puts other bytes in the place of the first `used` of the input: session_input begins with these.
 */
void session_replace_input(struct session *session, size_t used, struct str bytes);

/* ---- of UDP */

/* Sends a datagram to the client, and counts it. At most DATAGRAM_MOST bytes. */
void session_send_datagram(struct session *session, struct str datagram);
/* Waits until a datagram of the client's is there, which session_input gives. One fiber at a time.
 * MAY WAIT. */
enum wait_result session_wait_datagram(struct session *session, uint64_t deadline_ms);
/* Does a fiber wait for one? */
bool session_is_awaited(const struct session *session);
/* The datagram that session_input gives was taken. */
void session_drop_datagram(struct session *session);
/*
 * Gives the content handler's holder the datagrams that came so far, from the first on; each is
 * counted when it comes. To be called once after session_carry. The session may be over when it
 * returns.
 */
void session_take_datagrams(struct session *session);

/* ---- its life */

/*
 * The session continues without a fiber: this one holds it until it calls session_end. What a
 * content handler returns last: `return session_carry(session, &holder);`
 */
enum session_step session_carry(struct session *session, const struct session_holder *holder);

/*
 * The session ends, with the status that it has, when the client has taken all that was written; or
 * when it takes nothing for so long. It holds no fiber meanwhile. What a content handler returns
 * last.
 */
enum session_step session_end_sent(struct session *session, uint64_t timeout_ms);

/*
 * The session is over, its status known: the log phase runs, everything is freed, the connection is
 * closed. On the loop's stack, or as the last thing of its fiber.
 */
void session_end(struct session *session, unsigned status);

/* The connection is somebody else's from here on: the session ends without a line in a log. It is
 * given. */
struct conn *session_part(struct session *session);

/* The session of a connection that was accepted for stream; NULL: it is another's. */
struct session *session_of(const struct conn *conn);

static inline struct session *variable_session(struct variable_env *env)
{
    return container_of(env, struct session, env);
}

/* The client's address, for variables by address. Subjects that are no session have none: *out
 * stays as it is. */
void variable_session_client(struct variable_env *env, struct addr *out);

#endif
