/* The manager: what it loads after a restart, what it removes, who it is. */
#define _GNU_SOURCE
#include "cache/fixture.h"

#include <sys/wait.h>
#include <utime.h>

static struct cache_stats stats(void)
{
    struct cache_stats stats;

    cache_stats_of(cache, &stats);
    return stats;
}

static void start(const char *parameters)
{
    begin(parameters);
    assert_true(cache_worker_start(generation));
}

static void store_many(unsigned count)
{
    char key[16];

    for (unsigned i = 0; i < count; i++) {
        snprintf(key, sizeof(key), "key %u", i);
        store(key, key, 600);
    }
}

static void assert_many(unsigned count)
{
    char key[16];

    for (unsigned i = 0; i < count; i++) {
        snprintf(key, sizeof(key), "key %u", i);
        assert_stored(key, key);
    }
}

/* A file below the cache's directory. */
static const char *path_of(const char *name)
{
    static char path[CACHE_NAME_MAX];

    snprintf(path, sizeof(path), "%s/one/%s", directory, name);
    return path;
}

static void write_file(const char *name, const char *text, time_t age)
{
    FILE *file = fopen(path_of(name), "w");
    struct utimbuf times = {.actime = time(NULL) - age, .modtime = time(NULL) - age};

    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    assert_int_equal(utime(path_of(name), &times), 0);
}

static bool exists(const char *name)
{
    return access(path_of(name), F_OK) == 0;
}

static void the_loader_finds_what_lies_there(void **state)
{
    begin("levels=1:2");
    store_many(100);
    end();
    assert_false(exists(".index")); /* nobody kept it */
    start("levels=1:2 loader_files=10 loader_sleep=1ms");
    assert_stored("key 7", "key 7"); /* before the loader comes to it */
    turn_until(!stats().is_cold);
    assert_int_equal(stats().entries, 100);
    assert_int_equal(stats().bytes, 100 * cache_index_round(cache_index_of(cache), 1));
    assert_many(100);
    assert_quiet();
}

static void the_index_is_there_at_once_after_a_restart(void **state)
{
    start("levels=1:2");
    turn_until(!stats().is_cold);
    store_many(100);
    end();
    assert_true(exists(".index"));
    start("levels=1:2 loader_files=1 loader_sleep=10s");
    assert_int_equal(stats().entries, 100);
    assert_true(stats().is_cold);
    assert_many(100);
    assert_quiet();
}

static void the_order_of_use_lives_over_a_restart(void **state)
{
    struct cache_index *index;

    start("");
    turn_until(!stats().is_cold);
    store_many(10);
    index = cache_index_of(cache);
    for (uint32_t number = 1; number <= 10; number++) {
        cache_index_at(index, number)->used_at -= number % 5 * 10;
    }
    end();
    start("");
    index = cache_index_of(cache);
    uint32_t before = UINT32_MAX;
    unsigned count = 0;
    for (uint32_t number = index->newest; number != 0;
         number = cache_index_at(index, number)->older) {
        assert_true(cache_index_at(index, number)->used_at <= before);
        before = cache_index_at(index, number)->used_at;
        count++;
    }
    assert_int_equal(count, 10);
}

static void what_is_on_disk_no_more_is_dropped(void **state)
{
    start("");
    turn_until(!stats().is_cold);
    store_many(20);
    const char *gone = file_of("key 3");
    end();
    begin("");
    unlink(gone);
    assert_true(cache_worker_start(generation));
    assert_int_equal(stats().entries, 20);
    turn_until(!stats().is_cold);
    assert_int_equal(stats().entries, 19);
    assert_quiet();
}

static void a_damaged_index_file_is_as_none(void **state)
{
    start("");
    turn_until(!stats().is_cold);
    store_many(20);
    end();
    int fd = open(path_of(".index"), O_RDWR);
    assert_int_equal(pwrite(fd, "x", 1, 100), 1);
    close(fd);
    start("");
    assert_int_equal(stats().entries, 0);
    turn_until(!stats().is_cold);
    assert_int_equal(stats().entries, 20);
    assert_many(20);
    assert_quiet();
}

static void rubbish_goes_and_what_is_foreign_stays(void **state)
{
    char pid[80];

    begin("");
    write_file("00000000000000000000000000000001", "not ours", 0);
    write_file("00000000000000000000000000000002.2147483646-1", "never finished", 100);
    snprintf(pid, sizeof(pid), "00000000000000000000000000000003.%d-1", (int) getpid());
    write_file(pid, "being written", 100);
    write_file("notes.txt", "somebody's", 100);
    write_file(".new.2147483646-7", "never finished", 100);
    assert_true(cache_worker_start(generation));
    turn_until(!stats().is_cold);
    assert_false(exists("00000000000000000000000000000001"));
    assert_false(exists("00000000000000000000000000000002.2147483646-1"));
    assert_false(exists(".new.2147483646-7"));
    assert_true(exists(pid));
    assert_true(exists("notes.txt"));
    assert_int_equal(stats().entries, 0);
}

static void files_of_other_levels_are_removed(void **state)
{
    begin("levels=1:2");
    store_many(10);
    end();
    assert_int_equal(count_files(), 10);
    start("levels=2");
    turn_until(!stats().is_cold);
    assert_int_equal(count_files(), 0);
    assert_int_equal(stats().entries, 0);
}

static void what_is_not_used_is_removed(void **state)
{
    start("inactive=100s");
    turn_until(!stats().is_cold);
    store_many(10);
    struct cache_index *index = cache_index_of(cache);
    for (uint32_t number = 1; number <= 6; number++) {
        cache_index_at(index, number)->used_at -= 100;
    }
    turn_until(count_files() == 4);
    assert_int_equal(stats().entries, 4);
    assert_quiet();
}

static void there_is_no_more_than_max_size(void **state)
{
    start("max_size=40k manager_sleep=1ms manager_files=2");
    turn_until(!stats().is_cold);
    store_many(50);
    assert_stored("key 0", "key 0");
    struct cache_index *index = cache_index_of(cache);
    cache_index_take(index);
    uint8_t hash[CACHE_KEY_SIZE];
    md5_of(STR("key 0"), hash);
    cache_index_touch(index, cache_index_find(index, hash), clock_now.seconds);
    cache_index_release(index);
    turn_until(stats().bytes <= 40960);
    turn_until(count_files() == stats().entries);
    assert_stored("key 49", "key 49");
    assert_stored("key 0", "key 0"); /* used last */
    assert_int_equal(look("key 1"), CACHE_MISS);
    assert_quiet();
}

static void no_more_is_kept_than_min_free_lets(void **state)
{
    start("min_free=100000g manager_sleep=1ms");
    turn_until(!stats().is_cold);
    store_many(5);
    turn_until(count_files() == 0);
    assert_quiet();
}

/* What a purge that was cut short has left on disk. */
static void a_purge_is_finished_after_a_restart(void **state)
{
    begin("");
    store_many(10);
    struct cache_index *index = cache_index_of(cache);
    index->rules[0] = (struct cache_rule){.length = 3};
    md5_of(STR("key"), index->rules[0].digest);
    index->rules_version = cache_index_version(index);
    index->rules[0].version = index->rules_version;
    cache_rules_write(cache);
    end();
    start("");
    turn_until(!stats().is_cold);
    assert_int_equal(count_files(), 0);
    assert_int_equal(stats().entries, 0);
}

static void the_manager_helps_with_purges(void **state)
{
    start("purger=on purger_files=2 purger_sleep=1ms");
    turn_until(!stats().is_cold);
    store_many(10);
    struct cache_index *index = cache_index_of(cache);
    index->rules[0] = (struct cache_rule){.length = 3};
    md5_of(STR("key"), index->rules[0].digest);
    index->rules_version = cache_index_version(index);
    index->rules[0].version = index->rules_version;
    turn_until(count_files() == 0);
    turn_until(index->rules[0].walked_ms != 0);
    assert_int_equal(stats().entries, 0);
    assert_quiet();
}

static void another_takes_over_when_the_lease_ends(void **state)
{
    begin("");
    struct cache_index *index = cache_index_of(cache);
    index->manager = (uint64_t) getppid() << 32;
    index->manager_until_ms = cache_now_ms() + 300;
    assert_true(cache_worker_start(generation));
    struct cache_manager *manager = cache->worker_state;
    loop_turn(0);
    assert_false(manager->is_running);
    turn_until(manager->is_running);
    assert_true(cache_now_ms() >= index->manager_until_ms - 10000);
    turn_until(!stats().is_cold);
}

static void the_lease_of_a_dead_worker_is_taken_at_once(void **state)
{
    pid_t child = fork();

    if (child == 0) {
        _exit(0);
    }
    waitpid(child, NULL, 0);
    begin("");
    struct cache_index *index = cache_index_of(cache);
    index->manager = (uint64_t) child << 32;
    index->manager_until_ms = cache_now_ms() + 1000000;
    assert_true(cache_worker_start(generation));
    struct cache_manager *manager = cache->worker_state;
    turn_until(manager->is_running);
}

/* It has the master's rights: workers could not read what it writes. Even a lease that nobody has
 * is not its own. */
static void the_agent_keeps_no_cache(void **state)
{
    begin("");
    worker_role = WORKER_AGENT;
    assert_true(cache_worker_start(generation));
    worker_role = WORKER_SERVES;
    assert_null(cache->worker_state);
    assert_int_equal(cache_index_of(cache)->manager, 0);
}

static void the_manager_releases_its_lease(void **state)
{
    start("");
    struct cache_manager *manager = cache->worker_state;
    turn_until(manager->is_running);
    cache_worker_quit(generation);
    turn_until(!manager->is_running);
    assert_int_equal(cache_index_of(cache)->manager, 0);
    assert_true(cache_index_of(cache)->manager_until_ms <= cache_now_ms());
}

/* ---- reloads ---- */

static void read_again(const char *text, bool is_good)
{
    messages.len = 0;
    struct generation *next = read_conf(generation, text);

    assert_int_equal(next != NULL, is_good);
    if (next != NULL) {
        struct cache *again = cache_find(next, STR("one"));
        assert_ptr_equal(again->index, cache->index);
        generation_free(next);
    }
}

static void the_index_lives_over_a_reload(void **state)
{
    begin("levels=1");
    store("key", "body", 60);
    read_again("proxy_cache_path one levels=1 keys_zone=one:1m max_size=1g;", true);
    assert_stored("key", "body");
    read_again("proxy_cache_path two levels=1 keys_zone=one:1m;", false);
    assert_true(was_logged("cache \"one\" uses the \""));
    assert_true(was_logged("/two\" cache path while previously it used the \""));
    read_again("proxy_cache_path one levels=2 keys_zone=one:1m;", false);
    assert_true(was_logged("cache \"one\" had previously different levels"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cache_test(the_loader_finds_what_lies_there),
        cache_test(the_index_is_there_at_once_after_a_restart),
        cache_test(the_order_of_use_lives_over_a_restart),
        cache_test(what_is_on_disk_no_more_is_dropped),
        cache_test(a_damaged_index_file_is_as_none),
        cache_test(rubbish_goes_and_what_is_foreign_stays),
        cache_test(files_of_other_levels_are_removed),
        cache_test(what_is_not_used_is_removed),
        cache_test(there_is_no_more_than_max_size),
        cache_test(no_more_is_kept_than_min_free_lets),
        cache_test(a_purge_is_finished_after_a_restart),
        cache_test(the_manager_helps_with_purges),
        cache_test(another_takes_over_when_the_lease_ends),
        cache_test(the_lease_of_a_dead_worker_is_taken_at_once),
        cache_test(the_agent_keeps_no_cache),
        cache_test(the_manager_releases_its_lease),
        cache_test(the_index_lives_over_a_reload),
    };

    return cache_tests_run("cache manager", tests);
}
