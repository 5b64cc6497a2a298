/* IMAP: its settings, and the protocol. */
#ifndef MAIL_MODULES_IMAP_IMAP_H
#define MAIL_MODULES_IMAP_IMAP_H

#include "mail/session/session.h"

/* A member is the value of the directive of that name after imap_. */
extern struct settings_key imap_key;
struct imap_settings {
    uint64_t client_buffer;
    unsigned auth;     /* enum mail_method bits */
    struct vec listed; /* struct str: of imap_capabilities */

    /* Derived: response lines of CAPABILITY. */
    struct str capabilities, starttls_capabilities, starttls_only_capabilities;
};

extern const struct mail_protocol imap_protocol;

#endif
