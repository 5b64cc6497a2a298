/* Sessions: one client of mail, from its accept until the relay to its backend ends. */
#ifndef MAIL_SESSION_SESSION_H
#define MAIL_SESSION_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/log.h"
#include "base/str.h"
#include "fiber/fiber.h"
#include "mail/session/settings.h"
#include "net/addr/addr.h"
#include "net/conn/conn.h"
#include "net/conn/proxy_protocol.h"

struct mail_backend;

#define MAIL_SESSION_MAGIC 0x3a115e55u

/* What follows after a part of a session. */
enum mail_step {
    MAIL_GOES_ON,   /* read the next command */
    MAIL_OVER,      /* the session ends; the response to the client was written */
    MAIL_PASSED_ON, /* the relay to a backend has it: it must not be used any more */
};

/* Why a client is refused; this determines the response. */
enum mail_refusal {
    MAIL_REFUSED_LOGIN,       /* by the authentication server, with its message in `text` */
    MAIL_REFUSED_INTERNAL,    /* an error of this server, or of one that it uses */
    MAIL_REFUSED_CERTIFICATE, /* its certificate is not acceptable: `text` */
};

/*
 * POP3, IMAP or SMTP, with clients and with backends. Implemented by one module each. serve and
 * log_in run on the session's fiber; greet see there; refuse and buffer_size may run without one.
 */
struct mail_protocol {
    struct str alpn;        /* ALPN name in wire format (RFC 7301) */
    struct str name;        /* "imap": for `protocol`, and for the authentication server */
    uint16_t ports[4];      /* usual ports, from which the protocol is guessed; ends with 0 */
    bool needs_password;    /* a login to a backend needs a password */
    bool tells_client_host; /* the client's host name is sent to the authentication server */
    bool greets_at_once;    /* greet does not wait, so no fiber is needed before the client sends */
    /* Largest command, in bytes. */
    uint64_t (*buffer_size)(const struct mail_session *session);
    /* Sends the greeting. MAY WAIT, unless greets_at_once. False: the session is over. */
    bool (*greet)(struct mail_session *session);
    /* Handles commands until the session is over or a backend has it. MAY WAIT. */
    enum mail_step (*serve)(struct mail_session *session);
    /* Writes a refusal to the client. Never waits. */
    void (*refuse)(struct mail_session *session, enum mail_refusal why, struct str text);
    /* Logs the client in at its backend, and writes the result to the client. MAY WAIT. False: it
     * failed; logged. */
    bool (*log_in)(struct mail_backend *backend);
};

/* A session. conn.user points to it; the magic number is the first member. */
struct mail_session {
    uint32_t magic;    /* MAIL_SESSION_MAGIC */
    bool has_greeted;  /* the client got the greeting */
    bool is_starttls;  /* TLS came with STARTTLS */
    bool is_esmtp;     /* SMTP: the client sent EHLO */
    struct conn *conn; /* to the client */
    const struct mail_listen *listen;
    const struct mail_server *server;
    struct fiber *fiber; /* that runs the session, while it waits; else NULL */
    struct str upstream; /* the backend, for log lines; empty = none yet */
    /* Set by code that carries the session without a fiber: aborts it when the worker ends. Calls
     * mail_session_end. */
    void (*abort)(struct mail_session *session);
    void *carrier; /* data of the code that set abort */
    struct log log;
    struct arena arena;         /* for what is valid as long as the session; small */
    struct arena attempt;       /* for one attempt to log in: freed before the next one */
    struct proxy_header *proxy; /* PROXY header, or NULL; owned */
    char *kept;                 /* strings that mail_session_shrink has kept, or NULL; owned */
    /* The address that a trusted proxy reports; NULL: the peer's address is used. */
    struct addr *client;
    struct str client_text; /* the client's address as text, without port; empty: not made yet */
    struct str host; /* SMTP: name of the client's address, "[UNAVAILABLE]" or "[TEMPUNAVAIL]" */
    struct str salt; /* for APOP and CRAM-MD5, "<1.2@host>"; empty: none was sent */
    unsigned method; /* enum mail_method: of the attempt */
    struct str tag;  /* IMAP: tag of the current command; in `attempt` */
    struct str login, password; /* in `attempt` */
    /* Of the authentication server's response, for SMTP; in `attempt`. */
    struct str error_code;
    unsigned attempts;         /* attempts to log in so far */
    int64_t errors;            /* invalid commands so far */
    struct buf helo, from, to; /* SMTP: argument of EHLO or HELO, MAIL and RCPT lines */
    uint64_t deadline_ms;      /* monotonic: the next command must be complete by then */
    size_t taken; /* bytes of input that the next read consumes: the line that was returned */
};

/* ---- life (story.c) */

/* Callback of mail's listeners (struct listener.accepted). */
void mail_accepted(struct listener *listener, int fd, const struct addr *peer);
/* Closes the session after sending what was written. MAY WAIT for that if it runs on a fiber. */
void mail_session_end(struct mail_session *session);
/* Worker hook: aborts all sessions. */
void mail_sessions_abort(void);
/* The session is logged in and will be idle: keeps what log lines need, and frees its other
 * memory. */
void mail_session_shrink(struct mail_session *session);
/* Begins an attempt to log in: drops the values of an earlier one. */
void mail_attempt_begin(struct mail_session *session, unsigned method);
/* The session of a connection that mail accepted; NULL: the connection belongs to another
 * protocol. */
struct mail_session *mail_session_of(const struct conn *conn);

/* ---- the client (client.c) */

struct str mail_client_text(struct mail_session *session);
void mail_client(const struct mail_session *session, struct addr *out);
/* Uses the address in the PROXY header, if its sender is trusted. */
void mail_client_believe(struct mail_session *session);
/* Our address that the client connected to; false if the system does not report it. */
bool mail_local(const struct mail_session *session, struct addr *out);
/* Initializes the session's log. */
void mail_session_log_init(struct mail_session *session);

/* ---- TLS (secure.c) */

/* Runs the handshake and checks the client's certificate; if that fails, the client gets a refusal.
 * MAY WAIT. False: the session is over. */
bool mail_secure(struct mail_session *session);
/* After STARTTLS was accepted: drops plain-text input, forgets earlier commands, and does the
 * same. */
bool mail_starttls(struct mail_session *session);
/* Is its connection encrypted? */
bool mail_is_secure(const struct mail_session *session);
/* A TLS variable, without "ssl_" (net/tls/tls.h); in session->attempt. False: it has no value. */
bool mail_tls_variable(struct mail_session *session, struct str name, struct str *out);
/* Is STARTTLS offered now? */
bool mail_offers_starttls(const struct mail_session *session);
/* Is STARTTLS required before a login? */
bool mail_needs_starttls(const struct mail_session *session);

/* ---- lines (lines.c) */

enum mail_line {
    MAIL_LINE,          /* read */
    MAIL_LINE_TOO_LONG, /* it does not fit into the protocol's buffer: logged */
    MAIL_LINE_NONE,     /* the client left or timed out: the session is over */
};

/* Handles the result of a read: true if a command was read. For a command that is too long,
 * `complaint` is sent to the client. */
bool mail_has_command(struct mail_session *session, enum mail_line read, struct str complaint);

/* Reads the next line, without line end; valid until the next read. MAY WAIT. */
enum mail_line mail_read_line(struct mail_session *session, struct str *out);
/*
 * Reads until there are more than `had` bytes of input, for callers that parse it and set
 * session->taken to what they used. MAIL_LINE: there is more. MAY WAIT.
 */
enum mail_line mail_read_more(struct mail_session *session, size_t had);
/* Logs it and gives MAIL_LINE_TOO_LONG. */
enum mail_line mail_line_too_long(struct mail_session *session);
/* Waits for the client's first bytes without consuming them: WAIT_READY. WAIT_CANCELLED: it left,
 * or the session ends. MAY WAIT. */
enum wait_result mail_wait_input(struct mail_session *session, uint64_t deadline_ms);
/* Waits until the deadline while the client need not send anything. MAY WAIT. False: it left
 * (logged), or the session ends. */
bool mail_wait_with_client(struct mail_session *session, uint64_t deadline_ms);
/* Is the connection broken, so that a response cannot be sent? */
bool mail_is_broken(const struct mail_session *session);
/* Consumes session->taken bytes and gives the remaining input. */
struct str mail_input(struct mail_session *session);
/* Waits until the client has received most of the output, and gives others their share of the
 * worker. To be called before each command, and between lines that are passed on to the client. MAY
 * WAIT. False: the client does not read (logged), or has left. */
bool mail_is_heard(struct mail_session *session);
/* Writes to the client. */
void mail_say(struct mail_session *session, struct str text);
void mail_sayf(struct mail_session *session, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The client sent an unknown command, and the error was sent: counts it. After too many the session
 * is over. */
enum mail_step mail_count_error(struct mail_session *session);

/* "<number.seconds@name>", generated once for each session. */
struct str mail_salt(struct mail_session *session);

#endif
