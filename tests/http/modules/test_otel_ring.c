/* Tests of the spans of a worker that wait to be sent. */
#include "base/unit.h"

#include <string.h>

#include "http/modules/status/otel/ring.h"

enum { FRAME = 5 };

/* One span more. False: it is dropped. */
static bool add(struct span_ring *ring, const char *text)
{
    struct buf *out = span_ring_next(ring);

    if (out == NULL) {
        return false;
    }
    buf_append(out, str_of(text));
    span_ring_added(ring);
    return true;
}

static void assert_batch(const struct span_batch *batch, const char *text, unsigned count)
{
    assert_non_null(batch);
    assert_int_equal(batch->count, count);
    assert_str(str_skip(buf_str(&batch->spans), FRAME), str_of(text));
}

static void batches_are_sent_in_order_with_room_before_them(void **state)
{
    struct span_ring ring;

    assert_true(span_ring_open(&ring, 3, 2, FRAME));
    assert_null(span_ring_take(&ring));
    assert_true(add(&ring, "a"));
    assert_false(span_ring_has_full(&ring));
    assert_true(add(&ring, "b") && add(&ring, "c"));
    assert_true(span_ring_has_full(&ring));
    assert_batch(span_ring_take(&ring), "ab", 2);
    span_ring_sent(&ring, false);
    assert_batch(span_ring_take(&ring), "c", 1);
    span_ring_sent(&ring, false);
    assert_null(span_ring_take(&ring));
    span_ring_close(&ring);
}

static void a_batch_that_is_being_sent_takes_no_span(void **state)
{
    struct span_ring ring;

    assert_true(span_ring_open(&ring, 2, 9, FRAME));
    add(&ring, "a");
    const struct span_batch *sent = span_ring_take(&ring);
    add(&ring, "b");
    assert_batch(sent, "a", 1);
    span_ring_sent(&ring, false);
    add(&ring, "c");
    assert_batch(span_ring_take(&ring), "bc", 2);
    span_ring_close(&ring);
}

static void a_batch_that_was_not_taken_takes_spans_again(void **state)
{
    struct span_ring ring;

    assert_true(span_ring_open(&ring, 2, 2, FRAME));
    add(&ring, "a");
    span_ring_take(&ring);
    span_ring_sent(&ring, true);
    add(&ring, "b");
    assert_batch(span_ring_take(&ring), "ab", 2);
    /* a full one does not, nor one that others came after */
    add(&ring, "c");
    span_ring_sent(&ring, true);
    add(&ring, "d");
    assert_batch(span_ring_take(&ring), "ab", 2);
    span_ring_sent(&ring, false);
    assert_batch(span_ring_take(&ring), "cd", 2);
    span_ring_close(&ring);
}

static void what_finds_no_room_is_counted(void **state)
{
    struct span_ring ring;

    assert_true(span_ring_open(&ring, 2, 1, FRAME));
    assert_true(add(&ring, "a") && add(&ring, "b"));
    assert_false(add(&ring, "c"));
    assert_int_equal(ring.dropped, 1);
    span_ring_take(&ring);
    span_ring_sent(&ring, false);
    assert_true(add(&ring, "d"));
    assert_batch(span_ring_take(&ring), "b", 1);
    span_ring_sent(&ring, false);
    assert_batch(span_ring_take(&ring), "d", 1);
    span_ring_close(&ring);
}

static void the_room_of_a_batch_is_that_of_the_last_one(void **state)
{
    char text[3000];
    struct span_ring ring;

    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    assert_true(span_ring_open(&ring, 2, 2, FRAME));
    add(&ring, text);
    span_ring_take(&ring);
    span_ring_sent(&ring, false);
    add(&ring, "a");
    assert_true(span_ring_take(&ring)->spans.capacity >= sizeof(text));
    span_ring_sent(&ring, false);
    add(&ring, "a");
    assert_true(span_ring_take(&ring)->spans.capacity < sizeof(text));
    span_ring_close(&ring);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_are_sent_in_order_with_room_before_them),
        cmocka_unit_test(a_batch_that_is_being_sent_takes_no_span),
        cmocka_unit_test(a_batch_that_was_not_taken_takes_spans_again),
        cmocka_unit_test(what_finds_no_room_is_counted),
        cmocka_unit_test(the_room_of_a_batch_is_that_of_the_last_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
