/* Sets whose clients another listener serves: what came to them is never dropped. */
#include "net/service.h"

static struct listener listener;
static bool can_take;
static int taken;
static int kept[3]; /* what the worker has */

/* A worker that may not be ready yet; it answers at once. */
static bool take(int fd, const struct addr *local, void *arg)
{
    if (!can_take) {
        return false;
    }
    assert_true(addr_equal(local, &listener.addr));
    kept[taken] = dup(fd);
    assert_int_equal(write(kept[taken++], "x", 1), 1);
    return true;
}

static void what_nobody_can_take_yet_waits(void **state)
{
    int clients[3];
    char byte;

    listener_init(&listener, "127.0.0.1", free_port());
    assert_true(shards_open(&listener, 2, true, false, &memory_log));
    for (unsigned i = 0; i < 3; i++) {
        clients[i] = client_connect(&listener.addr);
        assert_int_equal(write(clients[i], "GET", 3), 3);
    }
    assert_true(shard_set_leave(listener.shards));
    for (unsigned i = 0; i < 3; i++) {
        assert_true(shard_sets_leaving(take, NULL));
        assert_true(shard_set_is_leaving());
    }
    can_take = true;
    assert_false(shard_sets_leaving(take, NULL));
    assert_false(shard_set_is_leaving());
    assert_int_equal(taken, 3);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(recv(clients[i], &byte, 1, 0), 1); /* it was not reset */
        close(clients[i]);
        close(kept[i]);
    }
}

static void a_process_that_ends_takes_nothing(void **state)
{
    can_take = false;
    listener_init(&listener, "127.0.0.1", free_port());
    assert_true(shards_open(&listener, 1, true, false, &memory_log));
    int client = client_connect(&listener.addr);
    assert_true(shard_set_leave(listener.shards));
    assert_true(shard_sets_leaving(take, NULL));
    shard_sets_leave_at_once();
    assert_false(shard_set_is_leaving());
    close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVICE_TEST(what_nobody_can_take_yet_waits),
        SERVICE_TEST(a_process_that_ends_takes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
