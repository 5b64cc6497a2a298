/* Secrets and keys of TLS 1.3, and of QUIC, which derives its own from them. */
#ifndef NET_TLS_SECRET_H
#define NET_TLS_SECRET_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

struct evp_md_st;

#define TLS_LABEL_MOST 32u

/* HKDF-Expand-Label (RFC 8446, 7.1) with an empty context. size: at most the hash's. False: OpenSSL failed. */
bool tls_expand_label(const struct evp_md_st *hash, struct str secret, const char *label,
                      unsigned char *out, size_t size);

#endif
