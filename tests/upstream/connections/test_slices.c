/* Tests of the slices of `keepalive`: idle connections by key. */
#include "upstream/opening.h"

static struct variable_env env;
static struct arena values_arena;

/* $k and $on are what the tests say. */
static void start_sliced(const char *parameters)
{
    char text[512];

    listening = listen_somewhere(&port, 64);
    snprintf(text, sizeof(text),
             "map $pid $k { default \"\"; } map $pid $on { default \"\"; }"
             "upstream u { server 127.0.0.1:%u; keepalive %s; }",
             port, parameters);
    start(text);
    group = group_named("u");
    arena_init(&values_arena);
    env = (struct variable_env){.arena = &values_arena, .log = &memory_log};
    env.values = arena_array(&values_arena, 16, sizeof(*env.values));
}

static void stop_sliced(void)
{
    arena_free(&values_arena);
    stop_peer();
}

/* The variable that a template consists of has this value from now on. */
static void say(const struct template *template, const char *value)
{
    assert_int_equal(template->parts[0].kind, PART_VARIABLE);
    unsigned index = template->parts[0].variable->index;
    assert_true(index < 16);
    env.values[index] = (struct variable_value){.text = str_of(value), .state = VARIABLE_FOUND};
}

static struct opening open_keyed(const char *key, const void *tag)
{
    struct opening opening = {.options = {.tag = tag}, .timeout_ms = 10000, .env = &env};

    say(group->slices->key, key);
    on_fiber(open_now, &opening);
    assert_true(opening.is_over);
    assert_int_equal(opening.result, UPSTREAM_CONNECT_OK);
    return opening;
}

/* A request with this key that is answered. Was it on a kept connection? */
static bool ask(const char *key)
{
    struct opening opening = open_keyed(key, &here);
    bool is_reused = opening.connection->is_reused;

    upstream_connection_keep(opening.connection);
    over(&opening);
    return is_reused;
}

static void keys_do_not_exchange_links(void **state)
{
    start_sliced("4 slice_key=$k");
    assert_false(ask("a"));
    assert_false(ask("b"));
    assert_true(ask("a"));
    assert_true(ask("b"));
    assert_false(ask("ab"));
    assert_int_equal(conn_pool.used, 3);
    /* Nor does one without a key take theirs, or they its. */
    assert_false(ask(""));
    assert_true(ask(""));
    assert_true(ask("ab"));
    assert_int_equal(conn_pool.used, 4);
    stop_sliced();
}

static void a_key_is_text_with_variables(void **state)
{
    start_sliced("4 slice_key=user-$k");
    struct opening opening = {.options = {.tag = &here}, .timeout_ms = 10000, .env = &env};
    const struct template_part *part = &group->slices->key->parts[1];
    env.values[part->variable->index] =
        (struct variable_value){.text = STR("7"), .state = VARIABLE_FOUND};
    on_fiber(open_now, &opening);
    assert_true(str_is(opening.connection->kind.key, "user-7"));
    upstream_connection_keep(opening.connection);
    over(&opening);
    assert_int_equal(local_of(0)->idle, 1);
    stop_sliced();
}

static void links_of_one_key_are_limited(void **state)
{
    struct opening openings[3], plain[2];

    start_sliced("1 slice_key=$k slice_conn=2");
    for (unsigned i = 0; i < 3; i++) {
        openings[i] = open_keyed("a", &here);
    }
    for (unsigned i = 0; i < 2; i++) {
        plain[i] = open_keyed("", &here);
    }
    for (unsigned i = 0; i < 3; i++) {
        upstream_connection_keep(openings[i].connection);
        over(&openings[i]);
    }
    assert_int_equal(local_of(0)->idle, 2);
    for (unsigned i = 0; i < 2; i++) {
        upstream_connection_keep(plain[i].connection);
        over(&plain[i]);
    }
    assert_int_equal(local_of(0)->idle, 3); /* the plain pool has the directive's number */
    stop_sliced();
}

static void the_key_used_least_recently_goes(void **state)
{
    start_sliced("4 slice_key=$k slice_poolsize=2");
    ask("");
    ask("a");
    ask("b");
    assert_true(ask("a"));
    assert_int_equal(group->worker_state->keys, 2);
    assert_false(ask("c")); /* in the place of b */
    assert_int_equal(group->worker_state->keys, 2);
    assert_int_equal(local_of(0)->idle, 3);
    assert_true(ask("a"));
    assert_false(ask("b")); /* in the place of c */
    assert_false(ask("c"));
    assert_int_equal(conn_pool.used, 3);
    assert_true(ask("")); /* which has no key to be forgotten by */
    stop_sliced();
}

static void twenty_keys_are_kept(void **state)
{
    char key[8];

    start_sliced("4 slice_key=$k");
    for (unsigned i = 0; i < 21; i++) {
        snprintf(key, sizeof(key), "k%u", i);
        ask(key);
    }
    assert_int_equal(group->worker_state->keys, 20);
    assert_int_equal(conn_pool.used, 20);
    stop_sliced();
}

static void of_longer_keys_the_beginning_counts(void **state)
{
    start_sliced("4 slice_key=$k slice_keylen=3");
    assert_false(ask("abcd"));
    assert_true(ask("abc"));
    assert_true(ask("abce"));
    assert_false(ask("ab"));
    assert_int_equal(group->worker_state->keys, 2);
    stop_sliced();

    start_sliced("4 slice_key=$k"); /* 40 unless told otherwise */
    assert_false(ask("1234567890123456789012345678901234567890"));
    assert_true(ask("1234567890123456789012345678901234567890+"));
    assert_false(ask("123456789012345678901234567890123456789"));
    stop_sliced();
}

static void without_pools_links_with_a_key_are_not_kept(void **state)
{
    start_sliced("4 slice_key=$k slice_poolsize=0");
    assert_false(ask("a"));
    assert_false(ask("a"));
    assert_int_equal(conn_pool.used, 0);
    assert_false(ask(""));
    assert_true(ask(""));
    stop_sliced();
}

static void shared_links_are_of_one_key(void **state)
{
    start_sliced("4 slice_key=$k");
    atomic_store(&local_of(0)->cell->multiplexes, 1);
    struct opening first = open_keyed("a", &here);
    first.connection->users_max = 3;
    struct opening same = open_keyed("a", &here);
    assert_ptr_equal(same.connection, first.connection);
    struct opening other = open_keyed("b", &here);
    assert_ptr_not_equal(other.connection, first.connection);
    struct opening elsewhere = open_keyed("a", &there);
    assert_ptr_not_equal(elsewhere.connection, first.connection);
    upstream_connection_keep(first.connection);
    upstream_connection_keep(same.connection);
    upstream_connection_keep(other.connection);
    upstream_connection_keep(elsewhere.connection);
    over(&first);
    over(&same);
    over(&other);
    over(&elsewhere);
    stop_sliced();
}

static void a_variable_turns_it_on(void **state)
{
    start_sliced("4 slice_key=$k slice_dyn=$on");
    say(group->slices->switch_on, "");
    assert_false(ask("a"));
    assert_true(ask("b")); /* all share */
    say(group->slices->switch_on, "0");
    assert_true(ask("c"));
    say(group->slices->switch_on, "1");
    assert_false(ask("a"));
    assert_false(ask("b"));
    assert_true(ask("a"));
    stop_sliced();
}

static void each_place_has_its_own_when_it_is_local(void **state)
{
    start_sliced("4 local slice_key=$k");
    assert_false(ask("a"));
    struct opening opening = open_keyed("a", &there);
    assert_false(opening.connection->is_reused);
    upstream_connection_keep(opening.connection);
    over(&opening);
    assert_int_equal(group->worker_state->keys, 2);
    assert_true(ask("a"));
    stop_sliced();
}

static void who_has_no_variables_uses_the_common_pool(void **state)
{
    start_sliced("4 slice_key=$k");
    assert_false(request(&here));
    assert_true(request(&here));
    assert_false(ask("a"));
    stop_sliced();
}

#define GROUP(lines) "upstream u { server 127.0.0.1:1; " lines " }"

static void what_is_refused(void **state)
{
    assert_read(GROUP("keepalive 4 slice_keylen=9 slice_conn=1 slice_key=$uri local;"));
    assert_unread(GROUP("keepalive 4 slice_conn=2;"), "slices of \"keepalive\" need \"slice_key\"",
                  1);
    assert_unread(GROUP("keepalive 4 slice_key=;"), "invalid parameter \"slice_key=\"", 1);
    assert_unread(GROUP("keepalive 4 slice_key=$uri slice_conn=0;"),
                  "invalid parameter \"slice_conn=0\"", 1);
    assert_unread(GROUP("keepalive 4 slice_key=$uri slice_conn=x;"),
                  "invalid parameter \"slice_conn=x\"", 1);
    assert_unread(GROUP("keepalive 4 slice_key=$uri slice_poolsize=65536;"),
                  "invalid parameter \"slice_poolsize=65536\"", 1);
    assert_unread(GROUP("keepalive 4 slice_key=$uri slice_keylen=4097;"),
                  "invalid parameter \"slice_keylen=4097\"", 1);
    assert_unread(GROUP("keepalive 4 slice_key=$uri slice_dyn=on;"),
                  "invalid parameter \"slice_dyn=on\"", 1);
    assert_unread(GROUP("keepalive 4 slice_key=$uri both;"), "invalid parameter \"both\"", 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_do_not_exchange_links),
        cmocka_unit_test(a_key_is_text_with_variables),
        cmocka_unit_test(links_of_one_key_are_limited),
        cmocka_unit_test(the_key_used_least_recently_goes),
        cmocka_unit_test(twenty_keys_are_kept),
        cmocka_unit_test(of_longer_keys_the_beginning_counts),
        cmocka_unit_test(without_pools_links_with_a_key_are_not_kept),
        cmocka_unit_test(shared_links_are_of_one_key),
        cmocka_unit_test(a_variable_turns_it_on),
        cmocka_unit_test(each_place_has_its_own_when_it_is_local),
        cmocka_unit_test(who_has_no_variables_uses_the_common_pool),
        cmocka_unit_test(what_is_refused),
    };

    return upstream_tests_run("slices", tests);
}
