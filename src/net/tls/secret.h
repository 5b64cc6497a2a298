/* Secrets and keys of TLS 1.3, and of QUIC, which derives its keys from them. Ciphers and hashes
 * are fetched from OpenSSL once. */
#ifndef NET_TLS_SECRET_H
#define NET_TLS_SECRET_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

struct evp_cipher_st;
struct evp_md_st;

#define TLS_LABEL_MOST 32u
#define TLS_SECRET_MOST 64u /* bytes of a hash */

/* A cipher suite of TLS 1.3. */
struct tls_suite {
    unsigned number; /* as on the wire */
    unsigned key_size;
    unsigned hash_size;
    bool is_chacha;
    const struct evp_md_st *hash;
    const struct evp_cipher_st *aead;
    const struct evp_cipher_st *block; /* QUIC protects headers with it: AES-ECB or ChaCha20 */
};

/* NULL: this number is not supported. */
const struct tls_suite *tls_suite_of(unsigned number);

/* RFC 2104; out has hash_size bytes. False: OpenSSL failed. */
bool tls_hmac(const struct tls_suite *suite, struct str key, struct str bytes, unsigned char *out);
/* HKDF-Expand-Label (RFC 8446, 7.1) with an empty context. size: at most the hash's. False: OpenSSL
 * failed. */
bool tls_expand_label(const struct tls_suite *suite, struct str secret, const char *label,
                      unsigned char *out, size_t size);

#endif
