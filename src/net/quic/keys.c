/* Keys of packets. */
#include "net/quic/keys.h"

#include <assert.h>
#include <endian.h>
#include <openssl/evp.h>

#include "net/quic/gcm.h"
#include "net/quic/quic.h"
#include "net/tls/secret.h"

/* How much may be done with keys of AES-GCM, and of ChaCha20-Poly1305 (RFC 9001, 6.6). */
#define SEAL_MOST (UINT64_C(1) << 23)
#define SEAL_MOST_CHACHA (UINT64_C(1) << 62)
#define FAIL_MOST (UINT64_C(1) << 52)
#define FAIL_MOST_CHACHA (UINT64_C(1) << 36)

/* What differs between the versions (RFC 9001, 5.2 and 5.8; RFC 9369, 3.3). */
static const struct version_row {
    unsigned char salt[20];
    unsigned char retry_key[16];
    unsigned char retry_nonce[12];
    const char *key, *iv, *protection, *update;
} version_rows[] = {
    {{0x38, 0x76, 0x2c, 0xf7, 0xf5, 0x59, 0x34, 0xb3, 0x4d, 0x17,
      0x9a, 0xe6, 0xa4, 0xc8, 0x0c, 0xad, 0xcc, 0xbb, 0x7f, 0x0a},
     {0xbe, 0x0c, 0x69, 0x0b, 0x9f, 0x66, 0x57, 0x5a, 0x1d, 0x76, 0x6b, 0x54, 0xe3, 0x68, 0xc8,
      0x4e},
     {0x46, 0x15, 0x99, 0xd3, 0x5d, 0x63, 0x2b, 0xf2, 0x23, 0x98, 0x25, 0xbb},
     "quic key",
     "quic iv",
     "quic hp",
     "quic ku"},
    {{0x0d, 0xed, 0xe3, 0xde, 0xf7, 0x00, 0xa6, 0xdb, 0x81, 0x93,
      0x81, 0xbe, 0x6e, 0x26, 0x9d, 0xcb, 0xf9, 0xbd, 0x2e, 0xd9},
     {0x8f, 0xb4, 0xb0, 0x1b, 0x56, 0xac, 0x48, 0xe2, 0x60, 0xfb, 0xcb, 0xce, 0xad, 0x7c, 0xcc,
      0x92},
     {0xd8, 0x69, 0x69, 0xbc, 0x2d, 0x7c, 0x6d, 0x99, 0x90, 0xef, 0xb0, 0x4a},
     "quicv2 key",
     "quicv2 iv",
     "quicv2 hp",
     "quicv2 ku"},
};

static const struct version_row *row_of(uint32_t version)
{
    return &version_rows[version == QUIC_VERSION_2];
}

/* ---- derivation ---- */

static EVP_CIPHER_CTX *cipher_new(const EVP_CIPHER *cipher, const unsigned char *key, bool encrypts)
{
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();

    if (ctx != NULL && EVP_CipherInit_ex(ctx, cipher, NULL, key, NULL, encrypts) != 1) {
        EVP_CIPHER_CTX_free(ctx);
        return NULL;
    }
    return ctx;
}

/* Key and nonce of keys->secret; the protection of headers stays as it is. */
static bool make_aead(struct quic_keys *keys)
{
    const struct version_row *row = row_of(keys->version);
    struct str secret = {(const char *) keys->secret, keys->suite->hash_size};
    unsigned char key[32];

    if (!tls_expand_label(keys->suite, secret, row->key, key, keys->suite->key_size) ||
        !tls_expand_label(keys->suite, secret, row->iv, keys->iv, sizeof(keys->iv))) {
        return false;
    }
    keys->aead = cipher_new(keys->suite->aead, key, keys->seals);
    OPENSSL_cleanse(key, sizeof(key));
    return keys->aead != NULL;
}

/* The key is in use: gcm.h takes the place of OpenSSL's context, where it can. */
static void make_gcm(struct quic_keys *keys)
{
    struct str secret = {(const char *) keys->secret, keys->suite->hash_size};
    unsigned char key[32];

    if (!keys->suite->is_chacha && tls_expand_label(keys->suite, secret, row_of(keys->version)->key,
                                                    key, keys->suite->key_size)) {
        keys->gcm = quic_gcm_new(key, keys->suite->key_size);
        OPENSSL_cleanse(key, sizeof(key));
    }
    if (keys->gcm != NULL) {
        EVP_CIPHER_CTX_free(keys->aead);
        keys->aead = NULL;
    }
}

static void count_packet(struct quic_keys *keys)
{
    if (keys->packets < QUIC_KEYS_FEW && ++keys->packets == QUIC_KEYS_FEW) {
        make_gcm(keys);
    }
}

static void aead_free(struct quic_keys *keys)
{
    quic_gcm_free(keys->gcm);
    EVP_CIPHER_CTX_free(keys->aead);
}

static bool make_protection(struct quic_keys *keys)
{
    struct str secret = {(const char *) keys->secret, keys->suite->hash_size};
    unsigned char key[32];

    if (!tls_expand_label(keys->suite, secret, row_of(keys->version)->protection, key,
                          keys->suite->key_size)) {
        return false;
    }
    keys->protection = cipher_new(keys->suite->block, key, true);
    OPENSSL_cleanse(key, sizeof(key));
    /* Of this one only: an AEAD pads nothing, and OpenSSL would hear it again with each nonce. */
    return keys->protection != NULL && EVP_CIPHER_CTX_set_padding(keys->protection, 0) == 1;
}

bool quic_keys_make(struct quic_keys *keys, const struct tls_suite *suite, uint32_t version,
                    struct str secret, bool seals)
{
    *keys = (struct quic_keys){.suite = suite, .version = version, .seals = seals};
    if (secret.len != suite->hash_size) {
        return false;
    }
    memcpy(keys->secret, secret.data, secret.len);
    if (!make_aead(keys) || !make_protection(keys)) {
        quic_keys_free(keys);
        return false;
    }
    return true;
}

bool quic_keys_make_initial(struct quic_keys *keys, uint32_t version, struct str dcid,
                            bool of_server, bool seals)
{
    const struct tls_suite *suite = tls_suite_of(0x1301);
    const struct str salt = {(const char *) row_of(version)->salt, 20};
    unsigned char first[32], secret[32];

    return suite != NULL && tls_hmac(suite, salt, dcid, first) &&
           tls_expand_label(suite, (struct str){(const char *) first, sizeof(first)},
                            of_server ? "server in" : "client in", secret, sizeof(secret)) &&
           quic_keys_make(keys, suite, version, (struct str){(const char *) secret, sizeof(secret)},
                          seals);
}

bool quic_keys_make_next(struct quic_keys *next, const struct quic_keys *keys)
{
    size_t size = keys->suite->hash_size;

    *next = (struct quic_keys){.suite = keys->suite,
                               .version = keys->version,
                               .seals = keys->seals,
                               .protection = keys->protection,
                               .shares_protection = true};
    if (!tls_expand_label(keys->suite, (struct str){(const char *) keys->secret, size},
                          row_of(keys->version)->update, next->secret, size) ||
        !make_aead(next)) {
        quic_keys_free(next);
        return false;
    }
    return true;
}

void quic_keys_replace(struct quic_keys *keys, struct quic_keys *next)
{
    assert(next->shares_protection && next->protection == keys->protection);
    aead_free(keys);
    bool shares = keys->shares_protection;
    *keys = *next;
    keys->shares_protection = shares;
    *next = (struct quic_keys){0};
}

void quic_keys_free(struct quic_keys *keys)
{
    aead_free(keys);
    if (!keys->shares_protection) {
        EVP_CIPHER_CTX_free(keys->protection);
    }
    OPENSSL_cleanse(keys->secret, sizeof(keys->secret));
    *keys = (struct quic_keys){0};
}

uint64_t quic_keys_seal_most(const struct quic_keys *keys)
{
    return keys->suite->is_chacha ? SEAL_MOST_CHACHA : SEAL_MOST;
}

uint64_t quic_keys_fail_most(const struct quic_keys *keys)
{
    return keys->suite->is_chacha ? FAIL_MOST_CHACHA : FAIL_MOST;
}

/* ---- packets ---- */

static void make_nonce(const struct quic_keys *keys, uint64_t number, unsigned char *nonce)
{
    uint64_t last;

    memcpy(nonce, keys->iv, sizeof(keys->iv));
    memcpy(&last, nonce + 4, sizeof(last));
    last ^= htobe64(number);
    memcpy(nonce + 4, &last, sizeof(last));
}

bool quic_seal(struct quic_keys *keys, uint64_t number, const unsigned char *header,
               unsigned char *payload, size_t size)
{
    unsigned char nonce[QUIC_GCM_NONCE_SIZE];
    int n;

    make_nonce(keys, number, nonce);
    keys->uses++;
    count_packet(keys);
    if (keys->gcm != NULL) {
        const struct quic_gcm_packet packet = {nonce, header, (size_t) (payload - header), payload,
                                               size};
        quic_gcm_seal(keys->gcm, &packet);
        return true;
    }
    return EVP_EncryptInit_ex(keys->aead, NULL, NULL, NULL, nonce) == 1 &&
           EVP_EncryptUpdate(keys->aead, NULL, &n, header, (int) (payload - header)) == 1 &&
           EVP_EncryptUpdate(keys->aead, payload, &n, payload, (int) size) == 1 &&
           EVP_EncryptFinal_ex(keys->aead, payload + size, &n) == 1 &&
           EVP_CIPHER_CTX_ctrl(keys->aead, EVP_CTRL_AEAD_GET_TAG, QUIC_TAG_SIZE, payload + size) ==
               1;
}

/* By OpenSSL. */
static bool aead_open(struct quic_keys *keys, const struct quic_gcm_packet *packet)
{
    unsigned char *tag = packet->payload + packet->size;
    int n;

    return EVP_DecryptInit_ex(keys->aead, NULL, NULL, NULL, packet->nonce) == 1 &&
           EVP_CIPHER_CTX_ctrl(keys->aead, EVP_CTRL_AEAD_SET_TAG, QUIC_TAG_SIZE, tag) == 1 &&
           EVP_DecryptUpdate(keys->aead, NULL, &n, packet->header, (int) packet->header_size) ==
               1 &&
           EVP_DecryptUpdate(keys->aead, packet->payload, &n, packet->payload,
                             (int) packet->size) == 1 &&
           EVP_DecryptFinal_ex(keys->aead, tag, &n) == 1;
}

bool quic_open(struct quic_keys *keys, uint64_t number, const unsigned char *header,
               unsigned char *payload, size_t size)
{
    unsigned char nonce[QUIC_GCM_NONCE_SIZE];

    if (size < QUIC_TAG_SIZE) {
        return false;
    }
    make_nonce(keys, number, nonce);
    count_packet(keys);
    const struct quic_gcm_packet packet = {nonce, header, (size_t) (payload - header), payload,
                                           size - QUIC_TAG_SIZE};
    if (keys->gcm != NULL ? quic_gcm_open(keys->gcm, &packet) : aead_open(keys, &packet)) {
        return true;
    }
    keys->uses++;
    return false;
}

/* ---- headers ---- */

static bool chacha_mask(EVP_CIPHER_CTX *ctx, const unsigned char *sample, unsigned char *mask)
{
    static const unsigned char zeros[QUIC_MASK_SIZE];
    int n;

    return EVP_EncryptInit_ex(ctx, NULL, NULL, NULL, sample) == 1 &&
           EVP_EncryptUpdate(ctx, mask, &n, zeros, QUIC_MASK_SIZE) == 1;
}

bool quic_masks(const struct quic_keys *keys, const unsigned char *samples, size_t count,
                unsigned char *masks)
{
    unsigned char blocks[QUIC_MASKS_MOST * QUIC_SAMPLE_SIZE];
    int n;

    assert(count <= QUIC_MASKS_MOST);
    if (keys->suite->is_chacha) {
        for (size_t i = 0; i < count; i++) {
            if (!chacha_mask(keys->protection, samples + i * QUIC_SAMPLE_SIZE,
                             masks + i * QUIC_MASK_SIZE)) {
                return false;
            }
        }
        return true;
    }
    if (EVP_EncryptUpdate(keys->protection, blocks, &n, samples,
                          (int) (count * QUIC_SAMPLE_SIZE)) != 1) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        memcpy(masks + i * QUIC_MASK_SIZE, blocks + i * QUIC_SAMPLE_SIZE, QUIC_MASK_SIZE);
    }
    return true;
}

void quic_mask_apply(unsigned char *first, unsigned char *number_at, unsigned number_size,
                     const unsigned char *mask)
{
    *first ^= mask[0] & (*first & 0x80 ? 0x0f : 0x1f);
    for (unsigned i = 0; i < number_size; i++) {
        number_at[i] ^= mask[1 + i];
    }
}

bool quic_unprotect(const struct quic_keys *keys, unsigned char *packet, size_t size,
                    struct quic_number *number)
{
    unsigned char mask[QUIC_MASK_SIZE];

    if (size < number->at + 4 + QUIC_SAMPLE_SIZE ||
        !quic_masks(keys, packet + number->at + 4, 1, mask)) {
        return false;
    }
    unsigned first = packet[0] ^ (mask[0] & (packet[0] & 0x80 ? 0x0f : 0x1f));
    number->size = (first & 3) + 1;
    quic_mask_apply(packet, packet + number->at, number->size, mask);
    number->truncated = 0;
    for (unsigned i = 0; i < number->size; i++) {
        number->truncated = number->truncated << 8 | packet[number->at + i];
    }
    return true;
}

bool quic_retry_tag(uint32_t version, struct str original_dcid, struct str retry,
                    unsigned char *tag)
{
    const struct version_row *row = row_of(version);
    unsigned char len = (unsigned char) original_dcid.len;
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    int n;

    bool is_good =
        ctx != NULL &&
        EVP_EncryptInit_ex(ctx, tls_suite_of(0x1301)->aead, NULL, row->retry_key,
                           row->retry_nonce) == 1 &&
        EVP_EncryptUpdate(ctx, NULL, &n, &len, 1) == 1 &&
        (len == 0 ||
         EVP_EncryptUpdate(ctx, NULL, &n, (const unsigned char *) original_dcid.data, len) == 1) &&
        EVP_EncryptUpdate(ctx, NULL, &n, (const unsigned char *) retry.data, (int) retry.len) ==
            1 &&
        EVP_EncryptFinal_ex(ctx, tag, &n) == 1 &&
        EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_GET_TAG, QUIC_TAG_SIZE, tag) == 1;
    EVP_CIPHER_CTX_free(ctx);
    return is_good;
}
