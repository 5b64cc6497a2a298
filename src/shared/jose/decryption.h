/* Decryption of tokens (RFC 7516, 5.2; RFC 7518, 4 and 5). */
#ifndef SHARED_JOSE_DECRYPTION_H
#define SHARED_JOSE_DECRYPTION_H

#include "shared/jose/keys.h"

/* A parsed encrypted token. All parts were decoded, and have the sizes that its algorithms
 * require. */
struct jose_sealed {
    const struct jose_algorithm *algorithm;
    const struct jose_content *content;
    struct str key;     /* the encrypted content key */
    struct str key_iv;  /* of JOSE_AES_GCM */
    struct str key_tag; /* of JOSE_AES_GCM */
    struct str header;  /* as received: authenticated data */
    struct str iv;
    struct str text; /* ciphertext */
    struct str tag;
    struct str mac_input;  /* for CBC: header, iv, text and the header's length in bits */
    unsigned char *output; /* space for text.len bytes */
    struct str result;     /* the decrypted text, in output */
    unsigned char content_key[JOSE_RSA_BITS_MAX / 8]; /* and temporary data while it is decrypted */
};

/*
 * Decrypts with a key that fits. False: it is the wrong key, or the token was changed; the two
 * cases are not distinguished. On the worker's own stack or on a thread; with RSA it may take
 * milliseconds.
 */
bool jose_unseal(struct jose_sealed *sealed, const struct jose_key *key);

#endif
