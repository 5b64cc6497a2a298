/* The response of an authentication server: the fields of an HTTP response that mail uses. Pure
 * functions on slices. */
#ifndef MAIL_WORDS_AUTH_RESPONSE_H
#define MAIL_WORDS_AUTH_RESPONSE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

/* If a field occurs more than once, the last one counts. Slices point into the text. */
struct auth_response {
    bool has_status;
    bool is_ok;            /* Auth-Status: OK */
    bool is_wait;          /* Auth-Status: WAIT */
    struct str status;     /* Auth-Status; if neither of these: the message for the client */
    struct str server;     /* Auth-Server */
    struct str port;       /* Auth-Port */
    struct str user;       /* Auth-User; data NULL = none */
    struct str password;   /* Auth-Pass; data NULL = none */
    struct str error_code; /* Auth-Error-Code; data NULL = none */
    uint64_t wait_s;       /* Auth-Wait; 0 = none */
};

enum auth_reading { AUTH_MORE, AUTH_DONE, AUTH_BAD };

/*
 * Parses a header once it has arrived completely, up to the empty line. `seen` is kept by the
 * caller, zero at first: bytes that were searched for the end already. The status code is ignored,
 * as in nginx.
 */
enum auth_reading auth_response_read(struct str input, size_t *seen, struct auth_response *out);

#endif
