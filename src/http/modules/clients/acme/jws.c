/* Signs requests with the account's key (RFC 7515; RFC 8555, 6.2). */
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/hmac.h>

#include "base/checksum.h"
#include "base/text.h"
#include "http/modules/clients/acme/acme.h"

#define COORDINATE_MAX 66 /* bytes of an integer of P-521 */

/* The names of a curve in different standards. */
static const struct curve {
    int bits;
    unsigned size; /* bytes of a coordinate */
    const char *name, *algorithm, *digest;
} curves[] = {
    {256, 32, "P-256", "ES256", "SHA256"},
    {384, 48, "P-384", "ES384", "SHA384"},
    {521, 66, "P-521", "ES512", "SHA512"},
};

static const struct curve *curve_of(EVP_PKEY *key)
{
    for (size_t i = 0; i < sizeof(curves) / sizeof(curves[0]); i++) {
        if (EVP_PKEY_is_a(key, "EC") && EVP_PKEY_get_bits(key) == curves[i].bits) {
            return &curves[i];
        }
    }
    return NULL;
}

bool acme_key_fits(EVP_PKEY *key)
{
    return curve_of(key) != NULL || (EVP_PKEY_is_a(key, "RSA") && EVP_PKEY_get_bits(key) >= 2048 &&
                                     EVP_PKEY_get_bits(key) <= 8192);
}

struct str acme_digest_text(struct arena *arena, struct str text)
{
    unsigned char digest[32];

    sha256_of(text, digest);
    return base64_encode(arena, (struct str){(const char *) digest, sizeof(digest)}, true);
}

/* An integer of the key as base64url, padded to `size` bytes; 0: without padding. */
static bool number_of(struct arena *arena, EVP_PKEY *key, const char *name, unsigned size,
                      struct str *out)
{
    BIGNUM *number = NULL;

    if (EVP_PKEY_get_bn_param(key, name, &number) != 1) {
        return false;
    }
    size_t length = size != 0 ? size : (size_t) BN_num_bytes(number);
    unsigned char *bytes = arena_alloc(arena, length);
    bool is_good = BN_bn2binpad(number, bytes, (int) length) >= 0;
    BN_free(number);
    *out = base64_encode(arena, (struct str){(const char *) bytes, length}, true);
    return is_good;
}

bool acme_jwk(struct arena *arena, EVP_PKEY *key, struct str *out)
{
    const struct curve *curve = curve_of(key);
    struct str first, second;

    if (curve != NULL) {
        if (!number_of(arena, key, OSSL_PKEY_PARAM_EC_PUB_X, curve->size, &first) ||
            !number_of(arena, key, OSSL_PKEY_PARAM_EC_PUB_Y, curve->size, &second)) {
            return false;
        }
        *out = arena_printf(arena, "{\"crv\":\"%s\",\"kty\":\"EC\",\"x\":\"%.*s\",\"y\":\"%.*s\"}",
                            curve->name, STR_ARG(first), STR_ARG(second));
        return true;
    }
    if (!number_of(arena, key, OSSL_PKEY_PARAM_RSA_E, 0, &first) ||
        !number_of(arena, key, OSSL_PKEY_PARAM_RSA_N, 0, &second)) {
        return false;
    }
    *out = arena_printf(arena, "{\"e\":\"%.*s\",\"kty\":\"RSA\",\"n\":\"%.*s\"}", STR_ARG(first),
                        STR_ARG(second));
    return true;
}

struct str acme_thumbprint(struct arena *arena, struct str jwk)
{
    return acme_digest_text(arena, jwk);
}

/* ---- signatures ---- */

/* OpenSSL returns DER; JWS has r and s as plain bytes (RFC 7518, 3.4). */
static bool unpack(struct arena *arena, const unsigned char *der, size_t size, unsigned half,
                   struct str *out)
{
    ECDSA_SIG *pair = d2i_ECDSA_SIG(NULL, &der, (long) size);
    unsigned char bytes[2 * COORDINATE_MAX];

    if (pair == NULL) {
        return false;
    }
    bool is_good = BN_bn2binpad(ECDSA_SIG_get0_r(pair), bytes, (int) half) >= 0 &&
                   BN_bn2binpad(ECDSA_SIG_get0_s(pair), bytes + half, (int) half) >= 0;
    ECDSA_SIG_free(pair);
    *out = base64_encode(arena, (struct str){(const char *) bytes, 2 * (size_t) half}, true);
    return is_good;
}

static bool sign(struct arena *arena, EVP_PKEY *key, struct str text, struct str *out)
{
    const struct curve *curve = curve_of(key);
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    size_t size = (size_t) EVP_PKEY_get_size(key);
    unsigned char *bytes = arena_alloc(arena, size);
    bool is_good =
        context != NULL &&
        EVP_DigestSignInit_ex(context, NULL, curve == NULL ? "SHA256" : curve->digest, NULL, NULL,
                              key, NULL) == 1 &&
        EVP_DigestSign(context, bytes, &size, (const unsigned char *) text.data, text.len) == 1;

    EVP_MD_CTX_free(context);
    if (!is_good) {
        return false;
    }
    if (curve != NULL) {
        return unpack(arena, bytes, size, curve->size, out);
    }
    *out = base64_encode(arena, (struct str){(const char *) bytes, size}, true);
    return true;
}

static bool mac(struct arena *arena, struct str secret, struct str text, struct str *out)
{
    unsigned char bytes[32];

    hmac_sha256_of(arena, secret, text, bytes);
    *out = base64_encode(arena, (struct str){(const char *) bytes, sizeof(bytes)}, true);
    return true;
}

static const char *algorithm_of(EVP_PKEY *key)
{
    const struct curve *curve = key == NULL ? NULL : curve_of(key);

    return key == NULL ? "HS256" : curve != NULL ? curve->algorithm : "RS256";
}

/* URLs, nonces and account identifiers were checked: they contain nothing that JSON must escape. */
static struct str protected_header(struct arena *arena, const struct acme_jws *jws)
{
    struct str nonce = jws->nonce.len == 0
                           ? STR("")
                           : arena_printf(arena, ",\"nonce\":\"%.*s\"", STR_ARG(jws->nonce));
    struct str who = jws->kid.len != 0 ? arena_printf(arena, "\"kid\":\"%.*s\"", STR_ARG(jws->kid))
                                       : arena_printf(arena, "\"jwk\":%.*s", STR_ARG(jws->jwk));

    return arena_printf(arena, "{\"alg\":\"%s\"%.*s,\"url\":\"%.*s\",%.*s}", algorithm_of(jws->key),
                        STR_ARG(nonce), STR_ARG(jws->url), STR_ARG(who));
}

bool acme_jws_make(struct arena *arena, const struct acme_jws *jws, struct str *out)
{
    struct str header = base64_encode(arena, protected_header(arena, jws), true);
    struct str payload = base64_encode(arena, jws->payload, true);
    const struct str parts[] = {header, STR("."), payload};
    struct str text = arena_join(arena, parts, 3);
    struct str signature;
    bool is_good = jws->key != NULL ? sign(arena, jws->key, text, &signature)
                                    : mac(arena, jws->secret, text, &signature);

    ERR_clear_error();
    if (!is_good) {
        return false;
    }
    *out =
        arena_printf(arena, "{\"protected\":\"%.*s\",\"payload\":\"%.*s\",\"signature\":\"%.*s\"}",
                     STR_ARG(header), STR_ARG(payload), STR_ARG(signature));
    return true;
}
