/* Addresses: text and back, what directives take, comparisons, networks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "net/addr/addr.h"

static struct arena arena;

static int setup(void **state)
{
    arena_init(&arena);
    return 0;
}

static int teardown(void **state)
{
    arena_free(&arena);
    return 0;
}

static const char *text_of(const struct addr *addr, bool with_port)
{
    static char text[ADDR_TEXT_MAX + 1];

    text[addr_format(addr, with_port, text)] = '\0';
    return text;
}

static void numeric_addresses_come_back_as_they_went(void **state)
{
    static const char *const same[] =
        {"0.0.0.0",         "127.0.0.1", "255.255.255.255", "::", "::1", "2001:db8::ff00:42:8329",
         "::ffff:192.0.2.1"};
    struct addr addr;

    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
        assert_true(addr_parse_ip(str_of(same[i]), &addr));
        assert_string_equal(text_of(&addr, false), same[i]);
    }
    assert_true(addr_parse_ip(STR("[::1]"), &addr));
    addr_set_port(&addr, 8080);
    assert_string_equal(text_of(&addr, true), "[::1]:8080");
    assert_true(addr_parse_ip(STR("10.1.2.3"), &addr));
    addr_set_port(&addr, 65535);
    assert_string_equal(text_of(&addr, true), "10.1.2.3:65535");
    /* Numbers are decimal, whatever zeros they begin with. */
    assert_true(addr_parse_ip(STR("127.0.0.01"), &addr));
    assert_string_equal(text_of(&addr, false), "127.0.0.1");
    assert_true(addr_parse_ip(STR("010.000.09.000000000255"), &addr));
    assert_string_equal(text_of(&addr, false), "10.0.9.255");
}

static void what_is_no_numeric_address_is_refused(void **state)
{
    static const char *const bad[] = {"",
                                      "1.2.3",
                                      "1.2.3.4.5",
                                      "256.1.1.1",
                                      "1.2.3.4 ",
                                      "[::1",
                                      "::1]",
                                      "[1.2.3.4]",
                                      "12345::",
                                      "localhost",
                                      "1..2.3",
                                      "::1::2",
                                      "1.2.3.",
                                      ".1.2.3",
                                      "1.2.3.-4",
                                      "1.2.3.00256",
                                      "...",
                                      "+1.2.3.4",
                                      "0x7f.1.1.1",
                                      "[]",
                                      "1111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa:bbbb"};
    struct addr addr;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(addr_parse_ip(str_of(bad[i]), &addr));
    }
    assert_false(addr_parse_ip((struct str){"1.2.3.4\0", 8}, &addr));
}

/* What a directive gets: the addresses with a blank between, or the error. */
static const char *parsed(const char *text, bool is_listen, struct addr_list *list)
{
    static char result[400];
    size_t at = 0;

    if (!addr_parse(&arena, str_of(text), 80, is_listen, list)) {
        return list->error;
    }
    for (size_t i = 0; i < list->count && at < 300; i++) {
        if (i != 0) {
            result[at++] = ' ';
        }
        at += addr_format(&list->items[i], true, result + at);
    }
    result[at] = '\0';
    return result;
}

static void listen_takes_all_its_forms(void **state)
{
    static const struct {
        const char *text;
        const char *result;
    } cases[] = {
        {"8000", "0.0.0.0:8000"},
        {"*", "0.0.0.0:80"},
        {"*:81", "0.0.0.0:81"},
        {"127.0.0.1", "127.0.0.1:80"},
        {"127.0.0.1:8080", "127.0.0.1:8080"},
        {"[::1]", "[::1]:80"},
        {"[::]:8000", "[::]:8000"},
        {"80-82", "0.0.0.0:80 0.0.0.0:81 0.0.0.0:82"},
        {"[::1]:7-8", "[::1]:7 [::1]:8"},
        {"unix:/run/x.sock", "unix:/run/x.sock"},
        {"unix:/run/a:b", "unix:/run/a:b"},
        /* As Debian's nginx words it. */
        {"", "no host"},
        {":80", "no host"},
        {"[]", "no host"},
        {"0", "invalid port"},
        {"65536", "invalid port"},
        {"99999999999999999999", "invalid port"},
        {"82-80", "invalid port range"},
        {"127.0.0.1:", "invalid port"},
        {"127.0.0.1:0", "invalid port"},
        {"127.0.0.1:80x", "invalid port"},
        {"127.0.0.1:80:81", "invalid port"},
        {"*:80x", "invalid port"},
        {"::1", "invalid port"},
        {"[::1", "invalid host"},
        {"[::1]x", "invalid host"},
        {"[zz]:80", "invalid IPv6 address"},
        {"unix:", "no path in the unix domain socket"},
        {"a name with blanks.invalid", "host not found"},
    };
    struct addr_list list;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_string_equal(parsed(cases[i].text, true, &list), cases[i].result);
    }
    char long_path[200];
    memset(long_path, 'a', sizeof(long_path));
    memcpy(long_path, "unix:", 5);
    long_path[199] = '\0';
    assert_string_equal(parsed(long_path, true, &list), "too long path in the unix domain socket");
}

static void the_parts_are_told(void **state)
{
    struct addr_list list;

    parsed("8000", true, &list);
    parsed("*", true, &list);
    parsed("127.0.0.1", true, &list);
    assert_true(str_is(list.host, "127.0.0.1"));
    parsed("[::]:80", true, &list);
    assert_true(str_is(list.host, "[::]"));
    parsed("localhost:8080", true, &list);
    assert_int_equal(addr_port(&list.items[0]), 8080);
    assert_true(addr_is_loopback(&list.items[0]));
    assert_true(str_is(list.host, "localhost"));
}

static void upstreams_have_no_bare_ports_and_no_star(void **state)
{
    struct addr_list list;

    assert_string_equal(parsed("10.0.0.1", false, &list), "10.0.0.1:80");
    assert_string_equal(parsed("*:80", false, &list), "host not found");
    assert_string_equal(parsed("10.0.0.1:80-81", false, &list), "invalid port");
    assert_string_equal(parsed("", false, &list), "no host");
}

static void equality_knows_families_and_ports(void **state)
{
    struct addr a;
    struct addr b;

    addr_parse_ip(STR("127.0.0.1"), &a);
    addr_parse_ip(STR("127.0.0.1"), &b);
    assert_true(addr_equal(&a, &b));
    addr_set_port(&b, 1);
    assert_false(addr_equal(&a, &b));
    addr_parse_ip(STR("::1"), &a);
    assert_false(addr_equal(&a, &b));
    addr_parse_ip(STR("::1"), &b);
    assert_true(addr_equal(&a, &b));
    struct addr none = {0};
    assert_false(addr_equal(&a, &none));
    assert_true(addr_equal(&none, &none));
    assert_int_equal(addr_port(&none), 0);
    assert_int_equal(addr_format(&none, true, (char[ADDR_TEXT_MAX]){0}), 0);
    /* A path is the same whether its length counts the NUL or the whole room. */
    memset(&a, 0, sizeof(a));
    a.un.sun_family = AF_UNIX;
    strcpy(a.un.sun_path, "/x");
    b = a;
    a.len = sizeof(a.un);
    b.len = offsetof(struct sockaddr_un, sun_path) + 3;
    assert_true(addr_equal(&a, &b));
    b.un.sun_path[1] = 'y';
    assert_false(addr_equal(&a, &b));
}

static void wildcards_and_loopbacks_are_known(void **state)
{
    struct addr addr;

    addr_parse_ip(STR("0.0.0.0"), &addr);
    assert_false(addr_is_loopback(&addr));
    addr_parse_ip(STR("::"), &addr);
    addr_parse_ip(STR("127.9.9.9"), &addr);
    assert_true(addr_is_loopback(&addr));
    addr_parse_ip(STR("::1"), &addr);
    assert_true(addr_is_loopback(&addr));
    assert_false(addr_is_wildcard(&addr));
}

static bool contains(const char *network, const char *address)
{
    struct cidr cidr;
    struct addr addr;

    assert_true(cidr_parse(str_of(network), &cidr));
    assert_true(addr_parse_ip(str_of(address), &addr));
    return cidr_contains(&cidr, &addr);
}

static void networks_contain_their_addresses(void **state)
{
    assert_true(contains("10.0.0.0/8", "10.255.1.2"));
    assert_false(contains("10.0.0.0/8", "11.0.0.0"));
    assert_true(contains("192.168.1.4/30", "192.168.1.7"));
    assert_false(contains("192.168.1.4/30", "192.168.1.8"));
    assert_true(contains("192.168.1.1", "192.168.1.1"));
    assert_false(contains("192.168.1.1", "192.168.1.2"));
    assert_true(contains("0.0.0.0/0", "1.2.3.4"));
    assert_false(contains("0.0.0.0/0", "::1"));
    assert_true(contains("10.0.0.0/8", "::ffff:10.1.1.1"));
    assert_false(contains("10.0.0.0/8", "::ffff:11.1.1.1"));
    assert_true(contains("2001:db8::/33", "2001:db8:7fff::1"));
    assert_false(contains("2001:db8::/33", "2001:db8:8000::1"));
    assert_true(contains("::/0", "::1"));
    assert_true(contains("all", "::1"));
    assert_true(contains("all", "1.2.3.4"));
    struct cidr cidr;
    struct addr addr = {.len = sizeof(sa_family_t), .any.sa_family = AF_UNIX};
    assert_true(cidr_parse(STR("unix:"), &cidr));
    assert_true(cidr_contains(&cidr, &addr));
    addr_parse_ip(STR("1.2.3.4"), &addr);
    assert_false(cidr_contains(&cidr, &addr));
}

static void low_bits_are_noticed_and_cleared(void **state)
{
    struct cidr cidr;

    assert_true(cidr_parse(STR("10.1.2.3/8"), &cidr));
    assert_true(cidr.has_low_bits);
    assert_int_equal(cidr.address[1], 0);
    assert_true(cidr_parse(STR("10.0.0.0/8"), &cidr));
    assert_false(cidr.has_low_bits);
}

static void what_is_no_network_is_refused(void **state)
{
    static const char *const bad[] =
        {"",         "10.0.0.0/33", "10.0.0.0/",   "10.0.0.0/x",   "/8",      "::/129",
         "10.0.0/8", "localhost",   "10.0.0.0/-1", "10.0.0.0/8/8", "unix:/x", "ALL"};
    struct cidr cidr;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(cidr_parse(str_of(bad[i]), &cidr));
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(numeric_addresses_come_back_as_they_went),
        TEST(what_is_no_numeric_address_is_refused),
        TEST(listen_takes_all_its_forms),
        TEST(the_parts_are_told),
        TEST(upstreams_have_no_bare_ports_and_no_star),
        TEST(equality_knows_families_and_ports),
        TEST(wildcards_and_loopbacks_are_known),
        TEST(networks_contain_their_addresses),
        TEST(low_bits_are_noticed_and_cleared),
        TEST(what_is_no_network_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
