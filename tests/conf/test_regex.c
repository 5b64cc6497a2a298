/* Tests of regular expressions: compiling, captures, named ones, limits. */
#include "conf/fixture.h"

#include "conf/regex.h"

static struct variable_set set;
static struct variable_env env;

static bool get_fixed(struct variable_env *e, const struct variable *variable, struct str *out)
{
    *out = STR("fixed");
    return true;
}

static const struct variable rows[] = {
    {.name = STR_INIT("host"), .get = get_fixed},
    {.name = STR_INIT("args"), .get = get_fixed, .flags = VARIABLE_CHANGEABLE},
    {.name = STR_NONE},
};

static int set_up_regex(void **state)
{
    set_up(state);
    memset(&set, 0, sizeof(set));
    variable_add_all(&conf, &set, rows);
    conf_set_variables(&conf, &set);
    regex_use_jit(true);
    return 0;
}

static struct variable_env *new_env(void)
{
    memset(&env, 0, sizeof(env));
    env.set = &set;
    env.arena = &arena;
    env.log = &memory_log;
    return &env;
}

static struct regex *compile(const char *pattern)
{
    struct regex *regex = regex_compile(&conf, NULL, str_of(pattern), false, false);

    assert_non_null(regex);
    return regex;
}

static bool matches(const char *pattern, const char *subject)
{
    return regex_match(compile(pattern), str_of(subject), NULL, &memory_log);
}

static void patterns_match_slices(void **state)
{
    for (int jit = 0; jit < 2; jit++) {
        regex_use_jit(jit == 1);
        assert_true(matches("^/a", "/abc"));
        assert_false(matches("^/a$", "/abc"));
        assert_false(matches("A", "a"));
        assert_true(matches("", ""));
        assert_true(matches("(*UTF8)^.$", "\xc3\xb6"));
        assert_false(matches("^.$", "\xc3\xb6"));
        assert_true(regex_match(compile("^$"), STR_NONE, NULL, &memory_log));
        assert_false(regex_match(compile("c"), str_head(STR("abc"), 2), NULL, &memory_log));
    }
    assert_true(regex_match(regex_compile(&conf, NULL, STR("ABC"), true, false), STR("xabcx"), NULL,
                            &memory_log));
    assert_text(regex_pattern(compile("a+")), "a+");
    assert_text(report(), "");
}

static void captures_are_set(void **state)
{
    struct regex *regex = compile("^/(\\w+)(/opt)?/(\\d*)$");
    struct template *template = template_compile(&conf, NULL, STR("$1|$2|$3|$4"));

    assert_int_equal(regex_capture_count(regex), 3);
    assert_true(regex_match(regex, STR("/abc/5"), new_env(), &memory_log));
    assert_int_equal(env.capture_count, 4);
    assert_text(env.captures[0], "/abc/5");
    assert_text(env.captures[2], "");
    assert_text(template_eval(template, &env), "abc||5|");
    /* One that does not match leaves what the last one found. */
    assert_false(regex_match(regex, STR("nothing"), &env, &memory_log));
    assert_text(template_eval(template, &env), "abc||5|");
    assert_true(regex_match(compile("b"), STR("abc"), &env, &memory_log));
    assert_text(template_eval(template, &env), "|||");
}

/* A pattern with more groups comes after one with fewer, and the other way round. */
static void patterns_of_all_sizes(void **state)
{
    struct regex *small = compile("(a)");
    struct regex *large = compile("(a)(b)(c)(d)(e)(f)(g)(h)(i)(j)(k)(l)(m)(n)(o)(p)");

    assert_true(regex_match(large, STR("abcdefghijklmnop"), new_env(), &memory_log));
    assert_text(env.captures[16], "p");
    assert_true(regex_match(small, STR("xa"), new_env(), &memory_log));
    assert_text(env.captures[1], "a");
    assert_int_equal(env.capture_count, 2);
}

static void named_groups_set_variables(void **state)
{
    struct regex *regex =
        regex_compile(&conf, NULL, STR("^(?<name>\\w+)-(?<Tail>x)?(?<args>.*)$"), false, true);
    struct template *template = template_compile(&conf, NULL, STR("$name|$tail|$args"));

    assert_non_null(regex);
    assert_true(regex_match(regex, STR("abc-def"), new_env(), &memory_log));
    assert_text(template_eval(template, &env), "abc||def");
    assert_true(variable_check_all(&conf, &set));
    assert_null(regex_compile(&conf, NULL, STR("(?<host>.*)"), false, true));
    assert_text(report(), "[emerg] the duplicate \"host\" variable\n");
}

/* The words of nginx 1.22 with the same library. */
static void errors_of_patterns(void **state)
{
    static const struct {
        const char *pattern;
        const char *report;
    } cases[] = {
        {"^(?<h1>.*",
         "[emerg] pcre2_compile() failed: missing closing parenthesis in \"^(?<h1>.*\"\n"},
        {"a[",
         "[emerg] pcre2_compile() failed: missing terminating ] for character class in \"a[\"\n"},
        {"\\", "[emerg] pcre2_compile() failed: \\ at end of pattern in \"\\\"\n"},
        {"(?<9>.)", "[emerg] pcre2_compile() failed: subpattern name must start with a non-digit "
                    "in \"(?<9>.)\" at \"9>.)\"\n"},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        tear_down(state);
        set_up_regex(state);
        assert_null(regex_compile(&conf, NULL, str_of(cases[i].pattern), false, true));
        assert_str(report(), str_of(cases[i].report));
    }
}

/* A pattern that would take for ever is given up, and the log says so. */
static void matches_are_bounded(void **state)
{
    char subject[64];

    memset(subject, 'a', sizeof(subject));
    subject[sizeof(subject) - 1] = '!';
    for (int jit = 0; jit < 2; jit++) {
        regex_use_jit(jit == 1);
        report_text.len = 0;
        assert_false(regex_match(compile("^(a+a+)+(a+a+)+$"),
                                 (struct str){subject, sizeof(subject)}, NULL, &memory_log));
        assert_non_null(
            str_find(buf_str(&report_text), STR("[error] pcre2_match() failed: -47 on")));
    }
}

#define regex_test(function) cmocka_unit_test_setup_teardown(function, set_up_regex, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        regex_test(patterns_match_slices), regex_test(captures_are_set),
        regex_test(patterns_of_all_sizes), regex_test(named_groups_set_variables),
        regex_test(errors_of_patterns),    regex_test(matches_are_bounded),
    };

    return cmocka_run_group_tests_name("conf/regex", tests, NULL, NULL);
}
