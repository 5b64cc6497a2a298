/* Tests of messages beyond their first line: hints, source lines with a caret, nearest words. */
#include "conf/toy.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/fs.h"

/* What a verbose report writes to standard error, the log lines left out. */
static struct str details(void)
{
    char path[] = "/tmp/test_messages.XXXXXX";
    int file = mkstemp(path);
    int real = dup(STDERR_FILENO);
    struct str text = STR_NONE;

    assert_true(file >= 0);
    dup2(file, STDERR_FILENO);
    conf_report(&conf, &memory_log, true);
    dup2(real, STDERR_FILENO);
    close(real);
    close(file);
    assert_true(fs_read_all(&arena, path, 1 << 20, &text));
    unlink(path);
    return text;
}

static void hints_and_carets(void **state)
{
    static const struct {
        const char *text;
        const char *details;
    } cases[] = {
        {"deamon on;", "    deamon on;\n"
                       "    ^\n"
                       "    did you mean \"daemon\"?\n"},
        {"http {\n  satisfy\n    anny; # x\n}", "    anny; # x\n"
                                                "    ^\n"
                                                "    did you mean \"any\"?\n"},
        {"http { satisfy sometimes; }", "    http { satisfy sometimes; }\n"
                                        "                   ^\n"
                                        "    it may be: all, any\n"},
        {"\tsendfile on;", "    sendfile on;\n"
                           "    ^\n"
                           "    it may stand in: http, server, location, if in location\n"},
        {"http { text $hots; }", "    it is used in t.conf:1; did you mean \"host\"?\n"},
        {"http { rule bad; }", "    http { rule bad; }\n"
                               "           ^\n"
                               "    a good one is better\n"},
        {"inclde x;", "    inclde x;\n"
                      "    ^\n"
                      "    did you mean \"include\"?\n"},
        {"daemon ö; \x01", "    daemon ö;  \n"
                           "           ^\n"
                           "    daemon ö;  \n"
                           "              ^\n"
                           "    is \";\" missing after \" \"?\n"},
        {"zzzzzzzzzzzzzzzz x;", "    zzzzzzzzzzzzzzzz x;\n"
                                "    ^\n"},
        {"daemon 'on", "    daemon 'on\n"
                       "    ^\n"
                       "    the quote that opens in line 1 is not closed\n"},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        tear_down(state);
        set_up(state);
        run(cases[i].text);
        assert_str(details(), str_of(cases[i].details));
    }
}

/* A line of a megabyte is cut around the spot. */
static void long_lines_are_cut(void **state)
{
    struct buf text = {0};

    for (int i = 0; i < 100000; i++) {
        buf_append(&text, STR("daemon on; "));
    }
    buf_append(&text, STR("foo; "));
    buf_append_char(&text, '\0');
    run(text.data);
    buf_free(&text);
    assert_true(report().len < 200000);
    assert_true(details().len < 400000);
    assert_non_null(str_find(report(), STR("more messages about the configuration are not shown")));
}

/* Warnings are what is cut off, wherever they stand. */
static void warnings_hide_no_error(void **state)
{
    struct buf text = {0};

    buf_append(&text, STR("http {\n"));
    for (int i = 0; i < 150; i++) {
        buf_append(&text, STR("gone 1;\n"));
    }
    buf_append(&text, STR("foo;\n}\n"));
    buf_append_char(&text, '\0');
    run(text.data);
    buf_free(&text);
    assert_non_null(str_find(report(), STR("unknown directive \"foo\"")));
    assert_non_null(
        str_find(report(), STR("50 more messages about the configuration are not shown")));
}

static void nearest_words(void **state)
{
    static const struct str words[] = {
        STR_INIT("server"), STR_INIT("server_name"), STR_INIT("listen"),
        STR_INIT("gzip"),   STR_INIT("on"),          STR_INIT("x"),
    };
    static const struct {
        const char *word;
        const char *nearest;
    } cases[] = {
        {"sevrer", "server"},
        {"Server", "server"},
        {"servername", "server_name"},
        {"listne", "listen"},
        {"gizp", "gzip"},
        {"location", ""},
        {"", ""},
        {"abc", ""},
        {"serrrrrrrver", ""},
        {"o", "on"},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_str(conf_nearest(str_of(cases[i].word), words, COUNT(words)),
                   str_of(cases[i].nearest));
    }
    assert_text(conf_nearest(STR("a"), NULL, 0), "");
}

static void messages_without_a_place(void **state)
{
    assert_false(conf_error(&conf, NULL, "plain %d", 1));
    assert_false(conf_errno(&conf, NULL, 13, "open() failed"));
    conf_warn(&conf, NULL, "careful");
    conf_hint(&conf, "hint");
    assert_text(report(), "[emerg] plain 1\n"
                          "[emerg] open() failed (13: Permission denied)\n"
                          "[warn] careful\n");
    assert_int_equal(conf.error_count, 2);
}

static int forget_calls(void **state)
{
    buf_free(&calls);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        conf_test(hints_and_carets),         conf_test(long_lines_are_cut),
        conf_test(warnings_hide_no_error),   conf_test(nearest_words),
        conf_test(messages_without_a_place),
    };

    return cmocka_run_group_tests_name("conf/messages", tests, NULL, forget_calls);
}
