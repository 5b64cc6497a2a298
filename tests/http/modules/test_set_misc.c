/* Quotes, base32 and hex of set_misc. */
#include "base/unit.h"

#include "http/modules/values/set_misc/text.h"

static const struct str alphabet = STR_INIT("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567");

static void base32_vectors(void **state)
{
    /* RFC 4648, 10 */
    static const char *const pairs[][2] = {{"", ""},
                                           {"f", "MY======"},
                                           {"fo", "MZXQ===="},
                                           {"foo", "MZXW6==="},
                                           {"foob", "MZXW6YQ="},
                                           {"fooba", "MZXW6YTB"},
                                           {"foobar", "MZXW6YTBOI======"}};
    struct arena arena;
    struct str out;

    arena_init(&arena);
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        struct str text = str_of(pairs[i][1]);
        assert_str(base32_encode(&arena, str_of(pairs[i][0]), alphabet, true), str_of(pairs[i][1]));
        assert_true(base32_decode(&arena, text, alphabet, &out));
        assert_str(out, str_of(pairs[i][0]));
    }
    assert_true(base32_decode(&arena, STR("mzxw6yq"), alphabet, &out));
    assert_str(out, STR("foob"));
    assert_false(base32_decode(&arena, STR("MZXW1"), alphabet, &out));
    assert_false(base32_decode(&arena, STR("M"), alphabet, &out));
    assert_false(base32_decode(&arena, STR("MY=A"), alphabet, &out));
    assert_true(base32_is_alphabet(alphabet));
    assert_false(base32_is_alphabet(STR("ABCDEFGHIJKLMNOPQRSTUVWXYZ234566")));
    assert_false(base32_is_alphabet(STR("AB")));
    arena_free(&arena);
}

static void quotes(void **state)
{
    struct arena arena;
    struct str out;

    arena_init(&arena);
    assert_str(quote_sql(&arena, STR("a'b\\\"\n\r\t\b\x1a"), STR_NONE),
               STR("'a\\'b\\\\\\\"\\n\\r\\t\\b\\Z'"));
    assert_str(quote_sql(&arena, (struct str){"\0", 1}, STR("E")), STR("E'\\0'"));
    assert_str(quote_json(&arena, STR("")), STR("null"));
    assert_str(quote_json(&arena, STR("a\"\\\n\x01")), STR("\"a\\\"\\\\\\n\\u0001\""));
    assert_true(set_misc_hex_decode(&arena, STR("4a4B"), &out));
    assert_str(out, STR("JK"));
    assert_false(set_misc_hex_decode(&arena, STR("4a4"), &out));
    assert_false(set_misc_hex_decode(&arena, STR("4g"), &out));
    arena_free(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(base32_vectors), cmocka_unit_test(quotes)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
