/* Key sets (RFC 7517): the keys that tokens are verified and decrypted with. */
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
    struct str curve;                       /* of EC and OKP, as `crv` */
    struct str id;                          /* `kid`; data NULL: none */
    const struct jose_algorithm *algorithm; /* the only one that it is for; NULL: all that fit */
    bool verifies, decrypts;                /* by `use` and `key_ops` */
    struct str secret;                      /* OCT */
    EVP_PKEY *pkey;                         /* of the other types */
};

/* A set; shared by counted references, unchanged once it is made. */
struct jose_keys {
    unsigned references;
    uint64_t number;    /* of this set in this process: no two have the same */
    struct arena arena; /* of all below */
    struct jose_key *items;
    unsigned count;
};

/*
 * Reads a set, which is a JSON object with "keys", or one key alone. Keys that cannot be used are
 * left out (RFC 7517, 5) and logged with `name`, which says where the set is from. NULL: it has
 * none that can be used; logged. On the worker's own stack.
 */
struct jose_keys *jose_keys_read(struct str text, const struct log *log, struct str name);
void jose_keys_release(void *keys);

/* Can the key be used for this algorithm and this `kid` of a token (data NULL: it names none)? */
bool jose_key_fits(const struct jose_key *key, const struct jose_algorithm *algorithm,
                   struct str id);

/* ---- of a JWK (rsa_key.c, curve_key.c) ---- */

/* The bytes of a base64url member; false: it is absent, empty, or malformed. */
bool jose_bytes(struct arena *arena, const json_t *object, const char *name, struct str *out);
/* The key of OpenSSL, owned by the caller; NULL with *why. */
EVP_PKEY *jose_rsa_key(struct arena *arena, const json_t *jwk, const char **why);
EVP_PKEY *jose_curve_key(struct arena *arena, const json_t *jwk, struct str curve,
                         const char **why);

#endif
