/* Requests that are bound to a peer: routes, cookies, learned sessions and their table. */
#include "upstream/balancers.h"

#include "shared/upstream/sticky.c"
#include "shared/upstream/sticky_sessions.c"

/* ---- the request: two variables ---- */

static struct str values[2]; /* "lookup" and "create" */

static bool get_value(struct variable_env *unused, const struct variable *variable, struct str *out)
{
    *out = values[variable->data];
    return out->data != NULL;
}

static struct variable variables[2] = {
    {.name = STR_INIT("lookup"), .get = get_value, .flags = VARIABLE_VOLATILE, .data = 0},
    {.name = STR_INIT("create"), .get = get_value, .flags = VARIABLE_VOLATILE, .data = 1},
};

static struct sticky sticky;

static void use(const struct stickiness *stickiness)
{
    sticky = (struct sticky){.timeout_ms = 1000};
    *vec_add(&sticky.lookup, &arena, const struct variable *) = &variables[0];
    *vec_add(&sticky.create, &arena, const struct variable *) = &variables[1];
    values[0] = values[1] = STR_NONE;
    group.stickiness = stickiness;
    group.stickiness_settings = &sticky;
    use_balancer(&balancer_round_robin, NULL);
}

/* The number of the peer that a request with this value is bound to; -1: none. */
static int bound_to(const char *value)
{
    values[0] = str_of(value);
    begin_pick();
    pick.bound = group.stickiness->find(&pick);
    return pick.bound == NULL ? -1 : (int) pick.bound->number;
}

/* The peer in use had its try, and failed. */
static void fail_at(int number)
{
    pick.peer = &peers[number];
    tried[0] |= (uint64_t) 1 << number;
    group.stickiness->done(&pick, PEER_FAILED);
}

/* ---- route ---- */

static void add_routes(void)
{
    add_peer("10.0.0.1:80", 1);
    add_peer("10.0.0.2:80", 1);
    add_peer("10.0.0.3:80", 1);
    servers[0].route = STR("a");
    servers[1].route = STR("b");
}

static void route_names_a_peer(void **state)
{
    add_routes();
    use(&sticky_route);
    assert_int_equal(bound_to("b"), 1);
    assert_int_equal(bound_to("a"), 0);
    assert_int_equal(bound_to("B"), -1);
    assert_int_equal(bound_to(""), -1); /* although the third has no route */
    assert_int_equal(bound_to(NULL), -1);
}

static void route_of_a_peer_that_cannot_serve(void **state)
{
    add_routes();
    use(&sticky_route);
    servers[1].is_down = true;
    assert_int_equal(bound_to("b"), -1);
    servers[1].is_down = false;
    servers[1].max_conns = 1;
    peers[1].cell->use[0].active = 1;
    assert_int_equal(bound_to("b"), -1);
}

static void draining_peers_keep_their_clients(void **state)
{
    add_routes();
    use(&sticky_route);
    servers[1].is_draining = true;
    assert_int_equal(bound_to("b"), 1);
}

static void the_same_route_twice(void **state)
{
    add_routes();
    servers[2].route = STR("a");
    use(&sticky_route);
    assert_int_equal(bound_to("a"), 0);
    fail_at(0);
    assert_ptr_equal(pick.bound, &peers[2]);
    fail_at(2);
    assert_null(pick.bound);
}

static void backups_wait_until_no_primary_peer_is_left(void **state)
{
    add_routes();
    begin_backups();
    add_peer("10.0.0.4:80", 1);
    add_peer("10.0.0.5:80", 1);
    servers[3].route = STR("c");
    servers[4].route = STR("a");
    use(&sticky_route);
    assert_int_equal(bound_to("c"), -1);
    assert_int_equal(bound_to("a"), 0);
    fail_at(0);
    assert_null(pick.bound);
    fail_at(1);
    fail_at(2);
    assert_ptr_equal(pick.bound, &peers[4]);
    servers[0].is_down = servers[1].is_down = servers[2].is_down = true;
    assert_int_equal(bound_to("c"), 3);
}

/* ---- cookie ---- */

/* What the client is sent when this peer is chosen. */
static struct str cookie_of(int number)
{
    pick.peer = &peers[number];
    group.stickiness->picked(&pick);
    return pick.set_cookie;
}

static void cookie_is_a_route_or_a_digest(void **state)
{
    add_routes();
    use(&sticky_cookie);
    sticky.name = STR("srv");
    assert_int_equal(bound_to(NULL), -1);
    assert_text(cookie_of(0), "srv=a");
    /* echo -n 10.0.0.3:80 | md5sum */
    assert_text(cookie_of(2), "srv=0e6c7216448f123fa30077444fb1651c");
    assert_int_equal(bound_to("0e6c7216448f123fa30077444fb1651c"), 2);
    assert_int_equal(bound_to("0e6c7216448f123fa30077444fb1651d"), -1);
    assert_int_equal(bound_to("a"), 0);
}

static void cookie_is_sent_with_each_answer(void **state)
{
    add_routes();
    use(&sticky_cookie);
    sticky.name = STR("srv");
    assert_int_equal(bound_to("a"), 0);
    assert_text(cookie_of(0), "srv=a");
    assert_text(cookie_of(1), "srv=b"); /* it went elsewhere */
}

static void cookie_with_attributes(void **state)
{
    add_routes();
    use(&sticky_cookie);
    sticky.name = STR("srv");
    sticky.expires = true;
    sticky.expires_s = 3600;
    sticky.domain = text_template(".example.com");
    sticky.path = text_template("/app");
    sticky.is_httponly = sticky.is_secure = true;
    sticky.samesite = text_template("lax");
    bound_to(NULL);
    assert_text(cookie_of(0), "srv=a; expires=Tue, 14-Nov-23 23:13:20 GMT; max-age=3600; "
                              "domain=.example.com; path=/app; httponly; samesite=lax; secure");
    sticky.is_max = true;
    sticky.domain = sticky.path = sticky.samesite = NULL;
    sticky.is_httponly = sticky.is_secure = false;
    assert_text(cookie_of(0), "srv=a; expires=Thu, 31-Dec-37 23:55:55 GMT; max-age=315360000");
}

/* What a client may have a hand in cannot add attributes or fields. */
static void cookie_attributes_hold_nothing_else(void **state)
{
    add_routes();
    use(&sticky_cookie);
    sticky.name = STR("srv");
    sticky.domain = text_template("a\r\nSet-Cookie: x=y");
    sticky.path = text_template("/; secure");
    sticky.samesite = text_template("whatever");
    bound_to(NULL);
    assert_text(cookie_of(0), "srv=a; samesite=strict"); /* also for what is none of the words */
}

/* ---- sessions ---- */

static struct zone zone;

static void make_zone(size_t size)
{
    zone = (struct zone){.name = STR("z"), .size = size, .memory = shm_map(size)};
    assert_non_null(zone.memory);
    zone.slab = slab_init(zone.memory, size);
    assert_non_null(zone.slab);
}

static void drop_zone(void)
{
    shm_unmap(zone.memory, zone.size);
}

static struct session_id id_of(unsigned number)
{
    struct session_id id = {{0}};

    md5_of((struct str){(const char *) &number, sizeof(number)}, id.md5);
    return id;
}

static void put(struct sessions *sessions, unsigned key, unsigned peer)
{
    struct session_id key_id = id_of(key), peer_id = id_of(peer);

    sessions_put(sessions, &key_id, &peer_id, 1000);
}

static bool has(struct sessions *sessions, unsigned key, unsigned peer)
{
    struct session_id key_id = id_of(key), peer_id = id_of(peer), found;

    return sessions_find(sessions, &key_id, 1000, &found) &&
           memcmp(&found, &peer_id, sizeof(found)) == 0;
}

static void sessions_are_found(void **state)
{
    make_zone(256 * 1024);
    struct sessions *sessions = sessions_of(&zone);
    assert_non_null(sessions);
    assert_ptr_equal(sessions_of(&zone), sessions); /* after a reload */
    assert_false(has(sessions, 1, 10));
    put(sessions, 1, 10);
    put(sessions, 2, 20);
    assert_true(has(sessions, 1, 10));
    assert_true(has(sessions, 2, 20));
    put(sessions, 1, 11);
    assert_true(has(sessions, 1, 11));
    assert_int_equal(sessions_count(sessions), 2);
    drop_zone();
}

static void sessions_end_when_they_are_not_used(void **state)
{
    make_zone(256 * 1024);
    struct sessions *sessions = sessions_of(&zone);
    put(sessions, 1, 10);
    put(sessions, 2, 20);
    clock_now.now_ms += 900;
    assert_true(has(sessions, 1, 10));
    clock_now.now_ms += 900;
    assert_true(has(sessions, 1, 10));
    assert_false(has(sessions, 2, 20));
    put(sessions, 2, 21);
    assert_true(has(sessions, 2, 21));
    drop_zone();
}

/* The table takes what the zone has, and no more: the session that rested longest makes room. */
static void sessions_are_bounded(void **state)
{
    make_zone(256 * 1024);
    struct sessions *sessions = sessions_of(&zone);
    unsigned capacity = sessions->capacity;

    assert_in_range(capacity, 2000, 5000);
    for (unsigned i = 0; i < capacity; i++) {
        put(sessions, i, i);
    }
    assert_true(has(sessions, 0, 0)); /* used again: the second is the oldest now */
    put(sessions, capacity, 7);
    assert_true(has(sessions, capacity, 7));
    assert_true(has(sessions, 0, 0));
    assert_false(has(sessions, 1, 1));
    assert_true(has(sessions, 2, 2));
    for (unsigned i = 0; i < 3 * capacity; i++) {
        put(sessions, 100000 + i, i);
    }
    assert_int_equal(sessions_count(sessions), capacity);
    for (unsigned i = 2 * capacity; i < 3 * capacity; i++) {
        assert_true(has(sessions, 100000 + i, i));
    }
    drop_zone();
}

/* What other nodes are to get: a session that begins, moves, or was given long ago; and which of
 * those they know made room. */
static void sessions_of_several_nodes(void **state)
{
    make_zone(256 * 1024);
    struct sessions *sessions = sessions_of(&zone);
    struct session_id one = id_of(1), peer = id_of(10), other = id_of(11), found;
    struct sessions_change change = sessions_put_shared(sessions, &one, &peer, 1000);
    uint64_t left_ms;

    assert_true(change.is_new && change.is_due && !change.is_displaced);
    clock_now.now_ms += 200;
    change = sessions_put_shared(sessions, &one, &peer, 1000);
    assert_true(!change.is_new && !change.is_due);
    clock_now.now_ms += 100;
    change = sessions_put_shared(sessions, &one, &peer, 1000);
    assert_true(!change.is_new && change.is_due);
    change = sessions_put_shared(sessions, &one, &other, 1000);
    assert_true(change.is_new && change.is_due);
    clock_now.now_ms += 100;
    assert_true(sessions_give(sessions, &one, &found, &left_ms));
    assert_int_equal(left_ms, 900);
    assert_memory_equal(&found, &other, sizeof(found));
    sessions_drop(sessions, &one);
    assert_false(sessions_give(sessions, &one, &found, &left_ms));
    put(sessions, 2, 20); /* of this node alone: it makes room without a word */
    sessions_take(sessions, &one, &peer, 500);
    for (unsigned i = 2; i < sessions->capacity; i++) {
        put(sessions, 100 + i, 20);
    }
    change = sessions_put_shared(sessions, &other, &peer, 1000);
    assert_false(change.is_displaced);
    struct session_id third = id_of(3);
    change = sessions_put_shared(sessions, &third, &peer, 1000);
    assert_true(change.is_displaced);
    assert_memory_equal(&change.displaced, &one, sizeof(one));
    drop_zone();
}

static void learned_sessions_bind(void **state)
{
    add_routes();
    use(&sticky_learn);
    make_zone(256 * 1024);
    sticky.sessions = sessions_of(&zone);
    assert_int_equal(bound_to("s1"), -1);
    /* The answer of the second peer begins a session. */
    pick.peer = &peers[1];
    values[1] = STR("s1");
    group.stickiness->responded(&pick);
    assert_int_equal(bound_to("s1"), -1);
    pick.peer = &peers[1];
    group.stickiness->done(&pick, PEER_SERVED);
    assert_int_equal(bound_to("s1"), 1);
    assert_int_equal(bound_to("s2"), -1);
    /* It fails, and another peer serves: the session moves. */
    values[1] = STR_NONE;
    assert_int_equal(bound_to("s1"), 1);
    fail_at(1);
    assert_null(pick.bound);
    pick.peer = &peers[2];
    group.stickiness->done(&pick, PEER_SERVED);
    assert_int_equal(bound_to("s1"), 2);
    /* The backend puts another session in its place: the former ends in its time. */
    clock_now.now_ms += 900;
    assert_int_equal(bound_to("s1"), 2);
    pick.peer = &peers[2];
    values[1] = STR("s3");
    group.stickiness->done(&pick, PEER_SERVED);
    clock_now.now_ms += 900;
    assert_int_equal(bound_to("s1"), -1);
    assert_int_equal(bound_to("s3"), 2);
    /* It goes on while answers say nothing. */
    pick.peer = &peers[2];
    values[1] = STR_NONE;
    group.stickiness->done(&pick, PEER_SERVED);
    clock_now.now_ms += 900;
    assert_int_equal(bound_to("s3"), 2);
    values[1] = STR("s1");
    pick.peer = &peers[2];
    group.stickiness->done(&pick, PEER_SERVED);
    values[1] = STR_NONE;
    assert_int_equal(bound_to("s1"), 2);
    /* Another group that shares the zone does not know it. */
    group.name = STR("other");
    assert_int_equal(bound_to("s1"), -1);
    drop_zone();
}

static void learned_at_the_head(void **state)
{
    add_routes();
    use(&sticky_learn);
    make_zone(256 * 1024);
    sticky.sessions = sessions_of(&zone);
    sticky.begins_at_head = true;
    assert_int_equal(bound_to("s1"), -1);
    pick.peer = &peers[1];
    values[1] = STR("s1");
    group.stickiness->responded(&pick);
    assert_int_equal(bound_to("s1"), 1);
    drop_zone();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        balancer_test(route_names_a_peer),
        balancer_test(route_of_a_peer_that_cannot_serve),
        balancer_test(draining_peers_keep_their_clients),
        balancer_test(the_same_route_twice),
        balancer_test(backups_wait_until_no_primary_peer_is_left),
        balancer_test(cookie_is_a_route_or_a_digest),
        balancer_test(cookie_is_sent_with_each_answer),
        balancer_test(cookie_with_attributes),
        balancer_test(cookie_attributes_hold_nothing_else),
        balancer_test(sessions_are_found),
        balancer_test(sessions_end_when_they_are_not_used),
        balancer_test(sessions_are_bounded),
        balancer_test(sessions_of_several_nodes),
        balancer_test(learned_sessions_bind),
        balancer_test(learned_at_the_head),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
