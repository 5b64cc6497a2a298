/*
 * AES-GCM of packets by libipsec-mb, where it is built in: one call for a packet, where OpenSSL 3.0
 * needs five that look parameters up by name. A full packet takes half of its time, a short one a
 * sixth. Without the library, or where the processor has no instructions for AES, there are no
 * keys, and OpenSSL is used.
 */
#ifndef NET_QUIC_GCM_H
#define NET_QUIC_GCM_H

#include <stdbool.h>
#include <stddef.h>

#define QUIC_GCM_NONCE_SIZE 12u

struct quic_gcm; /* an expanded key */

/* One packet: `header` is authenticated; `payload` is encrypted in place, its tag is after it. */
struct quic_gcm_packet {
    const unsigned char *nonce;
    const unsigned char *header;
    size_t header_size;
    unsigned char *payload;
    size_t size; /* without the tag */
};

/* Of 16 or 32 bytes. NULL: OpenSSL is to be used. The caller owns it. */
struct quic_gcm *quic_gcm_new(const unsigned char *key, size_t key_size);
/* Overwrites it; NULL is allowed. */
void quic_gcm_free(struct quic_gcm *gcm);
void quic_gcm_seal(const struct quic_gcm *gcm, const struct quic_gcm_packet *packet);
/* False: it is not authentic; what is in its place means nothing then. */
bool quic_gcm_open(const struct quic_gcm *gcm, const struct quic_gcm_packet *packet);

#endif
