/* Tests of the reader of SSI pages: where directives begin and end, and what they say. */
#include "base/unit.h"

#include <stdio.h>

#include "http/modules/filters/ssi/scan.h"

#define VALUE_MAX 256

static struct buf seen; /* text as it is, directives in [ ] */

static int tear_down(void **state)
{
    buf_free(&seen);
    return 0;
}

/* Reads the page in parts of `step` bytes. */
static struct str read_page(struct str page, size_t step, size_t value_max)
{
    struct ssi_scanner scanner = {.value_max = value_max};
    struct str out;

    seen.len = 0;
    while (page.len != 0) {
        struct str part = str_head(page, step);
        enum ssi_token token;
        page = str_skip(page, part.len);
        while ((token = ssi_scan(&scanner, &part, &out)) != SSI_MORE) {
            buf_append(&seen, token == SSI_DIRECTIVE ? STR("[") : STR(""));
            buf_append(&seen, out);
            buf_append(&seen, token == SSI_DIRECTIVE ? STR("]") : STR(""));
            buf_append(&seen, token == SSI_DIRECTIVE && scanner.is_cut ? STR("cut") : STR(""));
        }
    }
    buf_append(&seen, ssi_scan_end(&scanner));
    ssi_scanner_free(&scanner);
    return buf_str(&seen);
}

/* The same, however the page is cut. */
static void assert_page(const char *page, const char *expected)
{
    for (size_t step = 1; step < 40; step++) {
        assert_str(read_page(str_of(page), step, VALUE_MAX), str_of(expected));
    }
}

static void text_goes_through(void **state)
{
    assert_page("", "");
    assert_page("plain <b>text</b> <!-- a comment -->", "plain <b>text</b> <!-- a comment -->");
    assert_page("<<<!-<!--<!---#", "<<<!-<!--<!---#");
    assert_page("--> -->", "--> -->");
}

static void directives_stand_between_their_marks(void **state)
{
    assert_page("a<!--#echo var=\"x\" -->b", "a[echo var=\"x\" ]b");
    assert_page("<!--#a--><!--#b-->", "[a][b]");
    assert_page("<!--#-->", "[]");
    assert_page("<<!--#a-->", "<[a]");
    assert_page("<!-<!--#a-->", "<!-[a]");
    assert_page("<!--#a --->b", "[a -]b");
    assert_page("<!--#a -- -->b", "[a -- ]b");
}

static void values_may_hold_the_closing_mark(void **state)
{
    assert_page("<!--#a b=\"-->\" -->c", "[a b=\"-->\" ]c");
    assert_page("<!--#a b= '-->' -->c", "[a b= '-->' ]c");
    assert_page("<!--#a b=\"\\\"-->\" -->c", "[a b=\"\\\"-->\" ]c");
    assert_page("<!--#a b=\"\\\\\" -->c\"", "[a b=\"\\\\\" ]c\"");
    assert_page("<!--#a b=\"--\"-->c", "[a b=\"--\"]c");
}

static void a_quote_that_no_value_begins_is_none(void **state)
{
    assert_page("<!--#a b=c\"d -->e\" -->", "[a b=c\"d ]e\" -->");
    assert_page("<!--#a \"b -->e", "[a \"b ]e");
}

static void the_end_of_the_page(void **state)
{
    assert_page("a<", "a<");
    assert_page("a<!--", "a<!--");
    assert_page("a<!--#", "a");
    assert_page("a<!--#b c=\"d", "a");
}

static void long_values_end_at_the_next_mark(void **state)
{
    assert_text(read_page(STR("<!--#a b=\"12345678\" -->c"), 100, 8), "[a b=\"12345678\" ]c");
    assert_text(read_page(STR("<!--#a b=\"123456789 -->c\" -->"), 100, 8),
                "[a b=\"123456789]c\" -->");
    assert_text(read_page(STR("<!--#a b=\"123456789 -->c\" -->"), 1, 8),
                "[a b=\"123456789]c\" -->");
}

static void directives_are_bounded(void **state)
{
    static char page[1024 * 1024];
    struct str got;

    memset(page, ' ', sizeof(page));
    memcpy(page, "<!--#a", 6);
    memcpy(page + sizeof(page) - 4, "-->b", 4);
    got = read_page((struct str){page, sizeof(page)}, 1000, 16);
    assert_true(got.len < 1200);
    assert_true(str_ends(got, STR("]cutb")));
}

/* ---- one directive ---- */

/* "command name=value name=value", or what is wrong. */
static struct str read_directive(const char *text)
{
    static char room[SSI_ERROR_MAX];
    struct writer error = {room, room + sizeof(room)};
    struct ssi_directive directive;

    if (!ssi_read_directive(str_of(text), 8, &directive, &error)) {
        return str_from(room, error.at);
    }
    seen.len = 0;
    buf_append(&seen, directive.command);
    for (unsigned i = 0; i < directive.count; i++) {
        buf_printf(&seen, " %.*s=%.*s", STR_ARG(directive.parameters[i].name),
                   STR_ARG(directive.parameters[i].value));
    }
    return buf_str(&seen);
}

static void commands_and_parameters(void **state)
{
    assert_text(read_directive("echo"), "echo");
    assert_text(read_directive("  echo  "), "echo");
    assert_text(read_directive(""), "");
    assert_text(read_directive("a b=\"c\""), "a b=c");
    assert_text(read_directive("a\tb = 'c'\r\nd=\"\" "), "a b=c d=");
    assert_text(read_directive("a b=\"\\\"c\""), "a b=\\\"c");
    assert_text(read_directive("a =\"c\""), "a =c");
}

static void what_is_wrong_is_told(void **state)
{
    assert_text(read_directive("a b"),
                "unexpected \"-\" symbol after \"b\" parameter in \"a\" SSI command");
    assert_text(read_directive("a b c"),
                "unexpected \"c\" symbol after \"b\" parameter in \"a\" SSI command");
    assert_text(read_directive("a b=c"),
                "unexpected \"c\" symbol before value of \"b\" parameter in \"a\" SSI command");
    assert_text(read_directive("a b="),
                "unexpected \"-\" symbol before value of \"b\" parameter in \"a\" SSI command");
    assert_text(
        read_directive("a b=\"c\"d"),
        "unexpected \"d\" symbol after \"c\" value of \"b\" parameter in \"a\" SSI command");
    assert_text(read_directive("a b=\"123456789\""),
                "too long \"123456789...\" value of \"b\" parameter in \"a\" SSI command");
    assert_text(read_directive("a b=\"1"),
                "too long \"1...\" value of \"b\" parameter in \"a\" SSI command");
    assert_text(read_directive("a234567890123456789012345678901234"),
                "the \"a23456789012345678901234567890123...\" SSI command is too long");
    assert_text(read_directive("a b234567890123456789012345678901234=\"\""),
                "too long \"b23456789012345678901234567890123...\" parameter in \"a\" SSI command");
}

static void parameters_are_counted(void **state)
{
    struct buf text = {0};

    buf_append(&text, STR("a"));
    for (unsigned i = 0; i < SSI_PARAMETERS_MAX; i++) {
        buf_append(&text, STR(" b=\"\""));
    }
    buf_append_char(&text, '\0');
    assert_true(str_starts(read_directive(text.data), STR("a b= b=")));
    text.len--;
    buf_append(&text, STR(" b=\"\""));
    buf_append_char(&text, '\0');
    assert_text(read_directive(text.data), "too many parameters in \"a\" SSI command");
    buf_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(text_goes_through, tear_down),
        cmocka_unit_test_teardown(directives_stand_between_their_marks, tear_down),
        cmocka_unit_test_teardown(values_may_hold_the_closing_mark, tear_down),
        cmocka_unit_test_teardown(a_quote_that_no_value_begins_is_none, tear_down),
        cmocka_unit_test_teardown(the_end_of_the_page, tear_down),
        cmocka_unit_test_teardown(long_values_end_at_the_next_mark, tear_down),
        cmocka_unit_test_teardown(directives_are_bounded, tear_down),
        cmocka_unit_test_teardown(commands_and_parameters, tear_down),
        cmocka_unit_test_teardown(what_is_wrong_is_told, tear_down),
        cmocka_unit_test_teardown(parameters_are_counted, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
