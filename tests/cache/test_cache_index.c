/* The index: finding, the order of use, giving way, sums, and mending after a death. */
#define _GNU_SOURCE
#include "cache/fixture.h"

#include <sys/wait.h>

static struct cache_index *in(void)
{
    return cache_index_of(cache);
}

static void hash_of(unsigned number, uint8_t *hash)
{
    md5_of((struct str){(const char *) &number, sizeof(number)}, hash);
}

static struct cache_entry *find(unsigned number)
{
    uint8_t hash[CACHE_KEY_SIZE];

    hash_of(number, hash);
    return cache_index_find(in(), hash);
}

static struct cache_entry *add(unsigned number, struct cache_evicted *evicted)
{
    uint8_t hash[CACHE_KEY_SIZE];
    struct cache_evicted ignored;

    hash_of(number, hash);
    return cache_index_add(in(), hash, number, false, evicted == NULL ? &ignored : evicted);
}

/* Are the links of use right in both directions, and of all entries? */
static void check_order(void)
{
    uint32_t newer = 0;
    uint32_t count = 0;

    for (uint32_t number = in()->newest; number != 0;
         number = cache_index_at(in(), number)->older) {
        assert_int_equal(cache_index_at(in(), number)->newer, newer);
        newer = number;
        count++;
    }
    assert_int_equal(in()->oldest, newer);
    assert_int_equal(in()->count, count);
}

static void entries_are_found_until_they_are_dropped(void **state)
{
    begin("");
    cache_index_take(in());
    for (unsigned i = 0; i < 2000; i++) {
        assert_null(find(i));
        struct cache_entry *entry = add(i, NULL);
        cache_index_store(in(), entry, cache_index_version(in()), 4096);
    }
    for (unsigned i = 0; i < 2000; i += 2) {
        cache_index_drop(in(), find(i));
    }
    for (unsigned i = 0; i < 2000; i++) {
        assert_int_equal(find(i) != NULL, i % 2);
    }
    check_order();
    assert_int_equal(in()->count, 1000);
    assert_int_equal(in()->files, 1000);
    assert_int_equal(in()->size, 1000 * 4096);
    cache_index_release(in());
}

static void a_pointer_from_before_is_told_from_a_new_entry(void **state)
{
    uint8_t hash[CACHE_KEY_SIZE];

    begin("");
    cache_index_take(in());
    struct cache_entry *entry = add(1, NULL);
    hash_of(1, hash);
    assert_ptr_equal(cache_index_again(in(), entry, hash), entry);
    cache_index_drop(in(), entry);
    assert_null(cache_index_again(in(), entry, hash));
    assert_ptr_equal(add(2, NULL), entry);
    assert_null(cache_index_again(in(), entry, hash));
    cache_index_release(in());
}

static void the_least_recently_used_gives_way(void **state)
{
    struct cache_evicted evicted = {0};
    unsigned count = 0;

    begin("");
    cache_index_take(in());
    for (; in()->capacity == UINT32_MAX; count++) {
        struct cache_entry *entry = add(count, &evicted);
        cache_index_store(in(), entry, cache_index_version(in()), 1);
        if (count == 10) {
            cache_index_touch(in(), find(0), clock_now.seconds);
            find(1)->claim = 1;
            find(1)->claim_until_ms = clock_now.now_ms + 1000;
        }
    }
    assert_true(count > 8000); /* what nginx says of a megabyte */
    assert_true(evicted.has_file);
    assert_non_null(find(0)); /* was used */
    assert_non_null(find(1)); /* is being fetched */
    assert_null(find(2));
    assert_non_null(find(3));
    add(count, &evicted);
    assert_null(find(3));
    check_order();
    cache_index_release(in());
}

static void stamps_rise_whatever_the_clock_says(void **state)
{
    begin("");
    cache_index_take(in());
    in()->version += UINT64_C(3600) * 1000000000;
    uint64_t before = in()->version;
    uint64_t first = cache_index_version(in());
    in()->version = UINT64_MAX / 2;
    assert_int_equal(first, cache_index_version(in()) == UINT64_MAX / 2 + 1 ? first : 0);
    assert_true(first > before || before == 0);
    cache_index_release(in());
}

/* A process that dies with the lock held leaves half-made links. */
static void what_a_dead_process_left_is_mended(void **state)
{
    begin("");
    cache_index_take(in());
    for (unsigned i = 0; i < 1000; i++) {
        struct cache_entry *entry = add(i, NULL);
        entry->used_at = i % 100;
        cache_index_store(in(), entry, cache_index_version(in()), 10);
    }
    cache_index_drop(in(), find(500));
    cache_index_release(in());

    pid_t child = fork();
    if (child == 0) {
        cache_index_take(in());
        memset(in()->buckets, 0xff, 64);
        in()->newest = 7;
        in()->count = 3;
        in()->size = 0;
        in()->free_first = 0;
        find(20)->older = 99;
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);

    cache_index_take(in());
    assert_true(was_logged("the index was repaired"));
    assert_int_equal(in()->count, 999);
    assert_int_equal(in()->size, 9990);
    for (unsigned i = 0; i < 1000; i++) {
        assert_int_equal(find(i) != NULL, i != 500);
    }
    check_order();
    assert_int_equal(cache_index_at(in(), in()->newest)->used_at, 99);
    assert_int_equal(cache_index_at(in(), in()->oldest)->used_at, 0);
    assert_non_null(add(500, NULL));
    assert_int_equal(in()->used_numbers, 1000); /* the free one was found again */
    cache_index_release(in());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cache_test(entries_are_found_until_they_are_dropped),
        cache_test(a_pointer_from_before_is_told_from_a_new_entry),
        cache_test(the_least_recently_used_gives_way),
        cache_test(stamps_rise_whatever_the_clock_says),
        cache_test(what_a_dead_process_left_is_mended),
    };

    return cache_tests_run("cache index", tests);
}
