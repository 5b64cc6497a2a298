/* Tests of resolver, resolver_file and resolver_timeout: what is stored, inherited and refused. */
#include "http/fixture.h"

#include "http/config/resolver.h"
#include "net/addr/addr.h"

static const struct resolver_settings *resolver_of(unsigned server)
{
    return (*vec_at(&http->servers, struct http_server *, server))->root->resolver;
}

/* All name servers with their ports, a blank behind each. */
static void assert_servers(const struct resolver_settings *resolver, const char *wanted)
{
    struct buf text = {0};

    assert_non_null(resolver);
    vec_each(const struct addr, server, &resolver->servers) {
        char address[ADDR_TEXT_MAX];
        buf_printf(&text, "%.*s ", (int) addr_format(server, true, address), address);
    }
    assert_str(buf_str(&text), str_of(wanted));
    buf_free(&text);
}

static void write_file(const char *name, const char *text)
{
    char path[128];

    snprintf(path, sizeof(path), "%s/%s", directory, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void remove_file(const char *name)
{
    char path[128];

    snprintf(path, sizeof(path), "%s/%s", directory, name);
    unlink(path);
}

static void none_without_a_word(void **state)
{
    assert_read("server { listen 127.0.0.1:8080; }");
    assert_null(resolver_of(0));
    assert_int_equal((*vec_at(&http->servers, struct http_server *, 0))->root->resolver_timeout_ms,
                     30000);
}

static void addresses_and_parameters(void **state)
{
    assert_read("resolver 127.0.0.1 [::1]:5353 valid=1m30s ipv6=off; resolver_timeout 5s;"
                "server { listen 127.0.0.1:8080; }"
                "server { listen 127.0.0.1:8081; resolver 10.0.0.1:54; resolver_timeout 250ms; }");
    assert_servers(resolver_of(0), "127.0.0.1:53 [::1]:5353 ");
    assert_true(resolver_of(0)->has_valid);
    assert_int_equal(resolver_of(0)->valid_s, 90);
    assert_true(resolver_of(0)->uses_ipv4);
    assert_false(resolver_of(0)->uses_ipv6);
    assert_servers(resolver_of(1), "10.0.0.1:54 ");
    assert_false(resolver_of(1)->has_valid);
    assert_true(resolver_of(1)->uses_ipv6);
    assert_int_equal((*vec_at(&http->servers, struct http_server *, 1))->root->resolver_timeout_ms,
                     250);
}

static void what_is_refused(void **state)
{
    static const struct {
        const char *words;
        const char *message;
    } cases[] = {
        {"127.0.0.1:0", "invalid port in resolver \"127.0.0.1:0\""},
        {"::1", "invalid port in resolver \"::1\""},
        {"1.2.3.4/24", "invalid host in resolver \"1.2.3.4/24\""},
        {"unix:/tmp/x", "invalid host in resolver \"unix:/tmp/x\""},
        {"\"\"", "no host in resolver \"\""},
        {"127.0.0.1 valid=30ms", "invalid parameter: valid=30ms"},
        {"127.0.0.1 valid=", "invalid parameter: valid="},
        {"127.0.0.1 ipv4=no", "invalid parameter: ipv4=no"},
        {"127.0.0.1 ipv6=OFF", "invalid parameter: ipv6=OFF"},
        {"127.0.0.1 ipv4=off ipv6=off", "\"ipv4\" and \"ipv6\" cannot both be \"off\""},
        {"127.0.0.1 status_zone=", "invalid zone name \"\""},
        {"127.0.0.1; resolver 127.0.0.1", "\"resolver\" directive is duplicate"},
        {"127.0.0.1; resolver_file x", "\"resolver_file\" directive is duplicate, \"resolver\" "
                                       "directive was specified earlier"},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        char text[256];
        snprintf(text, sizeof(text), "resolver %s;", cases[i].words);
        assert_unread(text, cases[i].message, 1);
    }
}

static void servers_out_of_a_file(void **state)
{
    write_file("r.conf", "# nameserver 9.9.9.9\nsearch example.org\nnameserver 10.0.0.1\r\n"
                         "\tnameserver\t::1 x\nnameserver\nnameserver bad\nnameserver fe80::1%lo\n"
                         "nameserver 10.0.0.2");
    assert_read("resolver_file r.conf; server { listen 127.0.0.1:8080; }");
    assert_servers(resolver_of(0), "10.0.0.1:53 [::1]:53 [fe80::1]:53 10.0.0.2:53 ");
    assert_true(was_logged("[warn] invalid name server \"bad\" in "));
    assert_int_not_equal(vec_at(&resolver_of(0)->servers, struct addr, 2)->v6.sin6_scope_id, 0);

    write_file("r.conf", "domain example.org\n");
    assert_unread("resolver_file r.conf;", "no name servers defined", 1);
    remove_file("r.conf");
    assert_false(read_http("resolver_file r.conf;"));
    assert_true(was_logged("/r.conf\" failed (2: No such file or directory) in "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        http_test(none_without_a_word),
        http_test(addresses_and_parameters),
        http_test(what_is_refused),
        http_test(servers_out_of_a_file),
    };

    return http_tests_run("http/resolver", tests);
}
