/* Tests of Protocol Buffers: examples of its documentation, lengths at their limits, text that is
 * no UTF-8. */
#include "base/unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/protobuf.h"

static void numbers_as_the_documentation_has_them(void **state)
{
    struct buf out = {0};

    protobuf_put_unsigned(&out, 1, 150);
    assert_str(buf_str(&out), STR("\x08\x96\x01"));
    out.len = 0;
    protobuf_put_signed(&out, 1, -2);
    assert_str(buf_str(&out), STR("\x08\x03"));
    out.len = 0;
    protobuf_put_unsigned(&out, 16, UINT64_MAX);
    assert_str(buf_str(&out), STR("\x80\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"));
    out.len = 0;
    protobuf_put_double(&out, 3, 1.0);
    assert_int_equal(out.len, 9);
    assert_memory_equal(out.data, "\x19\0\0\0\0\0\0\xf0\x3f", 9);
    buf_free(&out);
}

static void messages_have_their_lengths(void **state)
{
    static const size_t sizes[] = {0, 1, 125, 126, 127, 128, 16383, 16384, 70000};
    char *text = calloc(1, 70000);

    memset(text, 'x', 70000);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct buf out = {0};
        struct protobuf_field field;
        bool is_bad;

        size_t outer = protobuf_begin(&out, 1);
        size_t inner = protobuf_begin(&out, 2);
        buf_append(&out, (struct str){text, sizes[i]});
        protobuf_end(&out, inner);
        protobuf_put_unsigned(&out, 3, 7);
        protobuf_end(&out, outer);

        struct str rest = buf_str(&out);
        assert_true(protobuf_next(&rest, &field, &is_bad));
        assert_int_equal(field.number, 1);
        assert_int_equal(rest.len, 0);
        rest = field.bytes;
        assert_true(protobuf_next(&rest, &field, &is_bad));
        assert_int_equal(field.number, 2);
        assert_str(field.bytes, ((struct str){text, sizes[i]}));
        assert_true(protobuf_next(&rest, &field, &is_bad));
        assert_int_equal(field.value, 7);
        assert_false(protobuf_next(&rest, &field, &is_bad));
        assert_false(is_bad);
        buf_free(&out);
    }
    free(text);
}

static struct str text_of(struct buf *out, struct str text, size_t most)
{
    out->len = 0;
    protobuf_put_text(out, 1, text, most);
    return str_skip(buf_str(out), 2);
}

static void text_is_utf_8_and_bounded(void **state)
{
    struct buf out = {0};

    assert_str(text_of(&out, STR("plain and long enough"), 100), STR("plain and long enough"));
    assert_str(text_of(&out, STR("plain"), 3), STR("pla"));
    assert_str(text_of(&out, STR("z\xc3\xa4h"), 100), STR("z\xc3\xa4h"));
    assert_str(text_of(&out, STR("z\xc3\xa4h"), 2), STR("z"));
    assert_str(text_of(&out, STR("a\xff b\xc3"), 100), STR("a\xef\xbf\xbd b\xef\xbf\xbd"));
    assert_str(text_of(&out, STR("\xff\xff"), 5), STR("\xef\xbf\xbd"));
    assert_str(text_of(&out, STR_NONE, 5), STR(""));
    buf_free(&out);
}

static void what_is_no_message(void **state)
{
    static const struct str bad[] = {
        STR_INIT("\x08"),
        STR_INIT("\x80"),
        STR_INIT("\x0a\x05zwei"),
        STR_INIT("\x09seven.."),
        STR_INIT("\x0b"),
        STR_INIT("\x0d"
                 "abc"),
        STR_INIT("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01x"),
        STR_INIT("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct str rest = bad[i];
        struct protobuf_field field;
        bool is_bad;

        assert_false(protobuf_next(&rest, &field, &is_bad));
        assert_true(is_bad);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_as_the_documentation_has_them),
        cmocka_unit_test(messages_have_their_lengths),
        cmocka_unit_test(text_is_utf_8_and_bounded),
        cmocka_unit_test(what_is_no_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
