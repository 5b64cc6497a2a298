/* Tests of probes that send a text: how texts are written. */
#include "base/unit.h"

#include "shared/health/text.h"

static struct arena arena;

static void texts_are_decoded(void **state)
{
    struct str out;

    assert_true(text_probe_decode(&arena, STR("plain"), &out));
    assert_text(out, "plain");
    assert_true(text_probe_decode(&arena, STR("\\x00\\x41b\\xfF"), &out));
    assert_int_equal(out.len, 4);
    assert_memory_equal(out.data, "\0Ab\xff", 4);
    assert_true(text_probe_decode(&arena, STR("a\\b\\\\x"), &out) == false);
    assert_true(text_probe_decode(&arena, STR("a\\b"), &out));
    assert_text(out, "a\\b");
    assert_true(text_probe_decode(&arena, STR(""), &out));
    assert_int_equal(out.len, 0);
}

static void bytes_without_two_digits_are_refused(void **state)
{
    static const char *const bad[] = {"\\x", "\\x1", "\\xg0", "a\\x0", "\\x0g", "\\x 1"};
    struct str out;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(text_probe_decode(&arena, str_of(bad[i]), &out));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_decoded),
        cmocka_unit_test(bytes_without_two_digits_are_refused),
    };

    arena_init(&arena);
    int failed = cmocka_run_group_tests_name("text probes", tests, NULL, NULL);
    arena_free(&arena);
    return failed;
}
