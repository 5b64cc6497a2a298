/* Balancers that compare peers: least_conn, least_time, random two. */
#include "upstream/balancers.h"

#include "upstream/balancers/least_time.c"

#include "upstream/balancers/least_conn.c"
#include "upstream/balancers/fair.c"
#include "upstream/balancers/random.c"

static void add_peers(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        add_peer(arena_cstr(&arena, arena_printf(&arena, "10.0.0.%u:80", i)), 1);
    }
}

static void set_active(unsigned number, uint32_t active)
{
    peers[number].cell->use[0].active = active;
}

/* The first choice of n fresh requests, as "0 1 0". */
static struct str choices(unsigned n)
{
    static char text[256];
    size_t len = 0;

    for (unsigned i = 0; i < n; i++) {
        begin_pick();
        len += (size_t) snprintf(text + len, sizeof(text) - len, "%s%d", i == 0 ? "" : " ",
                                 next_pick());
    }
    return (struct str){text, len};
}

/* ---- fair ---- */

static void fair_is_least_conn_unless_it_says_more(void **state)
{
    struct fair_settings settings = {.mode = FAIR_BY_WEIGHT};

    add_peers(3);
    use_balancer(&balancer_fair, &settings);
    assert_text(choices(6), "0 1 2 0 1 2");
    set_active(0, 2);
    set_active(1, 1);
    set_active(2, 3);
    assert_text(choices(3), "1 1 1");
}

static void fair_without_turns_takes_the_first(void **state)
{
    struct fair_settings settings = {.has_no_turns = true};

    add_peers(3);
    use_balancer(&balancer_fair, &settings);
    assert_text(choices(3), "0 0 0");
    set_active(0, 1);
    assert_text(choices(2), "1 1");
    set_active(1, 1);
    set_active(2, 1);
    assert_text(choices(2), "0 0");
}

static void fair_takes_peers_below_their_weight_for_idle(void **state)
{
    struct fair_settings settings = {.mode = FAIR_IDLE, .has_no_turns = true};

    add_peer("a", 3);
    add_peer("b", 1);
    use_balancer(&balancer_fair, &settings);
    set_active(0, 2);
    assert_text(choices(2), "0 0");
    set_active(0, 3);
    assert_text(choices(2), "1 1");
    set_active(1, 2);
    assert_text(choices(2), "0 0");
}

/* ---- least_conn ---- */

static void fewest_requests_win(void **state)
{
    add_peers(3);
    use_balancer(&balancer_least_conn, NULL);
    set_active(0, 2);
    set_active(1, 1);
    set_active(2, 3);
    assert_text(choices(3), "1 1 1");
}

static void fewest_requests_for_the_weight_win(void **state)
{
    add_peer("a", 1);
    add_peer("b", 4);
    use_balancer(&balancer_least_conn, NULL);
    set_active(0, 1);
    set_active(1, 3);
    assert_text(choices(2), "1 1");
    set_active(1, 5);
    assert_text(choices(2), "0 0");
}

static void equal_peers_take_turns_by_weight(void **state)
{
    add_peer("a", 1);
    add_peer("b", 2);
    add_peer("c", 9);
    use_balancer(&balancer_least_conn, NULL);
    set_active(2, 9);
    assert_text(choices(6), "1 0 1 1 0 1");
}

static void least_skips_who_may_not_serve(void **state)
{
    add_peers(3);
    servers[0].is_down = true;
    servers[2].max_conns = 1;
    use_balancer(&balancer_least_conn, NULL);
    set_active(1, 7);
    set_active(2, 1);
    assert_text(choices(2), "1 1");
    assert_text(all_picks(), "1");
}

/* ---- least_time ---- */

static struct peer_time_kind by_response, by_header = {.until = PEER_TIME_FIRST_BYTE},
                                          by_inflight = {.is_inflight = true};

/* One request that takes so long until the head of its answer, and until its end. Gives its peer.
 */
static int serve(uint64_t header_ms, uint64_t rest_ms)
{
    int number;

    begin_pick();
    number = next_pick();
    assert_true(number >= 0);
    pick.peer = &peers[number];
    pick.picked_ms = clock_now.now_ms;
    group.balancer->picked(&pick);
    clock_now.now_ms += header_ms;
    group.balancer->responded(&pick);
    clock_now.now_ms += rest_ms;
    group.balancer->done(&pick, pick.peer, PEER_SERVED);
    assert_int_equal(pick.peer->cell->use[0].unanswered, 0);
    assert_true(pick.peer->cell->use[0].unanswered_since_ms == 0);
    return number;
}

static void fastest_answers_win(void **state)
{
    add_peers(2);
    use_balancer(&balancer_least_time, &by_response);
    assert_int_equal(serve(0, 4000), 0);
    for (int i = 0; i < 9; i++) {
        assert_int_equal(serve(0, 10), 1);
    }
}

static void header_mode_looks_at_heads_alone(void **state)
{
    add_peers(2);
    use_balancer(&balancer_least_time, &by_header);
    assert_int_equal(serve(0, 4000), 0);
    assert_int_equal(serve(500, 0), 1);
    for (int i = 0; i < 9; i++) {
        assert_int_equal(serve(0, 900), 0);
    }
}

/* A session that is connected after so long, and then lasts. */
static int hold_session(uint64_t connect_ms, uint64_t rest_ms)
{
    begin_pick();
    int number = next_pick();

    assert_true(number >= 0);
    pick.peer = &peers[number];
    pick.picked_ms = clock_now.now_ms;
    group.balancer->picked(&pick);
    clock_now.now_ms += connect_ms;
    upstream_pick_connected(&pick);
    clock_now.now_ms += rest_ms;
    group.balancer->responded(&pick);
    group.balancer->done(&pick, pick.peer, PEER_SERVED);
    return number;
}

static void connect_mode_looks_at_connections_alone(void **state)
{
    struct peer_time_kind by_connect = {.until = PEER_TIME_CONNECT};

    add_peers(2);
    use_balancer(&balancer_least_time, &by_connect);
    assert_int_equal(hold_session(400, 0), 0);
    for (int i = 0; i < 9; i++) {
        assert_int_equal(hold_session(10, 900), 1);
    }
}

static void words_of_times_belong_to_subsystems(void **state)
{
    struct peer_time_kind kind = {0};

    assert_true(peer_time_read(STR("header"), false, &kind));
    assert_int_equal(kind.until, PEER_TIME_FIRST_BYTE);
    assert_true(peer_time_read(STR("connect"), true, &kind));
    assert_int_equal(kind.until, PEER_TIME_CONNECT);
    assert_true(peer_time_read(STR("first_byte"), true, &kind));
    assert_int_equal(kind.until, PEER_TIME_FIRST_BYTE);
    assert_true(peer_time_read(STR("last_byte"), true, &kind));
    assert_int_equal(kind.until, PEER_TIME_LAST_BYTE);
    assert_false(peer_time_read(STR("header"), true, &kind));
    assert_false(peer_time_read(STR("connect"), false, &kind));
}

/* The time of a slow peer halves with each second after fail_timeout in which it was not asked. */
static void slow_peers_are_asked_again_at_last(void **state)
{
    add_peers(2);
    servers[0].fail_timeout_ms = 0;
    use_balancer(&balancer_least_time, &by_response);
    assert_int_equal(serve(0, 4000), 0);
    clock_now.now_ms += 2000;
    for (int i = 0; i < 9; i++) {
        assert_int_equal(serve(0, 0), 1);
    }
    clock_now.now_ms += 2000;
    unsigned asked = 0;
    for (int i = 0; i < 10; i++) {
        asked += serve(0, 0) == 0;
    }
    assert_int_equal(asked, 1);
}

static void requests_in_progress_count(void **state)
{
    add_peers(2);
    use_balancer(&balancer_least_time, &by_response);
    serve(0, 100);
    serve(0, 300);
    set_active(0, 9);
    begin_pick();
    assert_int_equal(next_pick(), 1);
    set_active(0, 1);
    begin_pick();
    assert_int_equal(next_pick(), 0);
}

static void waiting_requests_count_inflight(void **state)
{
    struct upstream_pick hanging;

    add_peers(2);
    use_balancer(&balancer_least_time, &by_inflight);
    begin_pick();
    assert_int_equal(next_pick(), 0);
    pick.peer = &peers[0];
    pick.picked_ms = clock_now.now_ms;
    group.balancer->picked(&pick);
    hanging = pick;
    clock_now.now_ms += 2000;
    for (int i = 0; i < 5; i++) {
        assert_int_equal(serve(0, 50), 1);
    }
    group.balancer->done(&hanging, hanging.peer, PEER_UNTRIED);
    assert_int_equal(serve(0, 0), 0);
}

/* A request that was counted once is uncounted once, whatever hooks are called. */
static void hooks_without_a_choice_do_no_harm(void **state)
{
    add_peers(2);
    use_balancer(&balancer_least_time, &by_header);
    begin_pick();
    pick.peer = &peers[0];
    group.balancer->done(&pick, pick.peer, PEER_UNTRIED);
    group.balancer->picked(&pick);
    group.balancer->responded(&pick);
    group.balancer->done(&pick, pick.peer, PEER_FAILED);
    group.balancer->done(&pick, pick.peer, PEER_FAILED);
    assert_int_equal(peers[0].cell->use[0].unanswered, 0);
    assert_true(peers[0].cell->use[0].unanswered_since_ms == 0);
}

/* ---- random ---- */

static struct random_settings any, two = {.is_two = true},
                                   two_by_time = {.is_two = true, .is_by_time = true};

static void random_follows_the_weights(void **state)
{
    unsigned counts[3] = {0};

    add_peer("a", 1);
    add_peer("b", 3);
    add_peer("c", 0);
    use_balancer(&balancer_random, &any);
    for (int i = 0; i < 4000; i++) {
        begin_pick();
        counts[next_pick()]++;
    }
    assert_in_range(counts[0], 800, 1200);
    assert_int_equal(counts[2], 0);
}

static void random_tries_everybody_once(void **state)
{
    add_peers(3);
    use_balancer(&balancer_random, &any);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(all_picks().len, sizeof("0 1 2") - 1);
    }
    servers[1].is_down = true;
    for (int i = 0; i < 50; i++) {
        assert_int_equal(all_picks().len, sizeof("0 2") - 1);
    }
}

static void two_choices_take_the_one_with_fewer_requests(void **state)
{
    add_peers(2);
    use_balancer(&balancer_random, &two);
    set_active(0, 1);
    assert_text(choices(20), "1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1");
    set_active(1, 2);
    assert_text(choices(3), "0 0 0");
}

/* With 20 peers the second draw may miss often: the first one serves then. */
static void two_choices_with_one_left(void **state)
{
    add_peers(20);
    for (unsigned i = 1; i < 20; i++) {
        servers[i].is_down = true;
    }
    use_balancer(&balancer_random, &two);
    assert_text(choices(10), "0 0 0 0 0 0 0 0 0 0");
    servers[0].is_down = true;
    assert_text(choices(2), "-1 -1");
}

static void two_choices_by_time(void **state)
{
    add_peers(2);
    use_balancer(&balancer_random_by_time, &two_by_time);
    peers[0].cell->times_us[PEER_TIME_LAST_BYTE] = 500000;
    peers[1].cell->times_us[PEER_TIME_LAST_BYTE] = 50000;
    peers[0].cell->picked_at_ms = peers[1].cell->picked_at_ms = clock_now.now_ms;
    assert_text(choices(10), "1 1 1 1 1 1 1 1 1 1");
    assert_int_equal(serve(10, 10), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        balancer_test(fair_is_least_conn_unless_it_says_more),
        balancer_test(fair_without_turns_takes_the_first),
        balancer_test(fair_takes_peers_below_their_weight_for_idle),
        balancer_test(fewest_requests_win),
        balancer_test(fewest_requests_for_the_weight_win),
        balancer_test(equal_peers_take_turns_by_weight),
        balancer_test(least_skips_who_may_not_serve),
        balancer_test(fastest_answers_win),
        balancer_test(header_mode_looks_at_heads_alone),
        balancer_test(connect_mode_looks_at_connections_alone),
        balancer_test(words_of_times_belong_to_subsystems),
        balancer_test(slow_peers_are_asked_again_at_last),
        balancer_test(requests_in_progress_count),
        balancer_test(waiting_requests_count_inflight),
        balancer_test(hooks_without_a_choice_do_no_harm),
        balancer_test(random_follows_the_weights),
        balancer_test(random_tries_everybody_once),
        balancer_test(two_choices_take_the_one_with_fewer_requests),
        balancer_test(two_choices_with_one_left),
        balancer_test(two_choices_by_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
