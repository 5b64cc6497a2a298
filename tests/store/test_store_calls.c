/* Tests of the calls of a store with a real Redis: keys, conditions, numbers, locks, streams,
 * tables. Skipped where there is none. */
#define _GNU_SOURCE
#include "base/unit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "event/loop.h"
#include "net/conn/conn.h"
#include "store/table_private.h"

enum { STARTS_MS = 20000, TTL_MS = 60000, ZONE_SIZE = 65536 };

static char directory[] = "/tmp/portunus-store-XXXXXX";
static char path[sizeof(directory) + 8];
static pid_t redis;
static struct store_settings settings;
static struct store_counts counts;
static struct store store;
static struct arena arena;
static struct store_call call;

static bool redis_listens(void)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    strcpy(name.sun_path, path);
    bool is_there = connect(fd, (struct sockaddr *) &name, sizeof(name)) == 0;
    close(fd);
    return is_there;
}

static bool redis_starts(void)
{
    redis = fork();
    if (redis == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execlp("redis-server", "redis-server", "--port", "0", "--unixsocket", path, "--save", "",
               "--logfile", "/dev/null", NULL);
        _exit(1);
    }
    for (int waited = 0; waited < STARTS_MS && !redis_listens(); waited += 10) {
        if (waitpid(redis, NULL, WNOHANG) == redis) {
            redis = 0;
            return false;
        }
        usleep(10000);
    }
    return true;
}

static int set_up_group(void **state)
{
    struct addr_list list;
    struct loop_options options = {.log = log_main};

    arena_init(&arena);
    if (mkdtemp(directory) == NULL) {
        return -1;
    }
    snprintf(path, sizeof(path), "%s/r", directory);
    if (!redis_starts()) {
        return 0;
    }
    clock_update();
    struct store_server *server = vec_add(&settings.servers, &arena, struct store_server);
    if (!addr_parse(&arena, arena_printf(&arena, "unix:%s", path), 0, false, &list)) {
        return -1;
    }
    *vec_add(&server->addrs, &arena, struct addr) = list.items[0];
    settings.prefix = STR("t:");
    settings.timeout_ms = settings.connect_timeout_ms = 10000;
    settings.reply_max = 1 << 20;
    store = (struct store){.name = STR("t"),
                           .settings = &settings,
                           .counts = &counts,
                           .is_running = true};
    conn_pool_init(100);
    call = (struct store_call){.store = &store, .arena = &arena};
    return loop_init(&options) && loop_host_fibers(50, 0) && store_route_start(&store) ? 0 : -1;
}

static int tear_down_group(void **state)
{
    if (redis != 0) {
        store_route_end(&store);
        for (int i = 0; i < 16; i++) {
            loop_turn(0);
        }
        assert_int_equal(conn_pool.used, 0);
        store_route_free(&store);
        loop_destroy();
        kill(redis, SIGKILL);
        waitpid(redis, NULL, 0);
    }
    unlink(path);
    rmdir(directory);
    arena_free(&arena);
    return 0;
}

/* Runs the test's calls on a fiber. */
static void run(void (*calls)(void *))
{
    struct fiber_handle fiber;

    if (redis == 0) {
        skip();
    }
    fiber_start_joinable(calls, NULL, &fiber);
    while (fiber.fiber != NULL && !fiber.has_ended) {
        loop_turn(20);
    }
}

static void use_keys(void *arg)
{
    struct str key = STR("t:k"), value;

    assert_int_equal(store_get(&call, key, &value), STORE_ABSENT);
    assert_int_equal(store_set(&call, key, STR("a\r\nb"), TTL_MS), STORE_OK);
    assert_int_equal(store_get(&call, key, &value), STORE_OK);
    assert_true(str_is(value, "a\r\nb"));
    assert_int_equal(store_delete(&call, key), STORE_OK);
    assert_int_equal(store_delete(&call, key), STORE_ABSENT);
}

static void keys(void **state)
{
    run(use_keys);
}

static void use_conditions(void *arg)
{
    struct str key = STR("t:c"), one = STR("1"), two = STR("2"), value;

    assert_int_equal(store_swap(&call, key, &one, two, TTL_MS), STORE_ABSENT);
    assert_int_equal(store_swap(&call, key, NULL, one, TTL_MS), STORE_OK);
    assert_int_equal(store_swap(&call, key, NULL, two, TTL_MS), STORE_ABSENT);
    assert_int_equal(store_swap(&call, key, &one, two, TTL_MS), STORE_OK);
    assert_int_equal(store_get(&call, key, &value), STORE_OK);
    assert_true(str_equal(value, two));
}

static void conditions(void **state)
{
    run(use_conditions);
}

static void use_numbers(void *arg)
{
    struct str key = STR("t:n");
    int64_t sum = 0;

    assert_int_equal(store_add(&call, key, 5, TTL_MS, &sum), STORE_OK);
    assert_int_equal(sum, 5);
    assert_int_equal(store_add(&call, key, -7, TTL_MS, &sum), STORE_OK);
    assert_int_equal(sum, -2);
    assert_int_equal(store_set(&call, key, STR("no number"), TTL_MS), STORE_OK);
    assert_int_equal(store_add(&call, key, 1, TTL_MS, &sum), STORE_REFUSED);
}

static void numbers(void **state)
{
    run(use_numbers);
}

static void use_locks(void *arg)
{
    struct str key = STR("t:l"), mine = STR("mine"), other = STR("other");

    assert_int_equal(store_lock(&call, key, mine, TTL_MS), STORE_OK);
    assert_int_equal(store_lock(&call, key, other, TTL_MS), STORE_ABSENT);
    assert_int_equal(store_lock_renew(&call, key, mine, TTL_MS), STORE_OK);
    assert_int_equal(store_lock_renew(&call, key, other, TTL_MS), STORE_ABSENT);
    assert_int_equal(store_unlock(&call, key, other), STORE_ABSENT);
    assert_int_equal(store_unlock(&call, key, mine), STORE_OK);
    assert_int_equal(store_lock(&call, key, other, TTL_MS), STORE_OK);
}

static void locks(void **state)
{
    run(use_locks);
}

static void add_entry(const struct store_stream *stream, const char *value)
{
    const struct store_entry entry = {STR("f"), str_of(value)};

    assert_int_equal(store_stream_add(&call, stream, &entry), STORE_OK);
}

static void use_streams(void *arg)
{
    const struct store_stream stream = {STR("t:s"), 1000, TTL_MS};
    struct store_cursor cursor = {"0-0"}, behind = {"1-1"};
    struct vec entries = {NULL, 0, 0};

    assert_int_equal(store_stream_end(&call, stream.key, &cursor), STORE_OK);
    assert_string_equal(cursor.text, "0-0");
    add_entry(&stream, "a");
    add_entry(&stream, "b");
    add_entry(&stream, "c");
    assert_int_equal(store_stream_read(&call, stream.key, &cursor, 2, &entries), STORE_OK);
    assert_int_equal(entries.count, 2);
    assert_true(str_is(vec_at(&entries, struct store_entry, 1)->value, "b"));
    assert_int_equal(store_stream_read(&call, stream.key, &cursor, 2, &entries), STORE_OK);
    assert_int_equal(entries.count, 3);
    assert_int_equal(store_stream_read(&call, stream.key, &cursor, 2, &entries), STORE_OK);
    assert_int_equal(entries.count, 3);
    /* A reader whose place is gone learns that, and where the end is. */
    assert_int_equal(store_stream_read(&call, stream.key, &behind, 2, &entries), STORE_ABSENT);
    assert_string_equal(behind.text, cursor.text);
    assert_int_equal(store_delete(&call, stream.key), STORE_OK);
    assert_int_equal(store_stream_read(&call, stream.key, &cursor, 2, &entries), STORE_ABSENT);
    assert_string_equal(cursor.text, "0-0");
}

static void streams(void **state)
{
    run(use_streams);
}

static void use_script_of_another_kind(void *arg)
{
    static struct store_script broken = {.text = "return redis.call('NO-SUCH-COMMAND')"};
    struct str key = STR("t:x"), reply;
    const struct store_words key_words = {&key, 1}, none = {NULL, 0};
    uint64_t errors = atomic_load(&counts.of[STORE_ERRORS]);

    assert_int_equal(store_run(&call, &broken, &key_words, &none, &reply), STORE_REFUSED);
    assert_int_equal(atomic_load(&counts.of[STORE_ERRORS]), errors + 1);
}

static void a_script_that_fails_is_counted(void **state)
{
    run(use_script_of_another_kind);
}

/* ---- a table ---- */

/* One item of a node; what happens before it takes a value of another one. */
struct node {
    struct store_table table;
    struct zone zone;
    struct str value;
    void (*before_put)(struct node *node);
};
static struct node one, other;

static bool node_get(void *owner, struct str name, struct arena *room, struct store_item *item)
{
    item->value = ((struct node *) owner)->value;
    return true;
}

static bool node_put(void *owner, const struct store_item *item)
{
    struct node *node = owner;
    void (*before_put)(struct node *) = node->before_put;

    node->before_put = NULL;
    if (before_put != NULL) {
        before_put(node);
    }
    node->value = arena_dup(&arena, item->value);
    return true;
}

static void node_drop(void *owner, struct str name)
{
    ((struct node *) owner)->value = STR_NONE;
}

static bool node_list(void *owner, uint32_t *cursor, struct arena *room, struct vec *names)
{
    return false;
}

static void node_change(struct node *node, const char *value)
{
    struct str name = STR("x");

    node->value = str_of(value);
    store_table_note(&node->table, name);
    store_table_flush(&node->table, &(const struct vec){.items = &name, .count = 1});
}

static void node_init(struct node *node, const char *fence)
{
    static const struct store_table_kind kind = {.get = node_get,
                                                 .put = node_put,
                                                 .drop = node_drop,
                                                 .list = node_list};

    node->zone = (struct zone){.size = ZONE_SIZE, .memory = shm_map(ZONE_SIZE)};
    node->zone.slab = slab_init(node->zone.memory, ZONE_SIZE);
    node->table = (struct store_table){.kind = &kind,
                                       .owner = node,
                                       .store = &store,
                                       .owed = owed_of(&node->zone),
                                       .items = STR("t:{t}"),
                                       .expiry = STR("t:{t}:expiry"),
                                       .changes = STR("t:{t}:changes"),
                                       .fence = str_of(fence),
                                       .origin = "o"};
    assert_int_equal(table_read(&node->table), STORE_OK);
}

/* The worker that reads changes has taken a newer value when this one takes its reply. */
static void read_newer_value(struct node *node)
{
    node_change(&other, "new");
    assert_int_equal(table_read(&node->table), STORE_OK);
    assert_true(str_is(node->value, "new"));
}

/* This node has changed the item, and the store has it. */
static void change_meanwhile(struct node *node)
{
    node_change(node, "own");
    assert_int_equal(store_table_waiting(&node->table), 0);
}

static void use_tables(void *arg)
{
    node_init(&one, "t:{t}:1");
    node_init(&other, "t:{t}:2");
    node_change(&other, "old");
    one.before_put = read_newer_value;
    store_table_fetch(&one.table, STR("x"));
    assert_null(one.before_put);
    assert_true(str_is(one.value, "new"));
    node_change(&other, "old");
    one.before_put = change_meanwhile;
    store_table_fetch(&one.table, STR("x"));
    assert_true(str_is(one.value, "own"));
    shm_unmap(one.zone.memory, ZONE_SIZE);
    shm_unmap(other.zone.memory, ZONE_SIZE);
}

static void a_fetched_item_does_not_overwrite_a_newer_one(void **state)
{
    run(use_tables);
}

/* From the specification of Redis' cluster. */
static void slots(void **state)
{
    assert_int_equal(store_slot_of(STR("123456789")), 0x31c3);
    assert_int_equal(store_slot_of(STR("a{123456789}b")), 0x31c3);
    assert_int_equal(store_slot_of(STR("{user1000}.following")),
                     store_slot_of(STR("{user1000}.followers")));
    assert_int_equal(store_slot_of(STR("foo{{bar}}zap")), store_slot_of(STR("{bar")));
    assert_int_not_equal(store_slot_of(STR("foo{}{bar}")), store_slot_of(STR("bar")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys),    cmocka_unit_test(conditions),
        cmocka_unit_test(numbers), cmocka_unit_test(locks),
        cmocka_unit_test(streams), cmocka_unit_test(a_script_that_fails_is_counted),
        cmocka_unit_test(slots),   cmocka_unit_test(a_fetched_item_does_not_overwrite_a_newer_one),
    };
    return cmocka_run_group_tests(tests, set_up_group, tear_down_group);
}
