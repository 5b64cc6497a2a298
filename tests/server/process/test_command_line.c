/* The command line: letters, values, and the words for what is wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "server/process/command_line.h"

static struct command_line line;
static struct buf error;

/* Words after the program's name; the last is NULL. */
static bool parse(const char *first, ...)
{
    char *argv[16] = {"nginx"};
    int argc = 1;
    va_list args;

    va_start(args, first);
    for (const char *word = first; word != NULL; word = va_arg(args, const char *)) {
        argv[argc++] = (char *) word;
    }
    va_end(args);
    error.len = 0;
    return command_line_parse(&line, argc, argv, &error);
}

static void assert_fault(const char *text)
{
    buf_append_char(&error, '\0');
    assert_string_equal(error.data, text);
}

static void bundled_letters_and_glued_values(void **state)
{
    assert_true(parse("-tq", "-c/x/y", "-p", "/z", NULL));
    assert_int_equal(line.test, 1);
    assert_true(line.is_quiet);
    assert_true(str_is(line.file_name, "/x/y"));
    assert_true(str_is(line.prefix, "/z"));
    assert_true(parse("-tc", "f", NULL));
    assert_true(str_is(line.file_name, "f"));
    assert_true(parse("-T", NULL));
    assert_true(line.is_dump && line.test == 1);
    assert_true(parse("-tt", "-ll", NULL));
    assert_true(line.test == 2 && line.directive_list == 2);
    assert_true(parse("-g", "daemon off;", "-g", "pid x;", NULL));
    assert_true(str_is(line.extra, "pid x;"));
}

static void signals_by_name(void **state)
{
    assert_true(parse("-s", "reload", NULL));
    assert_true(str_is(line.signal, "reload"));
    assert_true(parse("-squit", NULL));
    assert_false(parse("-s", "bar", NULL));
    assert_fault("invalid option: \"-s bar\"");
}

static void long_words(void **state)
{
    assert_true(parse("--diff", NULL));
    assert_true(line.is_diff);
    assert_int_equal(line.test, 1);
    assert_true(parse("-T", "--history=12", "-q", NULL));
    assert_true(line.is_history && line.is_dump && line.is_quiet);
    assert_int_equal(line.history, 12);
    assert_true(parse("--history", NULL));
    assert_int_equal(line.history, 0);
    assert_int_equal(line.test, 0);
    assert_false(parse("--history=0", NULL));
    assert_false(parse("--history=x", NULL));
    assert_false(parse("--diff=1", NULL));
    assert_fault("invalid option: \"-\"");
}

static void faults_have_the_words_of_nginx(void **state)
{
    assert_false(parse("foo", NULL));
    assert_fault("invalid option: \"foo\"");
    assert_false(parse("-tvx", NULL));
    assert_fault("invalid option: \"x\"");
    assert_false(parse("--help", NULL));
    assert_fault("invalid option: \"-\"");
    assert_false(parse("-p", NULL));
    assert_fault("option \"-p\" requires directory name");
    assert_false(parse("-c", NULL));
    assert_fault("option \"-c\" requires file name");
    assert_false(parse("-e", NULL));
    assert_fault("option \"-e\" requires file name");
    assert_false(parse("-g", NULL));
    assert_fault("option \"-g\" requires parameter");
    assert_false(parse("-s", NULL));
    assert_fault("option \"-s\" requires parameter");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bundled_letters_and_glued_values),
        cmocka_unit_test(signals_by_name),
        cmocka_unit_test(long_words),
        cmocka_unit_test(faults_have_the_words_of_nginx),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    buf_free(&error);
    return failed;
}
