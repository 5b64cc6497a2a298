/* Secrets and keys of TLS 1.3. */
#include "net/tls/secret.h"

#include <assert.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

static const struct str prefix = STR_INIT("tls13 ");

bool tls_expand_label(const struct evp_md_st *hash, struct str secret, const char *label,
                      unsigned char *out, size_t size)
{
    unsigned char info[2 + 1 + 6 + TLS_LABEL_MOST + 1 + 1], block[EVP_MAX_MD_SIZE];
    unsigned char *at = info;
    unsigned block_size = 0;
    size_t len = strlen(label);

    assert(len <= TLS_LABEL_MOST);
    *at++ = (unsigned char) (size >> 8);
    *at++ = (unsigned char) size;
    *at++ = (unsigned char) (prefix.len + len);
    at = (unsigned char *) str_put((char *) at, prefix);
    memcpy(at, label, len);
    at += len;
    *at++ = 0; /* the context is empty */
    *at++ = 1; /* the first block of HKDF-Expand (RFC 5869, 2.3) is enough */
    if (HMAC(hash, secret.data, (int) secret.len, info, (size_t) (at - info), block, &block_size) ==
            NULL ||
        block_size < size) {
        return false;
    }
    memcpy(out, block, size);
    OPENSSL_cleanse(block, sizeof(block));
    return true;
}
