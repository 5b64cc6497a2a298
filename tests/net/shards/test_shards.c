/* Shard sets: a socket per slot for ever; growing, steering, busy addresses, inheriting. */
#include "net/service.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/stat.h>

static struct listener listener;

static void open_slots(unsigned slots)
{
    listener_init(&listener, "127.0.0.1", free_port());
    assert_true(shards_open(&listener, slots, true, false, &memory_log));
}

/* Makes connections until n of them are in accept queues; closes their descriptors on our side. */
static void connect_many(int n)
{
    for (int i = 0; i < n; i++) {
        int fd = client_connect(&listener.addr);

        close(fd);
    }
}

static unsigned queued(unsigned slot)
{
    return shard_backlog(listener.shards->fds[slot]);
}

static void each_slot_has_a_socket_that_gets_its_share(void **state)
{
    open_slots(4);
    assert_int_equal(listener.shards->count, 4);
    assert_true(listener.shards->is_sharded);
    connect_many(200);
    for (unsigned i = 0; i < 4; i++) {
        assert_in_range(queued(i), 10, 110);
    }
    assert_int_equal(queued(0) + queued(1) + queued(2) + queued(3), 200);
}

static void steering_leaves_out_the_top(void **state)
{
    open_slots(4);
    assert_true(shard_steer(listener.shards, 2, &memory_log));
    connect_many(60);
    assert_int_equal(queued(2) + queued(3), 0);
    assert_in_range(queued(0), 5, 55);
    unsigned one = queued(1);
    assert_true(shard_steer(listener.shards, 3, &memory_log));
    connect_many(90);
    assert_int_equal(queued(3), 0);
    assert_true(queued(1) > one && queued(2) > 0);
    assert_true(shard_steer(listener.shards, 4, &memory_log));
    connect_many(100);
    assert_true(queued(3) > 0);
    assert_false(shard_steer(listener.shards, 0, &memory_log)); /* nobody would be left */
}

static void a_slot_that_retires_can_come_back(void **state)
{
    open_slots(3);
    struct shard_set *set = listener.shards;
    int second = set->fds[1];
    assert_true(shards_open(&listener, 1, true, false, &memory_log));
    assert_true(shard_steer(set, set->wanted, &memory_log));
    connect_many(20);
    assert_int_equal(queued(0), 20);
    shard_close_top(set);
    shard_top_retired(set, 2, &memory_log);
    assert_int_equal(set->count, 2);
    connect_many(20);
    assert_int_equal(queued(0), 40); /* the other one still retires */
    /* Before it has ended all three are wanted again. */
    assert_true(shards_open(&listener, 3, true, false, &memory_log));
    assert_int_equal(set->count, 3);
    assert_int_equal(set->fds[1], second);
    assert_true(shard_steer(set, 3, &memory_log));
    connect_many(90);
    assert_true(queued(1) > 0 && queued(2) > 0);
    assert_int_equal(queued(0) + queued(1) + queued(2), 130);
}

static void a_second_open_keeps_the_sockets(void **state)
{
    struct listener again;
    int fds[2];

    open_slots(2);
    memcpy(fds, listener.shards->fds, sizeof(fds));
    again = listener;
    again.shards = NULL;
    assert_true(shards_open(&again, 2, true, false, &memory_log));
    assert_ptr_equal(again.shards, listener.shards);
    assert_memory_equal(again.shards->fds, fds, sizeof(fds));
}

static void new_slots_get_nothing_before_they_are_steered_to(void **state)
{
    open_slots(1);
    connect_many(5);
    int first = listener.shards->fds[0];
    assert_true(shards_open(&listener, 4, true, false, &memory_log));
    assert_int_equal(listener.shards->count, 4);
    assert_int_equal(listener.shards->fds[0], first);
    connect_many(50);
    assert_int_equal(queued(0), 55);
    assert_true(shard_steer(listener.shards, listener.shards->wanted, &memory_log));
    connect_many(100);
    assert_true(queued(1) > 0 && queued(2) > 0 && queued(3) > 0);
}

static void sharding_can_begin_and_end_by_reload(void **state)
{
    listener_init(&listener, "127.0.0.1", free_port());
    assert_true(shards_open(&listener, 4, false, false, &memory_log));
    assert_int_equal(listener.shards->count, 1);
    assert_false(listener.shards->is_sharded);
    assert_int_equal(shard_fd(listener.shards, 3), listener.shards->fds[0]);
    assert_true(shards_open(&listener, 4, true, false, &memory_log));
    assert_int_equal(listener.shards->count, 4);
    assert_int_equal(shard_fd(listener.shards, 3), listener.shards->fds[3]);
    assert_int_equal(shard_fd(listener.shards, 4), -1);
    assert_true(shards_open(&listener, 4, false, false, &memory_log));
    assert_int_equal(listener.shards->count, 4); /* the surplus retires, it is not cut off */
    assert_int_equal(listener.shards->wanted, 1);
    assert_int_equal(shard_fd(listener.shards, 3), listener.shards->fds[0]);
}

static void reuseport_on_the_line_shards_by_itself(void **state)
{
    listener_init(&listener, "127.0.0.1", free_port());
    listener.options.is_reuseport = true;
    assert_true(shards_open(&listener, 3, false, false, &memory_log));
    assert_int_equal(listener.shards->count, 3);
    assert_true(listener.shards->is_sharded);
}

static int foreign_socket(const struct addr *addr, bool shares)
{
    int fd = socket(addr->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int on = 1;

    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (shares) {
        setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
    }
    assert_int_equal(bind(fd, &addr->any, addr->len), 0);
    assert_int_equal(listen(fd, 1), 0);
    return fd;
}

static void a_foreign_server_is_noticed_although_it_would_share(void **state)
{
    char text[200];

    for (int shares = 0; shares < 2; shares++) {
        listener_init(&listener, "127.0.0.1", free_port());
        int foreign = foreign_socket(&listener.addr, shares);
        assert_false(shards_open(&listener, 2, true, false, &memory_log));
        snprintf(text, sizeof(text), "bind() to 127.0.0.1:%u failed (98: Address already in use)",
                 addr_port(&listener.addr));
        assert_logged(text);
        assert_null(shard_sets());
        assert_null(listener.shards);
        close(foreign);
        assert_true(shards_open(&listener, 2, true, false, &memory_log));
        shards_close_all(false);
    }
}

static void a_first_start_tries_five_times(void **state)
{
    listener_init(&listener, "127.0.0.1", free_port());
    int foreign = foreign_socket(&listener.addr, true);

    assert_false(shards_open(&listener, 1, false, true, &memory_log));
    assert_int_equal(times_logged("emerg|"), 6);
    assert_int_equal(times_logged("try again to bind() after 500ms"), 5);
    assert_logged("still could not bind()");
    close(foreign);
}

static void our_own_wildcard_and_address_live_together(void **state)
{
    struct listener wildcard;
    uint16_t port = free_port();

    listener_init(&listener, "127.0.0.1", port);
    listener_init(&wildcard, "0.0.0.0", port);
    listener.next = &wildcard;
    assert_true(shards_open(&listener, 2, true, false, &memory_log));
    connect_many(10);
    assert_int_equal(queued(0) + queued(1), 10);
    shards_close_all(false);
    wildcard.next = &listener;
    listener.next = NULL;
    assert_true(shards_open(&wildcard, 2, true, false, &memory_log));
}

static void both_families_have_one_port(void **state)
{
    struct listener six;
    uint16_t port = free_port();

    if (!has_ipv6()) {
        skip();
    }

    listener_init(&listener, "0.0.0.0", port);
    listener_init(&six, "::", port);
    listener.next = &six;
    assert_true(shards_open(&listener, 2, true, false, &memory_log));
    assert_int_equal(six.shards->count, 2);
    shards_close_all(false);
    /* One of IPv6 that takes both alone. */
    listener_init(&six, "::", port);
    six.options.is_ipv6only = false;
    assert_true(shards_open(&six, 1, true, false, &memory_log));
    listener_init(&listener, "127.0.0.1", port);
    connect_many(3);
    assert_int_equal(shard_backlog(six.shards->fds[0]), 3);
}

static void a_failure_leaves_all_as_it_was(void **state)
{
    struct listener busy;
    struct listener fresh;

    open_slots(2);
    listener_init(&fresh, "127.0.0.1", free_port());
    listener_init(&busy, "127.0.0.1", free_port());
    int foreign = foreign_socket(&busy.addr, false);
    listener.next = &fresh;
    fresh.next = &busy;
    assert_false(shards_open(&listener, 4, true, false, &memory_log));
    assert_ptr_equal(shard_sets(), listener.shards);
    assert_null(listener.shards->next);
    assert_int_equal(listener.shards->count, 2);
    assert_true(listener.shards->is_wanted);
    connect_many(50); /* steered to nobody in particular, and nobody is refused */
    assert_int_equal(queued(0) + queued(1), 50);
    assert_true(queued(0) > 0 && queued(1) > 0);
    struct addr gone = fresh.addr;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, &gone.any, gone.len), -1);
    assert_int_equal(errno, ECONNREFUSED);
    close(fd);
    close(foreign);
}

static void an_impossible_address_is_an_error_without_a_second_try(void **state)
{
    listener_init(&listener, "192.0.2.1", 12345);
    assert_false(shards_open(&listener, 1, true, true, &memory_log));
    assert_logged("emerg|");
    assert_logged("bind() to 192.0.2.1:12345 failed (99: Cannot assign requested address)");
    assert_int_equal(times_logged("try again"), 0);
}

static void what_is_not_wanted_any_more_is_marked(void **state)
{
    struct listener other;

    open_slots(1);
    listener_init(&other, "127.0.0.1", free_port());
    assert_true(shards_open(&other, 1, true, false, &memory_log));
    assert_false(listener.shards->is_wanted);
    assert_true(other.shards->is_wanted);
    shard_set_close(listener.shards);
    assert_ptr_equal(shard_sets(), other.shards);
}

/* ---- unix sockets ---- */

static void a_unix_socket_is_for_all_and_goes_with_the_service(void **state)
{
    struct listener again;
    struct stat st;
    char path[] = "/tmp/portunus-test-XXXXXX";
    char text[200];

    assert_non_null(mkdtemp(path));
    listener_init(&listener, "127.0.0.1", 1);
    memset(&listener.addr, 0, sizeof(listener.addr));
    listener.addr.len = sizeof(listener.addr.un);
    listener.addr.un.sun_family = AF_UNIX;
    snprintf(listener.addr.un.sun_path, sizeof(listener.addr.un.sun_path), "%s/s", path);
    umask(077);
    assert_true(shards_open(&listener, 4, true, false, &memory_log));
    assert_int_equal(listener.shards->count, 1);
    assert_false(listener.shards->is_sharded);
    assert_int_equal(stat(listener.addr.un.sun_path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0666);
    assert_true(shard_steer(listener.shards, 1, &memory_log));
    int fd = client_connect(&listener.addr);
    close(fd);
    shards_close_all(true);
    assert_int_equal(stat(listener.addr.un.sun_path, &st), 0);
    /* What an older server left behind is in the way, as it is for nginx. */
    again = listener;
    assert_false(shards_open(&again, 1, true, false, &memory_log));
    snprintf(text, sizeof(text), "bind() to unix:%s/s failed (98: Address already in use)", path);
    assert_logged(text);
    assert_int_equal(stat(listener.addr.un.sun_path, &st), 0);
    assert_int_equal(unlink(listener.addr.un.sun_path), 0);
    assert_true(shards_open(&again, 1, true, false, &memory_log));
    shards_close_all(false);
    assert_int_equal(stat(listener.addr.un.sun_path, &st), -1);
    rmdir(path);
}

/* ---- inheritance ---- */

static void sockets_come_over_in_their_order(void **state)
{
    struct arena arena;
    char list[100];
    int fds[3];

    arena_init(&arena);
    open_slots(3);
    connect_many(5);
    struct str exported = shards_export(&arena);
    snprintf(list, sizeof(list), "%d;%d;%d;", listener.shards->fds[0], listener.shards->fds[1],
             listener.shards->fds[2]);
    assert_int_equal(exported.len, strlen(list));
    assert_memory_equal(exported.data, list, exported.len);
    assert_int_equal(fcntl(listener.shards->fds[1], F_GETFD), 0);
    for (int i = 0; i < 3; i++) {
        fds[i] = dup(listener.shards->fds[i]);
    }
    shards_close_all(true);
    snprintf(list, sizeof(list), "%d;%d:%d;", fds[0], fds[1], fds[2]);
    assert_true(shards_inherit(str_of(list), &memory_log));
    assert_logged("notice|");
    assert_logged("using inherited sockets from \"");
    assert_int_equal(shard_sets()->count, 3);
    assert_true(shard_sets()->was_inherited);
    assert_int_equal(fcntl(fds[1], F_GETFD), FD_CLOEXEC);
    listener.shards = NULL;
    assert_true(shards_open(&listener, 4, true, true, &memory_log));
    assert_int_equal(listener.shards->count, 4);
    assert_memory_equal(listener.shards->fds, fds, sizeof(fds));
    assert_int_equal(queued(0) + queued(1) + queued(2), 5);
    arena_free(&arena);
}

static void a_socket_of_a_server_that_did_not_share_can_grow(void **state)
{
    char list[32];

    listener_init(&listener, "127.0.0.1", free_port());
    int foreign = foreign_socket(&listener.addr, false);
    snprintf(list, sizeof(list), "%d;", foreign);
    assert_true(shards_inherit(str_of(list), &memory_log));
    assert_true(shards_open(&listener, 3, true, true, &memory_log));
    assert_int_equal(listener.shards->count, 3);
    assert_true(shard_steer(listener.shards, 1, &memory_log));
    connect_many(30);
    assert_int_equal(queued(0), 30);
    assert_true(shard_steer(listener.shards, 3, &memory_log));
    connect_many(60);
    assert_true(queued(1) > 0 && queued(2) > 0);
}

static void a_bad_list_is_told_and_the_rest_ignored(void **state)
{
    int plain = open("/dev/null", O_RDONLY | O_CLOEXEC);
    char list[64];

    assert_true(shards_inherit(STR("x1;3;"), &memory_log));
    assert_logged(
        "invalid socket number \"x1\" in NGINX environment variable, ignoring the rest of "
        "the variable");
    assert_null(shard_sets());
    snprintf(list, sizeof(list), "%d;", plain);
    shards_inherit(str_of(list), &memory_log);
    assert_logged("getsockname() of the inherited socket");
    assert_null(shard_sets());
    close(plain);
}

/* ---- options ---- */

static int option_of(int fd, int level, int name)
{
    int value = -1;
    socklen_t len = sizeof(value);

    assert_int_equal(getsockopt(fd, level, name, &value, &len), 0);
    return value;
}

static unsigned most_backlog(int fd)
{
    struct tcp_info info;
    socklen_t len = sizeof(info);

    assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len), 0);
    return info.tcpi_sacked;
}

static void options_reach_every_socket_and_change_by_reload(void **state)
{
    listener_init(&listener, "127.0.0.1", free_port());
    listener.options.backlog = 17;
    listener.options.rcvbuf = 20000;
    listener.options.sndbuf = 30000;
    listener.options.fastopen = 5;
    listener.options.is_deferred = true;
    listener.options.keepalive = 1;
    listener.options.keepidle_s = 77;
    listener.options.keepintvl_s = 7;
    listener.options.keepcnt = 3;
    assert_true(shards_open(&listener, 2, true, false, &memory_log));
    for (int i = 0; i < 2; i++) {
        int fd = listener.shards->fds[i];

        assert_int_equal(most_backlog(fd), 17);
        assert_int_equal(option_of(fd, SOL_SOCKET, SO_RCVBUF), 40000);
        assert_int_equal(option_of(fd, SOL_SOCKET, SO_SNDBUF), 60000);
        assert_int_equal(option_of(fd, IPPROTO_TCP, TCP_FASTOPEN), 5);
        assert_true(option_of(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT) > 0);
        assert_int_equal(option_of(fd, SOL_SOCKET, SO_KEEPALIVE), 1);
        assert_int_equal(option_of(fd, IPPROTO_TCP, TCP_KEEPIDLE), 77);
        assert_int_equal(option_of(fd, IPPROTO_TCP, TCP_KEEPINTVL), 7);
        assert_int_equal(option_of(fd, IPPROTO_TCP, TCP_KEEPCNT), 3);
        assert_int_equal(option_of(fd, SOL_SOCKET, SO_REUSEPORT), 1);
        assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
    }
    listener.options.backlog = -1;
    listener.options.is_deferred = false;
    listener.options.fastopen = -1;
    listener.options.keepalive = 2;
    assert_true(shards_open(&listener, 3, true, false, &memory_log));
    for (int i = 0; i < 3; i++) {
        int fd = listener.shards->fds[i];

        assert_int_equal(most_backlog(fd), 511);
        assert_int_equal(option_of(fd, IPPROTO_TCP, TCP_FASTOPEN), 0);
        assert_int_equal(option_of(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT), 0);
        assert_int_equal(option_of(fd, SOL_SOCKET, SO_KEEPALIVE), 0);
    }
    assert_int_equal(times_logged("failed"), 0);
}

static void a_worker_keeps_what_it_watches_only(void **state)
{
    enum { SLOTS = 20 };
    int fds[SLOTS];

    open_slots(SLOTS);
    memcpy(fds, listener.shards->fds, sizeof(fds));
    for (int i = 0; i < SLOTS; i++) {
        fds[i] = dup(fds[i]); /* the master's */
    }
    shards_keep_slot(18, SLOTS);
    for (unsigned i = 0; i < SLOTS; i++) {
        /* Its group: the second half. */
        bool is_kept = i >= 10;

        assert_int_equal(shard_fd(listener.shards, i) >= 0, is_kept);
        assert_int_equal(shard_is_watched(i, 18, SLOTS), is_kept);
    }
    connect_many(40);
    unsigned sum = 0;
    for (int i = 0; i < SLOTS; i++) {
        sum += shard_backlog(fds[i]);
    }
    assert_int_equal(sum, 40);
    shards_keep_slot(-1, 0);
    assert_int_equal(shard_fd(listener.shards, 18), -1);
    for (int i = 0; i < SLOTS; i++) {
        close(fds[i]);
    }
}

static void each_slot_has_helpers(void **state)
{
    for (unsigned slots = 1; slots <= 40; slots++) {
        for (unsigned slot = 0; slot < slots + 3; slot++) {
            unsigned watchers = 0;

            for (unsigned by = 0; by < slots; by++) {
                watchers += shard_is_watched(slot, by, slots);
            }
            /* Groups of at most sixteen, none of which is less than half of another. */
            assert_in_range(watchers, slots == 1 ? 0 : slots <= 16 ? slots : 8, 16 * (slots > 1));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVICE_TEST(each_slot_has_a_socket_that_gets_its_share),
        SERVICE_TEST(steering_leaves_out_the_top),
        SERVICE_TEST(a_slot_that_retires_can_come_back),
        SERVICE_TEST(a_second_open_keeps_the_sockets),
        SERVICE_TEST(new_slots_get_nothing_before_they_are_steered_to),
        SERVICE_TEST(sharding_can_begin_and_end_by_reload),
        SERVICE_TEST(reuseport_on_the_line_shards_by_itself),
        SERVICE_TEST(a_foreign_server_is_noticed_although_it_would_share),
        SERVICE_TEST(a_first_start_tries_five_times),
        SERVICE_TEST(our_own_wildcard_and_address_live_together),
        SERVICE_TEST(both_families_have_one_port),
        SERVICE_TEST(a_failure_leaves_all_as_it_was),
        SERVICE_TEST(an_impossible_address_is_an_error_without_a_second_try),
        SERVICE_TEST(what_is_not_wanted_any_more_is_marked),
        SERVICE_TEST(a_unix_socket_is_for_all_and_goes_with_the_service),
        SERVICE_TEST(sockets_come_over_in_their_order),
        SERVICE_TEST(a_socket_of_a_server_that_did_not_share_can_grow),
        SERVICE_TEST(a_bad_list_is_told_and_the_rest_ignored),
        SERVICE_TEST(options_reach_every_socket_and_change_by_reload),
        SERVICE_TEST(a_worker_keeps_what_it_watches_only),
        SERVICE_TEST(each_slot_has_helpers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
