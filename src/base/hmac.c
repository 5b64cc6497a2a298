/* SHA-256 (FIPS 180-4), and HMAC (RFC 2104). */
#include <string.h>

#include "base/checksum.h"

#define BLOCK_SIZE 64 /* bytes that SHA-1 and SHA-256 process at a time */

/* ---- SHA-256 ---- */

static const uint32_t round_words[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t turn(uint32_t word, unsigned by)
{
    return word >> by | word << (32 - by);
}

static uint32_t load_word(const unsigned char *at)
{
    return (uint32_t) at[0] << 24 | (uint32_t) at[1] << 16 | (uint32_t) at[2] << 8 | at[3];
}

static void store_word(unsigned char *at, uint32_t word)
{
    for (unsigned i = 0; i < 4; i++) {
        at[i] = (unsigned char) (word >> (24 - 8 * i));
    }
}

static void take_block(uint32_t state[8], const unsigned char *block)
{
    uint32_t words[64];
    uint32_t v[8];

    for (unsigned i = 0; i < 16; i++) {
        words[i] = load_word(block + 4 * i);
    }
    for (unsigned i = 16; i < 64; i++) {
        uint32_t a = words[i - 15];
        uint32_t b = words[i - 2];
        words[i] = words[i - 16] + (turn(a, 7) ^ turn(a, 18) ^ a >> 3) + words[i - 7] +
                   (turn(b, 17) ^ turn(b, 19) ^ b >> 10);
    }
    memcpy(v, state, sizeof(v));
    for (unsigned i = 0; i < 64; i++) {
        uint32_t e = v[4];
        uint32_t a = v[0];
        uint32_t one = v[7] + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) +
                       ((e & v[5]) ^ (~e & v[6])) + round_words[i] + words[i];
        uint32_t two =
            (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
        memmove(v + 1, v, 7 * sizeof(*v));
        v[4] += one;
        v[0] = one + two;
    }
    for (unsigned i = 0; i < 8; i++) {
        state[i] += v[i];
    }
}

void sha256_of(struct str s, unsigned char out[32])
{
    uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    unsigned char last[2 * BLOCK_SIZE] = {0};
    const unsigned char *at = (const unsigned char *) s.data;
    size_t left = s.len;

    for (; left >= BLOCK_SIZE; left -= BLOCK_SIZE, at += BLOCK_SIZE) {
        take_block(state, at);
    }
    if (left != 0) {
        memcpy(last, at, left);
    }
    last[left] = 0x80;
    size_t size = left < BLOCK_SIZE - 8 ? BLOCK_SIZE : 2 * BLOCK_SIZE;
    store_word(last + size - 8, (uint32_t) ((uint64_t) s.len >> 29));
    store_word(last + size - 4, (uint32_t) ((uint64_t) s.len << 3));
    for (size_t i = 0; i < size; i += BLOCK_SIZE) {
        take_block(state, last + i);
    }
    for (unsigned i = 0; i < 8; i++) {
        store_word(out + 4 * i, state[i]);
    }
}

/* ---- HMAC ---- */

typedef void (*hash_function)(struct str s, unsigned char *out);

/* Copies the text after the key: the texts that are signed here are short. */
static void hmac_of(struct arena *arena, hash_function hash, size_t size,
                    const struct str *key_and_text, unsigned char *out)
{
    struct str text = key_and_text[1];
    unsigned char key[BLOCK_SIZE] = {0};
    unsigned char outer[BLOCK_SIZE + 32];
    char *inner = arena_text(arena, BLOCK_SIZE + text.len);

    if (key_and_text[0].len > BLOCK_SIZE) {
        hash(key_and_text[0], key);
    } else if (key_and_text[0].len != 0) {
        memcpy(key, key_and_text[0].data, key_and_text[0].len);
    }
    for (unsigned i = 0; i < BLOCK_SIZE; i++) {
        inner[i] = (char) (key[i] ^ 0x36);
        outer[i] = key[i] ^ 0x5c;
    }
    str_put(inner + BLOCK_SIZE, text);
    hash((struct str){inner, BLOCK_SIZE + text.len}, outer + BLOCK_SIZE);
    hash((struct str){(const char *) outer, BLOCK_SIZE + size}, out);
}

void hmac_sha1_of(struct arena *arena, struct str key, struct str text, unsigned char out[20])
{
    const struct str both[] = {key, text};

    hmac_of(arena, sha1_of, 20, both, out);
}

void hmac_sha256_of(struct arena *arena, struct str key, struct str text, unsigned char out[32])
{
    const struct str both[] = {key, text};

    hmac_of(arena, sha256_of, 32, both, out);
}
