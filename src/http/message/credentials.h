/* Credentials of an Authorization field with the scheme Basic (RFC 7617). */
#ifndef HTTP_MESSAGE_CREDENTIALS_H
#define HTTP_MESSAGE_CREDENTIALS_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/str.h"

struct credentials {
    struct str user;     /* not empty; any bytes except ':' and NUL */
    struct str password; /* any bytes except NUL */
};

/* Parses the value of the field; the result is in the arena. False: another scheme, invalid base64,
 * no colon, or an empty user name. */
bool credentials_parse(struct arena *arena, struct str value, struct credentials *out);

#endif
