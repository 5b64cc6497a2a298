/* Tests of the choice of a server: by address, then by name (exact, *.x, x.*, regex, default). */
#include "http/fixture.h"

/* The server's first name, as the request sees it after its head was read. */
static struct str server_of(const char *host)
{
    char text[512];

    snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", host);
    prepare(0, text);
    return request->server->name;
}

#define assert_server(host, name) assert_text(server_of(host), name)

static void one_server_takes_all(void **state)
{
    assert_read("server { listen 127.0.0.1:8080; server_name a; }");
    assert_server("a", "a");
    assert_server("anything", "a");
    assert_int_equal(prepare(0, "GET / HTTP/1.0\r\n\r\n"), 0);
    assert_text(request->server->name, "a");
}

static void kinds_of_names_in_their_order(void **state)
{
    assert_read("server { listen 127.0.0.1:8080; server_name default; }"
                "server { listen 127.0.0.1:8080; server_name ~^www\\.; }"
                "server { listen 127.0.0.1:8080; server_name www.*; }"
                "server { listen 127.0.0.1:8080; server_name *.example.org; }"
                "server { listen 127.0.0.1:8080; server_name www.example.org; }");
    assert_server("www.example.org", "www.example.org");
    assert_server("mail.example.org", "*.example.org");
    assert_server("a.b.example.org", "*.example.org");
    assert_server("www.example.com", "www.*");
    assert_server("www.a.b.c", "www.*");
    assert_server("example.org", "default");
    assert_server("xexample.org", "default");
    assert_server("wwww.x", "default");
    assert_server("nothing", "default");
}

static void the_longest_wildcard(void **state)
{
    assert_read("server { listen 127.0.0.1:8080; server_name default; }"
                "server { listen 127.0.0.1:8080; server_name *.org; }"
                "server { listen 127.0.0.1:8080; server_name *.a.org; }"
                "server { listen 127.0.0.1:8080; server_name www.*; }"
                "server { listen 127.0.0.1:8080; server_name www.a.*; }");
    assert_server("x.org", "*.org");
    assert_server("x.a.org", "*.a.org");
    assert_server("x.b.a.org", "*.a.org");
    assert_server("a.org", "*.org");
    assert_server("www.x", "www.*");
    assert_server("www.a.x", "www.a.*");
    assert_server("www.a", "www.*");
    assert_server("www", "default");
    assert_server("org", "default");
}

static void a_leading_dot_is_both(void **state)
{
    assert_read("server { listen 127.0.0.1:8080; server_name default; }"
                "server { listen 127.0.0.1:8080; server_name .example.org; }");
    assert_server("example.org", "example.org");
    assert_server("a.example.org", "example.org");
    assert_server("a.b.example.org", "example.org");
    assert_server("aexample.org", "default");
}

static void expressions_in_order_of_the_file(void **state)
{
    assert_read("server { listen 127.0.0.1:8080; server_name default; }"
                "server { listen 127.0.0.1:8080; server_name first ~^a\\d+\\.; }"
                "server { listen 127.0.0.1:8080; server_name second ~^a(?<number>\\d)(\\d); }");
    assert_server("a12.x", "first");
    assert_server("a12", "second");
    assert_str(request->env.captures[1], STR("1"));
    assert_str(request->env.captures[2], STR("2"));
    assert_server("b12", "default");
}

static void hosts_as_they_are_written(void **state)
{
    assert_read("server { listen 127.0.0.1:8080; server_name default; }"
                "server { listen 127.0.0.1:8080; server_name WWW.Example.ORG; }"
                "server { listen 127.0.0.1:8080; server_name ~^R\\.example$; }");
    assert_server("www.example.org", "www.example.org");
    assert_server("WWW.EXAMPLE.org", "www.example.org");
    assert_server("www.example.org:8080", "www.example.org");
    assert_server("www.example.org.", "www.example.org");
    assert_server("www.example.org.:80", "www.example.org");
    assert_server("r.example", "~^R\\.example$");
    prepare(0, "GET http://www.example.org/a HTTP/1.1\r\nHost: other\r\n\r\n");
    assert_text(request->server->name, "www.example.org");
    assert_text(request->head.host, "www.example.org");
}

static void the_empty_name(void **state)
{
    assert_read("server { listen 127.0.0.1:8080; server_name default; }"
                "server { listen 127.0.0.1:8080; server_name other \"\"; }");
    prepare(0, "GET / HTTP/1.0\r\n\r\n");
    assert_text(request->server->name, "other");
    assert_server("x", "default");
}

static void the_default_may_be_named(void **state)
{
    assert_read("server { listen 127.0.0.1:8080; server_name a; }"
                "server { listen 127.0.0.1:8080 default_server; server_name b; }");
    assert_server("a", "a");
    assert_server("b", "b");
    assert_server("c", "b");
    assert_unread("server { listen 127.0.0.1:8080 default_server; }\n"
                  "server { listen 127.0.0.1:8080 default_server; }",
                  "a duplicate default server for 127.0.0.1:8080", 2);
}

static void addresses_have_names_of_their_own(void **state)
{
    assert_read("server { listen 127.0.0.1:8080; server_name a; }"
                "server { listen 127.0.0.1:8081; server_name b; }"
                "server { listen 127.0.0.1:8081; listen 127.0.0.1:8080; server_name c; }");
    assert_int_equal(http->listens.count, 2);
    assert_server("b", "a");
    assert_server("c", "c");
    prepare(1, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_text(request->server->name, "b");
    prepare(1, "GET / HTTP/1.1\r\nHost: c\r\n\r\n");
    assert_text(request->server->name, "c");
}

static void a_name_twice(void **state)
{
    assert_read("server { listen 127.0.0.1:8080; server_name a; }"
                "server { listen 127.0.0.1:8080; server_name b a; }");
    assert_true(was_logged("[warn] conflicting server name \"a\" on 127.0.0.1:8080, ignored\n"));
    assert_server("a", "a");
    assert_server("b", "b");
    assert_read("server { listen 127.0.0.1:8080; server_name a; }"
                "server { listen 127.0.0.1:8081; server_name a; }");
    assert_false(was_logged("conflicting"));
}

static void names_that_are_none(void **state)
{
    static const char *const bad[] = {"*a", "*", ".", "*.", "**", "*a.*"};

    for (size_t i = 0; i < COUNT(bad); i++) {
        char text[128];
        char message[128];

        snprintf(text, sizeof(text), "server {\n server_name %s;\n}", bad[i]);
        snprintf(message, sizeof(message), "server name \"%s\" is invalid", bad[i]);
        assert_unread(text, message, 2);
    }
    assert_unread("server { server_name ~; }", "empty regex in server name \"~\"", 1);
}

static void the_name_of_the_machine(void **state)
{
    char name[256] = "";

    assert_int_equal(gethostname(name, sizeof(name) - 1), 0);
    assert_read("server { listen 127.0.0.1:8080; server_name default; }"
                "server { listen 127.0.0.1:8080; server_name $hostname; }");
    assert_str(server_of(name), http->hostname);
}

static void many_names(void **state)
{
    struct buf text = {0};

    for (unsigned i = 0; i < 500; i++) {
        buf_printf(
            &text,
            "server { listen 127.0.0.1:8080; server_name s%u.example.org *.s%u.example.org; }\n", i,
            i);
    }
    assert_read(arena_printf(&server.arena, "%.*s", STR_ARG(buf_str(&text))).data);
    for (unsigned i = 0; i < 500; i++) {
        char host[80];
        char name[64];

        snprintf(name, sizeof(name), "s%u.example.org", i);
        assert_str(server_of(name), str_of(name));
        snprintf(host, sizeof(host), "www.%s", name);
        assert_str(server_of(host), str_of(name));
    }
    buf_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        http_test(one_server_takes_all),
        http_test(kinds_of_names_in_their_order),
        http_test(the_longest_wildcard),
        http_test(a_leading_dot_is_both),
        http_test(expressions_in_order_of_the_file),
        http_test(hosts_as_they_are_written),
        http_test(the_empty_name),
        http_test(the_default_may_be_named),
        http_test(addresses_have_names_of_their_own),
        http_test(a_name_twice),
        http_test(names_that_are_none),
        http_test(the_name_of_the_machine),
        http_test(many_names),
    };

    return http_tests_run("http/servers", tests);
}
