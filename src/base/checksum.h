/* Checksums and hashes: CRC-32, a seeded hash for untrusted keys, MD5 and SHA-1 for names, SHA-256,
 * HMAC, random bytes. Implemented in checksum.c and hmac.c. */
#ifndef BASE_CHECKSUM_H
#define BASE_CHECKSUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/str.h"

uint32_t crc32_of(struct str s);
/* MurmurHash2, 32 bits, seed 0: distributes well, gives no protection against chosen keys. */
uint32_t murmur2_of(struct str s);
void md5_of(struct str s, unsigned char out[16]);
void sha1_of(struct str s, unsigned char out[20]);
void sha256_of(struct str s, unsigned char out[32]);
/* With a key (RFC 2104). Copies the text to the arena. */
void hmac_sha1_of(struct arena *arena, struct str key, struct str text, unsigned char out[20]);
void hmac_sha256_of(struct arena *arena, struct str key, struct str text, unsigned char out[32]);

/* Keyed hash (SipHash-1-3, one random key per process tree) for maps whose keys a peer chooses. */
uint64_t keyed_hash(struct str s);

/* The same with the caller's key. */
uint64_t siphash_1_3(struct str s, const uint64_t key[2]);

/* Are they equal? Takes the same time for all strings of one length: for secrets that a peer must
 * not guess byte by byte. */
bool secret_equal(struct str left, struct str right);

/* Random bytes of getrandom(2), in a buffer that a forked process does not inherit. */
void random_bytes(void *out, size_t len);
uint32_t random_uint32(void);

#endif
