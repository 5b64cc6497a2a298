/* Checksums, the keyed hash, and random bytes. */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <zlib.h>

#include "base/checksum.h"
#include "base/fatal.h"
#include "base/log.h"

bool secret_equal(struct str left, struct str right)
{
    return left.len == right.len &&
           (left.len == 0 || CRYPTO_memcmp(left.data, right.data, left.len) == 0);
}

uint32_t crc32_of(struct str s)
{
    return (uint32_t) crc32_z(0, (const unsigned char *) s.data, s.data == NULL ? 0 : s.len);
}

#define MURMUR_FACTOR 0x5bd1e995u

/* Reads four bytes at a time, independent of the byte order of the machine. */
uint32_t murmur2_of(struct str s)
{
    const unsigned char *at = (const unsigned char *) s.data;
    uint32_t hash = (uint32_t) s.len;
    size_t left = s.len;

    for (; left >= 4; left -= 4, at += 4) {
        uint32_t word =
            at[0] | (uint32_t) at[1] << 8 | (uint32_t) at[2] << 16 | (uint32_t) at[3] << 24;
        word *= MURMUR_FACTOR;
        word ^= word >> 24;
        hash = hash * MURMUR_FACTOR ^ word * MURMUR_FACTOR;
    }
    for (size_t i = left; i-- > 0;) {
        hash ^= (uint32_t) at[i] << 8 * i;
    }
    if (left != 0) {
        hash *= MURMUR_FACTOR;
    }
    hash ^= hash >> 13;
    hash *= MURMUR_FACTOR;
    return hash ^ hash >> 15;
}

/* The digests of OpenSSL, fetched once, and one context per thread. */
enum { DIGEST_MD5, DIGEST_SHA1, DIGEST_COUNT };
static EVP_MD *digest_types[DIGEST_COUNT];
static pthread_once_t digests_once = PTHREAD_ONCE_INIT;
static pthread_key_t digests_key; /* its destructor frees the contexts of a thread that ends */

struct digests {
    EVP_MD_CTX *contexts[DIGEST_COUNT];
};
static __thread struct digests *digests_mine;

static void digests_free(void *arg)
{
    struct digests *digests = arg;

    for (int i = 0; i < DIGEST_COUNT; i++) {
        EVP_MD_CTX_free(digests->contexts[i]);
    }
    free(digests);
}

static void digests_begin(void)
{
    digest_types[DIGEST_MD5] = EVP_MD_fetch(NULL, "MD5", NULL);
    digest_types[DIGEST_SHA1] = EVP_MD_fetch(NULL, "SHA1", NULL);
    pthread_key_create(&digests_key, digests_free);
}

static EVP_MD_CTX *digest_context(int which)
{
    if (digests_mine == NULL) {
        pthread_once(&digests_once, digests_begin);
        digests_mine = calloc(1, sizeof(*digests_mine));
        if (digests_mine == NULL) {
            fatal_no_memory(sizeof(*digests_mine));
        }
        for (int i = 0; i < DIGEST_COUNT; i++) {
            digests_mine->contexts[i] = EVP_MD_CTX_new();
        }
        pthread_setspecific(digests_key, digests_mine);
    }
    return digests_mine->contexts[which];
}

static void digest_of(int which, struct str s, unsigned char *out)
{
    EVP_MD_CTX *context = digest_context(which);

    if (EVP_DigestInit_ex2(context, digest_types[which], NULL) != 1 ||
        EVP_DigestUpdate(context, s.data, s.len) != 1 ||
        EVP_DigestFinal_ex(context, out, NULL) != 1) {
        log_emerg(log_main, 0, "EVP_Digest() failed");
        abort();
    }
}

void md5_of(struct str s, unsigned char out[16])
{
    digest_of(DIGEST_MD5, s, out);
}

void sha1_of(struct str s, unsigned char out[20])
{
    digest_of(DIGEST_SHA1, s, out);
}

/* Chosen before main(), so it is the same in the master, in all workers and in shared memory. */
static uint64_t hash_key[2];

static inline uint64_t rotate(uint64_t x, unsigned bits)
{
    return x << bits | x >> (64 - bits);
}

/* The state of SipHash (Aumasson and Bernstein, 2012). */
struct sip {
    uint64_t v0, v1, v2, v3;
};

static inline void sip_round(struct sip *s)
{
    s->v0 += s->v1;
    s->v1 = rotate(s->v1, 13) ^ s->v0;
    s->v0 = rotate(s->v0, 32);
    s->v2 += s->v3;
    s->v3 = rotate(s->v3, 16) ^ s->v2;
    s->v0 += s->v3;
    s->v3 = rotate(s->v3, 21) ^ s->v0;
    s->v2 += s->v1;
    s->v1 = rotate(s->v1, 17) ^ s->v2;
    s->v2 = rotate(s->v2, 32);
}

static inline void sip_word(struct sip *s, uint64_t word)
{
    s->v3 ^= word;
    sip_round(s);
    s->v0 ^= word;
}

uint64_t siphash_1_3(struct str s, const uint64_t key[2])
{
    struct sip state = {key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d,
                        key[0] ^ 0x6c7967656e657261, key[1] ^ 0x7465646279746573};
    const char *at = s.data;
    size_t left = s.len;
    uint64_t word;

    for (; left >= 8; left -= 8, at += 8) {
        memcpy(&word, at, 8);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        word = __builtin_bswap64(word);
#endif
        sip_word(&state, word);
    }
    word = (uint64_t) s.len << 56;
    for (size_t i = 0; i < left; i++) {
        word |= (uint64_t) (unsigned char) at[i] << (8 * i);
    }
    sip_word(&state, word);
    state.v2 ^= 0xff;
    sip_round(&state);
    sip_round(&state);
    sip_round(&state);
    return state.v0 ^ state.v1 ^ state.v2 ^ state.v3;
}

uint64_t keyed_hash(struct str s)
{
    return siphash_1_3(s, hash_key);
}

/* Random bytes from the kernel that are not used yet; each is wiped when it is given out. */
static struct {
    unsigned char bytes[512];
    size_t left; /* the last `left` bytes of the array are unused */
} pool;

static void take_from_kernel(unsigned char *out, size_t len)
{
    while (len != 0) {
        ssize_t n = getrandom(out, len, 0);
        if (n < 0) {
            if (errno == EINTR) {
                continue;
            }
            log_emerg(log_main, errno, "getrandom() failed");
            abort();
        }
        out += n;
        len -= (size_t) n;
    }
}

static void forget_pool(void)
{
    pool.left = 0;
}

__attribute__((constructor)) static void draw_key(void)
{
    take_from_kernel((unsigned char *) hash_key, sizeof(hash_key));
    pthread_atfork(NULL, NULL, forget_pool);
}

void random_bytes(void *out, size_t len)
{
    if (len > sizeof(pool.bytes) / 4) {
        take_from_kernel(out, len);
        return;
    }
    if (pool.left < len) {
        take_from_kernel(pool.bytes, sizeof(pool.bytes));
        pool.left = sizeof(pool.bytes);
    }
    unsigned char *from = pool.bytes + sizeof(pool.bytes) - pool.left;
    if (len != 0) {
        memcpy(out, from, len);
        explicit_bzero(from, len);
        pool.left -= len;
    }
}

uint32_t random_uint32(void)
{
    uint32_t n;
    random_bytes(&n, sizeof(n));
    return n;
}
