/* The backend of a session: connected to, logged in to, then the bytes go to and fro without a
 * fiber. */
#ifndef MAIL_BACKEND_BACKEND_H
#define MAIL_BACKEND_BACKEND_H

#include "mail/auth/auth.h"
#include "mail/session/session.h"
#include "net/relay/relay.h"

enum mail_proxy_protocol { MAIL_PROXY_OFF, MAIL_PROXY_V1, MAIL_PROXY_V2 };

/* ngx_mail_proxy_module. A member is the value of the directive of its name, with proxy_ before it
 * but for these. */
extern struct settings_key mail_proxy_key;
struct mail_proxy {
    bool proxy;      /* of `proxy` */
    uint64_t buffer; /* bytes of a line of a backend, and of a piece that is carried */
    uint64_t timeout_ms;
    bool pass_error_message;
    bool smtp_auth;
    bool xclient;      /* of `xclient` */
    unsigned protocol; /* enum mail_proxy_protocol */
};

/* A backend that is being logged in to, and then carried to. Of the heap: it lives until the
 * session ends. */
struct mail_backend {
    struct mail_session *session;
    const struct mail_proxy *settings;
    struct conn *conn;  /* to the backend; NULL = not there yet */
    struct str reply;   /* the last line that it sent, without its end; valid until the next read */
    size_t taken;       /* bytes of input that the next read drops */
    uint32_t said;      /* bytes of all its lines so far */
    bool has_refused;   /* reply is what may be sent to the client */
    struct relay relay; /* when it is logged in to */
};

/*
 * Takes the session to where the authentication server said: MAIL_PASSED_ON, or MAIL_OVER when that
 * did not work out, and the client was answered. MAY WAIT.
 */
enum mail_step mail_pass_on(struct mail_session *session, const struct mail_upstream *place);

/* Authenticates, and takes the session to its backend. MAY WAIT. */
enum mail_step mail_log_in(struct mail_session *session);

/* ---- for log_in of a protocol */

/* The next line of the backend, to backend->reply. MAY WAIT. False: there is none; logged. */
bool backend_read(struct mail_backend *backend);
void backend_say(struct mail_backend *backend, struct str text);
void backend_sayf(struct mail_backend *backend, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The reply is none that leads on: `what` of it is logged, which says why where the client sees it.
 * Gives false. */
bool backend_refuses(struct mail_backend *backend, struct str what);

#endif
