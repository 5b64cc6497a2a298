/* Tests of Accept: the media type that a client likes most. */
#include "base/unit.h"

#include "http/message/accept.h"

enum { PLAIN, PAGE, OPENMETRICS, TYPES };

static const struct str types[TYPES] = {
    STR_INIT("text/plain; version=0.0.4; charset=utf-8"),
    STR_INIT("text/html; charset=utf-8"),
    STR_INIT("application/openmetrics-text; version=1.0.0; charset=utf-8"),
};

static unsigned choose(const char *accepted)
{
    return accept_choose(str_of(accepted), types, TYPES);
}

static void the_weight_decides(void **state)
{
    assert_int_equal(choose("text/html;q=0.5, text/plain;q=0.6"), PLAIN);
    assert_int_equal(choose("text/html;q=0.7, text/plain;q=0.6"), PAGE);
    assert_int_equal(choose("TEXT/HTML ; Q=0.7,application/Openmetrics-Text ;q=0.701"),
                     OPENMETRICS);
    assert_int_equal(choose("text/html;q=0, text/plain;q=0.001"), PLAIN);
}

static void nothing_that_is_named(void **state)
{
    static const char *const texts[] = {"",          ",",      "image/png",     "text/html;q=0",
                                        "text/",     "/",      "text",          "text/html;q=x",
                                        "*/plain",   "; q=1",  "textual/plain", "text/plain/x",
                                        "*/*;q=0.0", "/plain", "text/plainly",  "xtext/plain"};

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        assert_int_equal(choose(texts[i]), TYPES);
    }
    assert_int_equal(accept_choose(STR_NONE, types, TYPES), TYPES);
}

static void the_most_exact_range_has_the_weight(void **state)
{
    assert_int_equal(choose("*/*"), PLAIN);
    assert_int_equal(choose("*"), PLAIN);
    assert_int_equal(choose("application/*"), OPENMETRICS);
    assert_int_equal(choose("text/*, text/plain;q=0.1"), PAGE);
    assert_int_equal(choose("*/*, text/*;q=0.1"), OPENMETRICS);
    assert_int_equal(choose("*/*;q=0.9, text/plain;q=0, application/*;q=0.1"), PAGE);
    assert_int_equal(choose("text/html, */*"), PAGE);
    assert_int_equal(choose("*/*, text/html"), PAGE);
}

static void parameters_are_the_type_s(void **state)
{
    assert_int_equal(choose("text/plain;version=1.0.0, text/html;q=0.1"), PAGE);
    assert_int_equal(choose("text/plain;version=0.0.4;q=0.2, text/html;q=0.1"), PLAIN);
    assert_int_equal(choose("text/plain; Version=\"0.0.4\";q=0.2, text/html;q=0.1"), PLAIN);
    assert_int_equal(choose("text/html;level=1;q=0.2, text/plain;q=0.1"), PAGE);
    assert_int_equal(choose("text/plain, text/plain;version=0.0.4;q=0.1, text/html;q=0.5"), PAGE);
    assert_int_equal(choose("application/openmetrics-text;version=0.0.1, text/plain;q=0.5"), PLAIN);
}

static void of_equals_the_first(void **state)
{
    assert_int_equal(choose("text/html, text/plain"), PAGE);
    assert_int_equal(choose("text/plain, text/html"), PLAIN);
    assert_int_equal(choose("text/html;q=0.5, application/openmetrics-text;q=0.5"), PAGE);
}

static void as_scrapers_and_browsers_say(void **state)
{
    assert_int_equal(
        choose("application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
               "application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;q=0.3,"
               "text/plain;version=0.0.4;q=0.2,*/*;q=0.1"),
        OPENMETRICS);
    assert_int_equal(choose("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"),
                     PAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_weight_decides),
        cmocka_unit_test(nothing_that_is_named),
        cmocka_unit_test(the_most_exact_range_has_the_weight),
        cmocka_unit_test(parameters_are_the_type_s),
        cmocka_unit_test(of_equals_the_first),
        cmocka_unit_test(as_scrapers_and_browsers_say),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
