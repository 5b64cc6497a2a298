/* Ids and tokens by the key of the service. */
#include "net/quic/token.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include "base/wire.h"
#include "net/tls/secret.h"

#define NONCE_SIZE 12u
#define CID_NONCE 4u  /* bytes */
#define CID_LEAST 12u /* bytes of an id without the name of a server */
#define BLOCK 16u     /* bytes, of AES */

static bool derive(struct str key, const char *label, void *out, size_t size)
{
    unsigned char digest[32];
    unsigned n = sizeof(digest);

    if (HMAC(EVP_sha256(), key.data, (int) key.len, (const unsigned char *) label, strlen(label),
             digest, &n) == NULL) {
        return false;
    }
    memcpy(out, digest, size);
    return true;
}

bool quic_secrets_make(struct quic_secrets *secrets, struct str host_key,
                       const struct quic_server_id *server)
{
    secrets->server = server == NULL ? (struct quic_server_id){.size = 0} : *server;
    secrets->cid_size = CID_LEAST;
    if (secrets->server.size != 0) {
        secrets->cid_size += 1 + secrets->server.size;
    }
    return derive(host_key, "portunus quic ids", secrets->cid, sizeof(secrets->cid)) &&
           derive(host_key, "portunus quic tokens", secrets->token, sizeof(secrets->token)) &&
           derive(host_key, "portunus quic resets", secrets->reset, sizeof(secrets->reset));
}

/* ---- ids ---- */

/* So simple that a classic BPF program can do it: see shards/steer.c. */
static uint32_t mix(uint32_t random, uint32_t a, uint32_t b)
{
    uint32_t x = (random ^ a) * (b | 1);

    x ^= x >> 15;
    x *= a | 1;
    return x ^ x >> 16;
}

static uint32_t word_at(const uint8_t *at)
{
    return (uint32_t) at[0] << 24 | (uint32_t) at[1] << 16 | (uint32_t) at[2] << 8 | at[3];
}

/* The half is changed by the other one: a step of four (draft-ietf-quic-load-balancers, four-pass
 * encryption). */
static void half_encrypt(EVP_CIPHER_CTX *ctx, const uint8_t *by, uint8_t *half, size_t whole,
                         uint8_t step)
{
    uint8_t block[BLOCK] = {0}, out[BLOCK];
    size_t size = (whole + 1) / 2;
    int n;

    memcpy(block, by, size);
    block[BLOCK - 2] = (uint8_t) whole;
    block[BLOCK - 1] = step;
    EVP_EncryptUpdate(ctx, out, &n, block, BLOCK); /* of a whole block: it cannot fail */
    for (size_t i = 0; i < size; i++) {
        half[i] ^= out[i];
    }
}

/* Of an odd size both halves have a part of the byte in the middle: the upper four bits are those
 * of the left one. */
static void halves_encrypt(EVP_CIPHER_CTX *ctx, uint8_t *bytes, size_t size)
{
    size_t half = (size + 1) / 2;
    uint8_t left[BLOCK], right[BLOCK], middle = size % 2 != 0 ? 0xf0 : 0xff;
    uint8_t first = size % 2 != 0 ? 0x0f : 0xff;

    memcpy(left, bytes, half);
    memcpy(right, bytes + size - half, half);
    left[half - 1] &= middle;
    right[0] &= first;
    for (uint8_t step = 1; step <= 4; step++) {
        if (step % 2 != 0) {
            half_encrypt(ctx, left, right, size, step);
            right[0] &= first;
        } else {
            half_encrypt(ctx, right, left, size, step);
            left[half - 1] &= middle;
        }
    }
    memcpy(bytes + size - half, right, half);
    if (size % 2 != 0) {
        left[half - 1] |= right[0];
    }
    memcpy(bytes, left, half);
}

static void cipher_free(void *arg)
{
    EVP_CIPHER_CTX_free(arg);
}

bool quic_server_id_set_key(struct quic_server_id *server, struct arena *arena, const uint8_t *key)
{
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();

    if (ctx == NULL) {
        return false;
    }
    arena_on_free(arena, cipher_free, ctx);
    server->cipher = ctx;
    return EVP_EncryptInit_ex(ctx, tls_suite_of(0x1301)->block, NULL, key, NULL) == 1 &&
           EVP_CIPHER_CTX_set_padding(ctx, 0) == 1;
}

/* The first byte, the name of the server and the nonce, of which the last is the beginning of the
 * rest. */
static void server_id_put(const struct quic_server_id *server, uint8_t cid_size,
                          const uint8_t *nonce, uint8_t *out)
{
    out[0] = (uint8_t) (server->config << 5 | (cid_size - 1));
    memcpy(out + 1, server->bytes, server->size);
    memcpy(out + 1 + server->size, nonce, CID_NONCE);
    if (server->cipher != NULL) {
        halves_encrypt(server->cipher, out + 1, server->size + CID_NONCE);
    }
}

void quic_cid_encode(const struct quic_secrets *secrets, struct quic_cid_names names,
                     const uint8_t *random, struct quic_cid *out)
{
    uint8_t *at = out->bytes + secrets->cid_size - CID_LEAST;

    if (secrets->server.size == 0) {
        memcpy(at, random, CID_NONCE);
    } else {
        server_id_put(&secrets->server, secrets->cid_size, random, out->bytes);
    }
    uint32_t word = word_at(at);
    uint16_t slot = (uint16_t) (names.slot ^ mix(word, secrets->cid[0], secrets->cid[1]));
    uint16_t worker = (uint16_t) (names.worker ^ mix(word, secrets->cid[2], secrets->cid[3]));

    out->len = secrets->cid_size;
    at[4] = (uint8_t) (slot >> 8);
    at[5] = (uint8_t) slot;
    at[6] = (uint8_t) (worker >> 8);
    at[7] = (uint8_t) worker;
    memcpy(at + 8, random + CID_NONCE, 4);
}

struct quic_cid_names quic_cid_decode(const struct quic_secrets *secrets, struct str bytes)
{
    const uint8_t *at = (const uint8_t *) bytes.data + secrets->cid_size - CID_LEAST;
    uint32_t word = word_at(at);
    uint16_t slot = (uint16_t) (at[4] << 8 | at[5]), worker = (uint16_t) (at[6] << 8 | at[7]);

    return (struct quic_cid_names){
        .slot = (uint16_t) (slot ^ mix(word, secrets->cid[0], secrets->cid[1])),
        .worker = (uint16_t) (worker ^ mix(word, secrets->cid[2], secrets->cid[3])),
    };
}

void quic_reset_token(const struct quic_secrets *secrets, struct str cid, uint8_t *token)
{
    const struct str key = {(const char *) secrets->reset, sizeof(secrets->reset)};
    unsigned char digest[32] = {0};

    tls_hmac(tls_suite_of(0x1301), key, cid, digest);
    memcpy(token, digest, QUIC_RESET_TOKEN_SIZE);
}

/* ---- tokens of addresses: nonce, what is said, tag ---- */

static void put_address(struct quic_out *out, const struct addr *peer, bool with_port)
{
    if (peer->any.sa_family == AF_INET6) {
        quic_put_bytes(out, &peer->v6.sin6_addr, sizeof(peer->v6.sin6_addr));
    } else {
        quic_put_bytes(out, &peer->v4.sin_addr, sizeof(peer->v4.sin_addr));
    }
    if (with_port) {
        quic_put_number(out, addr_port(peer), 2);
    }
}

/* The address goes into the tag only. */
static struct str bound_to(const struct addr *peer, bool is_retry, unsigned char *room, size_t size)
{
    struct quic_out out = {room, room + size, false};

    put_address(&out, peer, is_retry);
    return (struct str){(const char *) room, (size_t) (out.at - room)};
}

static EVP_CIPHER_CTX *token_begin(const struct quic_secrets *secrets, const unsigned char *nonce,
                                   struct str bound, bool encrypts)
{
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    int n;

    if (ctx != NULL && (EVP_CipherInit_ex(ctx, tls_suite_of(0x1302)->aead, NULL, secrets->token,
                                          nonce, encrypts) != 1 ||
                        EVP_CipherUpdate(ctx, NULL, &n, (const unsigned char *) bound.data,
                                         (int) bound.len) != 1)) {
        EVP_CIPHER_CTX_free(ctx);
        return NULL;
    }
    return ctx;
}

static void put_id(struct quic_out *out, const struct quic_cid *cid)
{
    quic_put_number(out, cid->len, 1);
    quic_put_bytes(out, cid->bytes, cid->len);
}

size_t quic_token_put(const struct quic_secrets *secrets, const struct quic_token *token,
                      const struct addr *peer, unsigned char *out)
{
    struct quic_out to = {out + 1 + NONCE_SIZE, out + QUIC_TOKEN_MOST - QUIC_TAG_SIZE, false};
    unsigned char room[32], *start = to.at;
    int n;

    out[0] = token->is_retry;
    if (RAND_bytes(out + 1, NONCE_SIZE) != 1) {
        return 0;
    }
    quic_put_number(&to, token->made_s, 8);
    if (token->is_retry) {
        put_id(&to, &token->original_dcid);
        put_id(&to, &token->retry_scid);
    }
    EVP_CIPHER_CTX *ctx =
        token_begin(secrets, out + 1, bound_to(peer, token->is_retry, room, sizeof(room)), true);
    bool is_good = ctx != NULL && !to.is_short &&
                   EVP_EncryptUpdate(ctx, start, &n, start, (int) (to.at - start)) == 1 &&
                   EVP_EncryptFinal_ex(ctx, to.at, &n) == 1 &&
                   EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_GET_TAG, QUIC_TAG_SIZE, to.at) == 1;
    EVP_CIPHER_CTX_free(ctx);
    return is_good ? (size_t) (to.at - out) + QUIC_TAG_SIZE : 0;
}

static bool read_id(struct str *from, struct quic_cid *out)
{
    struct str id;

    if (!wire_piece(from, 1, &id) || id.len > QUIC_CID_MOST) {
        return false;
    }
    *out = quic_cid_of(id);
    return true;
}

static bool read_plain(struct str from, uint64_t now_s, struct quic_token *out)
{
    size_t made;
    uint64_t most = out->is_retry ? QUIC_RETRY_SECONDS : QUIC_NEW_TOKEN_SECONDS;

    if (!wire_number(&from, 8, &made)) {
        return false;
    }
    out->made_s = made;
    if (out->is_retry &&
        (!read_id(&from, &out->original_dcid) || !read_id(&from, &out->retry_scid))) {
        return false;
    }
    /* Clocks of machines that share a key differ a little. */
    return from.len == 0 && made <= now_s + 5 && now_s < made + most;
}

bool quic_token_read(const struct quic_secrets *secrets, struct str bytes, const struct addr *peer,
                     uint64_t now_s, struct quic_token *out)
{
    unsigned char room[32], plain[QUIC_TOKEN_MOST];
    const unsigned char *at = (const unsigned char *) bytes.data;
    int n;

    *out = (struct quic_token){.is_retry = false};
    if (bytes.len < 1 + NONCE_SIZE + QUIC_TAG_SIZE || bytes.len > QUIC_TOKEN_MOST || at[0] > 1) {
        return false;
    }
    size_t size = bytes.len - 1 - NONCE_SIZE - QUIC_TAG_SIZE;
    out->is_retry = at[0] == 1;
    EVP_CIPHER_CTX *ctx =
        token_begin(secrets, at + 1, bound_to(peer, out->is_retry, room, sizeof(room)), false);
    memcpy(plain, at + 1 + NONCE_SIZE, size + QUIC_TAG_SIZE);
    bool is_good =
        ctx != NULL &&
        EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_SET_TAG, QUIC_TAG_SIZE, plain + size) == 1 &&
        EVP_DecryptUpdate(ctx, plain, &n, plain, (int) size) == 1 &&
        EVP_DecryptFinal_ex(ctx, plain, &n) == 1;
    EVP_CIPHER_CTX_free(ctx);
    return is_good && read_plain((struct str){(const char *) plain, size}, now_s, out);
}
