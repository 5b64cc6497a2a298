/* POP3: its settings, and the protocol. */
#ifndef MAIL_MODULES_POP3_POP3_H
#define MAIL_MODULES_POP3_POP3_H

#include "mail/session/session.h"

/* A member is the value of the directive of that name after pop3_. */
extern struct settings_key pop3_key;
struct pop3_settings {
    unsigned auth;     /* enum mail_method bits */
    struct vec listed; /* struct str: of pop3_capabilities */

    /* Derived: complete responses to CAPA and AUTH. */
    struct str capabilities, starttls_capabilities, starttls_only_capabilities;
    struct str methods;
};

extern const struct mail_protocol pop3_protocol;

#endif
