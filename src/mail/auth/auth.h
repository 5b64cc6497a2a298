/* The authentication server (`auth_http`): checks logins and selects backends. */
#ifndef MAIL_AUTH_AUTH_H
#define MAIL_AUTH_AUTH_H

#include "mail/session/session.h"

/* ngx_mail_auth_http_module. A member without a comment is the value of the directive of its name.
 */
extern struct settings_key mail_auth_key;
struct mail_auth {
    struct addr addr; /* of the server; len 0: not configured */
    struct str peer;  /* the address as text, for the log */
    struct str host;  /* value of the Host field */
    struct str uri;   /* path and query; at least "/" */
    uint64_t timeout_ms;
    struct str headers; /* lines of auth_http_header, each with CRLF */
    bool passes_client_cert;
};

/* A backend that the authentication server selected. In session->attempt. */
struct mail_upstream {
    struct addr addr;
    struct str name; /* "127.0.0.1:143" */
};

enum mail_verdict {
    VERDICT_ACCEPTED, /* the backend is known; login and password may have changed */
    VERDICT_AGAIN,    /* refused, and reported after a delay; another attempt is allowed */
    VERDICT_OVER,     /* refused, or an error; logged, the session is over */
};

/* Asks about the login in session->method, login and password. MAY WAIT. */
enum mail_verdict mail_authenticate(struct mail_session *session, struct mail_upstream *upstream);

/* request.c: the request, in session->attempt. */
struct str mail_auth_request(struct mail_session *session, const struct mail_auth *auth);

#endif
