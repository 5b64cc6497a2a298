/* Key sets (RFC 7517): the keys for verifying and decrypting tokens. */
#ifndef SHARED_JOSE_KEYS_H
#define SHARED_JOSE_KEYS_H

#include <stdbool.h>
#include <stdint.h>

#include <openssl/evp.h>

#include "base/arena.h"
#include "base/log.h"
#include "shared/jose/algorithms.h"
#include "shared/jose/document.h"

#define JOSE_KEYS_TEXT_MAX (256 * 1024) /* bytes of a key set */
#define JOSE_KEYS_MAX 128               /* keys of a set */
#define JOSE_RSA_BITS_MIN 2048          /* RFC 7518, 3.3 */
#define JOSE_RSA_BITS_MAX 8192

struct jose_key {
    enum jose_key_type type;
    struct str curve;                       /* `crv` of EC and OKP */
    struct str id;                          /* `kid`; NULL data: none */
    const struct jose_algorithm *algorithm; /* the only one allowed; NULL: all that fit */
    bool verifies, decrypts;                /* according to `use` and `key_ops` */
    struct str secret;                      /* OCT */
    EVP_PKEY *pkey;                         /* for the other types */
};

/* A key set; reference-counted, constant once it was read. */
struct jose_keys {
    unsigned references;
    uint64_t number;    /* unique in this process */
    struct arena arena; /* for everything below */
    struct jose_key *items;
    unsigned count;
};

/*
 * Reads a set, which is a JSON object with "keys", or a single key. Keys that cannot be used are
 * left out (RFC 7517, 5) and logged with `name`, the source of the set. NULL: no key can be used;
 * logged. On the worker's own stack.
 */
struct jose_keys *jose_keys_read(struct str text, const struct log *log, struct str name);
void jose_keys_release(void *keys);

/* Can the key be used for this algorithm and this `kid` of a token (NULL data: the token has
   none)? */
bool jose_key_fits(const struct jose_key *key, const struct jose_algorithm *algorithm,
                   struct str id);

/* ---- from a JWK (rsa_key.c, curve_key.c) ---- */

/* The bytes of a base64url member; false: it is absent, empty, or malformed. */
bool jose_bytes(struct arena *arena, const json_t *object, const char *name, struct str *out);
/* An OpenSSL key, owned by the caller; NULL with *why. */
EVP_PKEY *jose_rsa_key(struct arena *arena, const json_t *jwk, const char **why);
EVP_PKEY *jose_curve_key(struct arena *arena, const json_t *jwk, struct str curve,
                         const char **why);

#endif
