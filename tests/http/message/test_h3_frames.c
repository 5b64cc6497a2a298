/* Tests of HTTP/3's frames and settings: as they come in pieces, which may stand where, what
 * settings are refused. */
#include "base/unit.h"

#include "http/message/h3_frame.h"

/* The same head in pieces of each size. */
static void test_heads_in_pieces(void **state)
{
    static const struct {
        uint64_t type, length;
    } heads[] = {{H3_DATA, 0},
                 {H3_HEADERS, 63},
                 {H3_DATA, 64},
                 {H3_SETTINGS, 16383},
                 {H3_PRIORITY_UPDATE, 16384},
                 {0x1f * 1000 + 0x21, UINT64_C(1) << 40}};

    for (unsigned i = 0; i < COUNT(heads); i++) {
        char bytes[H3_FRAME_ROOM + 1];
        char *end = h3_put_frame(bytes, heads[i].type, heads[i].length);
        size_t size = (size_t) (end - bytes);
        *end = 'x';
        for (size_t piece = 1; piece <= size + 1; piece++) {
            struct h3_reader reader = {.size = 0};
            struct str rest = {bytes, size + 1};
            uint64_t type = 1, length = 1;
            bool is_whole = false;

            while (!is_whole) {
                struct str part = str_head(rest, piece);
                size_t before = part.len;
                is_whole = h3_read_frame(&reader, &part, &type, &length);
                rest = str_skip(rest, before - part.len);
                assert_true(is_whole || part.len == 0);
            }
            assert_int_equal(type, heads[i].type);
            assert_int_equal(length, heads[i].length);
            assert_text(rest, "x");
        }
    }
}

static void test_places(void **state)
{
    assert_true(h3_frame_is_of_request(H3_DATA) && h3_frame_is_of_request(H3_HEADERS));
    assert_true(h3_frame_is_of_control(H3_SETTINGS) && h3_frame_is_of_control(H3_GOAWAY));
    assert_true(h3_frame_is_of_control(H3_PRIORITY_UPDATE));
    assert_true(h3_frame_is_of_request(0x21) && h3_frame_is_of_control(0x21));
    static const uint64_t nowhere[] = {2, 6, 8, 9, H3_PUSH_PROMISE};
    for (unsigned i = 0; i < COUNT(nowhere); i++) {
        assert_false(h3_frame_is_of_request(nowhere[i]) || h3_frame_is_of_control(nowhere[i]));
    }
    assert_false(h3_frame_is_of_control(H3_DATA) || h3_frame_is_of_control(H3_HEADERS));
    static const uint64_t control[] = {H3_CANCEL_PUSH, H3_SETTINGS,        H3_GOAWAY,
                                       H3_MAX_PUSH_ID, H3_PRIORITY_UPDATE, H3_PRIORITY_UPDATE_PUSH};
    for (unsigned i = 0; i < COUNT(control); i++) {
        assert_false(h3_frame_is_of_request(control[i]));
    }
}

static void test_settings(void **state)
{
    struct h3_settings settings;
    char bytes[256];
    char *at = bytes;

    assert_int_equal(h3_settings_read(STR(""), &settings), H3_NO_ERROR);
    assert_int_equal(settings.table_capacity, 0);
    assert_true(settings.field_section_max == UINT64_MAX);
    at = h3_put_setting(at, H3_QPACK_MAX_TABLE_CAPACITY, 4096);
    at = h3_put_setting(at, H3_QPACK_BLOCKED_STREAMS, 100);
    at = h3_put_setting(at, H3_MAX_FIELD_SECTION_SIZE, 65536);
    at = h3_put_setting(at, H3_ENABLE_CONNECT_PROTOCOL, 1);
    at = h3_put_setting(at, H3_SETTING_DATAGRAM, 1);
    at = h3_put_setting(at, 0x1f * 7 + 0x21, 12345);
    assert_int_equal(h3_settings_read(str_from(bytes, at), &settings), H3_NO_ERROR);
    assert_int_equal(settings.table_capacity, 4096);
    assert_int_equal(settings.blocked_streams, 100);
    assert_int_equal(settings.field_section_max, 65536);
    assert_true(settings.enables_connect && settings.has_datagrams);
    assert_int_equal(h3_settings_read(str_from(bytes, at - 1), &settings), H3_FRAME_ERROR);
    at = h3_put_setting(at, 0x1f * 7 + 0x21, 1);
    assert_int_equal(h3_settings_read(str_from(bytes, at), &settings), H3_SETTINGS_ERROR);
}

static void test_settings_refused(void **state)
{
    static const struct {
        uint64_t id, value;
    } wrong[] = {{0x02, 1},
                 {0x03, 1},
                 {0x04, 1},
                 {0x05, 1},
                 {H3_ENABLE_CONNECT_PROTOCOL, 2},
                 {H3_SETTING_DATAGRAM, 2}};
    struct h3_settings settings;
    char bytes[256];

    for (unsigned i = 0; i < COUNT(wrong); i++) {
        char *end = h3_put_setting(bytes, wrong[i].id, wrong[i].value);
        assert_int_equal(h3_settings_read(str_from(bytes, end), &settings), H3_SETTINGS_ERROR);
    }
    char *at = bytes;
    for (unsigned i = 0; i < 33; i++) {
        at = h3_put_setting(at, 64 + i, 0);
    }
    assert_int_equal(h3_settings_read(str_from(bytes, at), &settings), H3_SETTINGS_ERROR);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_heads_in_pieces),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_settings),
        cmocka_unit_test(test_settings_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
