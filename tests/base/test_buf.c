/* Tests of growing buffers and rooms of fixed size. */
#include "base/unit.h"

#include <string.h>

#include "base/buf.h"

static void buffer_grows_and_keeps_all_bytes(void **state)
{
    struct buf buf = {0};

    buf_append(&buf, STR_NONE);
    assert_int_equal(buf.len, 0);
    buf_append(&buf, STR("a\0b"));
    buf_append_char(&buf, '!');
    for (int i = 0; i < 10000; i++) {
        buf_printf(&buf, "%04d", i);
    }
    assert_int_equal(buf.len, 4 + 40000);
    assert_str(str_head(buf_str(&buf), 8), STR("a\0b!0000"));
    assert_str(str_skip(buf_str(&buf), buf.len - 4), STR("9999"));
    buf_free(&buf);
    assert_int_equal(buf.len, 0);
    assert_null(buf.data);
    buf_free(&buf);
}

static void printf_longer_than_the_buffer_is_whole(void **state)
{
    for (int width = 250; width < 260; width++) {
        struct buf buf = {0};
        buf_printf(&buf, "%*d", width, 5);
        assert_int_equal(buf.len, width);
        assert_int_equal(buf.data[width - 1], '5');
        buf_free(&buf);
    }
}

static void writer_never_writes_beyond_its_end(void **state)
{
    char bytes[8];

    for (size_t size = 0; size <= 7; size++) {
        memset(bytes, '#', sizeof(bytes));
        struct writer writer = {bytes, bytes + size};
        writer_printf(&writer, "%s", "abcdef");
        size_t expected = size < 6 ? size : 6;
        assert_ptr_equal(writer.at, bytes + expected);
        assert_memory_equal(bytes, "abcdef", expected);
        assert_int_equal(bytes[size], '#');
    }
    memset(bytes, '#', sizeof(bytes));
    struct writer writer = {bytes, bytes + 4};
    writer_put(&writer, STR_NONE);
    writer_put(&writer, STR("a\0"));
    writer_put(&writer, STR("xyz"));
    writer_put(&writer, STR("never"));
    writer_printf(&writer, "never");
    assert_memory_equal(bytes, "a\0xy####", 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffer_grows_and_keeps_all_bytes),
        cmocka_unit_test(printf_longer_than_the_buffer_is_whole),
        cmocka_unit_test(writer_never_writes_beyond_its_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
