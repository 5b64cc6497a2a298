/* The resolver and its name servers: silence, refusal, nonsense, TCP, aliases. */
#include "net/resolver/resolving.h"

static bool works(struct dns_server *server, const struct seen *seen, struct message *reply)
{
    if (seen->type == DNS_A) {
        put_address(reply, "", 300, server == &servers[0] ? "10.0.0.1" : "10.0.0.2");
    }
    return true;
}

static bool fails(struct dns_server *server, const struct seen *seen, struct message *reply)
{
    set_u16(reply, 2, REPLY | SERVFAIL);
    return true;
}

/* ---- silence ---- */

static void nobody_answers(void **state)
{
    struct ask ask;

    use_servers(2);
    assert_int_equal(resolve_within(&ask, "www.example", 200), RESOLVE_TIMED_OUT);
    assert_int_equal(ask.resolved.count, 0);
    ask_end(&ask);
    /* The question ends by itself when nobody waits any more, but not before each server was asked
     * twice, for both families. */
    turn_until(stats().questions == 0);
    assert_true(servers[0].asked >= 4);
    assert_true(servers[1].asked >= 4);
    assert_int_equal(stats().names, 0);
    servers[1].answer = works;
    assert_resolves("www.example", "10.0.0.2 ");
}

static void the_second_server_answers(void **state)
{
    struct ask ask;

    use_servers(2);
    servers[1].answer = works;
    resolve_within(&ask, "www.example", 2000);
    assert_told(&ask, "10.0.0.2 ");
    ask_end(&ask);
    /* It is asked first from now on. */
    unsigned before = servers[0].asked;
    assert_resolves("mail.example", "10.0.0.2 ");
    assert_int_equal(servers[0].asked, before);
}

static bool only_a(struct dns_server *server, const struct seen *seen, struct message *reply)
{
    put_address(reply, "", 300, "10.0.0.1");
    return seen->type == DNS_A;
}

static void half_an_answer_is_better_than_none(void **state)
{
    struct ask ask;

    servers[0].answer = only_a;
    resolve_within(&ask, "www.example", 500);
    assert_told(&ask, "10.0.0.1 ");
    assert_in_range(ask.resolved.valid_until_ms, clock_now.now_ms, clock_now.now_ms + 10000);
    ask_end(&ask);
    assert_int_equal(stats().questions, 0);
    assert_resolves("www.example", "10.0.0.1 ");
}

static bool answers_the_second_time(struct dns_server *server, const struct seen *seen,
                                    struct message *reply)
{
    return server->asked > 2 && works(server, seen, reply);
}

static void a_lost_datagram(void **state)
{
    struct ask ask;

    servers[0].answer = answers_the_second_time;
    resolve_within(&ask, "www.example", 2000);
    assert_told(&ask, "10.0.0.1 ");
    ask_end(&ask);
    assert_true(servers[0].asked >= 4);
}

/* ---- refusal ---- */

static void a_server_that_fails(void **state)
{
    use_servers(2);
    servers[0].answer = fails;
    servers[1].answer = works;
    assert_resolves("www.example", "10.0.0.2 ");
    assert_int_equal(servers[0].asked, 2);
    assert_int_equal(servers[1].asked, 2);
    assert_resolves("mail.example", "10.0.0.2 ");
    assert_int_equal(servers[0].asked, 2);
}

static void all_servers_fail(void **state)
{
    use_servers(2);
    servers[0].answer = servers[1].answer = fails;
    assert_result("www.example", RESOLVE_FAILED);
    assert_int_equal(servers[0].asked + servers[1].asked, 4);
    /* That is not remembered. */
    servers[0].answer = works;
    assert_resolves("www.example", "10.0.0.1 ");
}

static bool refuses(struct dns_server *server, const struct seen *seen, struct message *reply)
{
    set_u16(reply, 2, REPLY | REFUSED);
    return true;
}

static bool cannot(struct dns_server *server, const struct seen *seen, struct message *reply)
{
    set_u16(reply, 2, REPLY | 4);
    return true;
}

static void other_errors(void **state)
{
    servers[0].answer = refuses;
    assert_result("www.example", RESOLVE_REFUSED);
    servers[0].answer = cannot;
    assert_result("www.example", RESOLVE_UNIMPLEMENTED);
    assert_string_equal(resolve_result_text(RESOLVE_REFUSED), "5: Operation refused");
}

static bool a_works_aaaa_fails(struct dns_server *server, const struct seen *seen,
                               struct message *reply)
{
    return seen->type == DNS_A ? works(server, seen, reply) : fails(server, seen, reply);
}

static void one_family_fails(void **state)
{
    servers[0].answer = a_works_aaaa_fails;
    assert_resolves("www.example", "10.0.0.1 ");
}

static void a_closed_port(void **state)
{
    struct ask ask;

    use_servers(2);
    servers[1].answer = works;
    dns_server_close(&servers[0]);
    assert_resolves("www.example", "10.0.0.2 ");

    dns_server_close(&servers[1]);
    assert_int_equal(resolve_within(&ask, "mail.example", 50), RESOLVE_TIMED_OUT);
    ask_end(&ask);
    resolver_close_all();
    dns_server_open(&servers[0], says_nothing);
    dns_server_open(&servers[1], says_nothing);
}

static void an_address_that_cannot_be_reached(void **state)
{
    struct ask ask;

    server_addrs[0].v4.sin_addr.s_addr = 0xffffffff; /* no broadcast is allowed here */
    assert_int_equal(resolve_within(&ask, "www.example", 50), RESOLVE_TIMED_OUT);
    ask_end(&ask);
    use_servers(2);
    servers[1].answer = works;
    assert_resolves("www.example", "10.0.0.2 ");
}

/* ---- nonsense ---- */

/* Says the right thing after some wrong ones. */
static bool guesses(struct dns_server *server, const struct seen *seen, struct message *reply)
{
    static struct message wrong;

    reply_begin(&wrong, seen);
    set_u16(&wrong, 0, seen->id ^ 1);
    put_address(&wrong, "", 300, "10.6.6.6");
    dns_server_send(server, &wrong);

    wrong.size = 0;
    put_header(&wrong, seen->id, REPLY, 1, 0, 0);
    put_question(&wrong, "evil.example", seen->type);
    put_address(&wrong, "", 300, "10.6.6.6");
    dns_server_send(server, &wrong);

    wrong.size = 1;
    dns_server_send(server, &wrong);
    wrong.size = 0;
    dns_server_send(server, &wrong);
    return works(server, seen, reply);
}

static void answers_to_other_questions(void **state)
{
    servers[0].answer = guesses;
    assert_resolves("www.example", "10.0.0.1 ");
    assert_int_equal(servers[0].asked, 2);
}

/* The right answer, sent from another socket. */
static bool answers_by_another(struct dns_server *server, const struct seen *seen,
                               struct message *reply)
{
    servers[1].asker = server->asker;
    if (seen->type == DNS_A) {
        put_address(reply, "", 300, "10.6.6.6");
    }
    dns_server_send(&servers[1], reply);
    reply_begin(reply, seen);
    return works(server, seen, reply);
}

static void answers_of_others(void **state)
{
    servers[0].answer = answers_by_another;
    assert_resolves("www.example", "10.0.0.1 ");
}

static bool points_to_itself(struct dns_server *server, const struct seen *seen,
                             struct message *reply)
{
    size_t at = reply->size;

    put_address(reply, "", 300, "10.6.6.6");
    set_u16(reply, at, 0xc000 | (unsigned) at);
    return true;
}

static bool is_cut(struct dns_server *server, const struct seen *seen, struct message *reply)
{
    put_address(reply, "", 300, "10.6.6.6");
    reply->size--;
    return true;
}

static void malformed_answers(void **state)
{
    use_servers(2);
    servers[0].answer = points_to_itself;
    servers[1].answer = works;
    assert_resolves("www.example", "10.0.0.2 ");
    servers[1].answer = is_cut;
    assert_result("mail.example", RESOLVE_FAILED);
}

/* ---- TCP ---- */

static bool fits_tcp_only(struct dns_server *server, const struct seen *seen, struct message *reply)
{
    if (!seen->is_tcp) {
        set_u16(reply, 2, REPLY | TRUNCATED);
        return true;
    }
    for (unsigned i = 0; seen->type == DNS_A && i < 2; i++) {
        put_address(reply, "", 300, i == 0 ? "10.0.0.1" : "10.0.0.2");
    }
    return true;
}

static void an_answer_too_long_for_a_datagram(void **state)
{
    settings.uses_ipv6 = false;
    servers[0].answer = fits_tcp_only;
    assert_resolves("www.example", "10.0.0.1 10.0.0.2 ");
    assert_int_equal(servers[0].asked_over_tcp, 1);
    assert_int_equal(servers[0].asked, 2);
    assert_int_equal(conn_pool.used, 0);
}

static bool is_long(struct dns_server *server, const struct seen *seen, struct message *reply)
{
    if (!seen->is_tcp) {
        set_u16(reply, 2, REPLY | TRUNCATED);
        return true;
    }
    for (unsigned i = 0; i < 3000; i++) {
        put_address(reply, "", 300, "10.0.0.1");
    }
    return true;
}

static void a_very_long_answer(void **state)
{
    struct ask ask;

    settings.uses_ipv6 = false;
    servers[0].answer = is_long;
    assert_int_equal(resolve(&ask, "www.example"), RESOLVE_OK);
    assert_int_equal(ask.resolved.count, DNS_RECORDS_MAX);
    ask_end(&ask);
}

/* Hangs up over TCP. */
static bool hangs_up(struct dns_server *server, const struct seen *seen, struct message *reply)
{
    set_u16(reply, 2, REPLY | TRUNCATED);
    return !seen->is_tcp;
}

static bool is_truncated_always(struct dns_server *server, const struct seen *seen,
                                struct message *reply)
{
    set_u16(reply, 2, REPLY | TRUNCATED);
    return true;
}

static bool is_foreign_over_tcp(struct dns_server *server, const struct seen *seen,
                                struct message *reply)
{
    set_u16(reply, seen->is_tcp ? 0 : 2, seen->is_tcp ? seen->id ^ 1 : REPLY | TRUNCATED);
    return true;
}

static void tcp_that_does_not_help(void **state)
{
    static bool (*const ways[])(struct dns_server *, const struct seen *,
                                struct message *) = {hangs_up, is_truncated_always,
                                                     is_foreign_over_tcp};

    settings.uses_ipv6 = false;
    use_servers(2);
    servers[1].answer = works;
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        servers[0].answer = ways[i];
        assert_resolves("www.example", "10.0.0.2 ");
        resolver_close_all();
        assert_int_equal(servers[0].asked_over_tcp, i + 1);
    }
}

static void no_connection_is_left(void **state)
{
    settings.uses_ipv6 = false;
    use_servers(2);
    servers[0].answer = fits_tcp_only;
    servers[1].answer = works;
    conn_pool_init(0);
    assert_resolves("www.example", "10.0.0.2 ");
    conn_pool_init(1000);
}

static void closing_while_tcp_is_under_way(void **state)
{
    struct ask ask = {0};

    settings.uses_ipv6 = false;
    servers[0].answer = is_truncated_always;
    ask_start(&ask, "www.example", LONG_MS);
    turn_until(conn_pool.used == 1);
    fiber_cancel(ask.fiber);
    fiber_run_ready();
    ask_end(&ask);
    resolver_close_all();
    assert_int_equal(conn_pool.used, 0);
}

/* ---- aliases ---- */

/* n0 is an alias of n1, and so on; n4 has an address. Never says more than one step. */
static bool one_alias_at_a_time(struct dns_server *server, const struct seen *seen,
                                struct message *reply)
{
    unsigned n = (unsigned) atoi(seen->name + 1);
    char next[32];

    if (n == 4) {
        return works(server, seen, reply);
    }
    snprintf(next, sizeof(next), "n%u.example", n + 1);
    put_alias(reply, seen->name, n == 1 ? 7 : 300, next);
    return true;
}

static void aliases_are_followed(void **state)
{
    struct ask ask;

    settings.uses_ipv6 = false;
    servers[0].answer = one_alias_at_a_time;
    resolve(&ask, "n0.example");
    assert_told(&ask, "10.0.0.1 ");
    assert_in_range(ask.resolved.valid_until_ms, clock_now.now_ms, clock_now.now_ms + 7000);
    ask_end(&ask);
    assert_int_equal(servers[0].asked, 5);
    assert_string_equal(servers[0].seen[4].name, "n4.example");
    assert_int_not_equal(servers[0].seen[0].id, servers[0].seen[1].id);
}

static void aliases_without_an_end(void **state)
{
    settings.uses_ipv6 = false;
    servers[0].answer = one_alias_at_a_time;
    assert_result("n5.example", RESOLVE_NOT_FOUND);
    assert_int_equal(servers[0].asked, DNS_ALIASES_MAX + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RESOLVING(nobody_answers),
        RESOLVING(the_second_server_answers),
        RESOLVING(half_an_answer_is_better_than_none),
        RESOLVING(a_lost_datagram),
        RESOLVING(a_server_that_fails),
        RESOLVING(all_servers_fail),
        RESOLVING(other_errors),
        RESOLVING(one_family_fails),
        RESOLVING(a_closed_port),
        RESOLVING(an_address_that_cannot_be_reached),
        RESOLVING(answers_to_other_questions),
        RESOLVING(answers_of_others),
        RESOLVING(malformed_answers),
        RESOLVING(an_answer_too_long_for_a_datagram),
        RESOLVING(a_very_long_answer),
        RESOLVING(tcp_that_does_not_help),
        RESOLVING(no_connection_is_left),
        RESOLVING(closing_while_tcp_is_under_way),
        RESOLVING(aliases_are_followed),
        RESOLVING(aliases_without_an_end),
    };

    return cmocka_run_group_tests_name("net/resolver_servers", tests, NULL, NULL);
}
