/* The answer of an authentication server: the fields of an HTTP response that matter to mail. Pure
 * functions on slices. */
#ifndef MAIL_WORDS_AUTH_RESPONSE_H
#define MAIL_WORDS_AUTH_RESPONSE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

/* Where fields come more than once the last one counts. Slices point into the text. */
struct auth_response {
    bool has_status;
    bool is_ok;            /* Auth-Status: OK */
    bool is_wait;          /* Auth-Status: WAIT */
    struct str status;     /* the client's answer otherwise */
    struct str server;     /* Auth-Server */
    struct str port;       /* Auth-Port */
    struct str user;       /* Auth-User; data NULL = none */
    struct str password;   /* Auth-Pass; data NULL = none */
    struct str error_code; /* Auth-Error-Code; data NULL = none */
    uint64_t wait_s;       /* Auth-Wait; 0 = none */
};

enum auth_reading { AUTH_MORE, AUTH_DONE, AUTH_BAD };

/*
 * Reads a head when it is there whole, to the empty line. `seen` is kept by the caller, zero at
 * first: bytes that were looked for the end already. What the status line says does not count, as
 * with nginx.
 */
enum auth_reading auth_response_read(struct str input, size_t *seen, struct auth_response *out);

#endif
