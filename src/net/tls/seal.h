/* Text that only those who have a key can read or change: AES-256-GCM (NIST SP 800-38D). */
#ifndef NET_TLS_SEAL_H
#define NET_TLS_SEAL_H

#include <stdbool.h>

#include "base/arena.h"

#define TLS_SEAL_KEY 32
/* What a sealed text is longer than the text: a random IV before it, a tag after it. */
#define TLS_SEAL_EXTRA (12 + 16)

/*
 * The text, encrypted, in the arena; `bound` is authenticated and not part of it. Empty: the
 * library failed. On a fiber, or on the loop's stack. One key takes 2^32 texts at most.
 */
struct str tls_seal(const unsigned char key[TLS_SEAL_KEY], struct str bound, struct str text,
                    struct arena *arena);
/* The text again, in the arena. False: it was not sealed with this key and these bytes. */
bool tls_unseal(const unsigned char key[TLS_SEAL_KEY], struct str bound, struct str sealed,
                struct arena *arena, struct str *text);

#endif
