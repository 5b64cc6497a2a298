/* RSA keys, from a JWK (RFC 7518, 6.3). */
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/param_build.h>

#include "shared/jose/keys.h"

/* Members, and OpenSSL's names for them: the first two are the public key; the last five come all
 * together or not at all. */
/* clang-format off */
static const struct rsa_member {
    const char *name;
    const char *parameter;
} rsa_members[] = {
    {"n", OSSL_PKEY_PARAM_RSA_N},
    {"e", OSSL_PKEY_PARAM_RSA_E},
    {"d", OSSL_PKEY_PARAM_RSA_D},
    {"p", OSSL_PKEY_PARAM_RSA_FACTOR1},
    {"q", OSSL_PKEY_PARAM_RSA_FACTOR2},
    {"dp", OSSL_PKEY_PARAM_RSA_EXPONENT1},
    {"dq", OSSL_PKEY_PARAM_RSA_EXPONENT2},
    {"qi", OSSL_PKEY_PARAM_RSA_COEFFICIENT1},
};
/* clang-format on */
#define RSA_MEMBERS (sizeof(rsa_members) / sizeof(rsa_members[0]))
#define RSA_PUBLIC 2
#define RSA_EXPONENT_BITS_MAX 64

/* Fills numbers; gives the number of members used, 0 with *why. */
static size_t read_numbers(struct arena *arena, const json_t *jwk, BIGNUM *numbers[RSA_MEMBERS],
                           const char **why)
{
    size_t count = 0;
    struct str bytes;

    while (count < RSA_MEMBERS && jose_bytes(arena, jwk, rsa_members[count].name, &bytes) &&
           bytes.len <= JOSE_RSA_BITS_MAX / 8) {
        numbers[count] = BN_bin2bn((const unsigned char *) bytes.data, (int) bytes.len, NULL);
        count++;
    }
    if (count < RSA_PUBLIC || numbers[0] == NULL || numbers[1] == NULL) {
        *why = "it has no \"n\" and \"e\" that can be used";
        return 0;
    }
    if (BN_num_bits(numbers[0]) < JOSE_RSA_BITS_MIN || !BN_is_odd(numbers[0])) {
        *why = "it has less than 2048 bits";
        return 0;
    }
    if (BN_num_bits(numbers[1]) > RSA_EXPONENT_BITS_MAX || BN_num_bits(numbers[1]) < 2 ||
        !BN_is_odd(numbers[1])) {
        *why = "its \"e\" is out of range";
        return 0;
    }
    return count == RSA_MEMBERS ? count : count > RSA_PUBLIC ? RSA_PUBLIC + 1 : RSA_PUBLIC;
}

static EVP_PKEY *make_key(BIGNUM *const *numbers, size_t count)
{
    OSSL_PARAM_BLD *builder = OSSL_PARAM_BLD_new();
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_name(NULL, "RSA", NULL);
    OSSL_PARAM *parameters = NULL;
    EVP_PKEY *pkey = NULL;
    bool is_sound = builder != NULL && context != NULL;

    for (size_t i = 0; is_sound && i < count; i++) {
        is_sound = OSSL_PARAM_BLD_push_BN(builder, rsa_members[i].parameter, numbers[i]) == 1;
    }
    if (is_sound && (parameters = OSSL_PARAM_BLD_to_param(builder)) != NULL &&
        EVP_PKEY_fromdata_init(context) == 1 &&
        EVP_PKEY_fromdata(context, &pkey, EVP_PKEY_KEYPAIR, parameters) != 1) {
        pkey = NULL;
    }
    OSSL_PARAM_free(parameters);
    OSSL_PARAM_BLD_free(builder);
    EVP_PKEY_CTX_free(context);
    return pkey;
}

EVP_PKEY *jose_rsa_key(struct arena *arena, const json_t *jwk, const char **why)
{
    BIGNUM *numbers[RSA_MEMBERS] = {NULL};
    size_t count = read_numbers(arena, jwk, numbers, why);
    EVP_PKEY *pkey = count != 0 ? make_key(numbers, count) : NULL;

    for (size_t i = 0; i < RSA_MEMBERS; i++) {
        BN_clear_free(numbers[i]);
    }
    if (pkey == NULL && *why == NULL) {
        *why = "OpenSSL refuses it";
    }
    return pkey;
}
