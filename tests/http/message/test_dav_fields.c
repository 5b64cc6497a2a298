/* Tests of the header fields of WebDAV. */
#include "base/unit.h"

#include "http/message/dav_fields.h"

static struct arena arena;
static struct str path;

static int set_up(void **state)
{
    arena_init(&arena);
    return 0;
}

static int tear_down(void **state)
{
    arena_free(&arena);
    return 0;
}

static enum dav_destination parse(const char *text)
{
    const struct dav_origin origin = {STR("http"), STR("example.com"), true};

    return dav_destination_parse(&arena, str_of(text), &origin, &path);
}

static struct fields one_field(const char *name, const char *value)
{
    struct fields fields = {0};

    fields_add(&fields, &arena, str_of(name), str_of(value));
    return fields;
}

static void depths(void **state)
{
    const struct {
        const char *text;
        enum dav_depth depth;
    } rows[] = {{"0", DEPTH_0},         {"1", DEPTH_1},         {"infinity", DEPTH_INFINITY},
                {"", DEPTH_INVALID},    {"2", DEPTH_INVALID},   {"00", DEPTH_INVALID},
                {"-1", DEPTH_INVALID},  {"0 ", DEPTH_INVALID},  {"Infinity", DEPTH_INVALID},
                {"inf", DEPTH_INVALID}, {"0, 1", DEPTH_INVALID}};
    struct fields none = {0};

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct fields fields = one_field("depth", rows[i].text);
        assert_int_equal(dav_depth_of(&fields), rows[i].depth);
    }
    assert_int_equal(dav_depth_of(&none), DEPTH_ABSENT);
}

static void overwrites(void **state)
{
    struct fields none = {0};
    struct fields t = one_field("Overwrite", "t");
    struct fields f = one_field("OVERWRITE", "F");
    struct fields bad = one_field("Overwrite", "TRUE");
    struct fields empty = one_field("Overwrite", "");

    assert_int_equal(dav_overwrite_of(&none), OVERWRITE_YES);
    assert_int_equal(dav_overwrite_of(&t), OVERWRITE_YES);
    assert_int_equal(dav_overwrite_of(&f), OVERWRITE_NO);
    assert_int_equal(dav_overwrite_of(&bad), OVERWRITE_INVALID);
    assert_int_equal(dav_overwrite_of(&empty), OVERWRITE_INVALID);
}

static void destinations_that_are_here(void **state)
{
    const char *const rows[][2] = {
        {"/a", "/a"},
        {"/a%20b/", "/a b/"},
        {"/a?b", "/a"},
        {"//a//b", "/a/b"},
        {"/x/../a", "/a"},
        {"http://example.com/a", "/a"},
        {"HTTP://EXAMPLE.com/a", "/a"},
        {"http://example.com:8080/a/b", "/a/b"},
        {"http://example.com:/a", "/a"},
        {"http://example.com/", "/"},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        assert_int_equal(parse(rows[i][0]), DESTINATION_GOOD);
        assert_str(path, str_of(rows[i][1]));
    }
}

static void destinations_that_are_not(void **state)
{
    const char *const invalid[] = {"",
                                   "a",
                                   "http",
                                   "http:",
                                   "http://",
                                   "http:/a",
                                   "https://example.com/a",
                                   "ftp://example.com/a",
                                   "http://example.com",
                                   "/../a",
                                   "/a/../../b",
                                   "/%00",
                                   "/%zz",
                                   "/%",
                                   "/a#b",
                                   "http://example.com/../a",
                                   "htt://example.com/a"};
    const char *const foreign[] = {"http://other/a",          "http://example.co/a",
                                   "http://example.comm/a",   "http://example.com@other/a",
                                   "http://u@example.com/a",  "http:///a",
                                   "http://example.com:8x/a", "http://example.com:80:80/a",
                                   "http://example.com /a"};

    for (size_t i = 0; i < COUNT(invalid); i++) {
        assert_int_equal(parse(invalid[i]), DESTINATION_INVALID);
    }
    for (size_t i = 0; i < COUNT(foreign); i++) {
        assert_int_equal(parse(foreign[i]), DESTINATION_FOREIGN);
    }
    const struct dav_origin nameless = {.scheme = STR("http")};
    assert_int_equal(dav_destination_parse(&arena, STR("http:///a"), &nameless, &path),
                     DESTINATION_FOREIGN);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(depths),
        TEST(overwrites),
        TEST(destinations_that_are_here),
        TEST(destinations_that_are_not),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
