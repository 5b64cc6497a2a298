/* Tengine's round robins: vnswrr and iwrr give turns by weight, from a random start. */
#include "upstream/balancers.h"

#include "upstream/balancers/iwrr.c"
#include "upstream/balancers/vnswrr.c"

static void add_weighted(void)
{
    add_peer("a", 5);
    add_peer("b", 1);
    add_peer("c", 1);
}

static void count_choices(unsigned n, unsigned *counts)
{
    memset(counts, 0, PEERS_MAX * sizeof(*counts));
    for (unsigned i = 0; i < n; i++) {
        begin_pick();
        int number = next_pick();
        assert_true(number >= 0);
        counts[number]++;
    }
}

/* Any seven turns in a row hold five, one and one; over a whole cycle for the second kind. */
static void turns_by_weight(const struct balancer *balancer, void *settings)
{
    unsigned counts[PEERS_MAX];

    add_weighted();
    use_balancer(balancer, settings);
    count_choices(7 * 20, counts);
    assert_in_range(counts[0], 98, 102);
    assert_in_range(counts[1], 18, 22);
    assert_in_range(counts[2], 18, 22);
}

static struct vnswrr_settings usual, slowly = {.max_init = 1}, at_once = {.max_init = 1000};

static void vnswrr_by_weight(void **state)
{
    turns_by_weight(&balancer_vnswrr, &usual);
}

static void vnswrr_by_weight_one_by_one(void **state)
{
    turns_by_weight(&balancer_vnswrr, &slowly);
}

static void vnswrr_by_weight_at_once(void **state)
{
    turns_by_weight(&balancer_vnswrr, &at_once);
}

static void iwrr_by_weight(void **state)
{
    turns_by_weight(&balancer_iwrr, NULL);
}

/* The heavy peer has no five turns in a row: of a a b a c a a, seen as a circle, at most four. */
static void vnswrr_is_smooth(void **state)
{
    unsigned in_a_row = 0;

    add_weighted();
    use_balancer(&balancer_vnswrr, &usual);
    for (int i = 0; i < 70; i++) {
        begin_pick();
        in_a_row = next_pick() == 0 ? in_a_row + 1 : 0;
        assert_in_range(in_a_row, 0, 4);
    }
}

static void common_divisors_do_not_count(void **state)
{
    unsigned counts[PEERS_MAX];

    add_peer("a", 200000000);
    add_peer("b", 100000000);
    use_balancer(&balancer_vnswrr, &usual);
    assert_non_null(list.primary.balancer_data);
    count_choices(30, counts);
    assert_in_range(counts[0], 19, 21);
}

/* More turns than are laid down: round robin does it. */
static void vnswrr_of_huge_weights(void **state)
{
    unsigned counts[PEERS_MAX];

    add_peer("a", 2000000011);
    add_peer("b", 1000000007);
    use_balancer(&balancer_vnswrr, &usual);
    assert_null(list.primary.balancer_data);
    count_choices(30, counts);
    assert_in_range(counts[0], 19, 21);
}

/* In round n those have a turn that weigh n or more: 0 1 2, 0 2, 0 2, 0. */
static void iwrr_interleaves(void **state)
{
    static const int cycle[] = {0, 2, 1, 0, 2, 0, 2, 0};
    int got[COUNT(cycle) * 3];
    bool is_found = false;

    add_peer("a", 4);
    add_peer("b", 1);
    add_peer("c", 3);
    use_balancer(&balancer_iwrr, NULL);
    for (size_t i = 0; i < COUNT(got); i++) {
        begin_pick();
        got[i] = next_pick();
    }
    for (size_t shift = 0; shift < COUNT(cycle); shift++) {
        is_found |= memcmp(got + shift, cycle, sizeof(cycle)) == 0 &&
                    memcmp(got + shift + COUNT(cycle), cycle, sizeof(cycle)) == 0;
    }
    assert_true(is_found);
}

static void everybody_is_tried(const struct balancer *balancer, void *settings)
{
    add_weighted();
    add_peer("d", 1000);
    use_balancer(balancer, settings);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(all_picks().len, sizeof("0 1 2 3") - 1);
    }
    servers[3].is_down = true;
    for (int i = 0; i < 50; i++) {
        assert_int_equal(all_picks().len, sizeof("0 1 2") - 1);
    }
    servers[0].is_down = servers[1].is_down = servers[2].is_down = true;
    begin_pick();
    assert_int_equal(next_pick(), -1);
}

static void vnswrr_tries_everybody(void **state)
{
    everybody_is_tried(&balancer_vnswrr, &usual);
}

static void iwrr_tries_everybody(void **state)
{
    everybody_is_tried(&balancer_iwrr, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        balancer_test(vnswrr_by_weight),         balancer_test(vnswrr_by_weight_one_by_one),
        balancer_test(vnswrr_by_weight_at_once), balancer_test(iwrr_by_weight),
        balancer_test(vnswrr_is_smooth),         balancer_test(common_divisors_do_not_count),
        balancer_test(vnswrr_of_huge_weights),   balancer_test(iwrr_interleaves),
        balancer_test(vnswrr_tries_everybody),   balancer_test(iwrr_tries_everybody),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
