/* Tests of HTTP/2's frames: heads, sizes and streams of each type, padding, priorities. */
#include "base/unit.h"

#include "http/message/frame.h"

static void test_heads(void **state)
{
    char bytes[FRAME_HEAD_SIZE];

    assert_ptr_equal(frame_put(bytes, 0x123456, FRAME_DATA, 9, 0x7fffffff), bytes + sizeof(bytes));
    bytes[5] |= (char) 0x80; /* the reserved bit is overlooked (RFC 9113, 4.1) */
    struct frame_head head = frame_read(bytes);
    assert_int_equal(head.length, 0x123456);
    assert_int_equal(head.type, FRAME_DATA);
    assert_int_equal(head.flags, 9);
    assert_int_equal(head.stream, 0x7fffffff);
}

static void test_checks(void **state)
{
    static const struct {
        struct frame_head head;
        enum v2_error error;
        bool is_stream_error;
    } cases[] = {
        {{0, FRAME_DATA, 0, 1}, V2_NO_ERROR, false},
        {{16384, FRAME_DATA, 0, 1}, V2_NO_ERROR, false},
        {{16385, FRAME_DATA, 0, 1}, V2_FRAME_SIZE_ERROR, true},
        {{16385, FRAME_HEADERS, 0, 1}, V2_FRAME_SIZE_ERROR, false},
        {{0, FRAME_DATA, 0, 0}, V2_PROTOCOL_ERROR, false},
        {{0, FRAME_HEADERS, 0, 0}, V2_PROTOCOL_ERROR, false},
        {{5, FRAME_PRIORITY, 0, 0}, V2_PROTOCOL_ERROR, false},
        {{4, FRAME_PRIORITY, 0, 1}, V2_FRAME_SIZE_ERROR, true},
        {{5, FRAME_PRIORITY, 0, 1}, V2_NO_ERROR, false},
        {{3, FRAME_RST_STREAM, 0, 1}, V2_FRAME_SIZE_ERROR, false},
        {{4, FRAME_RST_STREAM, 0, 0}, V2_PROTOCOL_ERROR, false},
        {{6, FRAME_SETTINGS, 0, 0}, V2_NO_ERROR, false},
        {{5, FRAME_SETTINGS, 0, 0}, V2_FRAME_SIZE_ERROR, false},
        {{6, FRAME_SETTINGS, 0, 1}, V2_PROTOCOL_ERROR, false},
        {{6, FRAME_SETTINGS, FLAG_ACK, 0}, V2_FRAME_SIZE_ERROR, false},
        {{8, FRAME_PING, 0, 0}, V2_NO_ERROR, false},
        {{9, FRAME_PING, 0, 0}, V2_FRAME_SIZE_ERROR, false},
        {{8, FRAME_PING, 0, 3}, V2_PROTOCOL_ERROR, false},
        {{7, FRAME_GOAWAY, 0, 0}, V2_FRAME_SIZE_ERROR, false},
        {{8, FRAME_GOAWAY, 0, 1}, V2_PROTOCOL_ERROR, false},
        {{4, FRAME_WINDOW_UPDATE, 0, 0}, V2_NO_ERROR, false},
        {{4, FRAME_WINDOW_UPDATE, 0, 1}, V2_NO_ERROR, false},
        {{5, FRAME_WINDOW_UPDATE, 0, 1}, V2_FRAME_SIZE_ERROR, false},
        {{0, FRAME_CONTINUATION, 0, 0}, V2_PROTOCOL_ERROR, false},
        {{4, FRAME_PRIORITY_UPDATE, 0, 0}, V2_NO_ERROR, false},
        {{4, FRAME_PRIORITY_UPDATE, 0, 1}, V2_PROTOCOL_ERROR, false},
        {{3, FRAME_PRIORITY_UPDATE, 0, 0}, V2_FRAME_SIZE_ERROR, false},
        {{100, 0xc, 0xff, 0}, V2_NO_ERROR, false},
        {{100, 0xfe, 0, 7}, V2_NO_ERROR, false},
    };

    for (unsigned i = 0; i < COUNT(cases); i++) {
        bool is_stream_error;
        enum v2_error error = frame_check(&cases[i].head, FRAME_SIZE_DEFAULT, &is_stream_error);

        if (error != cases[i].error ||
            (error != V2_NO_ERROR && is_stream_error != cases[i].is_stream_error)) {
            fail_msg("case %u: error %d, of the stream: %d", i, error, is_stream_error);
        }
    }
}

static void test_padding(void **state)
{
    struct frame_head data = {.type = FRAME_DATA, .flags = FLAG_PADDED, .stream = 1};
    struct frame_head headers = {.type = FRAME_HEADERS,
                                 .flags = FLAG_PADDED | FLAG_PRIORITY,
                                 .stream = 1};
    struct frame_priority priority;

    struct str payload = STR("\x02"
                             "abc\0\0");
    assert_true(frame_unpad(&data, &payload, NULL));
    assert_text(payload, "abc");
    payload = STR("\x02zz");
    assert_true(frame_unpad(&data, &payload, NULL));
    assert_int_equal(payload.len, 0);
    payload = STR("\x03zz");
    assert_false(frame_unpad(&data, &payload, NULL));
    payload = STR("");
    assert_false(frame_unpad(&data, &payload, NULL));
    payload = STR("\x01\x80\0\0\x05\x0fheads\0");
    assert_true(frame_unpad(&headers, &payload, &priority));
    assert_text(payload, "heads");
    assert_true(priority.is_there);
    assert_int_equal(priority.depends_on, 5);
    payload = STR("\x00\0\0\0\x05");
    assert_false(frame_unpad(&headers, &payload, &priority));
}

static void test_priorities(void **state)
{
    static const struct {
        struct str text;
        uint8_t urgency;
        bool is_incremental;
    } cases[] = {
        {STR_INIT("u=5, i"), 5, true},    {STR_INIT("u=0"), 0, false},
        {STR_INIT("i"), 3, true},         {STR_INIT("i=?0"), 3, false},
        {STR_INIT("i=?1,u=7"), 7, true},  {STR_INIT("u=8"), 3, false},
        {STR_INIT("u=-1"), 3, false},     {STR_INIT("u=2;x=y, j=3"), 2, false},
        {STR_INIT(""), 3, false},         {STR_INIT(",,=;"), 3, false},
        {STR_INIT("u=1, u=4"), 4, false},
    };

    for (unsigned i = 0; i < COUNT(cases); i++) {
        uint8_t urgency;
        bool is_incremental;

        priority_parse(cases[i].text, &urgency, &is_incremental);
        assert_int_equal(urgency, cases[i].urgency);
        assert_int_equal(is_incremental, cases[i].is_incremental);
    }
}

/* What is not said stays (RFC 9218, 8). */
static void test_merged_priorities(void **state)
{
    uint8_t urgency = 6;
    bool is_incremental = true;

    priority_merge(STR(""), &urgency, &is_incremental);
    priority_merge(STR("u=9, x"), &urgency, &is_incremental);
    assert_int_equal(urgency, 6);
    assert_true(is_incremental);
    priority_merge(STR("u=1"), &urgency, &is_incremental);
    assert_int_equal(urgency, 1);
    assert_true(is_incremental);
    priority_merge(STR("i=?0"), &urgency, &is_incremental);
    assert_int_equal(urgency, 1);
    assert_false(is_incremental);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_heads),
        cmocka_unit_test(test_checks),
        cmocka_unit_test(test_padding),
        cmocka_unit_test(test_priorities),
        cmocka_unit_test(test_merged_priorities),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
