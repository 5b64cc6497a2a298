/* Tests of recoding: tables of bytes and of UTF-8, however the text is cut. */
#include "base/unit.h"

#include "http/modules/filters/charset/recode.h"

static struct arena arena;
static struct recode_table *to_utf8;
static struct recode_table *from_utf8;
static struct buf out;

/* A charset with three letters: 0xC0 is U+044E, 0x80 the euro sign, 0x90 a face. */
static int set_up(void **state)
{
    arena_init(&arena);
    to_utf8 = recode_table_new(&arena, RECODE_TO_UTF8);
    from_utf8 = recode_table_new(&arena, RECODE_FROM_UTF8);
    recode_set_char(to_utf8, from_utf8, &arena, 0xc0, 0x44e);
    recode_set_char(to_utf8, from_utf8, &arena, 0x80, 0x20ac);
    recode_set_char(to_utf8, from_utf8, &arena, 0x90, 0x1f600);
    return 0;
}

static int tear_down(void **state)
{
    arena_free(&arena);
    buf_free(&out);
    return 0;
}

/* The text, fed in pieces of `step` bytes into rooms of `room` bytes. */
static struct str recoded(const struct recode_table *table, struct str text, size_t step,
                          size_t room)
{
    struct recoder recoder = {.table = table};
    bool is_last;

    out.len = 0;
    do {
        struct str piece = str_head(text, step);
        char *copy = arena_cstr(&arena, piece); /* a place of its own: what is read later is seen */
        struct str in = {copy, piece.len};
        bool is_done;

        text = str_skip(text, piece.len);
        is_last = text.len == 0;
        do {
            char *at = arena_alloc(&arena, room);
            struct writer to = {at, at + room};
            is_done = recode(&recoder, &in, is_last, &to);
            buf_append(&out, str_from(at, to.at));
        } while (!is_done);
        memset(copy, '#', piece.len);
    } while (!is_last);
    return buf_str(&out);
}

#define assert_recoded(table, text, expected)                                                      \
    do {                                                                                           \
        for (size_t step = 1; step <= sizeof(text); step++) {                                      \
            assert_text(recoded(table, STR(text), step, RECODE_STEP), expected);                   \
            assert_text(recoded(table, STR(text), step, 1000), expected);                          \
        }                                                                                          \
    } while (0)

static void bytes_become_code_points(void **state)
{
    assert_recoded(to_utf8, "a\xc0 b\x80", "a\xd1\x8e b\xe2\x82\xac");
    assert_recoded(to_utf8, "\x90", "\xf0\x9f\x98\x80");
    assert_recoded(to_utf8, "\xc1\xff", "??");
    assert_recoded(to_utf8, "", "");
}

static void code_points_become_bytes(void **state)
{
    assert_recoded(from_utf8, "a\xd1\x8e b\xe2\x82\xac|\xf0\x9f\x98\x80", "a\xc0 b\x80|\x90");
}

static void strange_code_points_become_references(void **state)
{
    assert_recoded(from_utf8, "\xd0\xb1<", "&#1073;<");
    assert_recoded(from_utf8, "\xf4\x8f\xbf\xbf\xf4\x8f\xbf\xbf\xf4\x8f\xbf\xbf",
                   "&#1114111;&#1114111;&#1114111;");
}

/* As nginx has it: a sequence that is overlong or too high is one whole, any byte beyond ASCII goes
 * on with one. */
static void malformed_sequences_are_as_in_nginx(void **state)
{
    assert_recoded(from_utf8, "\xc0\x80 \xe0\x80\x80 \xf0\x80\x80\x80", "?? ? ?");
    assert_recoded(from_utf8, "\xed\xa0\x80 \xf4\x90\x80\x80 \xf5\x80\x80\x80", "&#55296; ? ?");
    assert_recoded(from_utf8, "\xf8\x88\x80\x80\x80 \xfb\xf0\xc1\xe0", "?? &#983136;");
    assert_recoded(from_utf8, "\xd1\xd1\x8e \xe2\x82\xd1\x8e", "&#1105;? &#8337;?");
    assert_recoded(from_utf8, "\x80\xc1\xbc", "???");
}

/* nginx takes it along, and pages lose their tags. */
static void ascii_is_never_part_of_a_sequence(void **state)
{
    assert_recoded(from_utf8, "\xff<a>\xf0<b>\xc2<", "?<a>?<b>?<");
    assert_recoded(from_utf8, "\xd1<\xe2\x82<\xf0\x9f\x98<", "?<?<?<");
}

static void nothing_stands_for_an_unfinished_end(void **state)
{
    assert_recoded(from_utf8, "a\xd1", "a");
    assert_recoded(from_utf8, "a\xf0\x9f\x98", "a");
}

static void bytes_become_bytes(void **state)
{
    struct recode_table *table = recode_table_new(&arena, RECODE_BYTES);

    recode_set_byte(table, 0xc0, 0xfe);
    assert_recoded(table, "a\xc0\xc1", "a\xfe?");
    assert_true(table->keeps_ascii);
    recode_set_byte(table, 'a', 'b');
    assert_recoded(table, "a\xc0", "b\xfe");
    assert_false(table->keeps_ascii);
}

static void ascii_needs_no_recoding(void **state)
{
    struct recoder recoder = {.table = from_utf8};
    struct str in = STR("\xd1");
    char memory[RECODE_STEP];
    struct writer writer = {memory, memory + sizeof(memory)};

    assert_true(recode_is_needless(&recoder, STR("")));
    assert_true(recode_is_needless(&recoder, STR("plain text, all of it \x7f")));
    assert_false(recode_is_needless(&recoder, STR("plain text, all of i\x80")));
    assert_false(recode_is_needless(&recoder, STR("\x80lain text, all of it")));
    assert_true(recode(&recoder, &in, false, &writer));
    assert_false(recode_is_needless(&recoder, STR("a"))); /* a sequence is waiting for its end */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(bytes_become_code_points, set_up, tear_down),
        cmocka_unit_test_setup_teardown(code_points_become_bytes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(strange_code_points_become_references, set_up, tear_down),
        cmocka_unit_test_setup_teardown(malformed_sequences_are_as_in_nginx, set_up, tear_down),
        cmocka_unit_test_setup_teardown(ascii_is_never_part_of_a_sequence, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nothing_stands_for_an_unfinished_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bytes_become_bytes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(ascii_needs_no_recoding, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
