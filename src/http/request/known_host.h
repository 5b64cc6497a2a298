/* The host that was requested last on a connection: in the state of wire formats, whose headers
 * need no more of requests. */
#ifndef HTTP_REQUEST_KNOWN_HOST_H
#define HTTP_REQUEST_KNOWN_HOST_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/str.h"

struct http_server;

/*
 * The host that was asked for last, which most often comes again: its parts are found without a
 * look at each byte. Kept only when the name is in lower case, so that the parts are slices of the
 * value.
 */
struct known_host {
    char value[64];
    uint8_t len; /* 0 = none */
    uint8_t name_len;
    uint8_t port_len; /* digits at the end */
    const struct http_server
        *server; /* to which it leads on the one address that this is kept for; NULL: not known */
};
static inline bool known_host_is(const struct known_host *known, struct str value)
{
    return value.len != 0 && value.len == known->len &&
           memcmp(value.data, known->value, value.len) == 0;
}

#endif
