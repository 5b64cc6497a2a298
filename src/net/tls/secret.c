/* Secrets and keys of TLS 1.3. */
#include "net/tls/secret.h"

#include <assert.h>
#include <openssl/evp.h>

#include "base/fatal.h"

#define HMAC_BLOCK_MOST 128u /* bytes of a block of SHA-384 */

static const struct str prefix = STR_INIT("tls13 ");

static struct tls_suite suites[] = {
    {.number = 0x1301, .key_size = 16, .hash_size = 32},
    {.number = 0x1302, .key_size = 32, .hash_size = 48},
    {.number = 0x1303, .key_size = 32, .hash_size = 32, .is_chacha = true},
};
static const char *const names[][3] = {
    {"SHA2-256", "AES-128-GCM", "AES-128-ECB"},
    {"SHA2-384", "AES-256-GCM", "AES-256-ECB"},
    {"SHA2-256", "ChaCha20-Poly1305", "ChaCha20"},
};

/* Fetched once: a fetch costs as much as a use. */
static void fetch(struct tls_suite *suite, const char *const *name)
{
    suite->hash = EVP_MD_fetch(NULL, name[0], NULL);
    suite->aead = EVP_CIPHER_fetch(NULL, name[1], NULL);
    suite->block = EVP_CIPHER_fetch(NULL, name[2], NULL);
}

const struct tls_suite *tls_suite_of(unsigned number)
{
    for (size_t i = 0; i < sizeof(suites) / sizeof(suites[0]); i++) {
        struct tls_suite *suite = &suites[i];

        if (suite->number != number) {
            continue;
        }
        if (suite->hash == NULL) {
            fetch(suite, names[i]);
        }
        return suite->hash == NULL || suite->aead == NULL || suite->block == NULL ? NULL : suite;
    }
    return NULL;
}

/* Hashes the key, each byte XORed with `pad`, and the bytes that follow it. */
static bool hash_part(const struct tls_suite *suite, unsigned char *key, unsigned char pad,
                      struct str bytes, unsigned char *out)
{
    static EVP_MD_CTX *ctx; /* for the life of the process */
    size_t block = (size_t) EVP_MD_get_block_size(suite->hash);

    if (ctx == NULL && (ctx = EVP_MD_CTX_new()) == NULL) {
        fatal_no_memory(sizeof(void *));
    }
    for (size_t i = 0; i < block; i++) {
        key[i] ^= pad;
    }
    return EVP_DigestInit_ex(ctx, suite->hash, NULL) == 1 &&
           EVP_DigestUpdate(ctx, key, block) == 1 &&
           EVP_DigestUpdate(ctx, bytes.data, bytes.len) == 1 &&
           EVP_DigestFinal_ex(ctx, out, NULL) == 1;
}

bool tls_hmac(const struct tls_suite *suite, struct str key, struct str bytes, unsigned char *out)
{
    unsigned char padded[HMAC_BLOCK_MOST] = {0}, inner[EVP_MAX_MD_SIZE];
    const struct str sum = {(const char *) inner, suite->hash_size};

    assert(EVP_MD_get_block_size(suite->hash) <= (int) sizeof(padded));
    if (key.len > TLS_SECRET_MOST) {
        return false; /* none of our keys is so long */
    }
    str_put((char *) padded, key);
    bool is_good = hash_part(suite, padded, 0x36, bytes, inner) &&
                   hash_part(suite, padded, 0x36 ^ 0x5c, sum, out);
    OPENSSL_cleanse(padded, sizeof(padded));
    OPENSSL_cleanse(inner, sizeof(inner));
    return is_good;
}

bool tls_expand_label(const struct tls_suite *suite, struct str secret, const char *label,
                      unsigned char *out, size_t size)
{
    unsigned char info[2 + 1 + 6 + TLS_LABEL_MOST + 1 + 1], block[EVP_MAX_MD_SIZE];
    unsigned char *at = info;
    size_t len = strlen(label);

    assert(len <= TLS_LABEL_MOST && size <= suite->hash_size);
    *at++ = (unsigned char) (size >> 8);
    *at++ = (unsigned char) size;
    *at++ = (unsigned char) (prefix.len + len);
    at = (unsigned char *) str_put((char *) at, prefix);
    memcpy(at, label, len);
    at += len;
    *at++ = 0; /* the context is empty */
    *at++ = 1; /* the first block of HKDF-Expand (RFC 5869, 2.3) is enough */
    if (!tls_hmac(suite, secret, (struct str){(const char *) info, (size_t) (at - info)}, block)) {
        return false;
    }
    memcpy(out, block, size);
    OPENSSL_cleanse(block, sizeof(block));
    return true;
}
