/* Credentials that clients send: PLAIN (RFC 4616), CRAM-MD5 (RFC 2195), and names of SASL
 * mechanisms (RFC 4422). */
#ifndef MAIL_WORDS_SASL_H
#define MAIL_WORDS_SASL_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/str.h"

/* Methods to log in: bits, as listed in the directives *_auth. */
enum mail_method {
    MAIL_PLAIN = 1,
    MAIL_LOGIN = 2,
    MAIL_APOP = 4,
    MAIL_CRAM_MD5 = 8,
    MAIL_EXTERNAL = 16,
    MAIL_NONE = 32,                        /* SMTP: without a login */
    MAIL_ALWAYS = MAIL_PLAIN | MAIL_LOGIN, /* always allowed, even if not listed */
};

/* Their names in SASL, in the order in which they are offered; ends with 0. */
struct sasl_name {
    unsigned method; /* enum mail_method */
    struct str name; /* "CRAM-MD5" */
};
extern const struct sasl_name sasl_names[];

/* The method of this name, or 0. */
unsigned sasl_method_named(struct str name);

/* Parse a decoded response. Give NULL, or the error for the log. Slices of the results point into
 * `text`. */
const char *sasl_plain_read(struct str text, struct str *login, struct str *password);
const char *sasl_cram_md5_read(struct str text, struct str *login, struct str *digest);

/* Encodes a value for XCLIENT as xtext (RFC 3461, 4). Gives s itself if nothing has to be
 * escaped. */
struct str xtext_encode(struct arena *arena, struct str s);

#endif
