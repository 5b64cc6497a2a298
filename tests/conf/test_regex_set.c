/* Tests of lists of expressions: always the answer that trying one after another gives. */
#include "conf/fixture.h"

#include <stdlib.h>

#include "conf/regex.h"
#include "conf/regex_internal.h"

static int naive_first(struct regex *const *items, unsigned count, struct str subject)
{
    for (unsigned i = 0; i < count; i++) {
        if (regex_match(items[i], subject, NULL, &memory_log)) {
            return (int) i;
        }
    }
    return -1;
}

/* Texts without which a pattern cannot match, joined by ','. */
static struct str literals(const char *pattern)
{
    struct literals found = {.count = 99};
    struct str text = STR("");

    literals_of_pattern(&arena, str_of(pattern), &found);
    for (unsigned i = 0; i < found.count; i++) {
        text = arena_printf(&arena, "%.*s%s%.*s", STR_ARG(text), i == 0 ? "" : ",",
                            STR_ARG(found.items[i]));
    }
    return text;
}

static void texts_that_a_pattern_needs(void **state)
{
    static const struct {
        const char *pattern;
        const char *texts;
    } cases[] = {
        {"", ""},
        {"^/api/v1/", "/api/v1/"},
        {"\\.php$", ".php"},
        {"/Images/.*\\.PNG", "/images/"},
        {"\\.(gif|jpe?g|png)$", ".gif,.jp,.png"},
        {"\\.(gif|jpg|png)$", ".gif,.jpg,.png"},
        {"\\.(?:gif|jpg)", ".gif,.jpg"},
        {"\\.(gif|.*)$", ""},
        {"(foo|bar)baz", "baz"},
        {"(fooo|bar)ba", "fooo,bar"},
        {"^(/user/(?<name>[a-z]+))/profile$", "/profile"},
        {"(abc)(def)", "abcdef"},
        {"(abc)+def", "abc"},
        {"(abc)?def", "def"},
        {"(abc){0,2}def", "def"},
        {"abc?def", "def"},
        {"abcx*defgh", "defgh"},
        {"abcd+efg", "abcd"},
        {"abc{2}de", "abc"},
        {"a|bcd", ""},
        {"abc|bcd", "abc,bcd"},
        {"abc|", ""},
        {"[abc]def", "def"},
        {"[]abc]def", "def"},
        {"[^]abc]def", "def"},
        {"[[:alpha:]x]def", "def"},
        {"[\\]]def", "def"},
        {"(?=abc)xyz", "xyz"},
        {"(?!abc)xyz", "xyz"},
        {"(?<!abc)xyz", "xyz"},
        {"xyz(?<=abc)", "xyz"},
        {"(?i)ABC", "abc"},
        {"(?x)a b c", ""},
        {"(?i:ABC)d", "abcd"},
        {"(?:abc)(?#x)d", ""},
        {"(?R)abc", ""},
        {"(?(1)abc|d)", ""},
        {"(*UTF8)abc", ""},
        {"\\Qa+b\\E", ""},
        {"\\x41bcd", ""},
        {"\\dabc", "abc"},
        {"a\\.b\\/c", "a.b/c"},
        {"(a)\\1bcd", ""},
        {"abc\\", ""},
        {"(abc", ""},
        {"abc)", ""},
        {"[abc", ""},
        {"ab", ""},
        {"a(b(c(d)))", "abcd"},
        {"(?P<n>abc)d", "abcd"},
        {"(?'n'abc)d", "abcd"},
        {"(?>abc)d", "abcd"},
        {"(?P=n)abc", ""},
        {"abc{,3}", ""},
        {"abc{x}", ""},
        {"abc++d", "abc"},
        {"abc*?d", ""},
        {"(((((((((((((((((((abc)))))))))))))))))))", ""},
        {"(aaa|bbb|ccc|ddd|eee|fff|ggg|hhh|iii|jjj|kkk|lll|mmm|nnn|ooo|ppp|qqq)x", ""},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct str found = literals(cases[i].pattern);
        if (!str_equal(found, str_of(cases[i].texts))) {
            print_message("pattern %s\n", cases[i].pattern);
        }
        assert_str(found, str_of(cases[i].texts));
    }
}

static void the_first_that_matches(void **state)
{
    static const char *const patterns[] = {"\\.php$", "^/api/", "\\.(gif|png)$", "/x", ".*"};
    struct regex *items[COUNT(patterns)];
    struct variable_env env = {.arena = &arena, .log = &memory_log};

    for (unsigned i = 0; i < COUNT(patterns); i++) {
        items[i] = regex_compile(&conf, NULL, str_of(patterns[i]), i == 2, false);
    }
    struct regex_set *set = regex_set_new(&conf, items, COUNT(items));
    assert_int_equal(regex_set_first(set, STR("/api/a.php"), &env, &memory_log), 0);
    assert_int_equal(regex_set_first(set, STR("/api/a"), &env, &memory_log), 1);
    assert_int_equal(regex_set_first(set, STR("/a.GIF"), &env, &memory_log), 2);
    assert_text(env.captures[1], "GIF");
    assert_int_equal(regex_set_first(set, STR("/x"), &env, &memory_log), 3);
    assert_int_equal(regex_set_first(set, STR_NONE, &env, &memory_log), 4);
    set = regex_set_new(&conf, items, 4);
    assert_int_equal(regex_set_first(set, STR("/nothing"), &env, &memory_log), -1);
    set = regex_set_new(&conf, NULL, 0);
    assert_int_equal(regex_set_first(set, STR("/nothing"), &env, &memory_log), -1);
}

/* ---- random lists against the plain way */

static unsigned seed = 1;

static unsigned random_below(unsigned limit)
{
    seed = seed * 1103515245u + 12345u;
    return (seed >> 8) % limit;
}

/* Pieces of patterns that people write, and of those that nobody should. */
static const char *const pieces[] = {
    "^",
    "/",
    "/api",
    "a",
    "ab",
    "abc",
    "b",
    "c",
    "\\.",
    "\\d+",
    "[a-c]+",
    "[^/]*",
    ".*",
    ".",
    "$",
    "(ab|bc)",
    "(abc|/api|\\.b)",
    "(?:a|b)?",
    "(abc)?",
    "(abc)*",
    "(abc)+",
    "a{2}",
    "b?",
    "\\w",
    "(?=a)",
    "(?!b)",
    "(?<=c)",
    "\\babc",
    "(?i)AB",
    "|",
    "(?<n>ab)",
    "c*",
    "c+",
    "[[:alpha:]]",
    "x{0,2}",
    "(a|b|)c",
    "\\/api\\/b",
    "abcabc",
};

static struct str random_pattern(void)
{
    struct str text = STR("");
    unsigned count = 1 + random_below(5);

    for (unsigned i = 0; i < count; i++) {
        const char *piece = pieces[random_below(COUNT(pieces))];
        /* A name may occur once in a pattern. */
        if (piece[0] == '(' && piece[1] == '?' && piece[2] == '<' && piece[3] == 'n' &&
            str_find(text, STR("<n>")) != NULL) {
            continue;
        }
        text = arena_printf(&arena, "%.*s%s", STR_ARG(text), piece);
    }
    return text;
}

static struct str random_subject(void)
{
    static const char letters[] = "/abcABC.x1/api";
    char text[40];
    unsigned len = random_below(sizeof(text));

    for (unsigned i = 0; i < len; i++) {
        text[i] = letters[random_below(sizeof(letters) - 1)];
    }
    return arena_dup(&arena, (struct str){text, len});
}

static void random_lists_agree_with_the_plain_way(void **state)
{
    unsigned found = 0;

    for (int round = 0; round < 60; round++) {
        tear_down(state);
        set_up(state);
        struct regex *items[80];
        unsigned count = 1 + random_below(COUNT(items));
        for (unsigned i = 0; i < count; i++) {
            items[i] = regex_compile(&conf, NULL, random_pattern(), random_below(3) == 0, false);
            assert_non_null(items[i]);
        }
        struct regex_set *set = regex_set_new(&conf, items, count);
        for (int i = 0; i < 100; i++) {
            struct str subject = random_subject();
            int expected = naive_first(items, count, subject);
            int got = regex_set_first(set, subject, NULL, &memory_log);
            if (got != expected) {
                struct str pattern = regex_pattern(items[expected < 0 ? got : expected]);
                print_message("pattern %.*s, subject %.*s\n", STR_ARG(pattern), STR_ARG(subject));
            }
            assert_int_equal(got, expected);
            found += got > 0;
        }
        /* Each pattern alone: nothing hides behind an earlier one. */
        for (unsigned i = 0; i < count; i++) {
            struct regex_set *alone = regex_set_new(&conf, &items[i], 1);
            for (int j = 0; j < 20; j++) {
                struct str subject = random_subject();
                int expected = naive_first(&items[i], 1, subject);
                assert_int_equal(regex_set_first(alone, subject, NULL, &memory_log), expected);
            }
        }
    }
    assert_true(found > 100);
}

/* Subjects with any byte, and longer than any needle. */
static void bytes_beyond_ascii(void **state)
{
    struct regex *items[20];

    for (unsigned i = 0; i < COUNT(items); i++) {
        items[i] = regex_compile(&conf, NULL,
                                 arena_printf(&arena, "\xc3\xb6%c%c[x\xff]", 'a' + i, 0x80 + i),
                                 true, false);
        assert_non_null(items[i]);
    }
    struct regex_set *set = regex_set_new(&conf, items, COUNT(items));
    struct str subject = arena_printf(&arena, "%0500d\xc3\xb6%c%c\xff", 0, 'C', 0x82);
    assert_int_equal(regex_set_first(set, subject, NULL, &memory_log), 2);
    assert_int_equal(regex_set_first(set, STR("\xc3\xb6"), NULL, &memory_log), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        conf_test(texts_that_a_pattern_needs),
        conf_test(the_first_that_matches),
        conf_test(random_lists_agree_with_the_plain_way),
        conf_test(bytes_beyond_ascii),
    };

    return cmocka_run_group_tests_name("conf/regex_set", tests, NULL, NULL);
}
