/* Tests of Accept-Encoding: the weights of codings. */
#include "base/unit.h"

#include "http/message/accept_encoding.h"

static int weight(const char *accepted, const char *coding)
{
    return accept_encoding_weight(str_of(accepted), str_of(coding));
}

static void each_coding_has_its_weight(void **state)
{
    assert_int_equal(weight("gzip;q=0.5, br;q=1.0, zstd", "gzip"), 500);
    assert_int_equal(weight("gzip;q=0.5, br;q=1.0, zstd", "br"), 1000);
    assert_int_equal(weight("gzip;q=0.5, br;q=1.0, zstd", "zstd"), 1000);
    assert_int_equal(weight("gzip;q=0.5, br;q=1.0, zstd", "deflate"), WEIGHT_NONE);
    assert_int_equal(weight("", "gzip"), WEIGHT_NONE);
    assert_int_equal(accept_encoding_weight(STR_NONE, STR("gzip")), WEIGHT_NONE);
}

static void names_are_whole_and_of_any_case(void **state)
{
    assert_int_equal(weight("GZip", "gzip"), 1000);
    assert_int_equal(weight("gzipped", "gzip"), WEIGHT_NONE);
    assert_int_equal(weight("x-gzip", "gzip"), WEIGHT_NONE);
    assert_int_equal(weight("*;q=0.1, identity;q=0", "*"), 100);
    assert_int_equal(weight("*;q=0.1, identity;q=0", "identity"), 0);
}

static void weights_are_thousandths(void **state)
{
    assert_int_equal(weight("br;q=0.001", "br"), 1);
    assert_int_equal(weight("br;q=0.25", "br"), 250);
    assert_int_equal(weight("br ; Q = 0.999 ", "br"), 999);
    assert_int_equal(weight("br;q=0", "br"), 0);
    assert_int_equal(weight("br;q=1.", "br"), 1000);
    assert_int_equal(weight("br;q=1.000", "br"), 1000);
    assert_int_equal(weight("br;level=3", "br"), 1000);
    assert_int_equal(weight("br;level=3;q=0.5", "br"), 500);
}

static void what_is_no_weight_asks_for_nothing(void **state)
{
    static const char *const texts[] = {"br;q=",   "br;q=x",    "br;q=1.5",  "br;q=2",
                                        "br;q=0x", "br;q=0.1x", "br;q=.5",   "br;q=0.1234",
                                        "br;q=-1", "br;q",      "br;q=1.001"};

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        assert_int_equal(weight(texts[i], "br"), 0);
    }
}

static void the_first_mention_decides(void **state)
{
    assert_int_equal(weight("gzip;q=0, gzip", "gzip"), 0);
    assert_int_equal(weight("gzip, gzip;q=0", "gzip"), 1000);
}

static void blanks_part_codings(void **state)
{
    assert_int_equal(weight("gzip br;q=0.5", "gzip"), 1000);
    assert_int_equal(weight("gzip br;q=0.5", "br"), 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_coding_has_its_weight),
        cmocka_unit_test(names_are_whole_and_of_any_case),
        cmocka_unit_test(weights_are_thousandths),
        cmocka_unit_test(what_is_no_weight_asks_for_nothing),
        cmocka_unit_test(the_first_mention_decides),
        cmocka_unit_test(blanks_part_codings),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
