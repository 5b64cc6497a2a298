/* Decryption of tokens (RFC 7516, 5.2; RFC 7518, 4 and 5). */
#ifndef SHARED_JOSE_DECRYPTION_H
#define SHARED_JOSE_DECRYPTION_H

#include "shared/jose/keys.h"

/* An encrypted token as it was read; everything was decoded, and has the sizes that its algorithms
 * want. */
struct jose_sealed {
    const struct jose_algorithm *algorithm;
    const struct jose_content *content;
    struct str key;     /* the encrypted content key */
    struct str key_iv;  /* of JOSE_AES_GCM */
    struct str key_tag; /* of JOSE_AES_GCM */
    struct str header;  /* as it was received: authenticated */
    struct str iv;
    struct str text; /* encrypted */
    struct str tag;
    struct str mac_input;  /* of CBC: header, iv, text and the header's length in bits */
    unsigned char *output; /* room for text.len bytes */
    struct str result;     /* the decrypted text, in output */
    unsigned char
        content_key[JOSE_RSA_BITS_MAX / 8]; /* and what surrounds it while it is decrypted */
};

/*
 * Decrypts with a key that fits. False: it is not the key, or something was changed; nobody learns
 * which. On the worker's own stack or on a thread, where it may take milliseconds for RSA.
 */
bool jose_unseal(struct jose_sealed *sealed, const struct jose_key *key);

#endif
