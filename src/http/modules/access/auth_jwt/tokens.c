/* Verified tokens, by digest; the least recently used one is removed first. */
#include <stdlib.h>

#include <openssl/evp.h>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/fatal.h"
#include "base/list.h"
#include "http/modules/access/auth_jwt/auth_jwt.h"

#define BUCKETS 2048
/* Memory of a token per byte of its text: payload, JSON values. */
#define BYTES_PER_LETTER 4
#define BYTES_PER_TOKEN 1024

struct kept_token {
    struct list bucket; /* in its bucket */
    struct list used;   /* most recently used first */
    struct jose_token *token;
    size_t bytes;
    unsigned char digest[TOKEN_DIGEST_SIZE];
};

/* Per worker. */
static struct {
    struct list buckets[BUCKETS];
    struct list used;
    unsigned count;
    size_t bytes;
    bool is_made;
} tokens;

static struct list *bucket_of(const unsigned char *digest)
{
    return &tokens.buckets[(digest[0] | digest[1] << 8) % BUCKETS];
}

static void make_table(void)
{
    if (!tokens.is_made) {
        for (unsigned i = 0; i < BUCKETS; i++) {
            list_init(&tokens.buckets[i]);
        }
        list_init(&tokens.used);
        tokens.is_made = true;
    }
}

void jwt_digest(const struct jose_check *check, unsigned char digest[TOKEN_DIGEST_SIZE])
{
    static EVP_MD_CTX *context;
    static EVP_MD *sha256; /* fetched once: fetching takes longer than the digest */
    uint64_t form = check->form;

    if (context == NULL) {
        context = EVP_MD_CTX_new();
        sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
    }
    EVP_DigestInit_ex(context, sha256, NULL);
    EVP_DigestUpdate(context, &form, sizeof(form));
    EVP_DigestUpdate(context, &check->set_count, sizeof(check->set_count));
    for (unsigned i = 0; i < check->set_count; i++) {
        EVP_DigestUpdate(context, &check->sets[i]->number, sizeof(uint64_t));
    }
    EVP_DigestUpdate(context, check->text.data, check->text.len);
    EVP_DigestFinal_ex(context, digest, NULL);
}

static void drop(struct kept_token *kept)
{
    list_remove(&kept->bucket);
    list_remove(&kept->used);
    tokens.count--;
    tokens.bytes -= kept->bytes;
    jose_token_release(kept->token);
    free(kept);
}

static struct str digest_text(const unsigned char *digest)
{
    return (struct str){(const char *) digest, TOKEN_DIGEST_SIZE};
}

struct jose_token *jwt_token_find(const unsigned char digest[TOKEN_DIGEST_SIZE])
{
    make_table();
    list_each(item, bucket_of(digest)) {
        struct kept_token *kept = container_of(item, struct kept_token, bucket);
        if (secret_equal(digest_text(kept->digest), digest_text(digest))) {
            list_remove(&kept->used);
            list_push_front(&tokens.used, &kept->used);
            kept->token->references++;
            return kept->token;
        }
    }
    return NULL;
}

void jwt_token_keep(const unsigned char digest[TOKEN_DIGEST_SIZE], struct jose_token *token,
                    size_t size)
{
    struct kept_token *kept = malloc(sizeof(*kept));

    if (kept == NULL) {
        fatal_no_memory(sizeof(*kept));
    }
    make_table();
    kept->bytes = BYTES_PER_TOKEN + BYTES_PER_LETTER * size;
    kept->token = token;
    token->references++;
    memcpy(kept->digest, digest, TOKEN_DIGEST_SIZE);
    list_push_front(bucket_of(digest), &kept->bucket);
    list_push_front(&tokens.used, &kept->used);
    tokens.count++;
    tokens.bytes += kept->bytes;
    while (tokens.count > TOKENS_MAX || tokens.bytes > TOKENS_BYTES_MAX) {
        drop(container_of(tokens.used.prev, struct kept_token, used));
    }
}

void jwt_tokens_forget(void)
{
    make_table();
    while (!list_is_empty(&tokens.used)) {
        drop(container_of(tokens.used.next, struct kept_token, used));
    }
}
