/* When a worker pauses before it looks for more connections: accept coalescing. */
#include "net/service.h"

#include "net/shards/coalesce.h"

#define MS UINT64_C(1000000)
#define WINDOW (10 * MS)

/* A service whose rate depends on the level; levels as enum coalesce_level has them. */
struct load {
    struct coalescer coalescer;
    uint64_t now_ns, work, pauses;
    unsigned rates[COALESCE_LEVELS]; /* connections in a millisecond */
    unsigned per_pause;              /* found after each pause */
};

/* One millisecond of it. */
static void run_1ms(struct load *load)
{
    unsigned n = load->rates[load->coalescer.level];

    load->now_ns += MS;
    load->work += 2 * n;
    if (load->coalescer.level != COALESCE_NOT) {
        load->pauses += n / load->per_pause;
    }
    if (coalescer_accepted(&load->coalescer, load->now_ns, n, load->pauses)) {
        coalescer_judge(&load->coalescer, load->now_ns, load->work, load->pauses);
    }
}

static void run_ms(struct load *load, unsigned ms)
{
    while (ms-- != 0) {
        run_1ms(load);
    }
}

static void pauses_that_cost_nothing_are_long(void **state)
{
    struct load load = {.rates = {30, 30, 30}, .per_pause = 4};

    run_ms(&load, 80);
    assert_int_equal(load.coalescer.level, COALESCE_LONG);
    assert_false(load.coalescer.is_in_trial);
}

static void what_serves_more_is_kept(void **state)
{
    struct load off = {.rates = {30, 20, 15}, .per_pause = 4};
    struct load with_short = {.rates = {30, 32, 20}, .per_pause = 4};
    struct load with_long = {.rates = {30, 35, 40}, .per_pause = 4};

    run_ms(&off, 80);
    run_ms(&with_short, 80);
    run_ms(&with_long, 80);
    assert_int_equal(off.coalescer.level, COALESCE_NOT);
    assert_int_equal(with_short.coalescer.level, COALESCE_SHORT);
    assert_int_equal(with_long.coalescer.level, COALESCE_LONG);
}

static void few_connections_are_never_waited_for(void **state)
{
    struct load load = {.rates = {1, 1, 1}, .per_pause = 4};

    for (int i = 0; i < 5000; i++) {
        run_1ms(&load);
        assert_int_equal(load.coalescer.level, COALESCE_NOT);
    }
}

/* One client at a time, as fast as it is answered: each pause finds that one. */
static void one_client_costs_a_trial_a_few_pauses(void **state)
{
    struct load load = {.rates = {13, 5, 5}, .per_pause = 1};
    unsigned paused_ms = 0;

    for (int i = 0; i < 10000; i++) {
        run_1ms(&load);
        paused_ms += load.coalescer.level != COALESCE_NOT;
    }
    assert_in_range(paused_ms, 1, 20);
}

static void trials_become_rare_and_notice_change(void **state)
{
    struct load load = {.rates = {30, 20, 15}, .per_pause = 4};
    unsigned in_trial_ms = 0;

    for (int i = 0; i < 20000; i++) {
        run_1ms(&load);
        in_trial_ms += load.coalescer.is_in_trial;
    }
    assert_in_range(in_trial_ms, 60, 600);
    load.rates[COALESCE_LONG] = 40;
    run_ms(&load, 9000);
    assert_int_equal(load.coalescer.level, COALESCE_LONG);
}

static void pauses_end_with_the_rush(void **state)
{
    struct load load = {.rates = {30, 30, 30}, .per_pause = 4};

    run_ms(&load, 80);
    load.rates[COALESCE_LONG] = load.rates[COALESCE_NOT] = 1;
    run_ms(&load, 11);
    assert_int_equal(load.coalescer.level, COALESCE_NOT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pauses_that_cost_nothing_are_long),
        cmocka_unit_test(what_serves_more_is_kept),
        cmocka_unit_test(few_connections_are_never_waited_for),
        cmocka_unit_test(one_client_costs_a_trial_a_few_pauses),
        cmocka_unit_test(trials_become_rare_and_notice_change),
        cmocka_unit_test(pauses_end_with_the_rush),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
