/* Text that cannot be read or changed without the key: AES-256-GCM (NIST SP 800-38D). */
#ifndef NET_TLS_SEAL_H
#define NET_TLS_SEAL_H

#include <stdbool.h>

#include "base/arena.h"

#define TLS_SEAL_KEY 32
/* Bytes that sealing adds: a random IV before the text, a tag after it. */
#define TLS_SEAL_EXTRA (12 + 16)

/*
 * Gives the encrypted text in the arena; `bound` is authenticated and not part of it. Empty: the
 * library failed. On a fiber, or on the loop's stack. A key may be used for at most 2^32 texts.
 */
struct str tls_seal(const unsigned char key[TLS_SEAL_KEY], struct str bound, struct str text,
                    struct arena *arena);
/* Decrypts the text into the arena. False: it was not sealed with this key and these bytes. */
bool tls_unseal(const unsigned char key[TLS_SEAL_KEY], struct str bound, struct str sealed,
                struct arena *arena, struct str *text);

#endif
