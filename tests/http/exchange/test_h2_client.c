/* Tests of HTTP/2 towards backends: answers however they are cut, windows, and what is refused. */
#include "base/unit.h"

#include "event/loop.h"
#include "http/h2_client.h"

static struct h2_seen seen;
static struct buf text; /* what the backend sends */

static int set_up(void **state)
{
    const struct loop_options options = {.events_per_turn = 8, .log = log_main};

    log_is_starting = false;
    return loop_init(&options) ? 0 : -1;
}

static int tear_down(void **state)
{
    buf_free(&seen.body);
    buf_free(&text);
    loop_destroy();
    return 0;
}

static void add(unsigned type, unsigned flags, unsigned stream, struct str payload)
{
    char head[FRAME_HEAD_SIZE];

    frame_put(head, (uint32_t) payload.len, (uint8_t) type, (uint8_t) flags, stream);
    buf_append(&text, (struct str){head, sizeof(head)});
    buf_append(&text, payload);
}

/* Cut in every way it comes to the same. */
static void assert_told(size_t body, int end, unsigned status, const char *answer)
{
    static char sent[100000];

    for (size_t step = 1; step <= text.len; step++) {
        h2_tell((struct str){sent, body}, buf_str(&text), step, &seen);
        assert_int_equal(seen.end, end);
        assert_int_equal(seen.status, status);
        assert_str(buf_str(&seen.body), str_of(answer));
    }
    text.len = 0;
}

static void answers_come_in_any_pieces(void **state)
{
    add(FRAME_SETTINGS, 0, 0, STR_NONE);
    add(FRAME_HEADERS, FLAG_END_HEADERS, 1,
        STR("\x08\x03"
            "103"));
    add(FRAME_HEADERS, FLAG_PADDED, 1, STR("\2\x88\0\0"));
    add(FRAME_CONTINUATION, FLAG_END_HEADERS, 1, STR("\0\1a\1b"));
    add(FRAME_DATA, FLAG_PADDED, 1, STR("\1one\0"));
    add(FRAME_PING, 0, 0, STR("12345678"));
    add(0xfa, 0xff, 1, STR("unknown"));
    add(FRAME_DATA, 0, 1, STR("two"));
    add(FRAME_HEADERS, FLAG_END_HEADERS | FLAG_END_STREAM, 1, STR("\0\1t\1v"));
    assert_told(0, H2_WHOLE, 200, "onetwo");
    assert_int_equal(seen.trailers, 1);
}

static void bodies_wait_for_windows(void **state)
{
    add(FRAME_SETTINGS, 0, 0, STR("\0\4\0\0\0\1"));
    add(FRAME_WINDOW_UPDATE, 0, 0, STR("\0\1\0\0"));
    add(FRAME_WINDOW_UPDATE, 0, 1, STR("\0\1\0\0"));
    add(FRAME_SETTINGS, 0, 0, STR("\0\4\0\1\0\0"));
    add(FRAME_HEADERS, FLAG_END_HEADERS | FLAG_END_STREAM, 1, STR("\x88"));
    assert_told(100000, H2_WHOLE, 200, "");
}

static void rules_hold(void **state)
{
    static const struct {
        unsigned type, flags, stream;
        struct str payload;
    } bad[] = {
        {FRAME_DATA, 0, 1, STR_INIT("a")},
        {FRAME_HEADERS, 4, 3, STR_INIT("\x88")},
        {FRAME_HEADERS, 4, 0, STR_INIT("\x88")},
        {FRAME_HEADERS, 4, 1, STR_INIT("\xbe")},
        {FRAME_PUSH_PROMISE, 4, 1, STR_INIT("\0\0\0\2")},
        {FRAME_SETTINGS, 1, 0, STR_INIT("abcdef")},
        {FRAME_PING, 0, 1, STR_INIT("12345678")},
        {FRAME_GOAWAY, 0, 1, STR_INIT("\0\0\0\0\0\0\0\1")},
        {FRAME_GOAWAY, 0, 0, STR_INIT("\0\0\0\1")},
        {FRAME_RST_STREAM, 0, 1, STR_INIT("\0\0\0\0")},
        {FRAME_WINDOW_UPDATE, 0, 0, STR_INIT("\0\0\0\0")},
        {FRAME_CONTINUATION, 4, 1, STR_INIT("\x88")},
    };

    for (size_t i = 0; i < COUNT(bad); i++) {
        add(FRAME_SETTINGS, 0, 0, STR_NONE);
        add(bad[i].type, bad[i].flags, bad[i].stream, bad[i].payload);
        assert_told(0, H2_BAD, 0, "");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_come_in_any_pieces),
        cmocka_unit_test(bodies_wait_for_windows),
        cmocka_unit_test(rules_hold),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
