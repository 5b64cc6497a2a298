/* Sessions: one client of mail, from its accept until a backend has it. */
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

/* What becomes of a session after a part of its story. */
enum mail_step {
    MAIL_GOES_ON,   /* the next command */
    MAIL_OVER,      /* it ends; the client's answer was written */
    MAIL_PASSED_ON, /* a backend has it: nobody touches it any more */
};

/* Why a client is refused, and so in which words. */
enum mail_refusal {
    MAIL_REFUSED_LOGIN,       /* the authentication server said so, in `text` */
    MAIL_REFUSED_INTERNAL,    /* our trouble, or that of a server that we use */
    MAIL_REFUSED_CERTIFICATE, /* its certificate is none that we want: `text` */
};

/*
 * POP3, IMAP or SMTP, as clients speak it and as backends do. Of one module; all functions but
 * greet (see there) run on the session's fiber.
 */
struct mail_protocol {
    struct str alpn;        /* its name in TLS (RFC 7301), after its length */
    struct str name;        /* "imap": in `protocol`, and sent to the authentication server */
    uint16_t ports[4];      /* of `listen`, by which it is guessed; ended by a 0 */
    bool needs_password;    /* backends cannot be logged in to without one */
    bool tells_client_host; /* the client's host name is sent to the authentication server */
    bool greets_at_once; /* greet does not wait: no fiber is needed before the client has spoken */
    /* Bytes of a command, at most. */
    uint64_t (*buffer_size)(const struct mail_session *session);
    /* Says hello. MAY WAIT, unless greets_at_once. False: the session is over. */
    bool (*greet)(struct mail_session *session);
    /* Commands and answers, until it is over or a backend has it. MAY WAIT. */
    enum mail_step (*serve)(struct mail_session *session);
    /* Writes why not. Never waits. */
    void (*refuse)(struct mail_session *session, enum mail_refusal why, struct str text);
    /* Logs the client in at its backend, and writes to the client what there is to say then. MAY
     * WAIT. False: it did not work out; logged. */
    bool (*log_in)(struct mail_backend *backend);
};

/* First member of what struct conn.user points to: the magic number. */
struct mail_session {
    uint32_t magic;    /* MAIL_SESSION_MAGIC */
    bool has_greeted;  /* the client got the greeting */
    bool is_starttls;  /* TLS came with STARTTLS */
    bool is_esmtp;     /* of SMTP: it said EHLO */
    struct conn *conn; /* to the client */
    const struct mail_listen *listen;
    const struct mail_server *server;
    struct fiber *fiber; /* that works on it, while it waits; else NULL */
    struct str upstream; /* the backend, for log lines; empty = none yet */
    /* Set by who carries it without a fiber: the worker ends, break it off. It calls
     * mail_session_end. */
    void (*abort)(struct mail_session *session);
    void *carrier; /* of the code that set abort */
    struct log log;
    struct arena arena;         /* of what lives as long as the session; little */
    struct arena attempt;       /* of one attempt to log in: freed before the next one */
    struct proxy_header *proxy; /* of the PROXY protocol, or NULL; owned */
    char *kept;                 /* texts of one that was shrunk, or NULL; owned */
    struct addr *client;        /* who a trusted proxy speaks for; NULL: the other end itself */
    struct str client_text; /* the client's address as text, without port; empty: not made yet */
    struct str host; /* name of the client's address, "[UNAVAILABLE]", "[TEMPUNAVAIL]"; of SMTP */
    struct str salt; /* of APOP and CRAM-MD5, "<1.2@host>"; empty: none was sent */
    unsigned method; /* enum mail_method: how it logs in */
    struct str tag;  /* of IMAP: of the command that is worked on; in `attempt` */
    struct str login, password; /* in `attempt` */
    struct str error_code;      /* of the authentication server, for SMTP; in `attempt` */
    unsigned attempts;          /* to log in, so far */
    int64_t errors;             /* of the client, so far */
    struct buf helo, from, to;  /* of SMTP: what it said after EHLO, its MAIL and RCPT lines */
    uint64_t deadline_ms;       /* monotonic: by then the next command must be there whole */
    size_t taken; /* bytes of input that the next read drops: the line that was given */
};

/* ---- its life (story.c) */

/* Called for each listener of mail (struct listener.accepted). */
void mail_accepted(struct listener *listener, int fd, const struct addr *peer);
/* Closes it: what was written leaves before. MAY WAIT for that when it runs on a fiber. */
void mail_session_end(struct mail_session *session);
/* Worker hook: breaks off all sessions. */
void mail_sessions_abort(void);
/* It is logged in and will rest: keeps what log lines need of it, and gives its other memory back.
 */
void mail_session_shrink(struct mail_session *session);
/* A fresh attempt to log in: what an earlier one left is forgotten. */
void mail_attempt_begin(struct mail_session *session, unsigned method);
/* The session of a connection that was accepted for mail; NULL: it is another's. */
struct mail_session *mail_session_of(const struct conn *conn);

/* ---- who it is (client.c) */

struct str mail_client_text(struct mail_session *session);
void mail_client(const struct mail_session *session, struct addr *out);
/* Whom the PROXY protocol's header speaks for, where its sender is trusted. */
void mail_client_believe(struct mail_session *session);
/* Our side's address; false when the system does not tell. */
bool mail_local(const struct mail_session *session, struct addr *out);
/* Fills the log that belongs to the session. */
void mail_session_log_init(struct mail_session *session);

/* ---- TLS (secure.c) */

/* The handshake, and whether the client's certificate will do; the client was answered when not.
 * MAY WAIT. False: the session is over. */
bool mail_secure(struct mail_session *session);
/* After STARTTLS was agreed to: drops what came in the clear, forgets what was said, and does the
 * same. */
bool mail_starttls(struct mail_session *session);
/* Is its connection encrypted? */
bool mail_is_secure(const struct mail_session *session);
/* A variable of its TLS, without "ssl_" (net/tls/tls.h); in session->attempt. False: there is none.
 */
bool mail_tls_variable(struct mail_session *session, struct str name, struct str *out);
/* Is STARTTLS on offer now? */
bool mail_offers_starttls(const struct mail_session *session);
/* Must the client say STARTTLS before it logs in? */
bool mail_needs_starttls(const struct mail_session *session);

/* ---- lines (lines.c) */

enum mail_line {
    MAIL_LINE,          /* it is there */
    MAIL_LINE_TOO_LONG, /* it has no end within the protocol's buffer: logged */
    MAIL_LINE_NONE,     /* the client left, or was silent for too long: the session is over */
};

/* Is the session to go on, as that was read? To a client whose command is too long `complaint` is
 * said before. */
bool mail_has_command(struct mail_session *session, enum mail_line read, struct str complaint);

/* The next line, without its end, valid until the next read. MAY WAIT. */
enum mail_line mail_read_line(struct mail_session *session, struct str *out);
/*
 * More input than `had` bytes, for who looks at it himself and says in session->taken what of it is
 * done. MAIL_LINE: there is more. MAY WAIT.
 */
enum mail_line mail_read_more(struct mail_session *session, size_t had);
/* MAIL_LINE_TOO_LONG, and a line in the log. */
enum mail_line mail_line_too_long(struct mail_session *session);
/* Waits for the client's first bytes, of which nothing is done yet: WAIT_READY. WAIT_CANCELLED: it
 * left, or the session ends. MAY WAIT. */
enum wait_result mail_wait_input(struct mail_session *session, uint64_t deadline_ms);
/* Waits until then with a client that says nothing more. MAY WAIT. False: it left, which is logged,
 * or the session ends. */
bool mail_wait_with_client(struct mail_session *session, uint64_t deadline_ms);
/* Its connection has broken: nobody hears an answer. */
bool mail_is_broken(const struct mail_session *session);
/* Drops what is done, and gives what lies there. */
struct str mail_input(struct mail_session *session);
/* Waits until the client has taken most of what was said to it, and others have had their share of
 * the worker: asked before each of its commands is looked at, and between lines of others for it.
 * MAY WAIT. False: it does not, or has left; logged. */
bool mail_is_heard(struct mail_session *session);
/* Writes to the client. */
void mail_say(struct mail_session *session, struct str text);
void mail_sayf(struct mail_session *session, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The client said what is no command at all, and was answered so: has it done that too often? Then
 * the session is over. */
enum mail_step mail_count_error(struct mail_session *session);

/* "<number.seconds@name>", made once for a session. */
struct str mail_salt(struct mail_session *session);

#endif
