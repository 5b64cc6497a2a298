/* Tests of the verified tokens that a worker keeps: how many, which go, and that nothing of them is
 * left. */
#include "base/unit.h"

#include <stdlib.h>

#include "http/modules/access/auth_jwt/auth_jwt.h"

static void digest_of(unsigned number, unsigned char digest[TOKEN_DIGEST_SIZE])
{
    memset(digest, 0, TOKEN_DIGEST_SIZE);
    memcpy(digest, &number, sizeof(number));
}

static void keep(unsigned number, size_t size)
{
    struct jose_token *token = calloc(1, sizeof(*token));
    unsigned char digest[TOKEN_DIGEST_SIZE];

    token->references = 1;
    digest_of(number, digest);
    jwt_token_keep(digest, token, size);
    jose_token_release(token);
}

static bool is_kept(unsigned number)
{
    unsigned char digest[TOKEN_DIGEST_SIZE];

    digest_of(number, digest);
    struct jose_token *token = jwt_token_find(digest);
    jose_token_release(token);
    return token != NULL;
}

/* How many of these are kept; a look makes each the one that was used last. */
static unsigned count_kept(unsigned from, unsigned to)
{
    unsigned count = 0;

    for (unsigned i = from; i < to; i++) {
        count += is_kept(i);
    }
    return count;
}

static void the_least_recently_used_go_first(void **state)
{
    for (unsigned i = 0; i < TOKENS_MAX; i++) {
        keep(i, 0);
    }
    assert_true(is_kept(0)); /* used again: the next one goes in its place */
    keep(TOKENS_MAX, 0);
    assert_true(is_kept(0));
    assert_false(is_kept(1));
    assert_int_equal(count_kept(0, TOKENS_MAX + 1), TOKENS_MAX);
    jwt_tokens_forget();
    assert_int_equal(count_kept(0, TOKENS_MAX + 1), 0);
}

static void large_tokens_are_fewer(void **state)
{
    const size_t size = 16384;

    for (unsigned i = 0; i < 1000; i++) {
        keep(i, size);
    }
    unsigned count = count_kept(0, 1000);
    assert_true(count > 0 && count * size * 4 <= TOKENS_BYTES_MAX);
    assert_int_equal(count_kept(1000 - count, 1000), count); /* the last ones */
    jwt_tokens_forget();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_least_recently_used_go_first),
        cmocka_unit_test(large_tokens_are_fewer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
