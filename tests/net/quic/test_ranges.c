/* Tests of sets of numbers, against a plain array of booleans. */
#include "base/unit.h"

#include "net/quic/ranges.h"

enum { NUMBERS = 200 };

static uint32_t next_number(uint32_t *seed)
{
    *seed = *seed * 1664525 + 1013904223;
    return *seed >> 8;
}

static uint32_t model_count(const bool *model)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < NUMBERS; i++) {
        count += model[i] && (i == 0 || !model[i - 1]);
    }
    return count;
}

static void check_model(const struct quic_ranges *ranges, const bool *model)
{
    assert_int_equal(ranges->count, model_count(model));
    for (uint32_t i = 0; i < NUMBERS; i++) {
        assert_int_equal(quic_ranges_has(ranges, i), model[i]);
        uint64_t gap = i;
        while (gap < NUMBERS && model[gap]) {
            gap++;
        }
        assert_int_equal(quic_ranges_gap(ranges, i), gap);
        uint64_t next = i;
        while (next < NUMBERS && !model[next]) {
            next++;
        }
        assert_int_equal(quic_ranges_next(ranges, i), next == NUMBERS ? UINT64_MAX : next);
    }
    for (uint32_t i = 1; i < ranges->count; i++) {
        assert_true(quic_ranges_at(ranges, i - 1).end < quic_ranges_at(ranges, i).start);
    }
}

static void agrees_with_a_plain_array(void **state)
{
    for (uint32_t run = 0; run < 200; run++) {
        uint32_t seed = run, most = 1 + run % 12;
        bool model[NUMBERS] = {false}, changed[NUMBERS];
        struct quic_ranges ranges;

        quic_ranges_init(&ranges, most);
        for (int step = 0; step < 150; step++) {
            uint64_t start = next_number(&seed) % NUMBERS;
            uint64_t end = start + next_number(&seed) % 12;
            unsigned kind = next_number(&seed) % 8;

            end = end > NUMBERS ? NUMBERS : end;
            memcpy(changed, model, sizeof(model));
            for (uint64_t i = kind == 7 ? 0 : start; i < (kind == 7 ? start : end); i++) {
                changed[i] = kind < 4;
            }
            bool is_done = true;
            if (kind < 4) {
                is_done = quic_ranges_add(&ranges, start, end);
            } else if (kind < 7) {
                is_done = quic_ranges_remove(&ranges, start, end);
            } else {
                quic_ranges_drop_below(&ranges, start);
            }
            assert_int_equal(is_done, model_count(changed) <= most);
            if (is_done) {
                memcpy(model, changed, sizeof(model));
            }
            check_model(&ranges, model);
        }
        quic_ranges_free(&ranges);
    }
}

static void the_end_of_all_numbers_is_no_trap(void **state)
{
    struct quic_ranges ranges;
    const uint64_t last = (1ull << 62) - 1;

    quic_ranges_init(&ranges, 8);
    assert_true(quic_ranges_add(&ranges, last, last + 1));
    assert_true(quic_ranges_has(&ranges, last));
    assert_false(quic_ranges_has(&ranges, last - 1));
    assert_true(quic_ranges_remove(&ranges, 0, UINT64_MAX));
    assert_int_equal(ranges.count, 0);
    quic_ranges_free(&ranges);
}

static void packet_numbers_are_received_once(void **state)
{
    struct quic_received received;

    quic_received_init(&received, 3);
    for (uint64_t number = 0; number < 10; number += 2) { /* 0 2 4 6 8: five ranges */
        assert_false(quic_received_has(&received, number));
        quic_received_add(&received, number);
        assert_true(quic_received_has(&received, number));
    }
    assert_int_equal(received.ranges.count, 3);
    assert_int_equal(quic_ranges_at(&received.ranges, 0).start, 4);
    assert_true(quic_received_has(&received, 1)); /* nobody knows any more: it counts as received */
    assert_false(quic_received_has(&received, 5));
    quic_received_add(&received, 3);
    assert_int_equal(received.ranges.count, 3); /* 3 touches 4 */
    quic_received_free(&received);
}

static void a_number_below_all_does_not_push_out_higher_ones(void **state)
{
    struct quic_received received;

    quic_received_init(&received, 2);
    quic_received_add(&received, 10);
    quic_received_add(&received, 20);
    quic_received_add(&received, 5);
    assert_true(quic_received_has(&received, 5));
    assert_true(quic_received_has(&received, 10));
    assert_int_equal(received.ranges.count, 2);
    assert_false(quic_received_has(&received, 7));
    quic_received_free(&received);
}

static void what_was_reported_is_forgotten(void **state)
{
    struct quic_received received;

    quic_received_init(&received, 8);
    for (uint64_t number = 0; number < 10; number++) {
        quic_received_add(&received, number);
    }
    quic_received_reported(&received, 6);
    assert_int_equal(quic_ranges_at(&received.ranges, 0).start, 7);
    assert_true(quic_received_has(&received, 3));
    quic_received_reported(&received, 2);
    assert_int_equal(received.below, 7);
    quic_received_free(&received);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_a_plain_array),
        cmocka_unit_test(the_end_of_all_numbers_is_no_trap),
        cmocka_unit_test(packet_numbers_are_received_once),
        cmocka_unit_test(a_number_below_all_does_not_push_out_higher_ones),
        cmocka_unit_test(what_was_reported_is_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
