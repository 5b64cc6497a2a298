/* Requests and one key: missing, stored, found in memory and on disk, expired, claimed, waited for.
 */
#define _GNU_SOURCE
#include "cache/fixture.h"

#include <sys/wait.h>

static void what_was_stored_is_found(void **state)
{
    struct cache_access asked;

    begin("levels=1:2");
    assert_int_equal(look("key"), CACHE_MISS);
    store("key", "the body", 60);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(open_key(&asked, "key"), CACHE_FRESH);
        assert_text(body_of(&asked), "the body");
        assert_text(asked.meta.etag, "\"e\"");
        assert_text(asked.meta.head, "Content-Type: text/plain");
        assert_int_equal(asked.meta.status, 200);
        assert_int_equal(asked.meta.last_modified, 784111777);
        assert_int_equal(asked.meta.body_size, 8);
        cache_close(&asked);
        if (i == 1) {
            forget_kept(); /* now from the file */
        }
    }
    assert_int_equal(count_files(), 1);
    assert_int_equal(access(file_of("key"), R_OK), 0);
    assert_quiet();
}

static void names_of_files_are_those_of_nginx(void **state)
{
    begin("levels=1:2");
    /* echo -n key | md5sum */
    assert_non_null(strstr(file_of("key"), "/one/d/31/3c6e0b8a9c15224a8228b9a98ca1531d"));
}

static void a_hit_on_a_kept_response_reads_no_file(void **state)
{
    begin("");
    store("key", "body", 60);
    assert_int_equal(unlink(file_of("key")), 0);
    assert_stored("key", "body");
    forget_kept();
    assert_int_equal(look("key"), CACHE_MISS);
    assert_quiet();
}

/* A hit that takes no lock may not let its entry grow old. */
static void what_is_hit_all_the_time_does_not_give_way(void **state)
{
    char key[32];

    begin("");
    store("hot", "body", 60);
    for (unsigned i = 0; i < 30000; i++) {
        snprintf(key, sizeof(key), "key %u", i);
        look(key);
        if (look("hot") != CACHE_FRESH) {
            fail_msg("gone after %u others", i);
        }
    }
    assert_true(cache_index_of(cache)->capacity < 20000);
    assert_quiet();
}

static void a_large_body_goes_through_a_file(void **state)
{
    struct cache_access access;
    struct cache_meta meta = meta_for(60);
    size_t size = 300000;
    char *body = malloc(size);

    begin("use_temp_path=off levels=2");
    for (size_t i = 0; i < size; i++) {
        body[i] = (char) ('a' + i % 26);
    }
    assert_int_equal(open_key(&access, "large"), CACHE_MISS);
    assert_true(cache_fill_begin(&access, NULL));
    for (size_t i = 0; i < size; i += 1000) {
        assert_true(cache_fill_write(&access, (struct str){body + i, 1000}));
    }
    assert_true(cache_fill_commit(&access, &meta));
    assert_str(body_of(&access), ((struct str){body, size}));
    cache_close(&access);

    for (int i = 0; i < 2; i++) {
        assert_int_equal(open_key(&access, "large"), CACHE_FRESH);
        assert_str(body_of(&access), ((struct str){body, size}));
        assert_text(access.meta.head, "Content-Type: text/plain");
        cache_close(&access);
        forget_kept();
    }
    assert_int_equal(count_files(), 1);
    free(body);
    assert_quiet();
}

static void an_empty_body_is_a_body(void **state)
{
    begin("");
    store("key", "", 60);
    assert_stored("key", "");
    forget_kept();
    assert_stored("key", "");
}

static void what_is_aborted_leaves_nothing(void **state)
{
    struct cache_access access;
    static char large[300000];

    begin("use_temp_path=off");
    open_key(&access, "key");
    assert_true(cache_fill_begin(&access, NULL));
    assert_true(cache_fill_write(&access, (struct str){large, sizeof(large)}));
    assert_int_equal(count_files(), 1);
    cache_close(&access);
    assert_int_equal(count_files(), 0);
    assert_int_equal(look("key"), CACHE_MISS);
    assert_quiet();
}

static void a_bypassed_lookup_still_stores(void **state)
{
    struct cache_access access;
    struct cache_meta meta = meta_for(60);

    begin("");
    store("key", "old", 60);
    access_begin(&access, "key");
    fill_with(&access, STR("new"), &meta);
    cache_close(&access);
    assert_stored("key", "new");
    assert_int_equal(count_files(), 1);
}

static void a_response_is_fresh_until_its_second_is_over(void **state)
{
    begin("");
    store("now", "body", 0);
    store("then", "body", -1);
    assert_int_equal(look("now"), CACHE_FRESH);
    assert_int_equal(look("then"), CACHE_EXPIRED);
    forget_kept();
    assert_int_equal(look("then"), CACHE_EXPIRED);
}

static void a_refresh_renews_the_times_alone(void **state)
{
    struct cache_access access;
    struct cache_meta meta = meta_for(60);

    begin("");
    store("key", "body", -1);
    assert_int_equal(open_key(&access, "key"), CACHE_EXPIRED);
    assert_true(cache_claim(&access, 5000));
    meta.etag = STR("\"another\"");
    assert_true(cache_refresh(&access, &meta));
    assert_false(access.is_mine);
    cache_close(&access);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(open_key(&access, "key"), CACHE_FRESH);
        assert_text(body_of(&access), "body");
        assert_text(access.meta.etag, "\"e\"");
        cache_close(&access);
        forget_kept();
    }
    assert_quiet();
}

static void a_refresh_of_what_was_replaced_fails(void **state)
{
    struct cache_access access;
    struct cache_meta meta = meta_for(60);

    begin("");
    store("key", "old", -1);
    assert_int_equal(open_key(&access, "key"), CACHE_EXPIRED);
    store("key", "new", -1);
    assert_false(cache_refresh(&access, &meta));
    cache_close(&access);
    assert_int_equal(look("key"), CACHE_EXPIRED);
    assert_quiet();
}

static void texts_live_as_long_as_the_request(void **state)
{
    struct cache_access access;
    struct cache_meta meta = meta_for(60);

    begin("");
    store("key", "old", -1);
    forget_kept();
    assert_int_equal(open_key(&access, "key"), CACHE_EXPIRED);
    struct str head = access.meta.head;
    forget_kept();
    fill_with(&access, STR("new"), &meta);
    assert_text(body_of(&access), "new");
    assert_text(head, "Content-Type: text/plain");
    cache_close(&access);
}

static void few_uses_are_scarce(void **state)
{
    struct cache_access access;

    begin("");
    for (int i = 0; i < 3; i++) {
        access_begin(&access, "key");
        access.min_uses = 3;
        assert_int_equal(cache_open(&access), i < 2 ? CACHE_SCARCE : CACHE_MISS);
        cache_close(&access);
    }
}

static void a_claim_is_had_by_one(void **state)
{
    struct cache_access first, second;

    begin("");
    open_key(&first, "key");
    open_key(&second, "key");
    assert_true(cache_claim(&first, 5000));
    assert_false(cache_claim(&second, 5000));
    assert_true(second.is_updating);
    cache_close(&first);
    assert_true(cache_claim(&second, 5000));
    cache_close(&second);

    /* After its age one more may try; what ends first does not end the other's claim. */
    open_key(&first, "key");
    assert_true(cache_claim(&first, 0));
    open_key(&second, "key");
    assert_false(second.is_updating);
    assert_true(cache_claim(&second, 5000));
    cache_close(&first);
    open_key(&first, "key");
    assert_true(first.is_updating);
    cache_close(&first);
    cache_close(&second);
}

/* ---- waiting ---- */

static struct cache_access waiting;
static enum cache_lock_result waited;
static bool has_waited;

static void wait_for_it(void *arg)
{
    uint64_t *timeout_ms = arg;

    waited = cache_wait(&waiting, *timeout_ms);
    has_waited = true;
}

static struct fiber *start_waiting(uint64_t *timeout_ms)
{
    struct fiber *fiber = NULL;

    has_waited = false;
    assert_int_equal(fiber_start(wait_for_it, timeout_ms, &fiber), FIBER_WAITING);
    return fiber;
}

static void a_commit_wakes_who_waits(void **state)
{
    struct cache_access access;
    struct cache_meta meta = meta_for(60);
    uint64_t timeout_ms = 100000;

    begin("");
    open_key(&access, "key");
    open_key(&waiting, "key");
    assert_true(cache_claim(&access, 100000));
    assert_false(cache_claim(&waiting, 100000));
    start_waiting(&timeout_ms);
    fill_with(&access, STR("body"), &meta);
    fiber_run_ready(); /* without the loop: no timer was needed */
    assert_true(has_waited);
    assert_int_equal(waited, CACHE_LOCK_READY);
    assert_int_equal(cache_open(&waiting), CACHE_FRESH);
    cache_close(&waiting);
    cache_close(&access);
}

static void waiting_ends_in_time(void **state)
{
    struct cache_access access;
    uint64_t timeout_ms = 30;

    begin("");
    open_key(&access, "key");
    open_key(&waiting, "key");
    assert_true(cache_claim(&access, 100000));
    assert_false(cache_claim(&waiting, 100000));
    start_waiting(&timeout_ms);
    turn_until(has_waited);
    assert_int_equal(waited, CACHE_LOCK_TIMED_OUT);

    timeout_ms = 100000;
    fiber_cancel(start_waiting(&timeout_ms));
    fiber_run_ready();
    assert_true(has_waited);
    assert_int_equal(waited, CACHE_LOCK_CANCELLED);
    cache_close(&waiting);
    cache_close(&access);
}

/* Many that wait for a claim of another worker: one of them looks, all are told. */
static unsigned ready_count;

static void wait_in_crowd(void *arg)
{
    struct cache_access access;

    open_key(&access, "key");
    if (!cache_claim(&access, 100000) &&
        cache_wait(&access, *(uint64_t *) arg) == CACHE_LOCK_READY) {
        ready_count++;
    }
    cache_close(&access);
}

static void a_crowd_is_told_by_the_one_that_looks(void **state)
{
    struct cache_access access;
    uint64_t soon_ms = 30, late_ms = 1000000;

    begin("");
    ready_count = 0;
    open_key(&access, "key");
    assert_true(cache_claim(&access, 100000));
    access.entry->claim_pid = getppid();        /* lives, and is not this worker */
    fiber_start(wait_in_crowd, &soon_ms, NULL); /* looks first, and gives up */
    for (int i = 0; i < 20; i++) {
        fiber_start(wait_in_crowd, &late_ms, NULL);
    }
    struct fiber_pool_stats fibers;
    turn_until((fiber_pool_stats(&fibers), fibers.in_use == 20));
    access.entry->claim = 0;
    turn_until(ready_count == 20);
    turn_until((fiber_pool_stats(&fibers), fibers.in_use == 0));
    access.is_mine = false;
    cache_close(&access);
}

/* As a claim of another worker, whose end nobody tells. */
static void the_claim_of_a_dead_worker_is_noticed(void **state)
{
    struct cache_access access;
    uint64_t timeout_ms = 100000;
    pid_t child = fork();

    if (child == 0) {
        _exit(0);
    }
    waitpid(child, NULL, 0);
    begin("");
    open_key(&access, "key");
    open_key(&waiting, "key");
    assert_true(cache_claim(&access, 100000));
    access.entry->claim_pid = child;
    assert_false(cache_claim(&waiting, 100000));
    has_waited = false;
    fiber_start(wait_for_it, &timeout_ms, NULL);
    turn_until(has_waited);
    assert_int_equal(waited, CACHE_LOCK_READY);
    assert_true(cache_claim(&waiting, 1000));
    cache_close(&waiting);
    cache_close(&access);
}

/* ---- variants ---- */

static void variant_of(const char *text, uint8_t *out)
{
    cache_variant(str_of(text), out);
}

/* As the caller does with Vary; gives what is found for these field values. */
static enum cache_found open_for(struct cache_access *access, const char *key, const char *values)
{
    uint8_t variant[CACHE_KEY_SIZE];
    enum cache_found found = open_key(access, key);

    variant_of(values, variant);
    if (found != CACHE_FRESH || memcmp(access->meta.variant, variant, sizeof(variant)) == 0) {
        return found;
    }
    return cache_open_variant(access, variant);
}

static void store_for(const char *key, const char *values, const char *body)
{
    struct cache_access access;
    struct cache_meta meta = meta_for(60);

    open_for(&access, key, values);
    meta.vary = STR("accept-encoding");
    variant_of(values, meta.variant);
    fill_with(&access, str_of(body), &meta);
    cache_close(&access);
}

static void assert_stored_for(const char *key, const char *values, const char *body)
{
    struct cache_access access;

    assert_int_equal(open_for(&access, key, values), CACHE_FRESH);
    assert_str(body_of(&access), str_of(body));
    cache_close(&access);
}

static void variants_lie_side_by_side(void **state)
{
    struct cache_access access;

    begin("");
    store_for("key", "gzip", "packed");
    store_for("key", "", "plain");
    assert_int_equal(count_files(), 2);
    for (int i = 0; i < 2; i++) {
        assert_stored_for("key", "gzip", "packed");
        assert_stored_for("key", "", "plain");
        assert_int_equal(open_for(&access, "key", "br"), CACHE_MISS);
        cache_close(&access);
        forget_kept();
    }
    assert_quiet();
}

/* A response that varies otherwise belongs to the key itself, and tells the new rule. */
static void another_vary_is_told_by_the_key(void **state)
{
    struct cache_access access;
    struct cache_meta meta = meta_for(60);

    begin("");
    store_for("key", "gzip", "packed");
    open_for(&access, "key", "br");
    meta.vary = STR("cookie");
    variant_of("cookies", meta.variant);
    fill_with(&access, STR("other"), &meta);
    cache_close(&access);
    assert_int_equal(open_key(&access, "key"), CACHE_FRESH);
    assert_text(access.meta.vary, "cookie");
    assert_text(body_of(&access), "other");
    cache_close(&access);
    assert_int_equal(count_files(), 1);
}

/* ---- files that are not right ---- */

static void damage(const char *key, off_t at)
{
    int fd = open(file_of(key), O_RDWR);
    char byte;

    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

static void a_damaged_file_is_missed_and_removed(void **state)
{
    const off_t places[] = {0, 8, 24, 60, (off_t) cache_file_front_size(STR("key")) + 1};

    begin("");
    for (size_t i = 0; i < COUNT(places); i++) {
        store("key", "body", 60);
        damage("key", places[i]);
        forget_kept();
        assert_int_equal(look("key"), CACHE_MISS);
        assert_int_equal(count_files(), 0);
    }
    store("key", "body", 60);
    assert_int_equal(truncate(file_of("key"), 20), 0);
    forget_kept();
    assert_int_equal(look("key"), CACHE_MISS);
    assert_true(was_logged("is too small"));
    store("key", "body", 60);
    assert_stored("key", "body");
}

static void a_file_of_another_key_is_a_collision(void **state)
{
    char from[CACHE_NAME_MAX];

    begin("");
    store("one key", "body", 60);
    store("another", "other", 60);
    snprintf(from, sizeof(from), "%s", file_of("another"));
    assert_int_equal(rename(from, file_of("one key")), 0);
    forget_kept();
    assert_int_equal(look("one key"), CACHE_MISS);
    assert_true(was_logged("has md5 collision"));
}

static void what_another_worker_stores_is_seen_at_once(void **state)
{
    begin("");
    store("key", "first", 60);
    assert_stored("key", "first");
    pid_t child = fork();
    if (child == 0) {
        store("key", "second", 60);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    assert_stored("key", "second");
}

static void a_full_disk_or_a_missing_directory_is_no_crash(void **state)
{
    struct cache_access access;
    struct cache_meta meta = meta_for(60);
    char path[sizeof(directory) + 8];

    begin("use_temp_path=off");
    snprintf(path, sizeof(path), "%s/one", directory);
    remove_tree(path);
    FILE *file = fopen(path, "w"); /* a file where the directory was */
    fclose(file);
    open_key(&access, "key");
    assert_true(cache_fill_begin(&access, NULL));
    assert_true(cache_fill_write(&access, STR("x")));
    assert_false(cache_fill_commit(&access, &meta));
    assert_null(access.fill);
    assert_true(was_logged("[crit]"));
    cache_close(&access);
    unlink(path);
    store("key", "body", 60); /* it is made again */
    assert_stored("key", "body");
}

/* The failure hides what has expired as long as it lasts, and storing or purging ends it. */
static void failures_are_remembered_beside_what_is_stored(void **state)
{
    struct cache_access access;

    begin("");
    for (unsigned status = 502; status <= 504; status += 2) {
        store("key", "body", -1);
        open_key(&access, "key");
        cache_fail(&access, status, clock_now.seconds);
        cache_close(&access);
        open_key(&access, "key");
        assert_int_equal(cache_open(&access), CACHE_FAILED);
        assert_int_equal(access.failed_status, status);
        assert_null(access.content);
        cache_close(&access);
        clock_now.seconds++; /* its second is over */
        assert_int_equal(open_key(&access, "key"), CACHE_EXPIRED);
        assert_text(body_of(&access), "body");
        cache_close(&access);
    }
    open_key(&access, "key");
    cache_fail(&access, 504, clock_now.seconds + 60);
    cache_close(&access);
    assert_int_equal(look("key"), CACHE_FAILED);
    store("key", "new", 60);
    assert_stored("key", "new");
    store("key", "old", -1);
    open_key(&access, "key");
    cache_fail(&access, 502, INT64_MAX);
    cache_close(&access);
    assert_int_equal(look("key"), CACHE_FAILED);
    cache_purge(cache, STR("key"), &memory_log);
    assert_int_equal(look("key"), CACHE_MISS);
}

/* A claim has an age: the one that comes after it may be done before the failure of the first is
 * known. */
static void a_late_failure_does_not_hide_what_is_fresh(void **state)
{
    struct cache_access first, second;

    begin("");
    open_key(&first, "key");
    assert_true(cache_claim(&first, 0));
    open_key(&second, "key");
    assert_true(cache_claim(&second, 5000));
    struct cache_meta meta = meta_for(60);
    fill_with(&second, STR("body"), &meta);
    cache_close(&second);
    cache_fail(&first, 504, clock_now.seconds + 60);
    cache_close(&first);
    forget_kept();
    assert_stored("key", "body");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cache_test(what_was_stored_is_found),
        cache_test(names_of_files_are_those_of_nginx),
        cache_test(a_hit_on_a_kept_response_reads_no_file),
        cache_test(what_is_hit_all_the_time_does_not_give_way),
        cache_test(a_large_body_goes_through_a_file),
        cache_test(an_empty_body_is_a_body),
        cache_test(what_is_aborted_leaves_nothing),
        cache_test(a_bypassed_lookup_still_stores),
        cache_test(a_response_is_fresh_until_its_second_is_over),
        cache_test(a_refresh_renews_the_times_alone),
        cache_test(a_refresh_of_what_was_replaced_fails),
        cache_test(texts_live_as_long_as_the_request),
        cache_test(few_uses_are_scarce),
        cache_test(failures_are_remembered_beside_what_is_stored),
        cache_test(a_late_failure_does_not_hide_what_is_fresh),
        cache_test(a_claim_is_had_by_one),
        cache_test(a_commit_wakes_who_waits),
        cache_test(waiting_ends_in_time),
        cache_test(a_crowd_is_told_by_the_one_that_looks),
        cache_test(the_claim_of_a_dead_worker_is_noticed),
        cache_test(variants_lie_side_by_side),
        cache_test(another_vary_is_told_by_the_key),
        cache_test(a_damaged_file_is_missed_and_removed),
        cache_test(a_file_of_another_key_is_a_collision),
        cache_test(what_another_worker_stores_is_seen_at_once),
        cache_test(a_full_disk_or_a_missing_directory_is_no_crash),
    };

    return cache_tests_run("cache access", tests);
}
