/* Tests of traceparent and tracestate (W3C Trace Context). */
#include "base/unit.h"

#include <string.h>

#include "http/message/trace_context.h"

#define TRACE "0af7651916cd43dd8448eb211c80319c"
#define SPAN "b7ad6b7169203331"

static void a_context_comes_back_as_it_was(void **state)
{
    struct traceparent context;
    char text[TRACEPARENT_SIZE];

    assert_true(traceparent_parse(STR("00-" TRACE "-" SPAN "-01"), &context));
    assert_int_equal(context.trace_id[0], 0x0a);
    assert_int_equal(context.trace_id[15], 0x9c);
    assert_int_equal(context.span_id[7], 0x31);
    assert_int_equal(context.flags, 1);
    assert_str(str_from(text, traceparent_put(text, &context)), STR("00-" TRACE "-" SPAN "-01"));
    assert_true(traceparent_parse(STR("00-" TRACE "-" SPAN "-fe"), &context));
    assert_str(str_from(text, traceparent_put(text, &context)), STR("00-" TRACE "-" SPAN "-00"));
}

static void later_versions_are_read_as_far_as_they_are_known(void **state)
{
    struct traceparent context;

    assert_true(traceparent_parse(STR("01-" TRACE "-" SPAN "-01"), &context));
    assert_true(traceparent_parse(STR("cc-" TRACE "-" SPAN "-01-what-comes"), &context));
    assert_false(traceparent_parse(STR("cc-" TRACE "-" SPAN "-01.what"), &context));
    assert_false(traceparent_parse(STR("ff-" TRACE "-" SPAN "-01"), &context));
}

static void what_is_no_context(void **state)
{
    static const char *const texts[] = {
        "",
        "00",
        "00-" TRACE "-" SPAN,
        "00-" TRACE "-" SPAN "-",
        "00-" TRACE "-" SPAN "-1",
        "00-" TRACE "-" SPAN "-01-",
        "00-" TRACE "-" SPAN "-011",
        "00-" TRACE "-" SPAN "-0g",
        "0-" TRACE "-" SPAN "-01",
        "00_" TRACE "-" SPAN "-01",
        "00-" TRACE SPAN "-01",
        "00-0AF7651916CD43DD8448EB211C80319C-" SPAN "-01",
        "00-00000000000000000000000000000000-" SPAN "-01",
        "00-" TRACE "-0000000000000000-01",
        " 00-" TRACE "-" SPAN "-01",
        "\xff",
    };
    struct traceparent context;

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        assert_false(traceparent_parse(str_of(texts[i]), &context));
    }
}

static void states_are_lists_of_members(void **state)
{
    static const char *const good[] = {"a=b", "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE",
                                       "fw529a3039@dt=FfAAA; x", "1a-2/b*=! ~", "a=1 , ,b=2,"};
    static const char *const bad[] = {"",    ",",    "a",     "=b",      "a=",         "A=b",
                                      "a==", "_a=b", "a=b,c", "a=b\x01", "a=\xc3\xa4", "a b=c"};
    char text[TRACESTATE_MOST + 1];

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_true(tracestate_is_valid(str_of(good[i])));
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(tracestate_is_valid(str_of(bad[i])));
    }
    for (size_t i = 0; i < 33; i++) {
        memcpy(text + 4 * i, "a=b,", 4);
    }
    assert_true(tracestate_is_valid((struct str){text, 4 * 32}));
    assert_false(tracestate_is_valid((struct str){text, 4 * 33}));
    memset(text, ' ', sizeof(text));
    memcpy(text, "a=b", 3);
    assert_true(tracestate_is_valid((struct str){text, TRACESTATE_MOST}));
    assert_false(tracestate_is_valid((struct str){text, TRACESTATE_MOST + 1}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_context_comes_back_as_it_was),
        cmocka_unit_test(later_versions_are_read_as_far_as_they_are_known),
        cmocka_unit_test(what_is_no_context),
        cmocka_unit_test(states_are_lists_of_members),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
