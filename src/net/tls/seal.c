/* Authenticated encryption of text with a key. */
#include "net/tls/seal.h"

#include <openssl/evp.h>

#include "base/checksum.h"
#include "fiber/fiber.h"

#define IV_SIZE 12
#define TAG_SIZE 16

struct sealing {
    const unsigned char *key;
    bool is_opening;
    struct str bound; /* authenticated */
    struct str in;    /* text; or IV, encrypted text, tag */
    char *out;        /* the result; has in.len + TLS_SEAL_EXTRA bytes */
    size_t out_len;
    bool is_sound;
};

static void seal_run(void *arg)
{
    struct sealing *sealing = arg;
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    bool is_opening = sealing->is_opening;
    size_t text_len = is_opening ? sealing->in.len - TLS_SEAL_EXTRA : sealing->in.len;
    unsigned char *iv =
        is_opening ? (unsigned char *) sealing->in.data : (unsigned char *) sealing->out;
    const unsigned char *from =
        (const unsigned char *) sealing->in.data + (is_opening ? IV_SIZE : 0);
    unsigned char *to = (unsigned char *) sealing->out + (is_opening ? 0 : IV_SIZE);
    int len = 0;
    int last = 0;

    if (!is_opening) {
        random_bytes(iv, IV_SIZE);
    }
    sealing->is_sound =
        context != NULL &&
        EVP_CipherInit_ex(context, EVP_aes_256_gcm(), NULL, sealing->key, iv, !is_opening) == 1 &&
        (!is_opening || EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, TAG_SIZE,
                                            (void *) (from + text_len)) == 1) &&
        EVP_CipherUpdate(context, NULL, &len, (const unsigned char *) sealing->bound.data,
                         (int) sealing->bound.len) == 1 &&
        EVP_CipherUpdate(context, to, &len, from, (int) text_len) == 1 &&
        EVP_CipherFinal_ex(context, to + len, &last) == 1 &&
        (is_opening ||
         EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, TAG_SIZE, to + text_len) == 1);
    sealing->out_len = is_opening ? text_len : text_len + TLS_SEAL_EXTRA;
    EVP_CIPHER_CTX_free(context);
}

struct str tls_seal(const unsigned char key[TLS_SEAL_KEY], struct str bound, struct str text,
                    struct arena *arena)
{
    struct sealing sealing = {.key = key, .bound = bound, .in = text};

    sealing.out = arena_alloc(arena, text.len + TLS_SEAL_EXTRA);
    fiber_call_on_main(seal_run, &sealing);
    return sealing.is_sound ? (struct str){sealing.out, sealing.out_len} : STR_NONE;
}

bool tls_unseal(const unsigned char key[TLS_SEAL_KEY], struct str bound, struct str sealed,
                struct arena *arena, struct str *text)
{
    struct sealing sealing = {.key = key, .is_opening = true, .bound = bound, .in = sealed};

    if (sealed.len < TLS_SEAL_EXTRA) {
        return false;
    }
    sealing.out = arena_alloc(arena, sealed.len);
    fiber_call_on_main(seal_run, &sealing);
    *text = (struct str){sealing.out, sealing.out_len};
    return sealing.is_sound;
}
