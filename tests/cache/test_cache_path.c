/* The *_cache_path directives: what they say, and what is refused with nginx's words. */
#define _GNU_SOURCE
#include "cache/fixture.h"

/* Refused, with this message behind "[emerg] " and before " in FILE:LINE". */
static void refused(const char *text, const char *message, unsigned line)
{
    char wanted[512];

    messages.len = 0;
    struct generation *read = read_conf(NULL, text);
    if (read != NULL) {
        fail_msg("taken: %s", text);
    }
    snprintf(wanted, sizeof(wanted), "[emerg] %s in %s:%u\n", message, conf_path, line + 1);
    if (!was_logged(wanted)) {
        fail_msg("got \"%.*s\", expected \"%s\"", STR_ARG(buf_str(&messages)), wanted);
    }
}

static void what_is_wrong_is_told_as_nginx_does(void **state)
{
#define ONE "proxy_cache_path c "
    refused(ONE "levels=1:2;", "\"proxy_cache_path\" must have \"keys_zone\" parameter", 1);
    refused(ONE "keys_zone=:1m;", "\"proxy_cache_path\" must have \"keys_zone\" parameter", 1);
    refused(ONE "keys_zone=a;", "invalid keys zone size \"keys_zone=a\"", 1);
    refused(ONE "keys_zone=a:;", "invalid keys zone size \"keys_zone=a:\"", 1);
    refused(ONE "keys_zone=a:x;", "invalid keys zone size \"keys_zone=a:x\"", 1);
    refused(ONE "keys_zone=a:1g;", "invalid keys zone size \"keys_zone=a:1g\"", 1);
    refused(ONE "keys_zone=a:b:1m;", "invalid keys zone size \"keys_zone=a:b:1m\"", 1);
    refused(ONE "keys_zone=a:1k;", "keys zone \"keys_zone=a:1k\" is too small", 1);
    refused(ONE "levels=3 keys_zone=a:1m;", "invalid \"levels\" \"levels=3\"", 1);
    refused(ONE "levels=0 keys_zone=a:1m;", "invalid \"levels\" \"levels=0\"", 1);
    refused(ONE "levels=12 keys_zone=a:1m;", "invalid \"levels\" \"levels=12\"", 1);
    refused(ONE "levels=1: keys_zone=a:1m;", "invalid \"levels\" \"levels=1:\"", 1);
    refused(ONE "levels=1:2:2:1 keys_zone=a:1m;", "invalid \"levels\" \"levels=1:2:2:1\"", 1);
    refused(ONE "keys_zone=a:1m inactive=x;", "invalid inactive value \"inactive=x\"", 1);
    refused(ONE "keys_zone=a:1m inactive=;", "invalid inactive value \"inactive=\"", 1);
    refused(ONE "keys_zone=a:1m max_size=x;", "invalid max_size value \"max_size=x\"", 1);
    refused(ONE "keys_zone=a:1m min_free=x;", "invalid min_free value \"min_free=x\"", 1);
    refused(ONE "keys_zone=a:1m loader_files=x;", "invalid loader_files value \"loader_files=x\"",
            1);
    refused(ONE "keys_zone=a:1m manager_sleep=x;",
            "invalid manager_sleep value \"manager_sleep=x\"", 1);
    refused(ONE "keys_zone=a:1m use_temp_path=x;",
            "invalid use_temp_path value \"use_temp_path=x\", it must be \"on\" or \"off\"", 1);
    refused(ONE "keys_zone=a:1m foo=1;", "invalid parameter \"foo=1\"", 1);
    refused(ONE "keys_zone=a:1m foo;", "invalid parameter \"foo\"", 1);
    refused(ONE "keys_zone=a:1m;\nproxy_cache_path d keys_zone=a:1m;", "duplicate zone \"a\"", 2);
    refused(ONE "keys_zone=a:1m;\nproxy_cache_path d keys_zone=a:2m;",
            "the size 2097152 of shared memory zone \"a\" conflicts with already declared size "
            "1048576",
            2);
    refused(ONE "keys_zone=a:1m;\nfastcgi_cache_path d keys_zone=a:1m;",
            "the shared memory zone \"a\" is already declared for a different use", 2);
    refused("server { proxy_cache zz; }", "\"proxy_cache\" zone \"zz\" is unknown", 2);
}

static void a_path_belongs_to_one_cache(void **state)
{
    char wanted[256];

    messages.len = 0;
    assert_null(read_conf(NULL, ONE "keys_zone=a:1m;\n" ONE "keys_zone=b:1m;"));
    snprintf(wanted, sizeof(wanted), "the same path name \"%s/c\" used in %s:2 and in %s:3",
             directory, conf_path, conf_path);
    assert_true(was_logged(wanted));
}

static void all_parameters_are_read(void **state)
{
    struct generation *read = read_conf(
        NULL, "proxy_cache a; proxy_cache_path c/ levels=1:2:1 use_temp_path=off keys_zone=a:20k "
              "inactive=1h max_size=2g min_free=1m manager_files=1 manager_sleep=2 "
              "manager_threshold=3s loader_files=4 loader_sleep=5 loader_threshold=6ms "
              "purger=on purger_files=7 purger_sleep=8 purger_threshold=9;"
              "proxy_cache_path d levels= keys_zone=x:1m keys_zone=b:1m;");
    if (read == NULL) {
        fail_msg("not taken: %.*s", STR_ARG(buf_str(&messages)));
    }
    const struct cache *a = cache_find(read, STR("a"));
    assert_int_equal(a->path->levels[0] * 100 + a->path->levels[1] * 10 + a->path->levels[2], 121);
    assert_true(str_ends(a->path->name, STR("/c")));
    assert_false(a->uses_temp_path);
    assert_int_equal(a->inactive_ms, 3600000);
    assert_int_equal(a->max_size, 2147483648);
    assert_int_equal(a->min_free, 1048576);
    assert_int_equal(a->manager_files, 1);
    assert_int_equal(a->manager_sleep_ms, 2000);
    assert_int_equal(a->manager_threshold_ms, 3000);
    assert_int_equal(a->loader_files, 4);
    assert_int_equal(a->loader_sleep_ms, 5000);
    assert_int_equal(a->loader_threshold_ms, 6);
    assert_true(a->purger);
    assert_int_equal(a->purger_files, 7);
    assert_int_equal(a->purger_sleep_ms, 8000);
    assert_int_equal(a->purger_threshold_ms, 9000);
    const struct cache *b = cache_find(read, STR("b"));
    assert_int_equal(b->path->levels[0], 0);
    assert_true(b->uses_temp_path);
    assert_int_equal(b->inactive_ms, 600000);
    assert_int_equal(b->max_size, INT64_MAX);
    assert_null(cache_find(read, STR("x")));
    generation_free(read);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cache_test(what_is_wrong_is_told_as_nginx_does),
        cache_test(a_path_belongs_to_one_cache),
        cache_test(all_parameters_are_read),
    };

    return cache_tests_run("cache path", tests);
}
