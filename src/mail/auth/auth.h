/* The authentication server (`auth_http`): who may come in, and which backend has him. */
#ifndef MAIL_AUTH_AUTH_H
#define MAIL_AUTH_AUTH_H

#include "mail/session/session.h"

/* ngx_mail_auth_http_module. A member without a comment is the value of the directive of its name.
 */
extern struct settings_key mail_auth_key;
struct mail_auth {
    struct addr addr; /* of the server; len 0: there is none */
    struct str peer;  /* the same as text, for the log */
    struct str host;  /* for the field Host */
    struct str uri;   /* path and query; "/" at least */
    uint64_t timeout_ms;
    struct str headers; /* lines of auth_http_header, each with its end */
    bool passes_client_cert;
};

/* A backend, as the server named it. In session->attempt. */
struct mail_upstream {
    struct addr addr;
    struct str name; /* "127.0.0.1:143" */
};

enum mail_verdict {
    VERDICT_ACCEPTED, /* place is the backend; login and password may be others now */
    VERDICT_AGAIN,    /* refused, reported after a while; another attempt is allowed */
    VERDICT_OVER,     /* refused, or unknown; logged, the session is over */
};

/* Asks for what session->method, login, password say. MAY WAIT. */
enum mail_verdict mail_authenticate(struct mail_session *session, struct mail_upstream *place);

/* request.c: what is asked, in session->attempt. */
struct str mail_auth_request(struct mail_session *session, const struct mail_auth *auth);

#endif
