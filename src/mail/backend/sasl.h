/* The dialogues of SASL (RFC 4422), which POP3, IMAP and SMTP have in common but for the bytes
 * before a challenge. */
#ifndef MAIL_BACKEND_SASL_H
#define MAIL_BACKEND_SASL_H

#include "mail/backend/backend.h"

enum sasl_outcome {
    SASL_KNOWN,   /* session->login, password and method say who it is, if it is true */
    SASL_INVALID, /* the client's words make no sense: logged; the client is to be answered so */
    SASL_GONE,    /* the session is over */
};

/*
 * One exchange: `initial` is what came with the command, data NULL where nothing did. Challenges
 * begin with `prefix` ("+ ", "334 "). MAY WAIT.
 */
enum sasl_outcome sasl_converse(struct mail_session *session, unsigned method, struct str initial,
                                struct str prefix);

#endif
