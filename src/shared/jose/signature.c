/* Verifies signatures. */
#include "shared/jose/signature.h"

#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/hmac.h>
#include <openssl/rsa.h>

#include "base/checksum.h"

/* DER of two numbers of up to 66 bytes each, with some reserve. */
#define ECDSA_DER_MAX 160

static const unsigned char *bytes_of(struct str text)
{
    return (const unsigned char *) text.data;
}

static bool hmac_matches(const struct jose_key *key, const EVP_MD *digest, struct str text,
                         struct str signature)
{
    unsigned char expected[EVP_MAX_MD_SIZE];
    unsigned len = 0;

    return HMAC(digest, key->secret.data, (int) key->secret.len, bytes_of(text), text.len, expected,
                &len) != NULL &&
           secret_equal(signature, (struct str){(char *) expected, len});
}

static bool set_pss(EVP_PKEY_CTX *context, const EVP_MD *digest)
{
    return EVP_PKEY_CTX_set_rsa_padding(context, RSA_PKCS1_PSS_PADDING) == 1 &&
           EVP_PKEY_CTX_set_rsa_pss_saltlen(context, RSA_PSS_SALTLEN_DIGEST) == 1 &&
           EVP_PKEY_CTX_set_rsa_mgf1_md(context, digest) == 1;
}

static bool key_verifies(const struct jose_key *key, const EVP_MD *digest, bool is_pss,
                         struct str text, struct str signature)
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    EVP_PKEY_CTX *key_context = NULL;
    bool is_match = context != NULL &&
                    EVP_DigestVerifyInit(context, &key_context, digest, NULL, key->pkey) == 1 &&
                    (!is_pss || set_pss(key_context, digest)) &&
                    EVP_DigestVerify(context, bytes_of(signature), signature.len, bytes_of(text),
                                     text.len) == 1;

    EVP_MD_CTX_free(context);
    return is_match;
}

/* A token has r and s one after the other; OpenSSL needs DER. False: they do not have the curve's
 * size. */
static bool ecdsa_to_der(struct str signature, unsigned size, unsigned char der[ECDSA_DER_MAX],
                         struct str *out)
{
    ECDSA_SIG *pair = ECDSA_SIG_new();
    BIGNUM *r = NULL;
    BIGNUM *s = NULL;
    int len = 0;

    if (pair != NULL && signature.len == 2 * (size_t) size) {
        r = BN_bin2bn(bytes_of(signature), (int) size, NULL);
        s = BN_bin2bn(bytes_of(signature) + size, (int) size, NULL);
    }
    if (r == NULL || s == NULL || ECDSA_SIG_set0(pair, r, s) != 1) {
        BN_free(r);
        BN_free(s);
    } else {
        len = i2d_ECDSA_SIG(pair, NULL);
    }
    if (len > 0 && len <= ECDSA_DER_MAX) {
        unsigned char *at = der;
        len = i2d_ECDSA_SIG(pair, &at);
    } else {
        len = 0;
    }
    ECDSA_SIG_free(pair);
    *out = (struct str){(const char *) der, (size_t) (len > 0 ? len : 0)};
    return len > 0;
}

static bool ecdsa_matches(const struct jose_key *key, const struct jose_algorithm *algorithm,
                          const EVP_MD *digest, struct str text, struct str signature)
{
    unsigned char der[ECDSA_DER_MAX];
    struct str encoded;

    return ecdsa_to_der(signature, algorithm->size, der, &encoded) &&
           key_verifies(key, digest, false, text, encoded);
}

bool jose_signature_matches(const struct jose_key *key, const struct jose_algorithm *algorithm,
                            struct str text, struct str signature)
{
    const EVP_MD *digest =
        algorithm->digest == NULL ? NULL : EVP_get_digestbyname(algorithm->digest);
    bool is_match = false;

    switch (algorithm->kind) {
    case JOSE_HMAC:
        is_match = hmac_matches(key, digest, text, signature);
        break;
    case JOSE_RSA_PKCS1:
    case JOSE_RSA_PSS:
        is_match = key_verifies(key, digest, algorithm->kind == JOSE_RSA_PSS, text, signature);
        break;
    case JOSE_ECDSA:
        is_match = ecdsa_matches(key, algorithm, digest, text, signature);
        break;
    case JOSE_EDDSA:
        is_match = key_verifies(key, NULL, false, text, signature);
        break;
    default:
        break;
    }
    ERR_clear_error();
    return is_match;
}
