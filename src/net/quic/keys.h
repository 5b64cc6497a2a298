/*
 * Keys of packets (RFC 9001, 5; RFC 9369, 3.3): secrets to keys, packets sealed and opened, headers
 * protected. What the libraries make of a key is made once; nothing is allocated for a packet.
 */
#ifndef NET_QUIC_KEYS_H
#define NET_QUIC_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "net/quic/packet.h"
#include "net/tls/secret.h"

struct evp_cipher_ctx_st;
struct quic_gcm;

#define QUIC_SECRET_MOST 48u
#define QUIC_SAMPLE_SIZE 16u
#define QUIC_MASK_SIZE 5u
/* Packets after which a key is worth the memory of gcm.h, which is more than OpenSSL's: neither
 * those of handshakes nor those of idle connections are. */
#define QUIC_KEYS_FEW 32u

/* One direction of one level. All zero: there is none. */
struct quic_keys {
    const struct tls_suite *suite;
    uint32_t version;
    bool seals;
    uint8_t iv[12];
    uint8_t secret[QUIC_SECRET_MOST];
    struct quic_gcm *gcm; /* owned; of AES-GCM where gcm.h has it, after QUIC_KEYS_FEW packets */
    struct evp_cipher_ctx_st *aead; /* owned; else */
    struct evp_cipher_ctx_st
        *protection; /* of headers; owned, unless it is shared with the keys before an update */
    bool shares_protection;
    uint32_t packets; /* sealed or opened, up to QUIC_KEYS_FEW */
    uint64_t uses;    /* packets sealed, or that could not be opened */
};

static inline bool quic_keys_are_there(const struct quic_keys *keys)
{
    return keys->suite != NULL;
}

/* Makes keys of a traffic secret. seals: for sending. False: OpenSSL has no such cipher, or no
 * memory. */
bool quic_keys_make(struct quic_keys *keys, const struct tls_suite *suite, uint32_t version,
                    struct str secret, bool seals);
/* Those of Initial packets, of the id that the client chose first. of_server: keys with which the
 * server sends. */
bool quic_keys_make_initial(struct quic_keys *keys, uint32_t version, struct str dcid,
                            bool of_server, bool seals);
/* The next generation of the keys (RFC 9001, 6): `next` shares the protection of headers, and may
 * not outlive `keys` unless quic_keys_replace puts it in its place. */
bool quic_keys_make_next(struct quic_keys *next, const struct quic_keys *keys);
/* `next` takes the place of `keys`, which are freed but for the protection of headers. */
void quic_keys_replace(struct quic_keys *keys, struct quic_keys *next);
void quic_keys_free(struct quic_keys *keys);

/* How many packets may be sealed with the keys, and how many may fail to open (RFC 9001, 6.6). */
uint64_t quic_keys_seal_most(const struct quic_keys *keys);
uint64_t quic_keys_fail_most(const struct quic_keys *keys);

/* Encrypts `size` bytes at `payload` in place, and writes the tag after them. The header is what
 * lies before. */
bool quic_seal(struct quic_keys *keys, uint64_t number, const unsigned char *header,
               unsigned char *payload, size_t size);
/* Opens `size` bytes, the tag included, in place: size - QUIC_TAG_SIZE are left. False: they are
 * not authentic. */
bool quic_open(struct quic_keys *keys, uint64_t number, const unsigned char *header,
               unsigned char *payload, size_t size);

/* Masks for `count` samples of 16 bytes that lie one after the other (RFC 9001, 5.4); 5 bytes each.
 */
#define QUIC_MASKS_MOST 64u
bool quic_masks(const struct quic_keys *keys, const unsigned char *samples, size_t count,
                unsigned char *masks);
/* Puts the mask on the first byte and the packet number, or takes it off. */
void quic_mask_apply(unsigned char *first, unsigned char *number_at, unsigned number_size,
                     const unsigned char *mask);

/* The number of a packet as it is there. */
struct quic_number {
    size_t at;          /* its offset in the packet */
    unsigned size;      /* bytes */
    uint64_t truncated; /* the packet number that these bytes hold, truncated */
};

/*
 * Takes the protection off the header of a packet of so many bytes: number->at is known, the others
 * are found. False: the packet is too short for a sample.
 */
bool quic_unprotect(const struct quic_keys *keys, unsigned char *packet, size_t size,
                    struct quic_number *number);

/* The integrity tag of a Retry (RFC 9001, 5.8), whose bytes before the tag are given. */
bool quic_retry_tag(uint32_t version, struct str original_dcid, struct str retry,
                    unsigned char *tag);

#endif
