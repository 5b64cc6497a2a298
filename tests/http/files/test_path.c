/* Tests of the way from a URI to a path. */
#include "base/unit.h"

#include "http/files/path.h"
#include "http/request/request.h"
#include "http/routing/file_settings.h"

static struct request request;
static struct http_location location;
static struct file_settings files;
static struct template root;

static int set_up(void **state)
{
    memset(&request, 0, sizeof(request));
    memset(&location, 0, sizeof(location));
    memset(&root, 0, sizeof(root));
    arena_init(&request.arena);
    request.location = &location;
    request.env.arena = &request.arena;
    root.is_constant = true;
    files = (struct file_settings){.root = &root};
    location.files = &files;
    location.kind = LOCATION_PREFIX;
    return 0;
}

static int tear_down(void **state)
{
    arena_free(&request.arena);
    return 0;
}

/* The path of a URI, or "refused". */
static struct str mapped(const char *root_text, const char *uri, size_t *root_length)
{
    struct str path;

    root.constant = str_of(root_text);
    request.uri = str_of(uri);
    if (!request_map_path(&request, &path, root_length)) {
        return STR("refused");
    }
    assert_int_equal(path.data[path.len], '\0');
    return path;
}

static void uri_goes_behind_the_root(void **state)
{
    size_t length;

    assert_text(mapped("/srv/www", "/a/b.txt", &length), "/srv/www/a/b.txt");
    assert_int_equal(length, 8);
    assert_text(mapped("/srv/www", "/", &length), "/srv/www/");
    assert_text(mapped("/", "/a", &length), "/a");
    assert_text(mapped("", "/a", &length), "/a");
}

static void alias_replaces_the_prefix(void **state)
{
    size_t length;

    files.is_alias = true;
    location.name = STR("/i/");
    assert_text(mapped("/data/", "/i/top.gif", &length), "/data/top.gif");
    assert_int_equal(length, 6);
    assert_text(mapped("/data/", "/i/", &length), "/data/");
    location.name = STR("/i");
    assert_text(mapped("/data", "/i", &length), "/data");
    assert_text(mapped("/data", "/ifoo", &length), "/datafoo");
    assert_text(mapped("/data/", "/i..foo", &length), "/data/..foo");
    assert_text(mapped("/data/", "/i../foo", &length), "refused");
    assert_text(mapped("/data/", "/i..", &length), "refused");
    assert_int_equal(request.response.status, 404);
}

static void rewritten_uri_does_not_fit_an_alias(void **state)
{
    size_t length;

    files.is_alias = true;
    location.name = STR("/i/");
    assert_text(mapped("/data/", "/other", &length), "refused");
    assert_int_equal(request.response.status, 500);
}

static void alias_of_a_regex_location_is_the_whole_path(void **state)
{
    size_t length;

    files.is_alias = true;
    location.kind = LOCATION_REGEX;
    location.name = STR("^/x/");
    assert_text(mapped("/data/file", "/x/anything", &length), "/data/file");
    assert_int_equal(length, 10);
    request_alias_add_uri(&request, &location);
    assert_text(mapped("/data/file", "/more", &length), "/data/file/more");
}

static void nested_location_inherits_the_alias_with_its_prefix(void **state)
{
    struct file_settings inherited = {.root = &root, .is_alias = true};
    struct file_settings none = {.root = NULL};
    struct http_location nested = {.files = &inherited,
                                   .kind = LOCATION_REGEX,
                                   .name = STR("html"),
                                   .parent = &location};
    struct http_location outermost = {.files = &none, .kind = LOCATION_UNNAMED};
    size_t length;

    files.is_alias = true;
    location.name = STR("/i/");
    location.parent = &outermost;
    request.location = &nested;
    assert_text(mapped("/data/", "/i/a.html", &length), "/data/a.html");
    assert_true(request_alias_prefix(&request, &length));
    assert_int_equal(length, 3);
}

static void nested_alias_of_its_own_wins(void **state)
{
    struct template own = {.is_constant = true, .constant = STR("/own/")};
    struct file_settings own_files = {.root = &own, .is_alias = true};
    struct http_location nested = {.files = &own_files,
                                   .kind = LOCATION_PREFIX,
                                   .name = STR("/i/n/"),
                                   .parent = &location};
    size_t length;

    files.is_alias = true;
    location.name = STR("/i/");
    request.location = &nested;
    assert_text(mapped("/data/", "/i/n/a.html", &length), "/own/a.html");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(uri_goes_behind_the_root),
        TEST(alias_replaces_the_prefix),
        TEST(rewritten_uri_does_not_fit_an_alias),
        TEST(alias_of_a_regex_location_is_the_whole_path),
        TEST(nested_location_inherits_the_alias_with_its_prefix),
        TEST(nested_alias_of_its_own_wins),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
