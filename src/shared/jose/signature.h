/* Signatures of tokens (RFC 7518, 3; RFC 8037, 3.1). */
#ifndef SHARED_JOSE_SIGNATURE_H
#define SHARED_JOSE_SIGNATURE_H

#include "shared/jose/keys.h"

/*
 * Is it the signature, or the HMAC, of this text with this key? The key must fit the algorithm
 * (jose_key_fits). On the worker's own stack or a thread.
 */
bool jose_signature_matches(const struct jose_key *key, const struct jose_algorithm *algorithm,
                            struct str text, struct str signature);

#endif
