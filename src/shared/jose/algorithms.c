/* The list of algorithms. Not supported: none; RSA1_5 (RFC 8725, 3.2); PBES2, whose cost the token
 * would determine; ECDH-ES. */
#include "shared/jose/algorithms.h"

#include <stddef.h>

static const struct jose_algorithm algorithms[] = {
    {STR_INIT("HS256"), JOSE_HMAC, JOSE_OCT, "SHA256", {NULL, 0}, 0},
    {STR_INIT("HS384"), JOSE_HMAC, JOSE_OCT, "SHA384", {NULL, 0}, 0},
    {STR_INIT("HS512"), JOSE_HMAC, JOSE_OCT, "SHA512", {NULL, 0}, 0},
    {STR_INIT("RS256"), JOSE_RSA_PKCS1, JOSE_RSA, "SHA256", {NULL, 0}, 0},
    {STR_INIT("RS384"), JOSE_RSA_PKCS1, JOSE_RSA, "SHA384", {NULL, 0}, 0},
    {STR_INIT("RS512"), JOSE_RSA_PKCS1, JOSE_RSA, "SHA512", {NULL, 0}, 0},
    {STR_INIT("PS256"), JOSE_RSA_PSS, JOSE_RSA, "SHA256", {NULL, 0}, 0},
    {STR_INIT("PS384"), JOSE_RSA_PSS, JOSE_RSA, "SHA384", {NULL, 0}, 0},
    {STR_INIT("PS512"), JOSE_RSA_PSS, JOSE_RSA, "SHA512", {NULL, 0}, 0},
    {STR_INIT("ES256"), JOSE_ECDSA, JOSE_EC, "SHA256", STR_INIT("P-256"), 32},
    {STR_INIT("ES384"), JOSE_ECDSA, JOSE_EC, "SHA384", STR_INIT("P-384"), 48},
    {STR_INIT("ES512"), JOSE_ECDSA, JOSE_EC, "SHA512", STR_INIT("P-521"), 66},
    {STR_INIT("EdDSA"), JOSE_EDDSA, JOSE_OKP, NULL, {NULL, 0}, 0},
    {STR_INIT("Ed25519"), JOSE_EDDSA, JOSE_OKP, NULL, STR_INIT("Ed25519"), 0},
    {STR_INIT("Ed448"), JOSE_EDDSA, JOSE_OKP, NULL, STR_INIT("Ed448"), 0},
    {STR_INIT("dir"), JOSE_DIRECT, JOSE_OCT, NULL, {NULL, 0}, 0},
    {STR_INIT("A128KW"), JOSE_AES_WRAP, JOSE_OCT, NULL, {NULL, 0}, 16},
    {STR_INIT("A192KW"), JOSE_AES_WRAP, JOSE_OCT, NULL, {NULL, 0}, 24},
    {STR_INIT("A256KW"), JOSE_AES_WRAP, JOSE_OCT, NULL, {NULL, 0}, 32},
    {STR_INIT("A128GCMKW"), JOSE_AES_GCM, JOSE_OCT, NULL, {NULL, 0}, 16},
    {STR_INIT("A192GCMKW"), JOSE_AES_GCM, JOSE_OCT, NULL, {NULL, 0}, 24},
    {STR_INIT("A256GCMKW"), JOSE_AES_GCM, JOSE_OCT, NULL, {NULL, 0}, 32},
    {STR_INIT("RSA-OAEP"), JOSE_RSA_OAEP, JOSE_RSA, "SHA1", {NULL, 0}, 0},
    {STR_INIT("RSA-OAEP-256"), JOSE_RSA_OAEP, JOSE_RSA, "SHA256", {NULL, 0}, 0},
    {STR_INIT("RSA-OAEP-384"), JOSE_RSA_OAEP, JOSE_RSA, "SHA384", {NULL, 0}, 0},
    {STR_INIT("RSA-OAEP-512"), JOSE_RSA_OAEP, JOSE_RSA, "SHA512", {NULL, 0}, 0},
};

static const struct jose_content contents[] = {
    {STR_INIT("A128CBC-HS256"), "AES-128-CBC", "SHA256", 32},
    {STR_INIT("A192CBC-HS384"), "AES-192-CBC", "SHA384", 48},
    {STR_INIT("A256CBC-HS512"), "AES-256-CBC", "SHA512", 64},
    {STR_INIT("A128GCM"), "AES-128-GCM", NULL, 16},
    {STR_INIT("A192GCM"), "AES-192-GCM", NULL, 24},
    {STR_INIT("A256GCM"), "AES-256-GCM", NULL, 32},
};

const struct jose_algorithm *jose_algorithm_named(struct str name)
{
    for (size_t i = 0; i < sizeof(algorithms) / sizeof(algorithms[0]); i++) {
        if (str_equal(name, algorithms[i].name)) {
            return &algorithms[i];
        }
    }
    return NULL;
}

const struct jose_content *jose_content_named(struct str name)
{
    for (size_t i = 0; i < sizeof(contents) / sizeof(contents[0]); i++) {
        if (str_equal(name, contents[i].name)) {
            return &contents[i];
        }
    }
    return NULL;
}
