/* Tests of the URI normaliser: percent-decoding, dot segments, repeated slashes. */
#include "base/unit.h"

#include <stdlib.h>

#include "http/message/uri.h"

static struct arena arena;
static struct uri uri;
static char
    *memory; /* the target: a piece of its own, so that a byte read too far is seen by ASan */

static int set_up(void **state)
{
    arena_init(&arena);
    memory = NULL;
    return 0;
}

static int tear_down(void **state)
{
    arena_free(&arena);
    free(memory);
    return 0;
}

static bool normalise(struct str target, bool merges)
{
    free(memory);
    memory = malloc(target.len == 0 ? 1 : target.len);
    assert_non_null(memory);
    memcpy(memory, target.data, target.len);
    return uri_normalise(&arena, (struct str){memory, target.len}, merges, &uri);
}

static void assert_path(const char *target, const char *path)
{
    if (!normalise(str_of(target), true)) {
        fail_msg("\"%s\" was refused", target);
    }
    assert_str(uri.path, str_of(path));
}

static void assert_refused(const char *target)
{
    for (int merges = 0; merges < 2; merges++) {
        if (normalise(str_of(target), merges != 0)) {
            fail_msg("\"%s\" was taken as \"%.*s\"", target, STR_ARG(uri.path));
        }
    }
}

static void plain_paths_are_not_copied(void **state)
{
    static const char *const plain[] = {"/",    "/a",           "/a/b/c.html",
                                        "/a/",  "/a.b/c..d/e.", "/\xc3\xa4/+/:@!$&'()*,;=",
                                        "/a\\b"};

    for (size_t i = 0; i < COUNT(plain); i++) {
        assert_path(plain[i], plain[i]);
        assert_ptr_equal(uri.path.data, memory);
        assert_false(uri.was_quoted);
        assert_false(uri.has_args);
    }
}

static void arguments(void **state)
{
    assert_path("/a?b=c", "/a");
    assert_text(uri.args, "b=c");
    assert_true(uri.has_args);
    assert_path("/a?", "/a");
    assert_int_equal(uri.args.len, 0);
    assert_true(uri.has_args);
    assert_path("/?a?b", "/");
    assert_text(uri.args, "a?b");
    /* They are never decoded or resolved. */
    assert_path("/a?/../%00%zz//.", "/a");
    assert_text(uri.args, "/../%00%zz//.");
    assert_path("/a/../b?c", "/b");
    assert_text(uri.args, "c");
}

static void fragments_are_no_part_of_a_target(void **state)
{
    static const char *const bad[] = {"/a#b", "/a?b#c",   "/a#b?c", "/#",
                                      "/a?#", "/a/../b#", "/%61?b#"};

    for (size_t i = 0; i < COUNT(bad); i++) {
        assert_refused(bad[i]);
    }
}

static void ways_up(void **state)
{
    assert_true(uri_climbs(STR("..")));
    assert_true(uri_climbs(STR("../a")));
    assert_false(uri_climbs(STR("..a")));
    assert_false(uri_climbs(STR(".")));
    assert_false(uri_climbs(STR("/..")));
    assert_false(uri_climbs(STR("")));
}

static void percent_sequences(void **state)
{
    assert_path("/%61%62c", "/abc");
    assert_true(uri.was_quoted);
    assert_path("/%41%5A%c3%A4", "/AZ\xc3\xa4");
    assert_path("/%25", "/%");
    assert_path("/%2525", "/%25"); /* decoded once */
    assert_path("/%20", "/ ");
    assert_path("/%3Fa%23b", "/?a#b"); /* neither arguments nor fragment */
    assert_false(uri.has_args);
    assert_path("/%0d%0a", "/\r\n");
    assert_path("/a%2Fb", "/a/b");
    assert_path("/a%2f%2fb", "/a/b");
    assert_path("/a/%2e", "/a/");
    assert_path("/a/%2E%2e/b", "/b");
    assert_path("/a/.%2e/b", "/b");
    assert_path("/a%2f..%2fb", "/b");
}

static void bad_percent_sequences(void **state)
{
    static const char *const bad[] = {"/%",   "/%4",  "/%%",  "/%4g",   "/%g4",  "/a/%",
                                      "/%-1", "/% 1", "/%00", "/a%00b", "/%4?a", "/%?"};

    for (size_t i = 0; i < COUNT(bad); i++) {
        assert_refused(bad[i]);
    }
    assert_false(normalise((struct str){"/a\0b", 4}, true));
    assert_false(normalise((struct str){"/\0", 2}, true));
}

static void dot_segments(void **state)
{
    assert_path("/.", "/");
    assert_path("/./", "/");
    assert_path("/./a", "/a");
    assert_path("/a/.", "/a/");
    assert_path("/a/./b/./c", "/a/b/c");
    assert_path("/a/..", "/");
    assert_path("/a/../", "/");
    assert_path("/a/../b", "/b");
    assert_path("/a/b/..", "/a/");
    assert_path("/a/b/../..", "/");
    assert_path("/a/b/../../c", "/c");
    assert_path("/a/...", "/a/...");
    assert_path("/.../a", "/.../a");
    assert_path("/a/..b", "/a/..b");
    assert_path("/a/.b", "/a/.b");
    assert_path("/a/b..", "/a/b..");
    assert_path("/.a/..", "/");
}

static void out_of_the_root(void **state)
{
    static const char *const bad[] = {"/..",        "/../",
                                      "/../a",      "/a/../..",
                                      "/a/../../b", "/./..",
                                      "//..",       "/%2e%2e",
                                      "/%2e./a",    "/a/%2e%2e/%2E%2E/b",
                                      "/..%2f",     "/..?a",
                                      "/..#a"};

    for (size_t i = 0; i < COUNT(bad); i++) {
        if (strcmp(bad[i], "//..") != 0) { /* unmerged it is the parent of an empty segment */
            assert_refused(bad[i]);
        }
        assert_false(normalise(str_of(bad[i]), true));
    }
}

static void slashes(void **state)
{
    assert_path("//", "/");
    assert_path("//a", "/a");
    assert_path("/a//b///c//", "/a/b/c/");
    assert_path("/a/.//b", "/a/b");
    assert_path("/a//../b", "/b");
    assert_true(normalise(STR("/a//b"), false));
    assert_text(uri.path, "/a//b");
    assert_true(normalise(STR("//"), false));
    assert_text(uri.path, "//");
    assert_true(normalise(STR("//a//%62//"), false));
    assert_text(uri.path, "//a//b//");
    assert_true(normalise(STR("/a//../b"), false));
    assert_text(uri.path, "/a/b");
    assert_true(normalise(STR("/a//b/../.."), false));
    assert_text(uri.path, "/a/");
}

static void not_a_path(void **state)
{
    static const char *const bad[] = {"", "a", "a/b", "?a", "#", ".", "..", "*", "%2fa"};

    for (size_t i = 0; i < COUNT(bad); i++) {
        assert_refused(bad[i]);
    }
}

/* The normal form of a normal form is itself. */
static void twice_is_once(void **state)
{
    static const char *const targets[] = {"/a/./b/../c//d/", "/%61/%2e%2e/b", "//a/b/..",
                                          "/a/%2e%2e%2f%62"};

    for (size_t i = 0; i < COUNT(targets); i++) {
        assert_true(normalise(str_of(targets[i]), true));
        struct str first = arena_dup(&arena, uri.path);
        assert_true(normalise(first, true));
        assert_str(uri.path, first);
    }
}

static void safe_paths(void **state)
{
    static const char *const good[] = {"/",    "/a",      "a",      "/a/..b/c", "/a/b..",
                                       "/...", "/a?../b", "/a/./b", "/a/..?b"};
    static const char *const bad[] = {"",        "..",   "/..",          "/../a", "/a/..",
                                      "/a/../b", "../a", "/a?b/../../c", "/a?/.."};

    for (size_t i = 0; i < COUNT(good); i++) {
        assert_true(uri_is_safe(str_of(good[i])));
    }
    for (size_t i = 0; i < COUNT(bad); i++) {
        assert_false(uri_is_safe(str_of(bad[i])));
    }
    assert_false(uri_is_safe((struct str){"/a\0b", 4}));
}

#define uri_test(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        uri_test(plain_paths_are_not_copied),
        uri_test(arguments),
        uri_test(fragments_are_no_part_of_a_target),
        uri_test(ways_up),
        uri_test(percent_sequences),
        uri_test(bad_percent_sequences),
        uri_test(dot_segments),
        uri_test(out_of_the_root),
        uri_test(slashes),
        uri_test(not_a_path),
        uri_test(twice_is_once),
        uri_test(safe_paths),
    };

    return cmocka_run_group_tests_name("http/uri", tests, NULL, NULL);
}
