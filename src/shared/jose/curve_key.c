/* Public keys on curves, from a JWK (RFC 7518, 6.2; RFC 8037, 2). */
#include <openssl/core_names.h>
#include <openssl/params.h>

#include "shared/jose/keys.h"

/* Bytes of a coordinate. */
static size_t coordinate_size(struct str curve)
{
    return str_is(curve, "P-256") ? 32 : str_is(curve, "P-384") ? 48 : 66;
}

static EVP_PKEY *edwards_key(struct str curve, struct str x)
{
    int type = str_is(curve, "Ed25519") ? EVP_PKEY_ED25519 : EVP_PKEY_ED448;

    return EVP_PKEY_new_raw_public_key(type, NULL, (const unsigned char *) x.data, x.len);
}

/* OpenSSL checks that the point is on the curve. */
static EVP_PKEY *weierstrass_key(struct arena *arena, struct str curve, struct str x, struct str y)
{
    const struct str parts[] = {STR("\4"), x, y};
    struct str point = arena_join(arena, parts, 3);
    char *group = arena_cstr(arena, curve);
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_name(NULL, "EC", NULL);
    EVP_PKEY *pkey = NULL;
    OSSL_PARAM parameters[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME, group, 0),
        OSSL_PARAM_construct_octet_string(OSSL_PKEY_PARAM_PUB_KEY, (char *) point.data, point.len),
        OSSL_PARAM_construct_end(),
    };

    if (context != NULL && EVP_PKEY_fromdata_init(context) == 1 &&
        EVP_PKEY_fromdata(context, &pkey, EVP_PKEY_PUBLIC_KEY, parameters) != 1) {
        pkey = NULL;
    }
    EVP_PKEY_CTX_free(context);
    return pkey;
}

EVP_PKEY *jose_curve_key(struct arena *arena, const json_t *jwk, struct str curve, const char **why)
{
    struct str x;
    struct str y;
    EVP_PKEY *pkey = NULL;

    if (!jose_bytes(arena, jwk, "x", &x)) {
        *why = "it has no \"x\"";
        return NULL;
    }
    if (str_starts(curve, STR("Ed"))) {
        pkey = edwards_key(curve, x);
    } else if (!jose_bytes(arena, jwk, "y", &y) || x.len != coordinate_size(curve) ||
               y.len != x.len) {
        *why = "its \"x\" and \"y\" are not coordinates of its curve";
        return NULL;
    } else {
        pkey = weierstrass_key(arena, curve, x, y);
    }
    if (pkey == NULL) {
        *why = "OpenSSL refuses it";
    }
    return pkey;
}
