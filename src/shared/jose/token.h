/* JSON Web Tokens (RFC 7519): read, verified, decrypted. */
#ifndef SHARED_JOSE_TOKEN_H
#define SHARED_JOSE_TOKEN_H

#include "shared/jose/decryption.h"

#define JOSE_TOKEN_MAX (16 * 1024) /* bytes of a token */
#define JOSE_TRIES_MAX 16          /* keys that are tried for one token without a `kid` */

/* What a token has to be. */
enum jose_form {
    JOSE_SIGNED,
    JOSE_ENCRYPTED,
    JOSE_NESTED, /* encrypted, with a signed one inside */
};

/* A token that was accepted; shared by counted references, unchanged once it is made. */
struct jose_token {
    unsigned references;
    json_t *header; /* the outer one */
    json_t *claims;
    struct str payload; /* of ENCRYPTED and NESTED: what was decrypted; empty else */
    int64_t expires;    /* `exp`, seconds since the epoch; INT64_MAX: it has none */
    int64_t not_before; /* `nbf`; INT64_MIN: it has none */
};

/* One token that is being checked. The first members are the caller's; all else is zero at first.
 * Lives in an arena. */
struct jose_check {
    struct arena *arena; /* of the worker: for what is decoded */
    struct str text;     /* the token in its compact form */
    enum jose_form form;
    const struct jose_keys *const *sets; /* whose keys count */
    unsigned set_count;

    struct jose_token *token; /* once it was accepted: the caller's reference */
    const char *why;          /* why it was not: "its signature does not match" */
    bool lacks_key;           /* the reason: it names a key that no set has */

    /* Of an encrypted one, on its way. */
    bool is_costly; /* jose_check_decrypt takes milliseconds: it belongs on a thread */
    bool is_open;   /* it was decrypted */
    json_t *header;
    struct str id;              /* `kid` */
    struct jose_sealed *sealed; /* NULL: there is nothing to decrypt */
};

/*
 * Three steps: the first and the third on the worker's own stack, the second there or on a thread.
 * A signed token is finished after the first; the others do nothing then. Times are not looked at:
 * jose_token_is_current.
 */
void jose_check_begin(void *check);
void jose_check_decrypt(void *check);
void jose_check_end(void *check);

/* The claims and the header of a signed token whose signature nobody has looked at. NULL: it is
 * none. On the worker's own stack. */
struct jose_token *jose_token_unverified(struct arena *arena, struct str text);
void jose_token_release(void *token);

/* Is it valid at this time (RFC 7519, 4.1.4 and 4.1.5)? NULL: it is; else why not. */
const char *jose_token_outdated(const struct jose_token *token, int64_t now, int64_t leeway);

#endif
