/* The resolver: answers, what is remembered, who shares a question, services. */
#include "net/resolver/resolving.h"

/* 10.0.0.1 and ::1 for every name. */
static bool both_families(struct dns_server *server, const struct seen *seen, struct message *reply)
{
    put_address(reply, "", 300, seen->type == DNS_A ? "10.0.0.1" : "2001:db8::1");
    return true;
}

static void addresses_of_both_families(void **state)
{
    servers[0].answer = both_families;
    assert_resolves("www.example", "10.0.0.1 2001:db8::1 ");
    assert_int_equal(servers[0].asked, 2);
    assert_string_equal(servers[0].seen[0].name, "www.example");
    assert_int_equal(servers[0].seen[0].type, DNS_A);
    assert_int_equal(servers[0].seen[1].type, DNS_AAAA);
    assert_int_not_equal(servers[0].seen[0].id, servers[0].seen[1].id);
}

static void one_family_alone(void **state)
{
    servers[0].answer = both_families;
    settings.uses_ipv6 = false;
    assert_resolves("www.example", "10.0.0.1 ");
    assert_int_equal(servers[0].asked, 1);
    settings.uses_ipv6 = true;
    settings.uses_ipv4 = false;
    assert_resolves("www.example", "2001:db8::1 ");
    assert_int_equal(servers[0].asked, 2);
}

static bool only_ipv6(struct dns_server *server, const struct seen *seen, struct message *reply)
{
    if (seen->type == DNS_AAAA) {
        put_address(reply, "", 300, "2001:db8::1");
        put_address(reply, "", 300, "2001:db8::2");
    }
    return true;
}

static void a_name_with_one_family(void **state)
{
    servers[0].answer = only_ipv6;
    assert_resolves("www.example", "2001:db8::1 2001:db8::2 ");
    assert_resolves("WWW.Example.", "2001:db8::1 2001:db8::2 ");
    assert_int_equal(servers[0].asked, 2);
}

static void addresses_instead_of_names(void **state)
{
    struct ask ask;

    assert_resolves("10.1.2.3", "10.1.2.3 ");
    assert_int_equal(resolve(&ask, "[::1]"), RESOLVE_OK);
    assert_told(&ask, "::1 ");
    assert_int_equal(ask.resolved.valid_until_ms, UINT64_MAX);
    ask_end(&ask);
    assert_int_equal(stats().sent, 0);
}

static void names_that_are_none(void **state)
{
    assert_result("", RESOLVE_NOT_FOUND);
    assert_result("a..b", RESOLVE_NOT_FOUND);
    assert_result("a b", RESOLVE_NOT_FOUND);
    assert_result("a123456789a123456789a123456789a123456789a123456789a123456789abcd.x",
                  RESOLVE_NOT_FOUND);
    assert_int_equal(stats().sent, 0);
}

static void texts_of_results(void **state)
{
    assert_string_equal(resolve_result_text(RESOLVE_NOT_FOUND), "3: Host not found");
    assert_string_equal(resolve_result_text(RESOLVE_FAILED), "2: Server failure");
    assert_string_equal(resolve_result_text(RESOLVE_TIMED_OUT), "110: Operation timed out");
}

/* ---- what is remembered ---- */

static void answers_are_remembered(void **state)
{
    struct ask ask;

    servers[0].answer = both_families;
    resolve(&ask, "www.example");
    assert_in_range(ask.resolved.valid_until_ms, clock_now.now_ms + 290000,
                    clock_now.now_ms + 300000);
    ask_end(&ask);
    assert_resolves("www.example", "10.0.0.1 2001:db8::1 ");
    assert_int_equal(servers[0].asked, 2);

    /* Other settings of the same content share the cache, of another do not. */
    struct resolver_settings same = settings;
    struct ask other = {.settings = &same, .name = "www.example", .within_ms = LONG_MS};
    ask_run(&other);
    assert_told(&other, "10.0.0.1 2001:db8::1 ");
    ask_end(&other);
    settings.has_valid = true;
    settings.valid_s = 60;
    assert_resolves("www.example", "10.0.0.1 2001:db8::1 ");
    assert_int_equal(servers[0].asked, 4);
}

static bool short_lived(struct dns_server *server, const struct seen *seen, struct message *reply)
{
    put_address(reply, "", seen->type == DNS_A ? 0 : 300, seen->type == DNS_A ? "10.0.0.1" : "::1");
    return true;
}

static void a_ttl_of_zero(void **state)
{
    struct ask ask;

    servers[0].answer = short_lived;
    resolve(&ask, "www.example");
    assert_told(&ask, "10.0.0.1 ::1 ");
    /* Who watches the name is not sent round in circles. */
    assert_in_range(ask.resolved.valid_until_ms, clock_now.now_ms, clock_now.now_ms + 1000);
    ask_end(&ask);
    assert_resolves("www.example", "10.0.0.1 ::1 ");
    assert_int_equal(servers[0].asked, 4);

    settings.has_valid = true;
    settings.valid_s = 60;
    assert_resolves("www.example", "10.0.0.1 ::1 ");
    assert_resolves("www.example", "10.0.0.1 ::1 ");
    assert_int_equal(servers[0].asked, 6);
}

static void valid_of_zero(void **state)
{
    servers[0].answer = both_families;
    settings.has_valid = true;
    assert_resolves("www.example", "10.0.0.1 2001:db8::1 ");
    assert_resolves("www.example", "10.0.0.1 2001:db8::1 ");
    assert_int_equal(servers[0].asked, 4);
}

static bool no_such_name(struct dns_server *server, const struct seen *seen, struct message *reply)
{
    set_u16(reply, 2, REPLY | NXDOMAIN);
    return true;
}

static bool no_data(struct dns_server *server, const struct seen *seen, struct message *reply)
{
    put_soa(reply, 3600, seen->type == DNS_A ? 5 : 4);
    return true;
}

static void names_that_are_not_there(void **state)
{
    struct ask ask;

    servers[0].answer = no_such_name;
    assert_int_equal(resolve(&ask, "www.example"), RESOLVE_NOT_FOUND);
    assert_in_range(ask.resolved.valid_until_ms, clock_now.now_ms + 9000, clock_now.now_ms + 10000);
    ask_end(&ask);
    assert_result("www.example", RESOLVE_NOT_FOUND);
    assert_int_equal(servers[0].asked, 2);

    servers[0].answer = no_data;
    assert_int_equal(resolve(&ask, "mail.example"), RESOLVE_NOT_FOUND);
    assert_in_range(ask.resolved.valid_until_ms, clock_now.now_ms + 3000, clock_now.now_ms + 4000);
    ask_end(&ask);

    /* valid= makes it shorter, never longer. */
    settings.has_valid = true;
    settings.valid_s = 2;
    assert_int_equal(resolve(&ask, "mail.example"), RESOLVE_NOT_FOUND);
    assert_in_range(ask.resolved.valid_until_ms, clock_now.now_ms, clock_now.now_ms + 2000);
    ask_end(&ask);
    settings.valid_s = 3600;
    assert_int_equal(resolve(&ask, "mail.example"), RESOLVE_NOT_FOUND);
    assert_in_range(ask.resolved.valid_until_ms, clock_now.now_ms + 9000, clock_now.now_ms + 10000);
    ask_end(&ask);
}

static void a_full_cache_forgets_the_oldest(void **state)
{
    struct ask ask = {0};
    char name[32];

    servers[0].answer = both_families;
    settings.uses_ipv6 = false;
    for (unsigned i = 0; i < 4100; i++) {
        snprintf(name, sizeof(name), "n%u.example", i);
        assert_int_equal(resolve(&ask, name), RESOLVE_OK);
        ask_end(&ask);
        if (i == 2000) {
            assert_int_equal(stats().evicted, 0);
            assert_resolves("n0.example", "10.0.0.1 "); /* is used again */
        }
    }
    assert_int_equal(stats().names, 4096);
    assert_int_equal(stats().evicted, 4);
    assert_int_equal(stats().questions, 0);
    assert_int_equal(servers[0].asked, 4100);
    assert_resolves("n0.example", "10.0.0.1 ");
    assert_int_equal(servers[0].asked, 4100);
    assert_resolves("n1.example", "10.0.0.1 ");
    assert_int_equal(servers[0].asked, 4101);
}

/* ---- who shares a question ---- */

static void one_question_for_all(void **state)
{
    struct ask asks[3] = {0};

    servers[0].answer = both_families;
    for (unsigned i = 0; i < 3; i++) {
        ask_start(&asks[i], "www.example", LONG_MS);
        assert_false(asks[i].is_done);
    }
    assert_int_equal(stats().questions, 1);
    turn_until(asks[0].is_done && asks[1].is_done && asks[2].is_done);
    assert_int_equal(servers[0].asked, 2);
    for (unsigned i = 0; i < 3; i++) {
        assert_told(&asks[i], "10.0.0.1 2001:db8::1 ");
        ask_end(&asks[i]);
    }
}

static void who_is_cancelled_leaves(void **state)
{
    struct ask asks[2] = {0};

    servers[0].answer = both_families;
    ask_start(&asks[0], "www.example", LONG_MS);
    ask_start(&asks[1], "www.example", LONG_MS);
    fiber_cancel(asks[0].fiber);
    fiber_run_ready();
    assert_true(asks[0].is_done);
    assert_int_equal(asks[0].result, RESOLVE_CANCELLED);
    assert_false(asks[1].is_done);
    turn_until(asks[1].is_done);
    assert_told(&asks[1], "10.0.0.1 2001:db8::1 ");
    ask_end(&asks[0]);
    ask_end(&asks[1]);
}

static void a_question_goes_on_alone(void **state)
{
    struct ask ask = {0};

    servers[0].answer = both_families;
    ask_start(&ask, "www.example", LONG_MS);
    fiber_cancel(ask.fiber);
    fiber_run_ready();
    assert_int_equal(ask.result, RESOLVE_CANCELLED);
    ask_end(&ask);
    turn_until(stats().questions == 0);
    assert_resolves("www.example", "10.0.0.1 2001:db8::1 ");
    assert_int_equal(servers[0].asked, 2);
}

static void closing_fails_what_is_under_way(void **state)
{
    struct ask asks[2] = {0};

    ask_start(&asks[0], "www.example", LONG_MS);
    ask_start(&asks[1], "mail.example", LONG_MS);
    turn_until(servers[0].asked == 4);
    resolver_close_all();
    fiber_run_ready();
    for (unsigned i = 0; i < 2; i++) {
        assert_true(asks[i].is_done);
        assert_int_equal(asks[i].result, RESOLVE_FAILED);
        ask_end(&asks[i]);
    }
}

static void more_questions_than_fit_the_wire(void **state)
{
    enum { MANY = 600 };
    static struct ask asks[MANY];
    static char names[MANY][32];
    unsigned done;

    for (unsigned i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof(names[i]), "n%u.example", i);
        ask_start(&asks[i], names[i], LONG_MS);
    }
    assert_int_equal(stats().questions, MANY);
    assert_int_equal(stats().sent, 2 * 256);
    /* One in the queue, and one who waits behind it, want to know no more. */
    fiber_cancel(asks[300].fiber);
    fiber_cancel(asks[599].fiber);
    servers[0].answer = both_families;
    do {
        loop_turn(100);
        done = 0;
        for (unsigned i = 0; i < MANY; i++) {
            done += asks[i].is_done;
        }
    } while (done < MANY);
    assert_int_equal(stats().names, MANY - 2);
    for (unsigned i = 0; i < MANY; i++) {
        assert_int_equal(asks[i].result, i == 300 || i == 599 ? RESOLVE_CANCELLED : RESOLVE_OK);
        ask_end(&asks[i]);
    }
}

static void questions_come_from_many_ports(void **state)
{
    static char name[32];
    bool differ = false;

    servers[0].answer = both_families;
    for (unsigned i = 0; i < 10; i++) {
        snprintf(name, sizeof(name), "n%u.example", i);
        assert_resolves(name, "10.0.0.1 2001:db8::1 ");
        differ |= servers[0].seen[2 * i].port != servers[0].seen[0].port;
    }
    assert_true(differ);
}

/* ---- services ---- */

static bool a_service(struct dns_server *server, const struct seen *seen, struct message *reply)
{
    if (seen->type == DNS_SRV) {
        put_service(reply, seen->name, 60, 1, 10, 8080, "one.example");
        put_service(reply, seen->name, 60, 1, 20, 8081, "gone.example");
        put_service(reply, seen->name, 60, 2, 0, 8082, "two.example");
        put_service(reply, seen->name, 60, 1, 30, 8083, "one.example");
    } else if (strcmp(seen->name, "gone.example") == 0) {
        set_u16(reply, 2, REPLY | NXDOMAIN);
    } else if (seen->type == DNS_A) {
        put_address(reply, "", 0, strcmp(seen->name, "one.example") == 0 ? "10.0.0.1" : "10.0.0.2");
    } else if (strcmp(seen->name, "two.example") == 0) {
        put_address(reply, "", 300, "2001:db8::2");
    }
    return true;
}

static void services_and_their_targets(void **state)
{
    struct ask ask;

    servers[0].answer = a_service;
    resolve_service(&ask, "http", "example");
    assert_told(&ask, "one.example/1/10=10.0.0.1:8080 two.example/2/0=10.0.0.2:8082 "
                      "two.example/2/0=[2001:db8::2]:8082 one.example/1/30=10.0.0.1:8083 ");
    assert_in_range(ask.resolved.valid_until_ms, clock_now.now_ms, clock_now.now_ms + 1000);
    ask_end(&ask);
    /* One question for each name, although a time to live was 0. */
    assert_int_equal(servers[0].asked, 1 + 3 * 2);
    assert_string_equal(servers[0].seen[0].name, "_http._tcp.example");
}

static void names_of_services(void **state)
{
    struct ask ask;

    servers[0].answer = no_such_name;
    assert_int_equal(resolve_service(&ask, "_http._tcp", "example"), RESOLVE_NOT_FOUND);
    ask_end(&ask);
    assert_int_equal(resolve_service(&ask, "server1.backend", "example.com"), RESOLVE_NOT_FOUND);
    ask_end(&ask);
    assert_int_equal(resolve_service(&ask, "a b", "example.com"), RESOLVE_NOT_FOUND);
    ask_end(&ask);
    assert_int_equal(servers[0].asked, 2);
    assert_string_equal(servers[0].seen[0].name, "_http._tcp.example");
    assert_string_equal(servers[0].seen[1].name, "server1.backend.example.com");
}

static bool targets_without_addresses(struct dns_server *server, const struct seen *seen,
                                      struct message *reply)
{
    if (seen->type == DNS_SRV) {
        put_service(reply, seen->name, 60, 1, 10, 8080, "one.example");
        put_service(reply, seen->name, 60, 1, 10, 8080, "two.example");
    } else {
        set_u16(reply, 2, REPLY | (strcmp(seen->name, "one.example") == 0 ? NXDOMAIN : SERVFAIL));
    }
    return true;
}

static void services_without_addresses(void **state)
{
    struct ask ask;

    servers[0].answer = targets_without_addresses;
    assert_int_equal(resolve_service(&ask, "http", "example"), RESOLVE_FAILED);
    assert_int_equal(ask.resolved.count, 0);
    ask_end(&ask);
}

static void a_cancelled_service(void **state)
{
    struct ask ask = {.service = "http"};

    servers[0].answer = a_service;
    ask_start(&ask, "example", LONG_MS);
    turn_until(servers[0].asked == 1);
    servers[0].answer = says_nothing;
    turn_until(servers[0].asked == 1 + 3 * 2);
    fiber_cancel(ask.fiber);
    fiber_run_ready();
    assert_true(ask.is_done);
    assert_int_equal(ask.result, RESOLVE_CANCELLED);
    ask_end(&ask);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RESOLVING(addresses_of_both_families),
        RESOLVING(one_family_alone),
        RESOLVING(a_name_with_one_family),
        RESOLVING(addresses_instead_of_names),
        RESOLVING(names_that_are_none),
        RESOLVING(texts_of_results),
        RESOLVING(answers_are_remembered),
        RESOLVING(a_ttl_of_zero),
        RESOLVING(valid_of_zero),
        RESOLVING(names_that_are_not_there),
        RESOLVING(a_full_cache_forgets_the_oldest),
        RESOLVING(one_question_for_all),
        RESOLVING(who_is_cancelled_leaves),
        RESOLVING(a_question_goes_on_alone),
        RESOLVING(closing_fails_what_is_under_way),
        RESOLVING(more_questions_than_fit_the_wire),
        RESOLVING(questions_come_from_many_ports),
        RESOLVING(services_and_their_targets),
        RESOLVING(names_of_services),
        RESOLVING(services_without_addresses),
        RESOLVING(a_cancelled_service),
    };

    return cmocka_run_group_tests_name("net/resolver", tests, NULL, NULL);
}
