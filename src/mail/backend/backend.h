/* The backend of a session: connecting, logging in, then relaying without a fiber. */
#ifndef MAIL_BACKEND_BACKEND_H
#define MAIL_BACKEND_BACKEND_H

#include "mail/auth/auth.h"
#include "mail/session/session.h"
#include "net/relay/relay.h"

enum mail_proxy_protocol { MAIL_PROXY_OFF, MAIL_PROXY_V1, MAIL_PROXY_V2 };

/* ngx_mail_proxy_module. A member is the value of the directive of that name after proxy_, except
 * where noted. */
extern struct settings_key mail_proxy_key;
struct mail_proxy {
    bool proxy;      /* of `proxy` */
    uint64_t buffer; /* largest line of a backend, and buffer size of the relay, in bytes */
    uint64_t timeout_ms;
    bool pass_error_message;
    bool smtp_auth;
    bool xclient;      /* of `xclient` */
    unsigned protocol; /* enum mail_proxy_protocol */
};

/* A backend, from connecting to the end of the relay. On the heap: freed when the session ends. */
struct mail_backend {
    struct mail_session *session;
    const struct mail_proxy *settings;
    struct conn *conn;  /* to the backend; NULL = not connected */
    struct str reply;   /* its last line, without line end; valid until the next read */
    size_t taken;       /* bytes of input that the next read consumes */
    uint32_t said;      /* bytes of all its lines so far */
    bool has_refused;   /* reply may be passed to the client */
    struct relay relay; /* in use after the login */
};

/*
 * Connects the session to the backend that the authentication server selected: MAIL_PASSED_ON, or
 * MAIL_OVER after a failure, of which a refusal informs the client. MAY WAIT.
 */
enum mail_step mail_pass_on(struct mail_session *session, const struct mail_upstream *upstream);

/* Authenticates, and connects the session to its backend. MAY WAIT. */
enum mail_step mail_log_in(struct mail_session *session);

/* ---- for a protocol's log_in */

/* Reads the backend's next line into backend->reply. MAY WAIT. False: there is none; logged. */
bool backend_read(struct mail_backend *backend);
void backend_say(struct mail_backend *backend, struct str text);
void backend_sayf(struct mail_backend *backend, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The reply is a refusal: logs `what`, at level info if the client gets it, else as an error. Gives
 * false. */
bool backend_refuses(struct mail_backend *backend, struct str what);

#endif
