/* SMTP: its settings, and the protocol. */
#ifndef MAIL_MODULES_SMTP_SMTP_H
#define MAIL_MODULES_SMTP_SMTP_H

#include "mail/backend/backend.h"
#include "mail/session/session.h"

/* A member is the value of the directive of that name after smtp_. */
extern struct settings_key smtp_key;
struct smtp_settings {
    uint64_t client_buffer;
    unsigned auth;     /* enum mail_method bits */
    struct vec listed; /* struct str: of smtp_capabilities */
    uint64_t greeting_delay_ms;

    /* Derived: complete replies to EHLO. */
    struct str capabilities, starttls_capabilities, starttls_only_capabilities;
};

extern const struct mail_protocol smtp_protocol;

/* backend.c: the protocol's log_in. */
bool smtp_log_in(struct mail_backend *backend);

#endif
