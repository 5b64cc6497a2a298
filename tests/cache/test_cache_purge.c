/* Purging: by key with all variants, by prefix, and what was under way meanwhile. */
#define _GNU_SOURCE
#include "cache/fixture.h"

static void a_purged_key_is_gone(void **state)
{
    begin("");
    store("key", "body", 60);
    store("key2", "body", 60);
    assert_true(cache_purge(cache, STR("key"), &memory_log));
    assert_int_equal(look("key"), CACHE_MISS);
    assert_int_equal(count_files(), 1);
    assert_stored("key2", "body");
    assert_false(cache_purge(cache, STR("key"), &memory_log));
    assert_false(cache_purge(cache, STR("never seen"), &memory_log));
    store("key", "again", 60);
    assert_stored("key", "again");
    assert_quiet();
}

static void variant_of(unsigned number, uint8_t *out)
{
    cache_variant((struct str){(const char *) &number, sizeof(number)}, out);
}

static void store_variant(const char *key, unsigned number)
{
    struct cache_access access;
    struct cache_meta meta = meta_for(60);

    meta.vary = STR("x");
    variant_of(number, meta.variant);
    if (open_key(&access, key) == CACHE_FRESH) {
        cache_open_variant(&access, meta.variant);
    }
    fill_with(&access, STR("body"), &meta);
    cache_close(&access);
}

static enum cache_found look_variant(const char *key, unsigned number)
{
    struct cache_access access;
    uint8_t variant[CACHE_KEY_SIZE];

    variant_of(number, variant);
    open_key(&access, key);
    enum cache_found found = cache_open_variant(&access, variant);
    cache_close(&access);
    return found;
}

static void all_variants_go_with_the_key(void **state)
{
    begin("");
    for (unsigned i = 0; i < 20; i++) {
        store_variant("key", i);
        store_variant("other", i);
    }
    assert_int_equal(count_files(), 40);
    assert_true(cache_purge(cache, STR("key"), &memory_log));
    assert_int_equal(count_files(), 20);
    for (unsigned i = 1; i < 20; i++) {
        assert_int_equal(look_variant("key", i), CACHE_MISS);
        assert_int_equal(look_variant("other", i), CACHE_FRESH);
    }
    assert_quiet();
}

static void what_was_begun_before_a_purge_is_not_stored(void **state)
{
    struct cache_access access;
    struct cache_meta meta = meta_for(60);

    begin("");
    for (int i = 0; i < 2; i++) {
        open_key(&access, "key");
        assert_true(cache_fill_begin(&access, NULL));
        assert_true(cache_fill_write(&access, STR("stale")));
        if (i == 0) {
            cache_purge(cache, STR("key"), &memory_log);
        } else {
            cache_purge_prefix(cache, STR("k"), &memory_log);
        }
        assert_false(cache_fill_commit(&access, &meta));
        cache_close(&access);
        assert_int_equal(look("key"), CACHE_MISS);
        assert_int_equal(count_files(), 0);
        store("key", "new", 60);
        assert_stored("key", "new");
        cache_purge(cache, STR("key"), &memory_log);
    }
    assert_quiet();
}

static void a_prefix_takes_what_begins_with_it(void **state)
{
    char key[32];

    begin("levels=1");
    for (int i = 0; i < 50; i++) {
        snprintf(key, sizeof(key), "/%s/%d", i % 2 ? "a" : "b", i);
        store(key, "body", 60);
    }
    store("/a", "body", 60);
    assert_int_equal(cache_purge_prefix(cache, STR("/a/"), &memory_log), 25);
    assert_int_equal(count_files(), 26);
    assert_int_equal(look("/a/1"), CACHE_MISS);
    assert_stored("/b/2", "body");
    assert_stored("/a", "body");
    store("/a/1", "new", 60);
    forget_kept();
    assert_stored("/a/1", "new");
    assert_int_equal(cache_purge_prefix(cache, STR(""), &memory_log), 27);
    assert_int_equal(count_files(), 0);
    assert_quiet();
}

/* As in another worker, or before the walk has come to it: the rule alone must do. */
static void a_rule_holds_before_any_file_is_gone(void **state)
{
    begin("");
    store("/a/kept", "body", 60);
    store("/a/unkept", "body", 60);
    assert_stored("/a/kept", "body");
    struct cache_index *index = cache_index_of(cache);
    struct cache_rule *rule = &index->rules[0];
    md5_of(STR("/a/"), rule->digest);
    rule->length = 3;
    rule->version = cache_index_version(index);
    index->rules_version = rule->version;
    struct cache_content *kept =
        cache_kept_find(cache, cache_kept_hash(STR("/a/unkept"), (const uint8_t[16]){0}),
                        STR("/a/unkept"), (const uint8_t[16]){0});
    cache_kept_drop(kept);
    assert_int_equal(look("/a/kept"), CACHE_MISS);
    assert_int_equal(look("/a/unkept"), CACHE_MISS);
    assert_int_equal(count_files(), 0);
    assert_quiet();
}

static void a_purged_response_cannot_be_refreshed(void **state)
{
    struct cache_access access;
    struct cache_meta meta = meta_for(60);

    begin("");
    store("key", "body", -1);
    open_key(&access, "key");
    cache_purge_prefix(cache, STR("key"), &memory_log);
    assert_false(cache_refresh(&access, &meta));
    cache_close(&access);
    assert_int_equal(look("key"), CACHE_MISS);
    assert_quiet();
}

static void there_may_be_many_purges(void **state)
{
    char key[32];

    begin("");
    cache_index_of(cache)->is_cold = false;
    for (int i = 0; i < 3 * CACHE_RULES; i++) {
        snprintf(key, sizeof(key), "/%d/x", i);
        store(key, "body", 60);
    }
    for (int i = 0; i < 3 * CACHE_RULES; i++) {
        snprintf(key, sizeof(key), "/%d/", i);
        assert_int_equal(cache_purge_prefix(cache, str_of(key), &memory_log), 1);
    }
    assert_int_equal(count_files(), 0);
    assert_quiet();
}

/* Files that the loader has not come to are not forgotten. */
static void too_many_purges_while_it_is_cold_purge_all(void **state)
{
    char key[32];

    begin("");
    store("/other", "body", 60);
    forget_kept();
    for (int i = 0; i < CACHE_RULES + 1; i++) {
        assert_int_equal(count_files(), 1);
        snprintf(key, sizeof(key), "/%d/", i);
        cache_purge_prefix(cache, str_of(key), &memory_log);
    }
    assert_true(was_logged("the whole cache is purged"));
    assert_int_equal(look("/other"), CACHE_MISS);
}

static void a_variant_that_is_not_known_yet_goes_with_its_key(void **state)
{
    struct cache_index *index;

    begin("");
    store_variant("key", 1);
    store_variant("key", 2);
    forget_kept();
    index = cache_index_of(cache);
    cache_index_take(index);
    while (index->newest != 0) {
        cache_index_drop(index, cache_index_at(index, index->newest));
    }
    cache_index_release(index);
    assert_int_equal(count_files(), 2);
    assert_true(cache_purge(cache, STR("key"), &memory_log));
    assert_int_equal(count_files(), 1);
    assert_int_equal(look_variant("key", 2), CACHE_MISS);
    assert_int_equal(count_files(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cache_test(a_purged_key_is_gone),
        cache_test(all_variants_go_with_the_key),
        cache_test(what_was_begun_before_a_purge_is_not_stored),
        cache_test(a_prefix_takes_what_begins_with_it),
        cache_test(a_rule_holds_before_any_file_is_gone),
        cache_test(a_purged_response_cannot_be_refreshed),
        cache_test(there_may_be_many_purges),
        cache_test(too_many_purges_while_it_is_cold_purge_all),
        cache_test(a_variant_that_is_not_known_yet_goes_with_its_key),
    };

    return cache_tests_run("cache purge", tests);
}
