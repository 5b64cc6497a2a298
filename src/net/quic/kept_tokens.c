/* Tokens that servers gave us for our next connection to them (RFC 9000, 8.1.3): the last used
 * first. */
#include "net/quic/private.h"

#include <stdlib.h>

#include "base/fatal.h"

#define TOKENS_MOST 256u
#define TOKEN_SIZE_MOST 1024u /* bytes; a longer one is not kept */

/* On the heap. */
struct kept_token {
    struct list link; /* in `tokens` */
    uint64_t key;
    struct str token; /* owned */
};

static struct list tokens = {&tokens, &tokens};
static unsigned token_count;

static void token_free(struct kept_token *kept)
{
    list_remove(&kept->link);
    token_count--;
    free((void *) (uintptr_t) kept->token.data);
    free(kept);
}

static struct kept_token *token_find(uint64_t key)
{
    list_each(link, &tokens) {
        struct kept_token *kept = container_of(link, struct kept_token, link);

        if (kept->key == key) {
            return kept;
        }
    }
    return NULL;
}

void quic_token_keep(uint64_t key, struct str token)
{
    struct kept_token *kept = token_find(key);

    if (token.len > TOKEN_SIZE_MOST) {
        return;
    }
    if (kept != NULL) {
        token_free(kept);
    } else if (token_count == TOKENS_MOST) {
        token_free(container_of(tokens.prev, struct kept_token, link));
    }
    kept = malloc(sizeof(*kept));
    char *copy = malloc(token.len);
    if (kept == NULL || copy == NULL) {
        fatal_no_memory(token.len);
    }
    str_put(copy, token);
    *kept = (struct kept_token){.key = key, .token = {copy, token.len}};
    list_push_front(&tokens, &kept->link);
    token_count++;
}

struct str quic_token_take(uint64_t key)
{
    struct kept_token *kept = token_find(key);
    struct str token = STR_NONE;

    if (kept != NULL) {
        token = kept->token;
        kept->token = STR_NONE;
        token_free(kept);
    }
    return token;
}

void quic_tokens_drop(void)
{
    while (!list_is_empty(&tokens)) {
        token_free(container_of(tokens.next, struct kept_token, link));
    }
}
