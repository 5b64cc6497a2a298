/* Tests of what the configuration says of groups, and of how groups are found by name. */
#include "upstream/fixture.h"

static const struct upstream_server *server_of(const char *name, unsigned index)
{
    return *vec_at(&group_named(name)->servers, struct upstream_server *, index);
}

static void defaults(void **state)
{
    start("upstream u { server 127.0.0.1; }");
    const struct upstream_group *group = group_named("u");
    assert_int_equal(group->keepalive, 32);
    assert_true(group->is_keepalive_local);
    assert_int_equal(group->keepalive_requests, 1000);
    assert_int_equal(group->keepalive_time_ms, 3600000);
    assert_int_equal(group->keepalive_timeout_ms, 60000);
    assert_int_equal(group->queue_max, 0);
    assert_ptr_equal(group->balancer, &balancer_round_robin);
    assert_int_equal(server_of("u", 0)->port, 80);
    assert_int_equal(server_of("u", 0)->weight, 1);
    assert_int_equal(server_of("u", 0)->max_fails, 1);
    assert_int_equal(server_of("u", 0)->fail_timeout_ms, 10000);
    finish();
}

static void parameters(void **state)
{
    start(
        "upstream u { keepalive 5; keepalive_requests 7; keepalive_time 8s; keepalive_timeout 9s;"
        " queue 3 timeout=4s; zone z 1m; resolver 127.0.0.1:5353; resolver_timeout 2s;"
        " server 127.0.0.1:81 weight=2 max_conns=3 max_fails=4 fail_timeout=5s slow_start=6s route=r id=i;"
        " server [::1]:82 backup; server 127.0.0.1:83 down; server 127.0.0.1:84 drain; }");
    const struct upstream_group *group = group_named("u");
    const struct upstream_server *server = server_of("u", 0);
    assert_int_equal(group->keepalive, 5);
    assert_false(group->is_keepalive_local);
    assert_int_equal(group->keepalive_requests, 7);
    assert_int_equal(group->keepalive_time_ms, 8000);
    assert_int_equal(group->keepalive_timeout_ms, 9000);
    assert_int_equal(group->queue_max, 3);
    assert_int_equal(group->queue_timeout_ms, 4000);
    assert_text(group->zone_name, "z");
    assert_int_equal(group->resolver->servers.count, 1);
    assert_int_equal(group->resolver_timeout_ms, 2000);
    assert_int_equal(server->port, 81);
    assert_int_equal(server->weight, 2);
    assert_int_equal(server->max_conns, 3);
    assert_int_equal(server->max_fails, 4);
    assert_int_equal(server->fail_timeout_ms, 5000);
    assert_int_equal(server->slow_start_ms, 6000);
    assert_text(server->route, "r");
    assert_text(server->id, "i");
    assert_true(server_of("u", 1)->is_backup);
    assert_true(server_of("u", 2)->is_down);
    assert_true(server_of("u", 3)->is_draining);
    finish();
}

/* A name of http and the same one of stream are two groups; a port is needed in stream. */
static void subsystems_are_apart(void **state)
{
    start_with("stream { upstream u { server 127.0.0.1:91; server 127.0.0.1:92 backup; }"
               " upstream only { server 127.0.0.1:93; } server { listen 127.0.0.1:9; return x; } }",
               "upstream u { server 127.0.0.1; }");
    struct upstream_set *streams = upstream_set_of(&generation->conf, &upstream_stream);
    const struct upstream_group *group = upstream_find(streams, STR("u"), 0);
    assert_non_null(group);
    assert_ptr_not_equal(group, group_named("u"));
    assert_int_equal(group->servers.count, 2);
    assert_int_equal(group->keepalive, 0);
    assert_int_equal(group->default_port, 0);
    assert_int_equal(group_named("u")->servers.count, 1);
    assert_null(upstream_find(set, STR("only"), 80));
    assert_non_null(upstream_find(streams, STR("only"), 0));
    assert_null(upstream_find(streams, STR("127.0.0.1"), 0));
    assert_null(group->peers); /* its workers begin on their own */
    finish();
}

/* What the peers of one subsystem are known for is handed on to the same one, by the name of the
 * group. */
static void knowledge_stays_in_its_subsystem(void **state)
{
    const char *both = "stream { upstream u { server 127.0.0.1:91; }"
                       " server { listen 127.0.0.1:9; return x; } }";

    start_with(both, "upstream u { server 127.0.0.1:91; }");
    const struct upstream_group *web = group_named("u");
    atomic_store(&web->peers->primary.peers[0].cell->up_at_ms, 7);
    struct generation *next =
        read_generation(generation, both, "upstream u { server 127.0.0.1:91; }");
    assert_non_null(next);
    const struct upstream_group *streamed =
        upstream_find(upstream_set_of(&next->conf, &upstream_stream), STR("u"), 0);
    const struct upstream_group *heir =
        upstream_find(upstream_set_of(&next->conf, &upstream_http), STR("u"), 80);
    assert_int_equal(
        cell_of_server(heir, *vec_at(&heir->servers, struct upstream_server *, 0), 0)->up_at_ms, 7);
    assert_int_equal(cell_of_server(streamed,
                                    *vec_at(&streamed->servers, struct upstream_server *, 0), 0)
                         ->up_at_ms,
                     0);
    generation_free(next);
    finish();
}

static void the_resolver_of_the_http_block(void **state)
{
    start("resolver 127.0.0.1; resolver_timeout 7s; upstream a { server 127.0.0.1; }"
          "upstream b { server 127.0.0.1; resolver_timeout 3s; resolver 127.0.0.2; }");
    assert_int_equal(group_named("a")->resolver_timeout_ms, 7000);
    assert_int_equal(group_named("b")->resolver_timeout_ms, 3000);
    assert_non_null(group_named("a")->resolver);
    assert_ptr_not_equal(group_named("a")->resolver, group_named("b")->resolver);
    finish();
}

static void wrong_words(void **state)
{
    static const struct {
        const char *text, *message;
    } rows[] = {
        {"upstream u { }", "no servers are inside upstream"},
        {"upstream u { server 127.0.0.1 backup; }", "no servers in upstream \"u\""},
        {"upstream u { zone z 1m; server 127.0.0.1 backup; }", "no servers in upstream \"u\""},
        {"upstream u { status_zone \"\"; server 127.0.0.1; }", "invalid zone name \"\""},
        {"upstream u { status_zone z; status_zone y; server 127.0.0.1; }",
         "\"status_zone\" directive is duplicate"},
        {"upstream u { status_zone z; server 127.0.0.1; } "
         "upstream v { status_zone z; server 127.0.0.1; }",
         "\"status_zone\" \"z\" is that of another upstream"},
        {"upstream u { status_zone v; server 127.0.0.1; } upstream v { server 127.0.0.1; }",
         "\"status_zone\" of upstream \"u\" is the name of another upstream"},
        {"upstream u { server 127.0.0.1; } upstream U { server 127.0.0.1; }",
         "duplicate upstream \"U\""},
        {"upstream u { server 127.0.0.1:0; }", "invalid port in upstream \"127.0.0.1:0\""},
        {"upstream u { server name.invalid:65536; }",
         "invalid port in upstream \"name.invalid:65536\""},
        {"upstream u { server \"\"; }", "no host in upstream \"\""},
        {"upstream u { server :80; }", "no host in upstream \":80\""},
        {"upstream u { server a/b; }", "invalid host in upstream \"a/b\""},
        {"upstream u { server a:b:80; }", "invalid port in upstream \"a:b:80\""},
        {"upstream u { server [zz]; }", "invalid IPv6 address in upstream \"[zz]\""},
        {"upstream u { server unix:; }", "no path in the unix domain socket in upstream \"unix:\""},
        {"upstream u { server 127.0.0.1 weight=0; }", "invalid parameter \"weight=0\""},
        {"upstream u { server 127.0.0.1 weight=70000; }", "invalid parameter \"weight=70000\""},
        {"upstream u { server 127.0.0.1 weight=99999999999999999999; }",
         "invalid parameter \"weight=99999999999999999999\""},
        {"upstream u { server 127.0.0.1 max_conns=-1; }", "invalid parameter \"max_conns=-1\""},
        {"upstream u { server 127.0.0.1 fail_timeout=x; }", "invalid parameter \"fail_timeout=x\""},
        {"upstream u { server 127.0.0.1 backup=; }", "invalid parameter \"backup=\""},
        {"upstream u { server 127.0.0.1 route=; }", "invalid parameter \"route=\""},
        {"upstream u { server 127.0.0.1 down drain; }",
         "parameters \"down\" and \"drain\" exclude each other"},
        {"upstream u { ip_hash; server 127.0.0.1 backup; }",
         "balancing method does not support parameter \"backup\""},
        {"upstream u { server a.invalid service=http; }",
         "service upstream \"a.invalid\" requires \"resolve\" parameter"},
        {"upstream u { zone z 1m; resolver 127.0.0.1; server a.invalid:80 resolve service=http; }",
         "service upstream \"a.invalid:80\" may not have port"},
        {"upstream u { server 127.0.0.1; keepalive x; }",
         "invalid value \"x\" in \"keepalive\" directive"},
        {"upstream u { server 127.0.0.1; keepalive 3 here; }", "invalid parameter \"here\""},
        {"upstream u { dynamic_resolve fallback=none; server 127.0.0.1; }",
         "invalid parameter \"fallback=none\""},
        {"upstream u { dynamic_resolve fail_timeout=x; server 127.0.0.1; }",
         "invalid parameter \"fail_timeout=x\""},
        {"upstream u { server 127.0.0.1; queue 0; }", "invalid value \"0\" in \"queue\" directive"},
        {"upstream u { server 127.0.0.1; queue 1 time=3; }", "invalid parameter \"time=3\""},
        {"upstream u { server 127.0.0.1; zone \"\" 1m; }", "invalid zone name \"\""},
        {"upstream u { server 127.0.0.1; zone z x; }", "invalid zone size \"x\""},
        {"upstream u { server 127.0.0.1; zone z 1k; }", "zone \"z\" is too small"},
    };

    for (unsigned i = 0; i < COUNT(rows); i++) {
        assert_unread(rows[i].text, rows[i].message, 1);
    }
}

static void lines_of_messages(void **state)
{
    assert_unread("upstream u {\n server 127.0.0.1 backup;\n}\n", "no servers in upstream \"u\"",
                  1);
    assert_unread("upstream u {\n\n}\n", "no servers are inside upstream", 3);
}

static void an_upstream_with_a_zone_may_be_empty(void **state)
{
    assert_read("upstream u { zone z 1m; }");
    assert_read("upstream u { zone z 1m; least_conn; keepalive 4; }");
}

/* Two upstreams may change names: each is shown under one that is nobody else's. */
static void names_of_status_zones(void **state)
{
    start("upstream u { status_zone v; server 127.0.0.1; }"
          "upstream v { status_zone u; server 127.0.0.1; }"
          "upstream w { status_zone w; server 127.0.0.1; }");
    assert_true(str_is(upstream_shown_name(group_named("u")), "v"));
    assert_true(str_is(upstream_shown_name(group_named("v")), "u"));
    assert_true(str_is(upstream_shown_name(group_named("w")), "w"));
    finish();
}

static void resolve_needs_a_zone_and_a_resolver(void **state)
{
    assert_null(read_generation(NULL, "", "upstream u { server a.invalid resolve; }"));
    assert_true(was_logged("resolving names at run time requires upstream \"u\" in "));
    assert_null(read_generation(NULL, "", "upstream u { zone z 1m; server a.invalid resolve; }"));
    assert_true(was_logged("no resolver defined to resolve names at run time in upstream \"u\""));
    assert_read("upstream u { zone z 1m; resolver 127.0.0.1; server a.invalid resolve; }");
    assert_read("upstream u { server 127.0.0.1 resolve; }"); /* no name: nothing to do */
}

static void a_name_that_is_not_found_warns(void **state)
{
    assert_read("upstream u { server a.invalid:81; server 127.0.0.1; }");
    assert_int_equal(times_logged("[warn] host not found in upstream \"a.invalid:81\""), 1);
}

static void a_balancer_after_another_warns(void **state)
{
    assert_read("upstream u { server 127.0.0.1; ip_hash; least_conn; }");
    assert_true(was_logged("[warn] load balancing method redefined"));
    assert_read("upstream u { server 127.0.0.1; keepalive 3; ip_hash; }");
    assert_true(was_logged("[warn] load balancing method redefined"));
    assert_read("upstream u { ip_hash; server 127.0.0.1; keepalive 3; }");
    assert_false(was_logged("[warn]"));
}

/* ---- by name ---- */

static void groups_by_name(void **state)
{
    start(
        "server { listen 127.0.0.1:8080; location /a { proxy_pass http://late; }"
        " location /b { proxy_pass http://127.0.0.1:81; } location /c { proxy_pass http://127.0.0.1:81/x; }"
        " location /d { proxy_pass http://127.0.0.1; } location /e { proxy_pass http://unix:/tmp/s; } }"
        "upstream late { server 127.0.0.1:90; }");
    assert_int_equal(set->groups.count, 4);
    struct upstream_group *implicit = upstream_find(set, STR("127.0.0.1:81"), 81);
    assert_non_null(implicit);
    assert_true(implicit->is_implicit);
    assert_int_equal(implicit->keepalive, 32);
    assert_ptr_equal(upstream_find(set, STR("127.0.0.1"), 81), implicit);
    assert_ptr_not_equal(upstream_find(set, STR("127.0.0.1"), 80), implicit);
    assert_ptr_equal(upstream_find(set, STR("LATE"), 80), group_named("late"));
    assert_null(upstream_find(set, STR("late:80"), 80));
    assert_null(upstream_find(set, STR("127.0.0.1:x"), 80));
    assert_non_null(upstream_find(set, STR("unix:/tmp/s"), 80));
    finish();
}

static void targets_that_cannot_be(void **state)
{
    assert_unread(
        "upstream u { server 127.0.0.1; } server { location / { proxy_pass http://u:81; } }",
        "upstream \"u\" may not have port 81", 1);
    assert_unread("server { location / { proxy_pass http://127.0.0.1:0; } }",
                  "invalid port in upstream \"127.0.0.1:0\"", 1);
    assert_unread("server { location / { scgi_pass 127.0.0.1; } }",
                  "no port in upstream \"127.0.0.1\"", 1);
}

/* ---- at run time ---- */

static struct upstream_group *at_run_time(const char *host, uint16_t port, const char **reason)
{
    const struct dns_lookup lookup = {.name = str_of(host),
                                      .deadline_ms = clock_now.now_ms + 1000,
                                      .log = log_main};

    return upstream_at_run_time(set, &lookup, port, reason);
}

static void groups_made_at_run_time(void **state)
{
    const char *reason;
    struct asker asker;

    start("upstream u { server 127.0.0.1; }");
    struct upstream_group *group = at_run_time("127.0.0.1", 81, &reason);
    assert_non_null(group);
    assert_ptr_equal(at_run_time("127.0.0.1", 81, &reason), group);
    assert_ptr_not_equal(at_run_time("127.0.0.1", 82, &reason), group);
    assert_ptr_not_equal(at_run_time("127.0.0.1", 81 + 256, &reason), group); /* the same bucket */
    begin(&asker, group);
    assert_int_equal(upstream_pick_next(&asker.pick), PICK_OK);
    assert_text(asker.pick.peer->name, "127.0.0.1:81");
    assert_int_equal(asker.pick.peer->cell->number, CELL_PRIVATE);
    end(&asker);
    group = at_run_time("unix:/tmp/s", 80, &reason);
    assert_text(group->peers->primary.peers[0].name, "unix:/tmp/s");
    assert_non_null(at_run_time("[::1]", 80, &reason));
    assert_null(at_run_time("name.invalid", 80, &reason));
    assert_string_equal(reason, "no resolver defined");
    assert_null(at_run_time("unix:", 80, &reason));
    finish();
}

static unsigned counted;

static void count_one(struct upstream_group *group, void *arg)
{
    counted++;
}

static void they_are_not_kept_without_bounds(void **state)
{
    const char *reason;
    struct asker asker;
    char host[32];

    start("upstream u { server 127.0.0.1; }");
    struct upstream_group *used = at_run_time("127.1.1.1", 80, &reason);
    begin(&asker, used);
    assert_int_equal(upstream_pick_next(&asker.pick), PICK_OK);
    for (unsigned i = 0; i < 12000; i++) {
        snprintf(host, sizeof(host), "127.0.%u.%u", i / 250, i % 250);
        assert_non_null(at_run_time(host, 80, &reason));
    }
    run_time_each(count_one, NULL);
    assert_in_range(counted, 1024, 8192 + 8);
    assert_ptr_equal(at_run_time("127.1.1.1", 80, &reason), used);
    end(&asker);
    /* When they have rested, far fewer. */
    clock_now.now_ms += 700000;
    for (unsigned i = 0; i < 2000; i++) {
        snprintf(host, sizeof(host), "127.2.%u.%u", i / 250, i % 250);
        assert_non_null(at_run_time(host, 80, &reason));
    }
    counted = 0;
    run_time_each(count_one, NULL);
    assert_in_range(counted, 1024, 3100);
    finish();
}

static unsigned count_now(void)
{
    counted = 0;
    run_time_each(count_one, NULL);
    return counted;
}

static void those_that_nobody_asks_for_go(void **state)
{
    const char *reason;
    struct asker asker;
    char host[32];

    start("upstream u { server 127.0.0.1; }");
    uint64_t now_ms = clock_now.now_ms;
    clock_now.now_ms -= 700000; /* they were made so long ago */
    struct upstream_group *used = at_run_time("127.1.1.1", 80, &reason);
    begin(&asker, used);
    assert_int_equal(upstream_pick_next(&asker.pick), PICK_OK);
    for (unsigned i = 0; i < 3000; i++) {
        snprintf(host, sizeof(host), "127.0.%u.%u", i / 250, i % 250);
        assert_non_null(at_run_time(host, 80, &reason));
    }
    clock_now.now_ms = now_ms;
    assert_non_null(at_run_time("127.1.1.2", 80, &reason));
    turn_until(count_now() == 2);
    assert_ptr_equal(at_run_time("127.1.1.1", 80, &reason), used);
    end(&asker);
    finish();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults),
        cmocka_unit_test(parameters),
        cmocka_unit_test(subsystems_are_apart),
        cmocka_unit_test(knowledge_stays_in_its_subsystem),
        cmocka_unit_test(the_resolver_of_the_http_block),
        cmocka_unit_test(wrong_words),
        cmocka_unit_test(lines_of_messages),
        cmocka_unit_test(an_upstream_with_a_zone_may_be_empty),
        cmocka_unit_test(names_of_status_zones),
        cmocka_unit_test(resolve_needs_a_zone_and_a_resolver),
        cmocka_unit_test(a_name_that_is_not_found_warns),
        cmocka_unit_test(a_balancer_after_another_warns),
        cmocka_unit_test(groups_by_name),
        cmocka_unit_test(targets_that_cannot_be),
        cmocka_unit_test(groups_made_at_run_time),
        cmocka_unit_test(they_are_not_kept_without_bounds),
        cmocka_unit_test(those_that_nobody_asks_for_go),
    };

    return upstream_tests_run("groups", tests);
}
