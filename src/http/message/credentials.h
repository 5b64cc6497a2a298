/* What a client says about itself in an Authorization field of the scheme Basic (RFC 7617). */
#ifndef HTTP_MESSAGE_CREDENTIALS_H
#define HTTP_MESSAGE_CREDENTIALS_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/str.h"

struct credentials {
    struct str user;     /* never empty; any bytes but ':' and NUL */
    struct str password; /* any bytes but NUL */
};

/* Parses the value of the field; what is decoded goes to the arena. False: another scheme, no valid
 * base64, no colon, or no user in front of it. */
bool credentials_parse(struct arena *arena, struct str value, struct credentials *out);

#endif
