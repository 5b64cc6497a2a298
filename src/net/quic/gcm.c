/* AES-GCM of packets by libipsec-mb. */
#include "net/quic/gcm.h"

#include "config.h"

#ifdef HAVE_IPSEC_MB

#include <assert.h>
#include <intel-ipsec-mb.h>
#include <openssl/crypto.h>
#include <stdalign.h>
#include <stdlib.h>

#include "base/checksum.h"
#include "net/quic/packet.h"

struct quic_gcm {
    alignas(64) struct gcm_key_data key;
    bool is_256; /* the key has 32 bytes; else 16 */
};

/* The library's functions for this processor; NULL: it has none that are fast and take the same
 * time for all keys. */
static IMB_MGR *gcm_functions(void)
{
    static const uint64_t needed = IMB_FEATURE_AESNI | IMB_FEATURE_PCLMULQDQ;
    static IMB_MGR *functions;
    static bool is_known;

    if (is_known) {
        return functions;
    }
    is_known = true;
    functions = alloc_mb_mgr(0);
    if (functions == NULL) {
        return NULL;
    }
    init_mb_mgr_auto(functions, NULL);
    if (imb_get_errno(functions) != 0 || (functions->features & needed) != needed) {
        free_mb_mgr(functions);
        functions = NULL;
    }
    return functions;
}

struct quic_gcm *quic_gcm_new(const unsigned char *key, size_t key_size)
{
    IMB_MGR *functions = gcm_functions();
    struct quic_gcm *gcm =
        functions == NULL ? NULL : aligned_alloc(alignof(struct quic_gcm), sizeof(*gcm));

    assert(key_size == 16 || key_size == 32);
    if (gcm == NULL) {
        return NULL;
    }
    gcm->is_256 = key_size == 32;
    if (gcm->is_256) {
        IMB_AES256_GCM_PRE(functions, key, &gcm->key);
    } else {
        IMB_AES128_GCM_PRE(functions, key, &gcm->key);
    }
    return gcm;
}

void quic_gcm_free(struct quic_gcm *gcm)
{
    if (gcm != NULL) {
        OPENSSL_cleanse(gcm, sizeof(*gcm));
        free(gcm);
    }
}

void quic_gcm_seal(const struct quic_gcm *gcm, const struct quic_gcm_packet *packet)
{
    IMB_MGR *functions = gcm_functions();
    struct gcm_context_data context;
    aes_gcm_enc_dec_t encrypt = gcm->is_256 ? functions->gcm256_enc : functions->gcm128_enc;

    encrypt(&gcm->key, &context, packet->payload, packet->payload, packet->size, packet->nonce,
            packet->header, packet->header_size, packet->payload + packet->size, QUIC_TAG_SIZE);
}

bool quic_gcm_open(const struct quic_gcm *gcm, const struct quic_gcm_packet *packet)
{
    IMB_MGR *functions = gcm_functions();
    struct gcm_context_data context;
    unsigned char tag[QUIC_TAG_SIZE];
    aes_gcm_enc_dec_t decrypt = gcm->is_256 ? functions->gcm256_dec : functions->gcm128_dec;

    decrypt(&gcm->key, &context, packet->payload, packet->payload, packet->size, packet->nonce,
            packet->header, packet->header_size, tag, QUIC_TAG_SIZE);
    return secret_equal((struct str){(const char *) tag, QUIC_TAG_SIZE},
                        (struct str){(const char *) packet->payload + packet->size, QUIC_TAG_SIZE});
}

#else

struct quic_gcm *quic_gcm_new(const unsigned char *key, size_t key_size)
{
    return NULL;
}

void quic_gcm_free(struct quic_gcm *gcm)
{
}

void quic_gcm_seal(const struct quic_gcm *gcm, const struct quic_gcm_packet *packet)
{
}

bool quic_gcm_open(const struct quic_gcm *gcm, const struct quic_gcm_packet *packet)
{
    return false;
}

#endif
