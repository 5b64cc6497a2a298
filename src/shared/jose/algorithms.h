/* The algorithms of tokens (RFC 7518, 8037): one list. */
#ifndef SHARED_JOSE_ALGORITHMS_H
#define SHARED_JOSE_ALGORITHMS_H

#include "base/str.h"

enum jose_key_type { JOSE_OCT, JOSE_RSA, JOSE_EC, JOSE_OKP };

enum jose_kind {
    JOSE_HMAC,
    JOSE_RSA_PKCS1,
    JOSE_RSA_PSS,
    JOSE_ECDSA,
    JOSE_EDDSA,
    JOSE_DIRECT,   /* the key is the content key */
    JOSE_AES_WRAP, /* RFC 3394 */
    JOSE_AES_GCM,  /* the content key is encrypted with AES-GCM */
    JOSE_RSA_OAEP,
};

/* One `alg`. */
struct jose_algorithm {
    struct str name;
    enum jose_kind kind;
    enum jose_key_type type; /* of its keys */
    const char *digest;      /* OpenSSL's name; NULL: none */
    struct str curve;        /* `crv` of its keys; empty: any of the key type */
    unsigned size; /* in bytes: half of an ECDSA signature, or the key of JOSE_AES_*; else 0 */
};

/* One `enc`. */
struct jose_content {
    struct str name;
    const char *cipher; /* OpenSSL's name */
    const char *digest; /* for CBC with HMAC; NULL: GCM */
    unsigned key_size;  /* bytes of the content key, both halves together */
};

#define JOSE_CONTENT_KEY_MAX 64

static inline bool jose_is_signature(const struct jose_algorithm *algorithm)
{
    return algorithm->kind <= JOSE_EDDSA;
}

/* Finds a name (case-sensitive); NULL: not in the list. */
const struct jose_algorithm *jose_algorithm_named(struct str name);
const struct jose_content *jose_content_named(struct str name);

#endif
