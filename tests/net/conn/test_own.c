/* Tests of how our own connections to ourselves are recognised. */
#include "net/pair.h"

#include <stdio.h>
#include <sys/un.h>

#include "base/unit.h"
#include "net/conn/own.h"

/* A listening socket, and an end that is connected to it; gives the peer as who accepts it sees it.
 */
struct ends {
    int listening, connected, accepted;
    struct addr address, peer;
};

static void open_ends(struct ends *ends, const char *host)
{
    int off = 0;

    memset(ends, 0, sizeof(*ends));
    assert_true(addr_parse_ip(str_of(host), &ends->address));
    int family = ends->address.any.sa_family;
    ends->listening = socket(family, SOCK_STREAM, 0);
    if (family == AF_INET6) {
        setsockopt(ends->listening, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    }
    assert_int_equal(bind(ends->listening, &ends->address.any, ends->address.len), 0);
    assert_int_equal(listen(ends->listening, 5), 0);
    assert_int_equal(getsockname(ends->listening, &ends->address.any, &ends->address.len), 0);
}

static void join(struct ends *ends, const struct addr *to)
{
    ends->connected = socket(to->any.sa_family, SOCK_STREAM, 0);
    own_name(ends->connected, to);
    assert_int_equal(connect(ends->connected, &to->any, to->len), 0);
    ends->peer.len = sizeof(ends->peer.un);
    ends->accepted = accept(ends->listening, &ends->peer.any, &ends->peer.len);
    assert_int_not_equal(ends->accepted, -1);
}

static void close_ends(struct ends *ends)
{
    close(ends->connected);
    close(ends->accepted);
    close(ends->listening);
}

static void ports_are_remembered(void **state)
{
    struct addr addr;

    assert_true(addr_parse_ip(STR("10.1.2.3"), &addr));
    addr_set_port(&addr, 8081);
    assert_false(own_may_be(&addr));
    own_listens(&addr, false);
    assert_true(own_may_be(&addr));
    assert_false(own_may_take_datagrams(&addr));
    own_listens(&addr, true);
    assert_true(own_may_take_datagrams(&addr));
    assert_true(addr_parse_ip(STR("::1"), &addr));
    addr_set_port(&addr, 8081);
    assert_true(own_may_be(
        &addr)); /* the port decides: who listens on all addresses is met by any of them */
    addr_set_port(&addr, 8082);
    assert_false(own_may_be(&addr));
}

static void a_client_of_datagrams_is_found_by_the_address_that_it_asked(void **state)
{
    struct addr asked, other, client = {.len = sizeof(client.un)};
    int fd = socket(AF_INET, SOCK_DGRAM, 0);

    assert_true(addr_parse_ip(STR("127.0.0.1"), &asked));
    addr_set_port(&asked, 8083);
    other = asked;
    addr_set_port(&other, 8084);
    assert_int_equal(connect(fd, &asked.any, asked.len), 0);
    assert_int_equal(getsockname(fd, &client.any, &client.len), 0);
    assert_int_equal(own_hops_at(&asked, &client), 0);
    assert_true(own_note_at_home(fd, &asked, 2));
    assert_int_equal(own_hops_at(&asked, &client), 2);
    assert_int_equal(own_hops_at(&other, &client), 0);
    assert_int_equal(own_hops_at(&asked, &other), 0);
    assert_true(addr_parse_ip(STR("192.0.2.1"), &other));
    addr_set_port(&other, 8083);
    assert_false(own_note_at_home(fd, &other, 2));
    close(fd);
}

static void a_noted_end_is_found_and_others_are_not(void **state)
{
    struct ends ours;
    struct ends other;

    open_ends(&ours, "127.0.0.1");
    open_ends(&other, "127.0.0.1");
    join(&ours, &ours.address);
    join(&other, &other.address);
    assert_int_equal(own_hops(ours.accepted, &ours.peer), 0);
    assert_true(own_note(ours.connected, &ours.address, 3));
    assert_int_equal(own_hops(ours.accepted, &ours.peer), 3);
    assert_int_equal(own_hops(other.accepted, &other.peer), 0);
    assert_true(own_note(ours.connected, &ours.address, 1000));
    assert_int_equal(own_hops(ours.accepted, &ours.peer), OWN_HOPS_MOST);
    close_ends(&ours);
    close_ends(&other);
}

/* One address of ours towards two others, as the kernel may give it out: only one of them leads
 * here. */
static void another_end_of_the_same_address_is_another(void **state)
{
    struct ends ends;
    struct ends copy;
    struct addr elsewhere;

    open_ends(&ends, "127.0.0.1");
    join(&ends, &ends.address);
    elsewhere = ends.address;
    addr_set_port(&elsewhere, (uint16_t) (addr_port(&ends.address) + 1));
    assert_true(own_note(ends.connected, &elsewhere, 7));
    assert_int_equal(own_hops(ends.accepted, &ends.peer), 0);
    assert_true(own_note(ends.connected, &ends.address, 2));
    assert_int_equal(own_hops(ends.accepted, &ends.peer), 2);
    own_forget(ends.connected, &elsewhere);
    clock_now.now_ms += 5000;
    assert_int_equal(own_hops(ends.accepted, &ends.peer), 2);
    close_ends(&ends);
    open_ends(&copy, "127.0.0.1");
    struct addr any = copy.address;
    any.v4.sin_addr.s_addr = 0;
    join(&copy, &any);
    assert_true(own_note(copy.connected, &any, 6));
    assert_int_equal(own_hops(copy.accepted, &copy.peer), 6);
    close_ends(&copy);
}

static void an_ipv4_end_is_found_by_a_socket_of_ipv6(void **state)
{
    struct ends ends;
    struct addr to;

    open_ends(&ends, "::");
    assert_true(addr_parse_ip(STR("127.0.0.1"), &to));
    addr_set_port(&to, addr_port(&ends.address));
    join(&ends, &to);
    assert_int_equal(ends.peer.any.sa_family, AF_INET6);
    assert_true(own_note(ends.connected, &to, 2));
    assert_int_equal(own_hops(ends.accepted, &ends.peer), 2);
    close_ends(&ends);
}

static void an_end_of_the_unix_kind_gets_a_name(void **state)
{
    struct ends ends = {.listening = socket(AF_UNIX, SOCK_STREAM, 0)};
    struct addr *address = &ends.address;

    address->un.sun_family = AF_UNIX;
    snprintf(address->un.sun_path + 1, 40, "portunus-own-%d", (int) getpid());
    address->len =
        (socklen_t) (offsetof(struct sockaddr_un, sun_path) + 1 + strlen(address->un.sun_path + 1));
    assert_int_equal(bind(ends.listening, &address->any, address->len), 0);
    assert_int_equal(listen(ends.listening, 5), 0);
    assert_false(own_may_be(address));
    own_listens(address, false);
    assert_true(own_may_be(address));
    join(&ends, address);
    assert_true(own_note(ends.connected, address, 4));
    assert_int_equal(own_hops(ends.accepted, &ends.peer), 4);
    close_ends(&ends);
}

static void who_comes_late_still_finds_it(void **state)
{
    struct ends ends;

    open_ends(&ends, "127.0.0.1");
    join(&ends, &ends.address);
    assert_true(own_note(ends.connected, &ends.address, 5));
    own_forget(ends.connected, &ends.address);
    assert_int_equal(own_hops(ends.accepted, &ends.peer), 5);
    clock_now.now_ms += 1000;
    assert_int_equal(own_hops(ends.accepted, &ends.peer), 5);
    clock_now.now_ms += 2000;
    assert_int_equal(own_hops(ends.accepted, &ends.peer), 0);
    /* The address is used again. */
    assert_true(own_note(ends.connected, &ends.address, 1));
    assert_int_equal(own_hops(ends.accepted, &ends.peer), 1);
    close_ends(&ends);
}

/* More than a bucket holds: the last is found in any case, and what is over makes room. */
static void the_table_never_refuses(void **state)
{
    struct ends ends;
    struct addr to;

    open_ends(&ends, "::");
    for (unsigned i = 0; i < 200; i++) {
        char text[16];

        snprintf(text, sizeof(text), "127.0.1.%u", i + 1);
        assert_true(addr_parse_ip(str_of(text), &to));
        addr_set_port(&to, addr_port(&ends.address));
        join(&ends, &to);
        assert_true(own_note(ends.connected, &to, i + 1));
        assert_int_equal(own_hops(ends.accepted, &ends.peer), i + 1);
        close(ends.accepted);
        close(ends.connected);
    }
    close(ends.listening);
}

static int begin(void **state)
{
    clock_now.now_ms = 1000;
    return own_init() ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ports_are_remembered),
        cmocka_unit_test(a_client_of_datagrams_is_found_by_the_address_that_it_asked),
        cmocka_unit_test(a_noted_end_is_found_and_others_are_not),
        cmocka_unit_test(another_end_of_the_same_address_is_another),
        cmocka_unit_test(an_ipv4_end_is_found_by_a_socket_of_ipv6),
        cmocka_unit_test(an_end_of_the_unix_kind_gets_a_name),
        cmocka_unit_test(who_comes_late_still_finds_it),
        cmocka_unit_test(the_table_never_refuses),
    };

    return cmocka_run_group_tests_name("net/own", tests, begin, NULL);
}
