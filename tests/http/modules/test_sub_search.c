/* Tests of the search for several texts: what is found, however the bytes are cut, and how much is
 * kept. */
#include "base/unit.h"

#include "base/buf.h"
#include "http/modules/filters/sub/search.h"

static struct arena arena;
static struct search_set *set;
static unsigned pattern_count;
static struct buf out; /* the text, with <n> for a match of pattern n */
static size_t most_held;

static int set_up(void **state)
{
    arena_init(&arena);
    return 0;
}

static int tear_down(void **state)
{
    arena_free(&arena);
    buf_free(&out);
    return 0;
}

#define PATTERNS(...)                                                                              \
    do {                                                                                           \
        const char *texts[] = {__VA_ARGS__};                                                       \
        make_set(texts, COUNT(texts));                                                             \
    } while (0)

static void make_set(const char *const *texts, unsigned count)
{
    struct str patterns[SEARCH_PATTERNS_MAX];

    for (unsigned i = 0; i < count; i++) {
        patterns[i] = str_of(texts[i]);
    }
    pattern_count = count;
    set = search_set_make(&arena, patterns, count);
}

static void take_events(struct search *search, bool is_once)
{
    struct str text;
    unsigned pattern;
    enum search_event event;

    while ((event = search_next(search, &text, &pattern)) != SEARCH_MORE) {
        if (event == SEARCH_TEXT) {
            assert_int_not_equal(text.len, 0);
            buf_append(&out, text);
            continue;
        }
        assert_in_range(pattern, 0, pattern_count - 1);
        buf_printf(&out, "<%u>", pattern);
        if (is_once) {
            search_drop(search, pattern);
        }
    }
    if (search->held_len > most_held) {
        most_held = search->held_len;
    }
}

/* The text with its matches, fed in pieces of this size. */
static struct str found(const char *text, size_t step, bool is_once)
{
    struct search search;
    struct str rest = str_of(text);

    out.len = 0;
    most_held = 0;
    search_begin(&search, &arena, set);
    while (rest.len != 0) {
        struct str piece = str_head(rest, step);
        char *copy = arena_cstr(&arena, piece); /* a place of its own: what is read later is seen */

        rest = str_skip(rest, piece.len);
        search_feed(&search, (struct str){copy, piece.len}, false);
        take_events(&search, is_once);
        memset(copy, '#', piece.len);
    }
    search_feed(&search, STR_NONE, true);
    take_events(&search, is_once);
    return buf_str(&out);
}

/* The same, however it is cut. */
static void assert_found(const char *text, const char *expected)
{
    for (size_t step = 1; step <= strlen(text); step++) {
        assert_str(found(text, step, false), str_of(expected));
    }
}

static void assert_found_once(const char *text, const char *expected)
{
    for (size_t step = 1; step <= strlen(text); step++) {
        assert_str(found(text, step, true), str_of(expected));
    }
}

static void one_text_is_found_everywhere(void **state)
{
    PATTERNS("foo");
    assert_found("foo", "<0>");
    assert_found("a foo b foofoo", "a <0> b <0><0>");
    assert_found("fo of ofo", "fo of ofo");
    assert_found("fofoo ffoo", "fo<0> f<0>");
}

static void case_does_not_matter(void **state)
{
    PATTERNS("fOo[");
    assert_found("FOO[foo[Foo{foO[", "<0><0>Foo{<0>");
    PATTERNS("\xc3\xa4");
    assert_found("\xc3\x84 \xc3\xa4", "\xc3\x84 <0>");
}

static void a_text_that_begins_inside_itself(void **state)
{
    PATTERNS("aab");
    assert_found("aaaab aab aaab", "aa<0> <0> a<0>");
    PATTERNS("abcabd");
    assert_found("abcabcabd", "abc<0>");
    PATTERNS("aa");
    assert_found("aaaaa", "<0><0>a");
    PATTERNS("abac");
    assert_found("ababac abaabac", "ab<0> aba<0>");
}

static void the_match_that_begins_first_is_taken(void **state)
{
    PATTERNS("bcd", "abc");
    assert_found("xabcdy", "x<1>dy");
    PATTERNS("bc", "abcd");
    assert_found("abcd abcx", "<1> a<0>x");
    PATTERNS("abcdef", "cd", "e");
    assert_found("abcdeXcdef abcdef", "ab<1><2>X<1><2>f <0>");
}

static void of_those_that_begin_together_the_first_pattern_is_taken(void **state)
{
    PATTERNS("ab", "abc");
    assert_found("ab abc", "<0> <0>c");
    PATTERNS("abc", "ab");
    assert_found("ab abc abd ab", "<1> <0> <1>d <1>");
    PATTERNS("abcd", "a", "abc");
    assert_found("abcd abcx ab", "<0> <1>bcx <1>b");
}

static void what_a_longer_one_had_looked_at_is_looked_at_again(void **state)
{
    PATTERNS("abcdefgh", "a", "bcdefx", "cd");
    assert_found("abcdefgx", "<1>b<3>efgx");
    assert_found("abcdefx", "<1><2>");
    assert_found("abcdefgh", "<0>");
    assert_found("aaaaabcd", "<1><1><1><1><1>b<3>");
}

static void each_is_found_once(void **state)
{
    PATTERNS("a", "b");
    assert_found_once("xababfoo", "x<0><1>abfoo");
    PATTERNS("ab", "abc");
    assert_found_once("ab abc abc", "<0> <1> abc");
    PATTERNS("ab", "AB");
    assert_found_once("ab ab ab", "<0> <1> ab");
    assert_found("ab ab ab", "<0> <0> <0>");
    PATTERNS("abc", "bc");
    assert_found_once("abcabcabc", "<0>a<1>abc");
}

static void empty_ones_match_nothing(void **state)
{
    PATTERNS("", "b", "");
    assert_int_equal(search_set_count(set), 1);
    assert_found("abc", "a<1>c");
    assert_found_once("abcb", "a<1>cb");
    PATTERNS("", "");
    assert_int_equal(search_set_count(set), 0);
}

static void zero_and_high_bytes_are_bytes(void **state)
{
    struct str pattern = {"\0\xff", 2};
    struct str text = {"a\0\xff\0", 4};
    struct search search;

    set = search_set_make(&arena, &pattern, 1);
    pattern_count = 1;
    search_begin(&search, &arena, set);
    search_feed(&search, text, true);
    take_events(&search, false);
    assert_str(buf_str(&out), ((struct str){"a<0>\0", 5}));
}

static void no_more_is_kept_than_may_belong_to_a_match(void **state)
{
    PATTERNS("</head>", "xyz");
    found("aaaaaaaaaaaaaaaaaaaaaaaaaaa", 5, false);
    assert_int_equal(most_held, 0);
    found("a</hea a</hea a<", 1, false);
    assert_int_equal(most_held, 5);
    found("a</head a</head a<", 1, true);
    assert_int_equal(most_held, 6);
    found("xyxyxyxyxyxyxyxy", 3, false);
    assert_int_equal(most_held, 2);
}

static void nothing_is_kept_when_nothing_is_searched_for_any_more(void **state)
{
    PATTERNS("ab");
    assert_found_once("ab a", "<0> a");
    found("abaaaaaaa", 1, true);
    assert_int_equal(most_held, 1); /* of the first */
}

static void many_patterns(void **state)
{
    const char *texts[SEARCH_PATTERNS_MAX];

    for (unsigned i = 0; i < COUNT(texts); i++) {
        texts[i] = arena_printf(&arena, "[%u]", i).data;
    }
    make_set(texts, COUNT(texts));
    assert_found("[0][254][255][12]", "<0><254>[255]<12>");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_text_is_found_everywhere, set_up, tear_down),
        cmocka_unit_test_setup_teardown(case_does_not_matter, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_text_that_begins_inside_itself, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_match_that_begins_first_is_taken, set_up, tear_down),
        cmocka_unit_test_setup_teardown(of_those_that_begin_together_the_first_pattern_is_taken,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_a_longer_one_had_looked_at_is_looked_at_again, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(each_is_found_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(empty_ones_match_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(zero_and_high_bytes_are_bytes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_more_is_kept_than_may_belong_to_a_match, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(nothing_is_kept_when_nothing_is_searched_for_any_more,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(many_patterns, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
