/* Tests of status codes: phrases and titles, as nginx spells them. */
#include <stdio.h>

#include "base/unit.h"

#include "http/message/status.h"

static void phrases(void **state)
{
    assert_text(status_phrase(200), "OK");
    assert_text(status_phrase(100), "Continue");
    assert_text(status_phrase(302), "Moved Temporarily");
    assert_text(status_phrase(408), "Request Time-out");
    assert_text(status_phrase(413), "Request Entity Too Large");
    assert_text(status_phrase(507), "Insufficient Storage");
    assert_text(status_phrase(508), "Loop Detected");
}

static void titles(void **state)
{
    assert_text(status_title(404), "404 Not Found");
    assert_text(status_title(302), "302 Found");
    assert_text(status_title(401), "401 Authorization Required");
    assert_text(status_title(494), "400 Request Header Or Cookie Too Large");
    assert_text(status_title(497), "400 The plain HTTP request was sent to HTTPS port");
}

static void what_has_none(void **state)
{
    static const unsigned unknown[] = {0,   1,   99,  199, 205, 299, 300, 305, 306,
                                       418, 444, 498, 499, 506, 509, 599, 999, 4040};

    for (size_t i = 0; i < COUNT(unknown); i++) {
        assert_int_equal(status_phrase(unknown[i]).len, 0);
        assert_int_equal(status_title(unknown[i]).len, 0);
    }
    assert_int_equal(status_title(200).len, 0);
    assert_int_equal(status_title(304).len, 0);
}

/* Each code is found, so the table is in order; a title of a code begins with it, but for those
 * that stand for 400. */
static void codes_and_titles_agree(void **state)
{
    unsigned known = 0;

    for (unsigned status = 0; status < 1000; status++) {
        struct str title = status_title(status);
        char number[8];

        known += status_phrase(status).len != 0;
        if (title.len != 0) {
            snprintf(number, sizeof(number), "%u ", status >= 494 && status <= 497 ? 400 : status);
            assert_true(str_starts(title, str_of(number)));
        }
    }
    assert_int_equal(known, 46);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(phrases),
        cmocka_unit_test(titles),
        cmocka_unit_test(what_has_none),
        cmocka_unit_test(codes_and_titles_agree),
    };

    return cmocka_run_group_tests_name("http/status", tests, NULL, NULL);
}
