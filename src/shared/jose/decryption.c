/* Decrypts the content key of an encrypted token, and its content. */
#include "shared/jose/decryption.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/hmac.h>
#include <openssl/rsa.h>

#include "base/checksum.h"

static const unsigned char *bytes_of(struct str text)
{
    return (const unsigned char *) text.data;
}

/* ---- AES-GCM ---- */

/* One ciphertext, and its parameters. */
struct gcm {
    const char *cipher;
    const unsigned char *key;
    struct str iv, header, text, tag;
};

static bool gcm_open(const struct gcm *gcm, unsigned char *output)
{
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    const EVP_CIPHER *cipher = EVP_get_cipherbyname(gcm->cipher);
    int len = 0;
    bool is_sound =
        context != NULL && cipher != NULL &&
        EVP_DecryptInit_ex(context, cipher, NULL, gcm->key, bytes_of(gcm->iv)) == 1 &&
        EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, (int) gcm->tag.len,
                            (void *) gcm->tag.data) == 1 &&
        (gcm->header.len == 0 || EVP_DecryptUpdate(context, NULL, &len, bytes_of(gcm->header),
                                                   (int) gcm->header.len) == 1) &&
        EVP_DecryptUpdate(context, output, &len, bytes_of(gcm->text), (int) gcm->text.len) == 1 &&
        EVP_DecryptFinal_ex(context, output + len, &len) == 1;

    EVP_CIPHER_CTX_free(context);
    return is_sound;
}

/* ---- the content key ---- */

static bool oaep_unwrap(const struct jose_sealed *sealed, const struct jose_key *key,
                        unsigned char *out, size_t *len)
{
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new(key->pkey, NULL);
    const EVP_MD *digest = EVP_get_digestbyname(sealed->algorithm->digest);
    bool is_sound =
        context != NULL && EVP_PKEY_decrypt_init(context) == 1 &&
        EVP_PKEY_CTX_set_rsa_padding(context, RSA_PKCS1_OAEP_PADDING) == 1 &&
        EVP_PKEY_CTX_set_rsa_oaep_md(context, digest) == 1 &&
        EVP_PKEY_CTX_set_rsa_mgf1_md(context, digest) == 1 &&
        EVP_PKEY_decrypt(context, out, len, bytes_of(sealed->key), sealed->key.len) == 1;

    EVP_PKEY_CTX_free(context);
    return is_sound;
}

static bool aes_unwrap(const struct jose_sealed *sealed, const struct jose_key *key,
                       unsigned char *out, size_t *len)
{
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    unsigned size = sealed->algorithm->size;
    const EVP_CIPHER *cipher = size == 16   ? EVP_aes_128_wrap()
                               : size == 24 ? EVP_aes_192_wrap()
                                            : EVP_aes_256_wrap();
    int written = 0;
    bool is_sound = context != NULL;

    if (is_sound) {
        EVP_CIPHER_CTX_set_flags(context, EVP_CIPHER_CTX_FLAG_WRAP_ALLOW);
        is_sound = EVP_DecryptInit_ex(context, cipher, NULL, bytes_of(key->secret), NULL) == 1 &&
                   EVP_DecryptUpdate(context, out, &written, bytes_of(sealed->key),
                                     (int) sealed->key.len) == 1;
    }
    EVP_CIPHER_CTX_free(context);
    *len = is_sound ? (size_t) written : 0;
    return is_sound;
}

static bool gcm_unwrap(const struct jose_sealed *sealed, const struct jose_key *key,
                       unsigned char *out, size_t *len)
{
    unsigned size = sealed->algorithm->size;
    const struct gcm gcm = {
        .cipher = size == 16   ? "AES-128-GCM"
                  : size == 24 ? "AES-192-GCM"
                               : "AES-256-GCM",
        .key = bytes_of(key->secret),
        .iv = sealed->key_iv,
        .text = sealed->key,
        .tag = sealed->key_tag,
    };

    *len = sealed->key.len;
    return gcm_open(&gcm, out);
}

static bool find_content_key(struct jose_sealed *sealed, const struct jose_key *key)
{
    size_t len = sizeof(sealed->content_key);
    bool is_sound = false;

    switch (sealed->algorithm->kind) {
    case JOSE_DIRECT:
        len = key->secret.len;
        is_sound = len <= sizeof(sealed->content_key);
        if (is_sound) {
            memcpy(sealed->content_key, key->secret.data, len);
        }
        break;
    case JOSE_AES_WRAP:
        is_sound = aes_unwrap(sealed, key, sealed->content_key, &len);
        break;
    case JOSE_AES_GCM:
        is_sound = gcm_unwrap(sealed, key, sealed->content_key, &len);
        break;
    case JOSE_RSA_OAEP:
        is_sound = oaep_unwrap(sealed, key, sealed->content_key, &len);
        break;
    default:
        break;
    }
    return is_sound && len == sealed->content->key_size;
}

/* ---- the content ---- */

static bool open_gcm(struct jose_sealed *sealed)
{
    const struct gcm gcm = {
        .cipher = sealed->content->cipher,
        .key = sealed->content_key,
        .iv = sealed->iv,
        .header = sealed->header,
        .text = sealed->text,
        .tag = sealed->tag,
    };

    sealed->result = (struct str){(char *) sealed->output, sealed->text.len};
    return gcm_open(&gcm, sealed->output);
}

/* CBC with HMAC (RFC 7518, 5.2.2): the first half of the key is the HMAC's. Nothing is decrypted
 * before the HMAC was compared. */
static bool open_cbc(struct jose_sealed *sealed)
{
    unsigned half = sealed->content->key_size / 2;
    unsigned char mac[EVP_MAX_MD_SIZE];
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    int len = 0;
    int rest = 0;
    bool is_sound =
        context != NULL &&
        HMAC(EVP_get_digestbyname(sealed->content->digest), sealed->content_key, (int) half,
             bytes_of(sealed->mac_input), sealed->mac_input.len, mac, NULL) != NULL &&
        secret_equal(sealed->tag, (struct str){(char *) mac, half}) &&
        EVP_DecryptInit_ex(context, EVP_get_cipherbyname(sealed->content->cipher), NULL,
                           sealed->content_key + half, bytes_of(sealed->iv)) == 1 &&
        EVP_DecryptUpdate(context, sealed->output, &len, bytes_of(sealed->text),
                          (int) sealed->text.len) == 1 &&
        EVP_DecryptFinal_ex(context, sealed->output + len, &rest) == 1;

    EVP_CIPHER_CTX_free(context);
    sealed->result = (struct str){(char *) sealed->output, (size_t) (len + rest)};
    return is_sound;
}

bool jose_unseal(struct jose_sealed *sealed, const struct jose_key *key)
{
    bool is_sound = find_content_key(sealed, key) &&
                    (sealed->content->digest == NULL ? open_gcm(sealed) : open_cbc(sealed));

    OPENSSL_cleanse(sealed->content_key, sizeof(sealed->content_key));
    ERR_clear_error();
    return is_sound;
}
