/* Tests of the parts of proxy_pass, and of the URI that a backend is asked for. */
#include "base/unit.h"

#include "http/modules/backends/proxy/proxy.h"

static struct request request;

static struct str asked_for(const char *target, const char *uri, const char *args,
                            const struct proxy_target *where, const char *own)
{
    request.head.target = str_of(target);
    request.uri = str_of(uri);
    request.args = str_of(args);
    struct str text = str_of(own);
    return proxy_request_uri(&request, where, &text) ? text : STR("refused");
}

static int begin(void **state)
{
    request = (struct request){0};
    arena_init(&request.arena);
    return 0;
}

static int end(void **state)
{
    arena_free(&request.arena);
    return 0;
}

static void assert_same(struct str s, const char *text)
{
    assert_int_equal(s.len, strlen(text));
    assert_memory_equal(s.data, text, s.len);
}

static void parts(void **state)
{
    static const struct {
        const char *text, *address, *uri, *host, *port;
    } rows[] = {
        {"a", "a", "", "a", "80"},
        {"a/", "a", "/", "a", "80"},
        {"a:81/b?c", "a:81", "/b?c", "a:81", "81"},
        {"a:80", "a:80", "", "a", "80"},
        {"a?b/c", "a", "?b/c", "a", "80"},
        {"[::1]", "[::1]", "", "[::1]", "80"},
        {"[::1]:80/", "[::1]:80", "/", "[::1]", "80"},
        {"[::1]:81", "[::1]:81", "", "[::1]:81", "81"},
        {"unix:/a/b", "unix:/a/b", "", "localhost", ""},
        {"unix:/a/b:/c:d", "unix:/a/b", "/c:d", "localhost", ""},
        {"unix:/a:", "unix:/a", "", "localhost", ""},
        {"", "", "", "", "80"},
        {"/x", "", "/x", "", "80"},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct proxy_url url = {0};
        proxy_url_cut(str_of(rows[i].text), &url);
        proxy_url_name(&url);
        assert_same(url.address, rows[i].address);
        assert_same(url.uri, rows[i].uri);
        assert_same(url.host, rows[i].host);
        assert_same(url.port, rows[i].port);
    }
}

static void schemes(void **state)
{
    struct str text = STR("HTTP://a");
    bool is_https;

    assert_true(proxy_url_scheme(&text, &is_https));
    assert_same(text, "a");
    assert_false(is_https);
    text = STR("https://b");
    assert_true(proxy_url_scheme(&text, &is_https));
    assert_true(is_https);
    assert_same(text, "b");
    text = STR("http:/a");
    assert_false(proxy_url_scheme(&text, &is_https));
    assert_false(is_https);
}

static void the_target_goes_on_as_it_came(void **state)
{
    const struct proxy_target none = {0};

    assert_same(asked_for("/a%20b/../c?d", "/c", "d", &none, ""), "/a%20b/../c?d");
    request.head.scheme = STR("http");
    assert_same(asked_for("http://h/a?b", "/a", "b", &none, ""), "/a?b");
    assert_same(asked_for("http://h?b", "/", "b", &none, ""), "/?b");
    assert_same(asked_for("http://h", "/", "", &none, ""), "/");
}

static void the_uri_takes_the_place_of_the_prefix(void **state)
{
    const struct proxy_target place = {.prefix = STR_INIT("/a/")};

    assert_same(asked_for("/a/b?c", "/a/b", "c", &place, "/x/"), "/x/b?c");
    assert_same(asked_for("/a/{", "/a/{", "", &place, "/x/"), "/x/{");
    request.uri_has_quoted = 1;
    assert_same(asked_for("/a/%7b%25?", "/a/{%", "", &place, "/x/"), "/x/%7B%25");
    request.uri_state = URI_REWRITTEN;
    request.is_target_stale = 1;
    assert_same(asked_for("/a/b?c", "/n b", "c", &place, "/x/"), "/n%20b?c");
    request.uri_state = URI_KEPT;
    assert_same(asked_for("/a/b?c", "/other", "c", &place, "/x/"), "/other?c");
}

static void nothing_ends_the_request_line(void **state)
{
    const struct template text = {.is_constant = true};
    const struct proxy_target with_variables = {.text = (struct template *) &text};

    assert_same(asked_for("/", "/", "", &with_variables, "/a b\r\nX: y"), "/a%20b%0D%0AX:%20y");
    assert_same(asked_for("/", "/", "", &with_variables, "?a"), "/?a");
    request.is_target_stale = 1;
    assert_same(asked_for("/", "/a\x7f", "b c", &with_variables, ""), "/a%7F?b%20c");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts),
        cmocka_unit_test(schemes),
        cmocka_unit_test_setup_teardown(the_target_goes_on_as_it_came, begin, end),
        cmocka_unit_test_setup_teardown(the_uri_takes_the_place_of_the_prefix, begin, end),
        cmocka_unit_test_setup_teardown(nothing_ends_the_request_line, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
