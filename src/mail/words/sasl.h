/* What clients send to say who they are: PLAIN (RFC 4616), CRAM-MD5 (RFC 2195), and the words that
 * ask for them (RFC 4422). */
#ifndef MAIL_WORDS_SASL_H
#define MAIL_WORDS_SASL_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/str.h"

/* Ways to log in: bits, as the directives *_auth list them. */
enum mail_method {
    MAIL_PLAIN = 1,
    MAIL_LOGIN = 2,
    MAIL_APOP = 4,
    MAIL_CRAM_MD5 = 8,
    MAIL_EXTERNAL = 16,
    MAIL_NONE = 32,                        /* of SMTP: without any */
    MAIL_ALWAYS = MAIL_PLAIN | MAIL_LOGIN, /* taken whatever is listed */
};

/* Their names in SASL, in the order in which they are offered; ended by a 0. */
struct sasl_name {
    unsigned method; /* enum mail_method */
    struct str name; /* "CRAM-MD5" */
};
extern const struct sasl_name sasl_names[];

/* The way of this name, or 0. */
unsigned sasl_method_named(struct str name);

/* What is wrong with an answer, as the log says it; NULL: nothing. Slices of the results point into
 * `text`, which is decoded. */
const char *sasl_plain_read(struct str text, struct str *login, struct str *password);
const char *sasl_cram_md5_read(struct str text, struct str *login, struct str *digest);

/* A value as XCLIENT has it: of RFC 3461, 4 (xtext). s itself where nothing has to be escaped. */
struct str xtext_encode(struct arena *arena, struct str s);

#endif
