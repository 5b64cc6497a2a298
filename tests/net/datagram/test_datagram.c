/* Flows of datagrams: begun, found again, answered from where they were asked, bounded. */
#include "net/service.h"

#include <sys/un.h>

#include "net/datagram/flow.h"
#include "net/datagram/connection.h"

static struct listener listener;
static unsigned begun, refused, received, ended;
static size_t last_len;
static struct datagram_flow *last_flow;
static unsigned answers = 1; /* to each datagram */

static void flow_received(struct datagram_flow *flow, struct str datagram)
{
    received++;
    last_len = datagram.len;
    last_flow = flow;
    for (unsigned i = 0; i < answers; i++) {
        datagram_send(flow, datagram);
    }
}

static void flow_failed(struct datagram_flow *flow, int error)
{
    fail_msg("send: %s", strerror(error));
}

static void flow_ended(struct datagram_flow *flow, enum datagram_end why)
{
    ended++;
}

static const struct datagram_owner owner = {flow_received, flow_failed, flow_ended, NULL};

static void flow_began(struct listener *of, struct datagram_flow *flow)
{
    if (flow == NULL) {
        refused++;
        return;
    }
    begun++;
    flow->owner = &owner;
}

static void start_at(const char *ip, unsigned slots)
{
    begun = refused = received = ended = 0;
    answers = 1;
    listener_init(&listener, ip, free_port());
    listener.options.is_datagram = true;
    listener.accepted = NULL;
    listener.began = flow_began;
    assert_true(shards_open(&listener, slots, true, false, &memory_log));
    assert_true(datagrams_start(&listener, 1, 0));
}

static int client_to(const char *ip)
{
    struct addr to;
    int fd;

    assert_true(addr_parse_ip(str_of(ip), &to));
    addr_set_port(&to, addr_port(&listener.addr));
    fd = socket(to.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, &to.any, to.len), 0);
    return fd;
}

static void ask(int fd, const char *bytes, size_t len)
{
    static char answer[65536];

    assert_int_equal(send(fd, bytes, len, 0), len);
    turn_until(datagram_counts.sent != 0 &&
               recv(fd, answer, sizeof(answer), MSG_DONTWAIT | MSG_PEEK) >= 0);
    assert_int_equal(recv(fd, answer, sizeof(answer), 0), len);
    assert_memory_equal(answer, bytes, len);
}

static void a_client_is_one_flow(void **state)
{
    start_at("127.0.0.1", 1);
    int fd = client_to("127.0.0.1"), other = client_to("127.0.0.1");

    ask(fd, "one", 3);
    ask(fd, "two", 3);
    ask(fd, "", 0);
    assert_int_equal(begun, 1);
    ask(other, "three", 5);
    assert_int_equal(begun, 2);
    assert_int_equal(datagram_flows(), 2);
    datagram_close(last_flow);
    ask(other, "four", 4);
    assert_int_equal(begun, 3);
    close(fd);
    close(other);
}

static void datagrams_of_all_sizes_pass(void **state)
{
    static const size_t sizes[] = {0, 1, 1200, 1233, 9000, 65507};
    static char bytes[65536];

    memset(bytes, 'x', sizeof(bytes));
    start_at("127.0.0.1", 1);
    int fd = client_to("127.0.0.1");
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        ask(fd, bytes, sizes[i]);
    }
    close(fd);
}

static void answers_leave_from_the_address_that_was_asked(void **state)
{
    struct addr local;

    start_at("0.0.0.0", 1);
    int fd = client_to("127.0.0.9"), other = client_to("127.0.0.8");
    ask(fd, "nine", 4); /* a connected socket takes no others */
    datagram_flow_local(last_flow, &local);
    assert_int_equal(ntohl(local.v4.sin_addr.s_addr), 0x7f000009);
    ask(other, "eight", 5);
    assert_int_equal(begun, 2);
    close(fd);
    close(other);
}

static void many_answers_leave_together(void **state)
{
    char bytes[200];
    unsigned n = 0;

    start_at("127.0.0.1", 1);
    int fd = client_to("127.0.0.1");
    uint64_t writes = datagram_counts.writes;
    answers = 50;
    assert_int_equal(send(fd, "0123456789", 10, 0), 10);
    turn_until(received == 1);
    while (recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT) == 10) {
        n++;
    }
    assert_int_equal(n, 50);
    assert_int_equal(datagram_counts.writes - writes, 1);
    close(fd);
}

static void those_who_never_came_back_give_way(void **state)
{
    enum { PLACES = 40 };
    int fds[PLACES + 10];

    start_at("127.0.0.1", 1);
    conn_pool.limit = conn_pool.used + PLACES;
    int settled = client_to("127.0.0.1");
    ask(settled, "one", 3);
    ask(settled, "two", 3);
    for (int i = 0; i < PLACES + 10; i++) {
        fds[i] = client_to("127.0.0.1");
        ask(fds[i], "x", 1);
    }
    assert_int_equal(datagram_flows(), PLACES);
    assert_int_equal(ended, 11);
    assert_int_equal(refused, 0);
    assert_logged("worker_connections are not enough");
    unsigned before = begun;
    ask(settled, "three", 5);
    assert_int_equal(begun, before); /* it has its place still */
    for (int i = 11; i < PLACES + 10; i++) {
        ask(fds[i], "x", 1);
    }
    assert_int_equal(begun, before); /* all of them came back: nobody gives way */
    assert_int_equal(send(fds[0], "x", 1, 0), 1);
    turn_until(refused == 1);
    assert_int_equal(datagram_flows(), PLACES);
    for (int i = 0; i < PLACES + 10; i++) {
        close(fds[i]);
    }
    close(settled);
    conn_pool.limit = 512;
}

static unsigned waiting_at(unsigned slot)
{
    char bytes[16];
    unsigned n = 0;

    while (recv(listener.shards->fds[slot], bytes, sizeof(bytes), MSG_DONTWAIT) > 0) {
        n++;
    }
    return n;
}

static void check_steering(const char *ip)
{
    int fd = -1;

    start_at(ip, 4);
    datagrams_stop(DATAGRAMS_ENDED);
    assert_true(shard_steer(listener.shards, 4, &memory_log));
    unsigned met = 0;
    for (int i = 0; i < 64; i++) {
        fd = client_to(ip);
        for (int j = 0; j < 3; j++) {
            assert_int_equal(send(fd, "x", 1, 0), 1);
        }
        close(fd);
        for (unsigned slot = 0; slot < 4; slot++) {
            unsigned n = waiting_at(slot);

            assert_true(n == 0 || n == 3);
            met |= n == 3 ? 1u << slot : 0;
        }
    }
    assert_int_equal(met, 15);
    assert_true(shard_steer(listener.shards, 1, &memory_log));
    for (int i = 0; i < 16; i++) {
        fd = client_to(ip);
        assert_int_equal(send(fd, "x", 1, 0), 1);
        close(fd);
    }
    assert_int_equal(waiting_at(0), 16);
}

static void a_client_stays_at_its_slot(void **state)
{
    check_steering("127.0.0.1");
}

static void a_client_of_ipv6_as_well(void **state)
{
    if (has_ipv6()) {
        check_steering("::1");
    }
}

static void tcp_and_udp_of_one_address_are_two(void **state)
{
    static struct listener stream;

    start_at("127.0.0.1", 1);
    stream = listener;
    stream.options.is_datagram = false;
    stream.accepted = service_accepted;
    listener.next = &stream;
    assert_true(shards_open(&listener, 1, true, false, &memory_log));
    assert_ptr_not_equal(listener.shards, stream.shards);
    listener.next = NULL;
}

static void a_foreign_socket_is_noticed(void **state)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), on = 1;

    listener_init(&listener, "127.0.0.1", free_port());
    listener.options.is_datagram = true;
    setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
    assert_int_equal(bind(fd, &listener.addr.any, listener.addr.len), 0);
    assert_false(shards_open(&listener, 2, true, false, &memory_log));
    assert_logged("bind() to 127.0.0.1");
    close(fd);
}

/* ---- links ---- */

static unsigned link_received, link_errors;

static void link_got(struct datagram_connection *connection, struct str datagram)
{
    link_received++;
}

static void link_failed(struct datagram_connection *connection, int error, bool is_send)
{
    assert_int_equal(error, ECONNREFUSED);
    link_errors++;
}

static void a_link_hears_its_backend_and_of_its_absence(void **state)
{
    static const struct datagram_connection_owner upstream_connection_owner = {link_got,
                                                                               link_failed};
    const struct datagram_connection_options options = {.bind = NULL};
    struct datagram_connection connection = {.owner = &upstream_connection_owner};
    struct addr nobody;
    const char *what;

    start_at("127.0.0.1", 1);
    assert_true(datagram_connection_open(&connection, &listener.addr, &options, &what));
    assert_true(datagram_connection_send(&connection, STR("a")));
    assert_true(datagram_connection_send(&connection, STR("")));
    turn_until(link_received == 2);
    datagram_connection_close(&connection);
    nobody = listener.addr;
    addr_set_port(&nobody, free_port());
    assert_true(datagram_connection_open(&connection, &nobody, &options, &what));
    assert_true(datagram_connection_send(&connection, STR("a")));
    turn_until(link_errors == 1);
    datagram_connection_close(&connection);
}

static char link_last[16];

static void link_hears(struct datagram_connection *connection, struct str datagram)
{
    link_received++;
    assert_true(datagram.len < sizeof(link_last));
    memcpy(link_last, datagram.data, datagram.len);
    link_last[datagram.len] = '\0';
}

/* Sends and receives through a link, to and from a backend that is a plain socket. Gives where the
 * backend was asked from. */
static struct addr talk(struct datagram_connection *connection, int backend, const char *answer)
{
    struct addr from = {.len = sizeof(from.un)};
    char bytes[16];
    unsigned before = link_received;

    assert_true(datagram_connection_send(connection, STR("a")));
    assert_int_equal(recvfrom(backend, bytes, sizeof(bytes), 0, &from.any, &from.len), 1);
    assert_int_equal(sendto(backend, answer, strlen(answer), 0, &from.any, from.len),
                     strlen(answer));
    turn_until(link_received != before);
    assert_string_equal(link_last, answer);
    return from;
}

static void a_socket_is_handed_on_without_what_came_for_it(void **state)
{
    static const struct datagram_connection_owner upstream_connection_owner = {link_hears,
                                                                               link_failed};
    const struct datagram_connection_options options = {.bind = NULL};
    struct datagram_connection first = {.owner = &upstream_connection_owner},
                               second = {.owner = &upstream_connection_owner};
    struct addr to;
    const char *what;

    start_at("127.0.0.1", 1);
    int backend = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_true(addr_parse_ip(STR("127.0.0.1"), &to));
    assert_int_equal(bind(backend, &to.any, to.len), 0);
    assert_int_equal(getsockname(backend, &to.any, &to.len), 0);

    assert_true(datagram_connection_open(&first, &to, &options, &what));
    struct addr from = talk(&first, backend, "first");
    int fd = first.source.fd;
    link_received = 0;
    /* It lies in the socket when the link ends. */
    assert_int_equal(sendto(backend, "late", 4, 0, &from.any, from.len), 4);
    datagram_connection_close(&first);

    /* Too early: it gets one of its own. */
    assert_true(datagram_connection_open(&second, &to, &options, &what));
    assert_int_not_equal(second.source.fd, fd);
    datagram_connection_close(&second);

    uint64_t ended_ms = clock_now.now_ms;
    turn_until(clock_now.now_ms > ended_ms + 10);
    assert_true(datagram_connection_open(&second, &to, &options, &what));
    assert_int_equal(second.source.fd, fd);
    talk(&second, backend, "second");
    assert_int_equal(link_received, 1);
    datagram_connection_close(&second);
    close(backend);
}

static int teardown(void **state)
{
    datagrams_destroy();
    return service_teardown(state);
}

#define DATAGRAM_TEST(name) cmocka_unit_test_setup_teardown(name, service_setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        DATAGRAM_TEST(a_client_is_one_flow),
        DATAGRAM_TEST(datagrams_of_all_sizes_pass),
        DATAGRAM_TEST(answers_leave_from_the_address_that_was_asked),
        DATAGRAM_TEST(many_answers_leave_together),
        DATAGRAM_TEST(those_who_never_came_back_give_way),
        DATAGRAM_TEST(a_client_stays_at_its_slot),
        DATAGRAM_TEST(a_client_of_ipv6_as_well),
        DATAGRAM_TEST(tcp_and_udp_of_one_address_are_two),
        DATAGRAM_TEST(a_foreign_socket_is_noticed),
        DATAGRAM_TEST(a_link_hears_its_backend_and_of_its_absence),
        DATAGRAM_TEST(a_socket_is_handed_on_without_what_came_for_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
