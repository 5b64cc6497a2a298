/* Tests of expressions that become known while a request is served. */
#include "base/unit.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/log.h"
#include "conf/regex.h"

static struct arena arena;
static struct buf messages;

static void keep_line(struct log_sink *sink, enum log_level level, struct str line)
{
    buf_append(&messages, line);
}

static struct log_sink sink = {.level = LOG_INFO, .write = keep_line};
static struct log test_log = {.sinks = &sink, .level = LOG_INFO};

static int set_up(void **state)
{
    arena_init(&arena);
    return 0;
}

static int tear_down(void **state)
{
    arena_free(&arena);
    buf_free(&messages);
    return 0;
}

static enum regex_result match(const char *pattern, const char *subject, struct vec *groups)
{
    return regex_match_once(&arena, str_of(pattern), str_of(subject), &test_log, groups);
}

static void matches_and_does_not(void **state)
{
    struct vec groups;

    assert_int_equal(match("a+b", "xaab", &groups), REGEX_MATCH);
    assert_int_equal(groups.count, 1);
    assert_text(vec_at(&groups, struct regex_group, 0)->value, "aab");
    assert_int_equal(match("a+b", "xxb", &groups), REGEX_NO_MATCH);
    assert_int_equal(match("A", "a", &groups), REGEX_NO_MATCH);
    assert_int_equal(match("", "a", &groups), REGEX_MATCH);
    assert_int_equal(match("^$", "", &groups), REGEX_MATCH);
}

static void groups_have_numbers_and_names(void **state)
{
    struct vec groups;

    assert_int_equal(match("(a)(b)?(?<rest>c.*)", "acd", &groups), REGEX_MATCH);
    assert_int_equal(groups.count, 4);
    assert_text(vec_at(&groups, struct regex_group, 1)->value, "a");
    assert_text(vec_at(&groups, struct regex_group, 2)->value, "");
    assert_text(vec_at(&groups, struct regex_group, 2)->name, "");
    assert_text(vec_at(&groups, struct regex_group, 3)->value, "cd");
    assert_text(vec_at(&groups, struct regex_group, 3)->name, "rest");
}

/* More groups than any pattern of the configuration has. */
static void many_groups(void **state)
{
    struct vec groups;

    assert_int_equal(match("(a)(a)(a)(a)(a)(a)(a)(a)(a)(a)(a)(a)(b)", "aaaaaaaaaaaab", &groups),
                     REGEX_MATCH);
    assert_int_equal(groups.count, 14);
    assert_text(vec_at(&groups, struct regex_group, 13)->value, "b");
}

static void no_pattern_is_told(void **state)
{
    struct vec groups;

    assert_int_equal(match("a(", "a", &groups), REGEX_INVALID);
    assert_non_null(str_find(buf_str(&messages), STR("pcre2_compile() failed: missing closing "
                                                     "parenthesis in \"a(\"")));
    assert_int_equal(match("a**b", "a", &groups), REGEX_INVALID);
    assert_non_null(str_find(buf_str(&messages), STR("in \"a**b\" at \"")));
}

/* A pattern that would try for ever is given up. */
static void steps_are_bounded(void **state)
{
    struct vec groups;

    assert_int_equal(match("(a+)+$", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab", &groups),
                     REGEX_NO_MATCH);
    assert_non_null(str_find(buf_str(&messages), STR("pcre2_match() failed")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(matches_and_does_not, set_up, tear_down),
        cmocka_unit_test_setup_teardown(groups_have_numbers_and_names, set_up, tear_down),
        cmocka_unit_test_setup_teardown(many_groups, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_pattern_is_told, set_up, tear_down),
        cmocka_unit_test_setup_teardown(steps_are_bounded, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
