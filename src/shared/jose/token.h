/* JSON Web Tokens (RFC 7519): parsing, verification, decryption. */
#ifndef SHARED_JOSE_TOKEN_H
#define SHARED_JOSE_TOKEN_H

#include "shared/jose/decryption.h"

#define JOSE_TOKEN_MAX (16 * 1024) /* bytes of a token */
#define JOSE_TRIES_MAX 16          /* keys that are tried for one token */

/* The form that a token must have. */
enum jose_form {
    JOSE_SIGNED,
    JOSE_ENCRYPTED,
    JOSE_NESTED, /* an encrypted token that contains a signed one */
};

/* An accepted token; reference-counted, constant once it was made. */
struct jose_token {
    unsigned references;
    json_t *header; /* the outer one */
    json_t *claims;
    struct str payload; /* for ENCRYPTED and NESTED: the decrypted text; otherwise empty */
    int64_t expires;    /* `exp`, seconds since the epoch; INT64_MAX: none */
    int64_t not_before; /* `nbf`; INT64_MIN: none */
};

/* The check of one token. The caller sets the first members; all others are zero at first. In an
 * arena. */
struct jose_check {
    struct arena *arena; /* of the worker: for decoded data */
    struct str text;     /* the token in compact form */
    enum jose_form form;
    const struct jose_keys *const *sets; /* the sets whose keys are used */
    unsigned set_count;

    struct jose_token *token; /* once it was accepted: the caller's reference */
    const char *why;          /* reason of a refusal: "its signature does not match" */
    bool lacks_key;           /* the reason is that it names a key that no set has */

    /* State of an encrypted token. */
    bool is_costly; /* jose_check_decrypt takes milliseconds: call it on a thread */
    bool is_open;   /* it was decrypted */
    json_t *header;
    struct str id;              /* `kid` */
    struct jose_sealed *sealed; /* NULL: there is nothing to decrypt */
};

/*
 * Three steps: the first and the third on the worker's own stack, the second there or on a thread.
 * A signed token is finished after the first; the others do nothing then. Times are not checked:
 * see jose_token_outdated.
 */
void jose_check_begin(void *check);
void jose_check_decrypt(void *check);
void jose_check_end(void *check);

/* The claims and the header of a signed token, without verification. NULL: it is not a token. On
 * the worker's own stack. */
struct jose_token *jose_token_unverified(struct arena *arena, struct str text);
void jose_token_release(void *token);

/* Is it valid at this time (RFC 7519, 4.1.4 and 4.1.5)? NULL: yes; else the reason why not. */
const char *jose_token_outdated(const struct jose_token *token, int64_t now, int64_t leeway);

#endif
