/* SASL exchanges (RFC 4422), which POP3, IMAP and SMTP share except for the prefix of a
 * challenge. */
#ifndef MAIL_BACKEND_SASL_H
#define MAIL_BACKEND_SASL_H

#include "mail/backend/backend.h"

enum sasl_outcome {
    SASL_KNOWN,   /* session->login, password and method are set, and not verified yet */
    SASL_INVALID, /* malformed: logged; the caller sends the error to the client */
    SASL_GONE,    /* the session is over */
};

/*
 * Runs one exchange. `initial` is the initial response of the command, data NULL without one.
 * Challenges begin with `prefix` ("+ ", "334 "). MAY WAIT.
 */
enum sasl_outcome sasl_converse(struct mail_session *session, unsigned method, struct str initial,
                                struct str prefix);

#endif
