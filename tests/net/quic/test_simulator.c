/* Recovery, congestion control and streams over simulated paths: everything arrives, at a rate that
 * the path allows. */
#include "net/quic/simulator.h"

#include <stdio.h>

/* Both directions alike; the queue holds what the path holds in `queue` hundredths of a round trip.
 */
static struct sim_setup setup_of(uint64_t rate, uint64_t rtt_us, uint64_t queue)
{
    uint64_t in_flight = rate * rtt_us / 1000000;
    struct sim_path path = {
        .rate = rate,
        .delay_us = rtt_us / 2,
        .queue_bytes = in_flight * queue / 100 + 20 * SIM_DATAGRAM,
        .drop_from = UINT64_MAX,
    };

    return (struct sim_setup){
        .path = {path, path},
        .control = &quic_cubic,
        .streams = 1,
        .stream_window = 1 << 20,
        .window = 3 << 19,
        .seed = 1,
        .until_us = 3600ull * 1000000,
    };
}

/* Bytes a second that end 1 received. */
static uint64_t goodput(const struct sim_setup *setup)
{
    struct sim sim;

    sim_start(&sim, setup);
    assert_true(sim_run(&sim));
    uint64_t rate = setup->bytes[0] * 1000000 / (sim.ends[1].done_us - SIM_START_US);
    if (getenv("SIM_SHOW") != NULL) {
        const struct quic_recovery *r = &sim.ends[0].recovery;
        printf(
            "%s rate %llu/%llu sent %llu dropped %llu lost %llu spurious %llu reductions %u srtt %llu window %llu\n",
            setup->control->name, (unsigned long long) rate,
            (unsigned long long) setup->path[0].rate, (unsigned long long) sim.setup.path[0].sent,
            (unsigned long long) sim.setup.path[0].dropped, (unsigned long long) r->packets_lost,
            (unsigned long long) r->packets_spurious, r->congestion.reductions,
            (unsigned long long) r->rtt.smoothed_us, (unsigned long long) r->congestion.window);
    }
    sim_end(&sim);
    return rate;
}

static void everything_arrives_whatever_the_path_does(void **state)
{
    const struct quic_congestion_control *controls[] = {&quic_cubic, &quic_bbr};

    for (uint32_t seed = 1; seed <= 2000; seed++) {
        struct sim sim = {.random = seed * 77};
        struct sim_setup setup = setup_of(20000 + sim_random(&sim, 5000000),
                                          1000 + sim_random(&sim, 300000), sim_random(&sim, 300));
        setup.control = controls[seed % 2];
        setup.seed = seed;
        setup.streams = 1 + sim_random(&sim, SIM_STREAMS);
        setup.stream_window = 1000 + sim_random(&sim, 50000);
        setup.window = 1000 + sim_random(&sim, 50000);
        for (int i = 0; i < 2; i++) {
            struct sim_path *path = &setup.path[i];
            setup.bytes[i] = sim_random(&sim, 100000);
            path->loss = sim_random(&sim, 2) * sim_random(&sim, 250000);
            path->duplicate = sim_random(&sim, 2) * sim_random(&sim, 100000);
            path->reorder = sim_random(&sim, 2) * sim_random(&sim, 300000);
            path->reorder_us = 1 + sim_random(&sim, 100000);
            path->drop_from = sim_random(&sim, 200);
            path->drop_count = sim_random(&sim, 2) * sim_random(&sim, 30);
            path->ecn_bytes = sim_random(&sim, 3) == 0 ? 1 + path->queue_bytes / 2 : 0;
        }
        sim_start(&sim, &setup);
        if (!sim_run(&sim)) {
            fail_msg("seed %u (%s) did not end: received %d %d, at %llu us", seed,
                     setup.control->name, sim.ends[0].done_us != 0, sim.ends[1].done_us != 0,
                     (unsigned long long) sim.now_us);
        }
        for (int i = 0; i < 2; i++) {
            assert_int_equal(sim.ends[i].recovery.congestion.in_flight, 0);
            assert_int_equal(sim.ends[i].window.consumed,
                             setup.bytes[1 - i] / setup.streams * setup.streams);
        }
        sim_end(&sim);
    }
}

static void a_clean_path_is_filled(void **state)
{
    const struct quic_congestion_control *controls[] = {&quic_cubic, &quic_bbr};

    for (int i = 0; i < 2; i++) {
        struct sim_setup setup = setup_of(2500000, 50000, 100);
        setup.control = controls[i];
        setup.bytes[0] = 25000000;
        assert_in_range(goodput(&setup), 2000000, 2500000);
    }
}

static void bbr_keeps_its_rate_where_packets_are_lost_by_chance(void **state)
{
    struct sim_setup setup = setup_of(5000000, 50000, 100);

    setup.bytes[0] = 20000000;
    setup.path[0].loss = 10000;
    uint64_t cubic = goodput(&setup);
    setup.control = &quic_bbr;
    uint64_t bbr = goodput(&setup);
    assert_true(bbr > 2 * cubic);
    assert_true(bbr > 3500000);
}

/* The last packets of the transfer are lost: there is nothing behind them that would tell. */
static void a_lost_tail_is_repaired_by_a_probe(void **state)
{
    for (uint64_t lost = 1; lost <= 3; lost++) {
        struct sim_setup setup = setup_of(5000000, 50000, 100);
        setup.bytes[0] = 1140 * 8;
        setup.path[0].drop_from = 8 - lost;
        setup.path[0].drop_count = lost;
        struct sim sim;
        sim_start(&sim, &setup);
        assert_true(sim_run(&sim));
        assert_in_range(sim.ends[1].done_us - SIM_START_US, 100000, lost < 8 ? 350000 : 0);
        sim_end(&sim);
    }
}

static void reordering_is_not_taken_for_loss_for_long(void **state)
{
    const struct quic_congestion_control *controls[] = {&quic_cubic, &quic_bbr};

    for (int i = 0; i < 4; i++) {
        struct sim_setup setup = setup_of(2500000, 50000, 100);
        setup.control = controls[i % 2];
        setup.bytes[0] = 10000000;
        setup.path[0].reorder = i < 2 ? 100000 : 300000;
        setup.path[0].reorder_us = i < 2 ? 8000 : 40000;
        assert_true(goodput(&setup) > 1750000);
    }
}

static void marks_hold_the_queue_without_loss(void **state)
{
    struct sim_setup setup = setup_of(2500000, 50000, 200);
    struct sim sim;

    setup.bytes[0] = 10000000;
    setup.path[0].ecn_bytes = 60000;
    sim_start(&sim, &setup);
    assert_true(sim_run(&sim));
    assert_int_equal(sim.ends[0].recovery.ecn, QUIC_ECN_CAPABLE);
    assert_true(sim.ends[0].recovery.congestion.reductions > 0);
    assert_int_equal(sim.setup.path[0].dropped, 0);
    sim_end(&sim);
}

static void packets_leave_at_a_pace(void **state)
{
    struct sim_setup setup = setup_of(2500000, 50000, 100);
    struct sim sim;

    setup.bytes[0] = 5000000;
    sim_start(&sim, &setup);
    assert_true(sim_run(&sim));
    assert_in_range(sim.longest_burst, SIM_DATAGRAM, 13 * SIM_DATAGRAM);
    sim_end(&sim);
}

/* Bytes of all, and of each connection in percent, when half of the time has passed that all need.
 */
static void share(const struct sim_setup *setup, uint64_t *percent)
{
    struct sim sim;
    uint64_t all = 0;

    sim_start(&sim, setup);
    sim_run(&sim);
    for (int i = 1; i < sim.count; i += 2) {
        all += sim.ends[i].window.consumed;
    }
    for (int i = 1; i < sim.count; i += 2) {
        percent[i / 2] = sim.ends[i].window.consumed * 100 / all;
        if (getenv("SIM_SHOW") != NULL) {
            printf("flow %d %s: %llu%%\n", i / 2, sim.ends[i - 1].recovery.congestion.control->name,
                   (unsigned long long) percent[i / 2]);
        }
    }
    sim_end(&sim);
}

static void connections_share_a_path(void **state)
{
    const struct quic_congestion_control *controls[] = {&quic_cubic, &quic_bbr};

    for (int i = 0; i < 4; i++) {
        struct sim_setup setup = setup_of(2500000, 40000, 100);
        uint64_t percent[SIM_FLOWS];
        setup.control = controls[i % 2];
        setup.others = controls[i / 2];
        setup.flows = 2;
        setup.bytes[0] = 2500000 * 60ull;
        setup.until_us = 60000000;
        share(&setup, percent);
        assert_in_range(percent[0], i % 2 == i / 2 ? 25 : 10, i % 2 == i / 2 ? 75 : 90);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_clean_path_is_filled),
        cmocka_unit_test(bbr_keeps_its_rate_where_packets_are_lost_by_chance),
        cmocka_unit_test(a_lost_tail_is_repaired_by_a_probe),
        cmocka_unit_test(reordering_is_not_taken_for_loss_for_long),
        cmocka_unit_test(marks_hold_the_queue_without_loss),
        cmocka_unit_test(packets_leave_at_a_pace),
        cmocka_unit_test(connections_share_a_path),
        cmocka_unit_test(everything_arrives_whatever_the_path_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
