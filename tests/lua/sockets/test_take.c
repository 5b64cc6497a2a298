/* Tests of what belongs to one receive. */
#include "base/unit.h"

#include "base/buf.h"
#include "lua/sockets/take.h"

/* Takes from a text that comes in pieces of `step` bytes; what was received is in *out. Gives
 * whether it came to its end. */
static bool take_all(struct take *take, struct str input, size_t step, struct buf *out,
                     size_t *used)
{
    size_t at = 0;

    out->len = 0;
    while (at < input.len) {
        struct taken taken = take_step(take, str_head(str_skip(input, at), step));

        buf_append(out, taken.bytes);
        at += taken.used;
        if (taken.is_done) {
            *used = at;
            return true;
        }
    }
    *used = at;
    return false;
}

static void check(struct take take, const char *input, size_t step, const char *expected,
                  const char *rest)
{
    struct buf out = {0};
    size_t used;

    bool is_done = take_all(&take, str_of(input), step, &out, &used);
    assert_int_equal(is_done, rest != NULL);
    assert_int_equal(out.len, strlen(expected));
    assert_memory_equal(out.data != NULL ? out.data : "", expected, out.len);
    if (rest != NULL) {
        assert_string_equal(input + used, rest);
    }
    buf_free(&out);
}

static void lines_lose_their_ends(void **state)
{
    const struct take line = {.kind = TAKE_LINE, .rest = TAKE_NO_LIMIT};

    for (size_t step = 1; step < 9; step++) {
        check(line, "foo\r\nbar", step, "foo", "bar");
        check(line, "a\rb\r\r\nc", step, "ab", "c");
        check(line, "\nc", step, "", "c");
        check(line, "abc\r", step, "abc", NULL);
    }
}

/* A receive of a megabyte of CRs looked at all of it for each of them. */
static void carriage_returns_are_taken_together(void **state)
{
    char text[4096];
    struct take line = {.kind = TAKE_LINE, .rest = TAKE_NO_LIMIT};

    memset(text, '\r', sizeof(text));
    text[sizeof(text) - 1] = '\n';
    struct taken taken = take_step(&line, (struct str){text, sizeof(text)});
    assert_int_equal(taken.used, sizeof(text));
    assert_int_equal(taken.bytes.len, 0);
    assert_true(taken.is_done);

    memset(text, 'a', sizeof(text));
    for (size_t at = 250; at < 260; at++) { /* around the end of a block */
        text[at] = '\r';
        taken = take_step(&line, (struct str){text, sizeof(text)});
        assert_int_equal(taken.bytes.len, at);
        assert_int_equal(taken.used, at + 1);
        text[at] = '\n';
        taken = take_step(&line, (struct str){text, sizeof(text)});
        assert_int_equal(taken.used, at + 1);
        assert_true(taken.is_done);
        text[at] = 'a';
    }
}

static void sizes_hold(void **state)
{
    for (size_t step = 1; step < 9; step++) {
        check((struct take){.kind = TAKE_SIZE, .rest = 5}, "hello world", step, "hello", " world");
        check((struct take){.kind = TAKE_SIZE, .rest = 50}, "hello", step, "hello", NULL);
        check((struct take){.kind = TAKE_ALL, .rest = TAKE_NO_LIMIT}, "hello", step, "hello", NULL);
    }
    check((struct take){.kind = TAKE_ANY, .rest = 3}, "hello", 9, "hel", "lo");
    check((struct take){.kind = TAKE_ANY, .rest = 9}, "hello", 2, "he", "llo");
}

static void delimiters_are_found_in_pieces(void **state)
{
    static const struct {
        const char *text, *input, *before, *rest;
        bool is_included;
    } cases[] = {
        {"XY", "abcdXXefXYrest", "abcdXXef", "rest", false},
        {"XY", "XY", "", "", false},
        {"aab", "aaaab!", "aa", "!", false},
        {"abcabd", "abcabcabd.", "abc", ".", false},
        {"\r\n--b", "x\r\n-\r\n\r\n--by", "x\r\n-\r\n", "y", false},
        {"XY", "abXYc", "abXY", "c", true},
        {"a", "bbb", "bbb", NULL, false},
        {"\n", "line\n", "line", "", false},
        {"aab", "aa", "", NULL, false},
    };
    uint32_t shorter[16];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (size_t step = 1; step < 16; step++) {
            struct delimiter delimiter;

            delimiter_init(&delimiter, str_of(cases[i].text), shorter);
            delimiter.is_included = cases[i].is_included;
            check((struct take){.kind = TAKE_UNTIL, .rest = TAKE_NO_LIMIT, .delimiter = &delimiter},
                  cases[i].input, step, cases[i].before, cases[i].rest);
        }
    }
}

static void limited_receives_meet_the_delimiter_once(void **state)
{
    static const char *const parts[] = {"abc", "def", ""};
    struct delimiter delimiter;
    uint32_t shorter[3];
    struct str input = STR("abcdefXYrest");

    delimiter_init(&delimiter, STR("XY"), shorter);
    for (size_t i = 0; i < 3; i++) {
        struct take take = {.kind = TAKE_UNTIL, .rest = 3, .delimiter = &delimiter};
        struct buf out = {0};
        size_t used;

        assert_true(take_all(&take, input, 5, &out, &used));
        assert_int_equal(out.len, strlen(parts[i]));
        assert_int_equal(delimiter.was_met, i == 2);
        input = str_skip(input, used);
        buf_free(&out);
    }
    assert_true(str_equal(input, STR("rest")));
}

/* Where a limited receive ends in the middle of a beginning of the delimiter, what comes next
 * begins after it. */
static void limited_receives_end_after_what_was_seen(void **state)
{
    static const struct {
        const char *text, *input, *received, *rest;
        uint64_t size;
        uint32_t seen;
    } cases[] = {
        {"bbaa", "baaabbbbaabb", "baaab", "baabb", 5, 2}, /* "bbb": one is given, two are seen */
        {"baba", "abaabbbabbbba", "abaabbbab", "bbba", 7,
         0},                                          /* all that was seen is given at once */
        {"-aaa", "a-aa---aa", "a-aa", "---aa", 4, 0}, /* a new beginning is left */
        {"ababa", "aababb.", "aabab", "b.", 5, 0},
    };
    uint32_t shorter[16];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (size_t step = 1; step < 16; step++) {
            struct delimiter delimiter;

            delimiter_init(&delimiter, str_of(cases[i].text), shorter);
            check((struct take){.kind = TAKE_UNTIL, .rest = cases[i].size, .delimiter = &delimiter},
                  cases[i].input, step, cases[i].received, cases[i].rest);
            assert_int_equal(delimiter.seen, cases[i].seen);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_lose_their_ends),
        cmocka_unit_test(carriage_returns_are_taken_together),
        cmocka_unit_test(sizes_hold),
        cmocka_unit_test(delimiters_are_found_in_pieces),
        cmocka_unit_test(limited_receives_meet_the_delimiter_once),
        cmocka_unit_test(limited_receives_end_after_what_was_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
