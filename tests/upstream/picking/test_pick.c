/* Tests of picking: weights, failures, backups, limits, the queue. */
#include "upstream/fixture.h"

/* Ports of `count` requests that are served, as letters: 8000 is 'a'. */
static const char *turns(struct upstream_group *group, unsigned count)
{
    static char text[64];

    for (unsigned i = 0; i < count; i++) {
        unsigned port = ask_once(group, PEER_SERVED);
        text[i] = port == 0 ? '-' : (char) ('a' + port - 8000);
    }
    text[count] = '\0';
    return text;
}

static struct peer *primary(struct upstream_group *group, unsigned index)
{
    return &group->peers->primary.peers[index];
}

static void turns_are_smooth(void **state)
{
    start(
        "upstream u { server 127.0.0.1:8000 weight=5; server 127.0.0.1:8001; server 127.0.0.1:8002; }"
        "upstream even { server 127.0.0.1:8000; server 127.0.0.1:8001; }");
    assert_string_equal(turns(group_named("u"), 14), "aabacaaaabacaa");
    assert_string_equal(turns(group_named("even"), 4), "abab");
    finish();
}

static void turns_begin_anywhere(void **state)
{
    bool seen[26] = {false};
    const char *text;

    for (unsigned i = 0; i < 100; i++) {
        start("rr_discarded_range 1000; upstream u { server 127.0.0.1:8000; "
              "server 127.0.0.1:8001; server 127.0.0.1:8002; server 127.0.0.1:8003 backup; }");
        text = turns(group_named("u"), 6);
        seen[text[0] - 'a'] = true;
        assert_non_null(strstr("abcabcabc", text));
        finish();
    }
    assert_true(seen[0] && seen[1] && seen[2]);

    for (unsigned i = 0; i < 20; i++) {
        start("rr_discarded_range 2; upstream u { server 127.0.0.1:8000 weight=5; "
              "server 127.0.0.1:8001; server 127.0.0.1:8002; }");
        text = turns(group_named("u"), 7);
        assert_true(strcmp(text, "aabacaa") == 0 || strcmp(text, "abacaaa") == 0);
        finish();
    }
}

static void names_with_many_addresses(void **state)
{
    start("upstream u { server 127.0.0.1:8000; server [::1]:8001; server unix:/tmp/x; }");
    struct upstream_group *group = group_named("u");
    assert_int_equal(group->peers->count, 3);
    assert_text(primary(group, 0)->name, "127.0.0.1:8000");
    assert_text(primary(group, 1)->name, "[::1]:8001");
    assert_text(primary(group, 2)->name, "unix:/tmp/x");
    finish();
}

static void failures_put_a_peer_aside(void **state)
{
    struct asker first, second;

    start(
        "upstream u { server 127.0.0.1:8000 max_fails=2 fail_timeout=10s; server 127.0.0.1:8001; }");
    struct upstream_group *group = group_named("u");
    assert_int_equal(ask_once(group, PEER_FAILED), 8000);
    assert_false(was_logged("temporarily disabled"));
    assert_int_equal(ask_once(group, PEER_SERVED), 8001);
    assert_int_equal(ask_once(group, PEER_FAILED), 8000);
    assert_true(was_logged("[warn] upstream server temporarily disabled"));
    assert_string_equal(turns(group, 5), "bbbbb");

    /* Its time is up: one request tries it, the others stay away. */
    clock_now.now_ms += 10001;
    begin(&first, group);
    begin(&second, group);
    do {
        assert_int_equal(upstream_pick_next(&first.pick), PICK_OK);
        if (addr_port(&first.pick.peer->addr) == 8000) {
            break;
        }
        end(&first);
        begin(&first, group);
    } while (true);
    assert_int_equal(upstream_pick_next(&second.pick), PICK_OK);
    assert_int_equal(addr_port(&second.pick.peer->addr), 8001);
    upstream_pick_done(&second.pick, PEER_SERVED);
    upstream_pick_done(&first.pick, PEER_SERVED);
    end(&first);
    end(&second);
    assert_int_equal(atomic_load(&primary(group, 0)->cell->fails), 0);
    assert_non_null(strchr(turns(group, 4), 'a'));
    finish();
}

static void an_answer_to_an_older_request_forgives_nothing(void **state)
{
    struct asker older;

    start("upstream u { server 127.0.0.1:8000; server 127.0.0.1:8001; }");
    struct upstream_group *group = group_named("u");
    begin(&older, group);
    assert_int_equal(upstream_pick_next(&older.pick), PICK_OK);
    assert_int_equal(addr_port(&older.pick.peer->addr), 8000);
    assert_int_equal(ask_once(group, PEER_SERVED), 8001);
    assert_int_equal(ask_once(group, PEER_FAILED), 8000);
    upstream_pick_done(&older.pick, PEER_SERVED);
    end(&older);
    assert_string_equal(turns(group, 3), "bbb");
    finish();
}

static void untried_is_no_failure(void **state)
{
    start("upstream u { server 127.0.0.1:8000; server 127.0.0.1:8001; }");
    struct upstream_group *group = group_named("u");
    ask_once(group, PEER_UNTRIED);
    ask_once(group, PEER_UNTRIED);
    assert_string_equal(turns(group, 4), "abab");
    assert_int_equal(peer_active(primary(group, 0)->cell), 0);
    finish();
}

static void one_peer_alone_is_always_asked(void **state)
{
    start("upstream u { server 127.0.0.1:8000; }");
    struct upstream_group *group = group_named("u");
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(ask_once(group, PEER_FAILED), 8000);
    }
    assert_false(was_logged("disabled"));
    /* Nor does it matter that it failed while it had company. */
    atomic_store(&primary(group, 0)->cell->fails, 5);
    atomic_store(&primary(group, 0)->cell->checked_at_ms, clock_now.now_ms);
    assert_int_equal(ask_once(group, PEER_SERVED), 8000);
    finish();
}

static void each_peer_has_one_try(void **state)
{
    struct asker asker;

    start("upstream u { server 127.0.0.1:8000; server 127.0.0.1:8001; server 127.0.0.1:8002 down;"
          " server 127.0.0.1:8003 backup; }");
    begin(&asker, group_named("u"));
    for (unsigned i = 0; i < 3; i++) {
        static const unsigned wanted[] = {8000, 8001, 8003};

        assert_true(upstream_pick_has_next(&asker.pick));
        assert_int_equal(upstream_pick_next(&asker.pick), PICK_OK);
        assert_int_equal(addr_port(&asker.pick.peer->addr), wanted[i]);
        upstream_pick_done(&asker.pick, PEER_FAILED);
    }
    assert_false(upstream_pick_has_next(&asker.pick));
    assert_int_equal(upstream_pick_next(&asker.pick), PICK_NONE);
    assert_false(was_logged("no live upstreams"));
    end(&asker);
    assert_int_equal(ask_once(group_named("u"), PEER_SERVED), 0);
    assert_int_equal(times_logged("[error] no live upstreams\n"), 1);
    finish();
}

static void many_peers(void **state)
{
    struct buf text = {0};
    struct asker asker;

    buf_printf(&text, "upstream u {");
    for (unsigned i = 0; i < 200; i++) {
        buf_printf(&text, "server 127.0.0.1:%u;", 8000 + i);
    }
    buf_printf(&text, "}%c", '\0');
    start(text.data);
    buf_free(&text);
    begin(&asker, group_named("u"));
    for (unsigned i = 0; i < 200; i++) {
        assert_int_equal(upstream_pick_next(&asker.pick), PICK_OK);
        assert_int_equal(addr_port(&asker.pick.peer->addr), 8000 + i);
        upstream_pick_done(&asker.pick, PEER_FAILED);
    }
    assert_int_equal(upstream_pick_next(&asker.pick), PICK_NONE);
    end(&asker);
    finish();
}

static void draining_peers_get_nothing_new(void **state)
{
    struct asker asker;

    start("upstream u { server 127.0.0.1:8000 drain; server 127.0.0.1:8001; }");
    struct upstream_group *group = group_named("u");
    assert_string_equal(turns(group, 3), "bbb");
    begin(&asker, group);
    assert_true(peer_may_serve(&asker.pick, primary(group, 0), true));
    assert_false(peer_may_serve(&asker.pick, primary(group, 0), false));
    end(&asker);
    finish();
}

static void unhealthy_peers_are_skipped(void **state)
{
    start("upstream u { server 127.0.0.1:8000; server 127.0.0.1:8001; }"
          "upstream one { server 127.0.0.1:8000; }");
    struct upstream_group *group = group_named("u");
    atomic_store(&primary(group, 0)->cell->is_unhealthy, 1);
    assert_string_equal(turns(group, 3), "bbb");
    atomic_store(&primary(group_named("one"), 0)->cell->is_unhealthy, 1);
    assert_string_equal(turns(group_named("one"), 1), "-");
    finish();
}

static void limits_hold_over_all_workers(void **state)
{
    struct asker asker;

    start_with("worker_processes 3;", "upstream u { server 127.0.0.1:8000 max_conns=2; }");
    struct upstream_group *group = group_named("u");
    struct peer_cell *cell = primary(group, 0)->cell;
    assert_int_equal(cell->slots, 3);
    begin(&asker, group);
    assert_int_equal(upstream_pick_next(&asker.pick), PICK_OK);
    assert_int_equal(ask_once(group, PEER_SERVED), 8000);
    atomic_store(&cell->use[2].active, 1);
    assert_int_equal(ask_once(group, PEER_SERVED), 0);
    atomic_store(&cell->use[2].active, 0);
    assert_int_equal(ask_once(group, PEER_SERVED), 8000);
    end(&asker);
    assert_int_equal(peer_active(cell), 0);
    finish();
}

static void who_came_back_begins_slowly(void **state)
{
    unsigned early = 0, late = 0;

    start("upstream u { server 127.0.0.1:8000 slow_start=100s; server 127.0.0.1:8001; }");
    struct upstream_group *group = group_named("u");
    clock_now.now_ms += 1000000;
    atomic_store(&primary(group, 0)->cell->up_at_ms, clock_now.now_ms);
    clock_now.now_ms += 10000;
    assert_int_equal(peer_weight_now(primary(group, 0)), PEER_WEIGHT_UNIT / 10);
    for (unsigned i = 0; i < 110; i++) {
        early += ask_once(group, PEER_SERVED) == 8000;
    }
    assert_int_equal(early, 10);
    clock_now.now_ms += 90000;
    for (unsigned i = 0; i < 110; i++) {
        late += ask_once(group, PEER_SERVED) == 8000;
    }
    assert_in_range(late, 54, 56);
    finish();
}

/* ---- the queue ---- */

static struct upstream_group *queue_group;
static char order[16]; /* who got a peer: a letter; '-' nobody, 'x' cancelled */
static struct fiber *fibers[4];
static unsigned length;

static void ask_in_queue(void *arg)
{
    struct asker asker;

    begin(&asker, queue_group);
    enum pick_result result = upstream_pick_next(&asker.pick);
    order[length++] = result == PICK_OK ? *(const char *) arg : result == PICK_NONE ? '-' : 'x';
    end(&asker);
}

static void start_asking(unsigned number, const char *name)
{
    assert_int_equal(fiber_start(ask_in_queue, (void *) name, &fibers[number]), FIBER_WAITING);
}

static void queued_requests_go_in_order(void **state)
{
    struct asker holder;

    start("upstream u { server 127.0.0.1:8000 max_conns=1; queue 2 timeout=10s; }");
    queue_group = group_named("u");
    memset(order, 0, sizeof(order));
    length = 0;
    begin(&holder, queue_group);
    assert_int_equal(upstream_pick_next(&holder.pick), PICK_OK);
    start_asking(0, "a");
    start_asking(1, "b");
    /* The third finds it full. */
    assert_int_equal(ask_once(queue_group, PEER_SERVED), 0);
    assert_true(was_logged("[error] no live upstreams, the queue of 2 is full"));
    loop_turn(0);
    assert_string_equal(order, "");
    upstream_pick_done(&holder.pick, PEER_SERVED);
    turn_until(length == 2);
    assert_string_equal(order, "ab");
    end(&holder);
    finish();
}

/* Orders of a running service win over the line; who waits is served as soon as a peer comes up. */
static void peers_are_ordered_down_and_up(void **state)
{
    struct asker holder;

    start("upstream u { server 127.0.0.1:8000 max_conns=1; server 127.0.0.1:8001 down; queue 1 "
          "timeout=60s; }");
    queue_group = group_named("u");
    memset(order, 0, sizeof(order));
    length = 0;
    assert_string_equal(turns(queue_group, 2), "aa");
    peer_set_down(queue_group, primary(queue_group, 1), false);
    peer_set_down(queue_group, primary(queue_group, 0), true);
    assert_string_equal(turns(queue_group, 2), "bb");
    peer_set_down(queue_group, primary(queue_group, 1), true);
    assert_int_equal(ask_once(queue_group, PEER_SERVED), 0); /* nobody waits for who is down */
    peer_set_down(queue_group, primary(queue_group, 0), false);
    begin(&holder, queue_group);
    assert_int_equal(upstream_pick_next(&holder.pick), PICK_OK);
    start_asking(0, "a");
    loop_turn(0);
    assert_string_equal(order, "");
    peer_set_down(queue_group, primary(queue_group, 1), false);
    turn_until(length == 1);
    assert_string_equal(order, "a");
    end(&holder);
    finish();
}

static void who_comes_later_does_not_go_first(void **state)
{
    start_with("worker_processes 2;",
               "upstream u { server 127.0.0.1:8000 max_conns=1; queue 2 timeout=60s; }");
    queue_group = group_named("u");
    memset(order, 0, sizeof(order));
    length = 0;
    atomic_store(&primary(queue_group, 0)->cell->use[1].active, 1);
    start_asking(0, "a");
    /* The peer is free, which the first has not noticed yet. */
    atomic_store(&primary(queue_group, 0)->cell->use[1].active, 0);
    start_asking(1, "b");
    assert_string_equal(order, "");
    turn_until(length == 2);
    assert_string_equal(order, "ab");
    finish();
}

static void another_worker_may_give_the_peer_back(void **state)
{
    start_with("worker_processes 2;",
               "upstream u { server 127.0.0.1:8000 max_conns=1; queue 2 timeout=60s; }");
    queue_group = group_named("u");
    memset(order, 0, sizeof(order));
    length = 0;
    atomic_store(&primary(queue_group, 0)->cell->use[1].active, 1);
    start_asking(0, "a");
    start_asking(1, "b");
    fiber_cancel(fibers[0]);
    turn_until(length == 1);
    atomic_store(&primary(queue_group, 0)->cell->use[1].active, 0);
    turn_until(length == 2);
    assert_string_equal(order, "xb");
    finish();
}

static void waiting_has_an_end(void **state)
{
    start_with("worker_processes 2;",
               "upstream u { server 127.0.0.1:8000 max_conns=1; queue 2 timeout=30ms; }");
    queue_group = group_named("u");
    memset(order, 0, sizeof(order));
    length = 0;
    atomic_store(&primary(queue_group, 0)->cell->use[1].active, 1);
    start_asking(0, "a");
    turn_until(length == 1);
    assert_string_equal(order, "-");
    assert_true(was_logged("[error] no live upstreams, waited in the queue for "));
    finish();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(turns_are_smooth),
        cmocka_unit_test(turns_begin_anywhere),
        cmocka_unit_test(names_with_many_addresses),
        cmocka_unit_test(failures_put_a_peer_aside),
        cmocka_unit_test(an_answer_to_an_older_request_forgives_nothing),
        cmocka_unit_test(untried_is_no_failure),
        cmocka_unit_test(one_peer_alone_is_always_asked),
        cmocka_unit_test(each_peer_has_one_try),
        cmocka_unit_test(many_peers),
        cmocka_unit_test(draining_peers_get_nothing_new),
        cmocka_unit_test(unhealthy_peers_are_skipped),
        cmocka_unit_test(limits_hold_over_all_workers),
        cmocka_unit_test(who_came_back_begins_slowly),
        cmocka_unit_test(queued_requests_go_in_order),
        cmocka_unit_test(peers_are_ordered_down_and_up),
        cmocka_unit_test(who_comes_later_does_not_go_first),
        cmocka_unit_test(another_worker_may_give_the_peer_back),
        cmocka_unit_test(waiting_has_an_end),
    };

    return upstream_tests_run("pick", tests);
}
