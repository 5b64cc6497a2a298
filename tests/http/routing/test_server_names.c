/* Tests of names that cannot be told apart, or not at all: when they matter, and what is said. */
#include "http/fixture.h"

#define OTHER "server { listen 127.0.0.1:8080; server_name zz; }"

static struct str server_of(const char *host)
{
    char text[512];

    snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", host);
    prepare(0, text);
    return request->server->name;
}

/* A server that is alone on its address is never looked for by name. */
static void refused_where_names_matter(void **state)
{
    static const char *const names[] = {"*.*",   "*.a.*", "*..a", "a..*", "..a",    "a*",
                                        "a.*.b", "a..b",  "..",   ".**",  "*.a..b", "a.."};

    for (size_t i = 0; i < COUNT(names); i++) {
        char text[256];
        char message[128];
        snprintf(text, sizeof(text), "server { listen 127.0.0.1:8080; server_name %s; }", names[i]);
        assert_read(text);
        snprintf(text, sizeof(text), "server { listen 127.0.0.1:8080; server_name %s; }" OTHER,
                 names[i]);
        snprintf(message, sizeof(message),
                 "[emerg] invalid server name or wildcard \"%s\" on 127.0.0.1:8080\n", names[i]);
        assert_false(read_http(text));
        assert_true(was_logged(message));
    }
}

static void all_of_them_are_told(void **state)
{
    assert_false(read_http("server { listen 127.0.0.1:8080; server_name a..b; }"
                           "server { listen 127.0.0.1:8080; server_name *.*; }"));
    assert_true(was_logged("wildcard \"a..b\" on"));
    assert_true(was_logged("wildcard \"*.*\" on"));
}

/* ".a" is one name: when half of it is taken, all of it is ignored, as the message says. */
static void a_name_is_taken_whole_or_not(void **state)
{
    assert_read(OTHER "server { listen 127.0.0.1:8080; server_name first a; }"
                      "server { listen 127.0.0.1:8080; server_name second .a; }");
    assert_true(was_logged("[warn] conflicting server name \".a\" on 127.0.0.1:8080, ignored\n"));
    assert_text(server_of("a"), "first");
    assert_text(server_of("x.a"), "zz");

    assert_read(OTHER "server { listen 127.0.0.1:8080; server_name first *.a; }"
                      "server { listen 127.0.0.1:8080; server_name second .a; }");
    assert_text(server_of("a"), "zz");
    assert_text(server_of("x.a"), "first");
}

static void twice_the_same_name(void **state)
{
    assert_read("server { listen 127.0.0.1:8080; server_name a a .b b; }" OTHER);
    assert_true(was_logged("[warn] conflicting server name \"a\" on 127.0.0.1:8080, ignored\n"));
    assert_true(was_logged("[warn] conflicting server name \"b\" on 127.0.0.1:8080, ignored\n"));
    assert_read("server { listen 127.0.0.1:8080; server_name a a .b b; }");
    assert_false(was_logged("conflicting"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        http_test(refused_where_names_matter),
        http_test(all_of_them_are_told),
        http_test(a_name_is_taken_whole_or_not),
        http_test(twice_the_same_name),
    };

    return http_tests_run("http/server_names", tests);
}
