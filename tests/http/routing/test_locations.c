/* Tests of locations: which one a URI belongs to, and which blocks are refused. */
#include "http/fixture.h"

/* The name of the location that answers. */
#define assert_location(target, name)                                                              \
    do {                                                                                           \
        assert_int_equal(get(target), 200);                                                        \
        assert_text(got(), name);                                                                  \
    } while (0)

#define SERVER(text) "server { listen 127.0.0.1:8080;\n" text "\n}"

static void the_longest_prefix(void **state)
{
    assert_read(
        SERVER("location / {} location /a {} location /a/b/c {} location /ab {} location /b/ {}"));
    assert_location("/", "/");
    assert_location("/x", "/");
    assert_location("/a", "/a");
    assert_location("/ax", "/a");
    assert_location("/a/b", "/a");
    assert_location("/a/b/c", "/a/b/c");
    assert_location("/a/b/cd", "/a/b/c");
    assert_location("/ab", "/ab");
    assert_location("/abc", "/ab");
    assert_location("/b", "/");
    assert_location("/b/", "/b/");
    assert_location("/b/c", "/b/");
}

static void the_order_of_prefixes_does_not_matter(void **state)
{
    assert_read(SERVER(
        "location /a/b {} location /a {} location /a/ {} location / {} location /a/bc {} location /a/b/ {}"));
    assert_location("/a/b/x", "/a/b/");
    assert_location("/a/bcd", "/a/bc");
    assert_location("/a/bb", "/a/b");
    assert_location("/a/a", "/a/");
    assert_location("/aa", "/a");
    assert_location("/b", "/");
}

static void an_exact_name_ends_the_search(void **state)
{
    assert_read(SERVER(
        "location / {} location = / {} location =/a {} location ~ a {} location = /c%20d {}"));
    assert_location("/a", "/a");
    assert_int_equal(request->location->kind, LOCATION_EXACT);
    assert_location("/a/", "a");
    assert_location("/", "/");
    assert_int_equal(request->location->kind, LOCATION_EXACT);
    assert_location("/b", "/");
    assert_int_equal(request->location->kind, LOCATION_PREFIX);
    assert_location("/a?b", "/a");         /* arguments are no part of it */
    assert_location("/c%2520d", "/c%20d"); /* the name is compared with the decoded path */
}

static void many_exact_names(void **state)
{
    struct buf text = {0};

    buf_append(&text, STR("server { listen 127.0.0.1:8080; location / {}\n"));
    for (unsigned i = 0; i < 200; i++) {
        buf_printf(&text, "location = /n%u {}\n", i);
    }
    buf_append(&text, STR("}"));
    assert_read(arena_printf(&server.arena, "%.*s", STR_ARG(buf_str(&text))).data);
    for (unsigned i = 0; i < 200; i++) {
        char name[32];
        snprintf(name, sizeof(name), "/n%u", i);
        assert_int_equal(get(name), 200);
        assert_str(got(), str_of(name));
    }
    assert_location("/n200", "/");
    buf_free(&text);
}

static void expressions_win_over_prefixes_in_their_order(void **state)
{
    assert_read(SERVER(
        "location /a {} location ~ \\.php$ {} location ~ ^/a/.*\\.p {} location ~* \\.GIF$ {}"));
    assert_location("/a/x.php", "\\.php$");
    assert_location("/a/x.png", "^/a/.*\\.p");
    assert_location("/a/x", "/a");
    assert_location("/x.gif", "\\.GIF$");
    assert_location("/x.Gif", "\\.GIF$");
    assert_int_equal(get("/x.PHP"), 200);
    assert_int_equal(got().len, 0); /* the server's own settings: it has no name */
}

static void a_prefix_may_keep_expressions_away(void **state)
{
    assert_read(SERVER("location ^~ /a/ {} location / {} location ~ x {}"));
    assert_location("/a/x", "/a/");
    assert_location("/b/x", "x");
    assert_location("/ax", "x");
}

static void captures_stay_with_the_request(void **state)
{
    assert_read(SERVER("location ~ ^/(?<first>\\w+)/(.*)$ {}"));
    assert_int_equal(get("/a/b/c"), 200);
    assert_str(request->env.captures[1], STR("a"));
    assert_str(request->env.captures[2], STR("b/c"));
}

static void nested_ones(void **state)
{
    assert_read(SERVER(
        "location /a/ { location /a/b/ { location ~ \\.x$ {} } location ~ \\.y$ {} location = /a/c {} }"
        "location ~ \\.x$ { location ~ ^/n/ {} location /n/m/ {} }"
        "location / {}"));
    assert_location("/a/z", "/a/");
    assert_location("/a/b/z", "/a/b/");
    assert_location("/a/b/z.x", "\\.x$");
    assert_text(request->location->parent->name, "/a/b/");
    assert_location("/a/z.y", "\\.y$");
    assert_location("/a/c", "/a/c");
    /* Not found inside, the expressions of the level above are asked. */
    assert_location("/a/z.x", "\\.x$");
    assert_int_equal(request->location->parent->kind, LOCATION_UNNAMED);
    assert_location("/n/z.x", "^/n/");
    assert_location("/n/m/z.x", "^/n/");
}

static void paths_are_normalised_first(void **state)
{
    assert_read(SERVER("location / {} location /admin/ {} location ~ \\.\\. { }"));
    assert_location("/x/../admin/", "/admin/");
    assert_location("//admin//y", "/admin/");
    assert_location("/%61dmin/", "/admin/");
    assert_location("/admin%2fy", "/admin/");
    assert_location("/./admin/./", "/admin/");
    assert_location("/admin", "/");
    assert_location("/ADMIN/", "/");
}

static void slashes_may_be_left(void **state)
{
    assert_read("merge_slashes off;" SERVER("location / {} location /a/ {}"));
    assert_location("//a/", "/");
    assert_location("/a//b", "/a/");
}

static void no_location(void **state)
{
    assert_read(SERVER("location /a {}"));
    assert_int_equal(get("/b"), 200);
    assert_int_equal(request->location->kind, LOCATION_UNNAMED);
}

static void internal_ones_are_hidden(void **state)
{
    assert_read(SERVER("location / {} location /a/ { internal; location /a/b/ {} }"));
    assert_int_equal(get("/a/"), 404);
    assert_int_equal(get("/a/b/"), 404); /* inherited */
    assert_int_equal(get("/a"), 200);
}

static bool is_limited(void)
{
    return request->location->parent->limited == request->location;
}

static void limited_methods(void **state)
{
    assert_read(SERVER("location / { limit_except GET PUT { } }"));
    assert_int_equal(get("/"), 200);
    assert_false(is_limited());
    assert_int_equal(ask("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n"), 200); /* GET means HEAD, too */
    assert_false(is_limited());
    assert_int_equal(ask("PUT / HTTP/1.1\r\nHost: a\r\n\r\n"), 200);
    assert_false(is_limited());
    assert_int_equal(ask("DELETE / HTTP/1.1\r\nHost: a\r\n\r\n"), 200);
    assert_true(is_limited());
    assert_int_equal(ask("OWN / HTTP/1.1\r\nHost: a\r\n\r\n"), 200);
    assert_true(is_limited());
    assert_unread(SERVER("location / { limit_except FETCH { } }"), "invalid method \"FETCH\"", 2);
}

static void blocks_that_are_refused(void **state)
{
    assert_unread(SERVER("location /a { location /b {} }"),
                  "location \"/b\" is outside location \"/a\"", 2);
    assert_unread(SERVER("location = /a { location /a/b {} }"),
                  "location \"/a/b\" cannot be inside the exact location \"/a\"", 2);
    assert_unread(SERVER("location @x { location /a {} }"),
                  "location \"/a\" cannot be inside the named location \"@x\"", 2);
    assert_unread(SERVER("location / { location @x {} }"),
                  "named location \"@x\" can be on the server level only", 2);
    assert_unread(SERVER("location == /a {}"), "invalid location modifier \"==\"", 2);
    assert_unread(SERVER("location ~ ( {}"),
                  "pcre2_compile() failed: missing closing parenthesis in \"(\"", 2);
}

static void duplicates(void **state)
{
    static const char *const twice[] = {"location /a {}", "location = /a {}"};

    for (size_t i = 0; i < COUNT(twice); i++) {
        char text[256];
        snprintf(text, sizeof(text), SERVER("%s\n%s"), twice[i], twice[i]);
        assert_false(read_http(text));
        assert_true(was_logged("[emerg] duplicate location \""));
    }
    assert_false(read_http(SERVER("location /a {} location ^~ /a {}")));
    assert_true(was_logged("duplicate location \"/a\""));
    assert_read(SERVER("location /a {} location = /a {} location ~ /a {} location ~ /a {}"));
    /* As nginx takes it: the first is reached. */
    assert_read("error_page 404 @a;" SERVER("location / {} location @a {} location @a {}"));
    assert_int_equal(get("/?404"), 404);
    assert_ptr_equal(request->location,
                     *vec_at(&request->server->root->nested, struct http_location *, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        http_test(the_longest_prefix),
        http_test(the_order_of_prefixes_does_not_matter),
        http_test(an_exact_name_ends_the_search),
        http_test(many_exact_names),
        http_test(expressions_win_over_prefixes_in_their_order),
        http_test(a_prefix_may_keep_expressions_away),
        http_test(captures_stay_with_the_request),
        http_test(nested_ones),
        http_test(paths_are_normalised_first),
        http_test(slashes_may_be_left),
        http_test(no_location),
        http_test(internal_ones_are_hidden),
        http_test(limited_methods),
        http_test(blocks_that_are_refused),
        http_test(duplicates),
    };

    return http_tests_run("http/locations", tests);
}
