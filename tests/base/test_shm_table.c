/* Tests of the table in shared memory: keys, order of use, memory, and users that die inside. */
#include "base/unit.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/shm_table.h"

enum { ZONE_SIZE = 1 << 20, LEAST = 8 * 4096, LARGE = 640 };

struct entry {
    struct shm_record record;
    uint64_t value;
};

static struct zone zone;
static struct shm_table *table;

static void make_zone_of(size_t size, size_t record_size)
{
    zone = (struct zone){.size = size, .memory = shm_map(size)};
    zone.slab = slab_init(zone.memory, size);
    table = shm_table_of(&zone, record_size, 24);
    assert_non_null(table);
}

static void make_zone(size_t size)
{
    make_zone_of(size, sizeof(struct entry));
}

static int set_up(void **state)
{
    make_zone(ZONE_SIZE);
    return 0;
}

static int tear_down(void **state)
{
    shm_unmap(zone.memory, zone.size);
    return 0;
}

static struct shm_key key_of(unsigned number)
{
    return shm_table_key(table, (struct str){(const char *) &number, sizeof(number)});
}

static struct entry *find(unsigned number)
{
    struct shm_key key = key_of(number);

    return shm_table_find(table, &key);
}

static struct entry *add(unsigned number)
{
    struct shm_key key = key_of(number);
    struct entry *entry = shm_table_add(table, &key);

    if (entry != NULL) {
        entry->value = number;
    }
    return entry;
}

static void keys_are_found(void **state)
{
    shm_table_lock(table);
    for (unsigned i = 0; i < 1000; i++) {
        assert_null(find(i));
        assert_non_null(add(i));
    }
    for (unsigned i = 0; i < 1000; i++) {
        assert_int_equal(find(i)->value, i);
        if (i % 3 == 0) {
            shm_table_drop(table, find(i));
        }
    }
    for (unsigned i = 0; i < 1000; i++) {
        assert_int_equal(find(i) == NULL, i % 3 == 0);
    }
    shm_table_unlock(table);
}

static void table_outlives_its_reading(void **state)
{
    *(uint64_t *) shm_table_head(table) = 7;
    add(1);
    assert_ptr_equal(shm_table_of(&zone, sizeof(struct entry), 24), table);
    assert_non_null(find(1));
    assert_int_equal(*(uint64_t *) shm_table_head(table), 7);
}

static void secrets_differ(void **state)
{
    struct shm_key first = key_of(1);

    assert_memory_not_equal(&first.words[0], &first.words[1], sizeof(first.words[0]));
    tear_down(state);
    make_zone(ZONE_SIZE);
    struct shm_key second = key_of(1);
    assert_memory_not_equal(&first, &second, sizeof(first));
}

static void order_of_use(void **state)
{
    assert_null(shm_table_oldest(table));
    for (unsigned i = 0; i < 4; i++) {
        add(i);
    }
    shm_table_touch(table, find(0));
    shm_table_touch(table, find(2));
    shm_table_touch(table, find(2));
    const unsigned order[] = {1, 3, 0, 2};
    for (size_t i = 0; i < COUNT(order); i++) {
        struct entry *oldest = shm_table_oldest(table);
        assert_int_equal(oldest->value, order[i]);
        shm_table_drop(table, oldest);
    }
    assert_null(shm_table_oldest(table));
}

/* Until the memory is used up, and as many again when all were given back. */
static void zone_can_be_filled(void **state)
{
    for (int round = 0; round < 2; round++) {
        unsigned count = 0;
        while (add(count) != NULL) {
            count++;
        }
        assert_in_range(count, ZONE_SIZE / 100 * 90 / sizeof(struct entry),
                        shm_table_capacity(table));
        assert_null(shm_table_take(table));
        for (unsigned i = 0; i < count; i++) {
            assert_int_equal(find(i)->value, i);
            shm_table_drop(table, find(i));
        }
    }
}

static void the_smallest_zone_is_of_use(void **state)
{
    tear_down(state);
    make_zone(LEAST);
    unsigned count = 0;
    while (add(count) != NULL) {
        count++;
    }
    assert_true(count >= 256);
}

/* Segments of them would be as large as the zone. */
static void large_records_fit_a_small_zone(void **state)
{
    tear_down(state);
    make_zone_of(LEAST, LARGE);
    unsigned count = 0;
    while (add(count) != NULL) {
        count++;
    }
    assert_true(count >= LEAST / LARGE / 4);
}

static void plain_records(void **state)
{
    struct entry *plain = shm_table_take(table);
    struct entry *keyed = add(1);

    assert_int_equal(plain->value, 0);
    assert_int_equal(shm_table_count(table), 2);
    assert_ptr_equal(shm_table_at(table, plain->record.number), plain);
    assert_ptr_equal(shm_table_oldest(table), keyed);
    plain->value = 5;
    shm_table_drop(table, plain);
    assert_int_equal(plain->record.kind, SHM_FREE);
    struct entry *again = shm_table_take(table);
    assert_ptr_equal(again, plain);
    assert_int_equal(again->value, 0);
    assert_int_equal(shm_table_count(table), 2);
}

static void add_and_drop_for_ever(_Atomic unsigned *turns)
{
    for (unsigned i = 0;; i++) {
        shm_table_lock(table);
        struct entry *found = find(1000 + i % 50);
        if (found != NULL) {
            shm_table_drop(table, found);
        } else {
            add(1000 + i % 50);
        }
        shm_table_touch(table, find(i % 10));
        shm_table_unlock(table);
        atomic_fetch_add(turns, 1);
    }
}

/* Each record is in one list, and all that were not given back are there. */
static void check_lists(void)
{
    unsigned in_order = 0, kinds[3] = {0};

    for (uint32_t i = 0; i < shm_table_count(table); i++) {
        kinds[((struct shm_record *) shm_table_at(table, i))->kind]++;
    }
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(find(i)->value, i);
    }
    while (shm_table_oldest(table) != NULL) {
        struct entry *oldest = shm_table_oldest(table);
        if (oldest->value < 10) {
            in_order |= 1U << oldest->value;
        }
        kinds[SHM_KEYED]--;
        shm_table_drop(table, oldest);
    }
    assert_int_equal(in_order, 0x3ff);
    assert_int_equal(kinds[SHM_KEYED], 0);
    assert_true(shm_table_count(table) < 100);
}

/* A child uses the table until it is killed, wherever it is: nothing of the others is lost. */
static void killed_user_leaves_a_usable_table(void **state)
{
    struct log silent = {.level = LOG_STDERR};
    struct log *former = log_main;
    _Atomic unsigned *turns = shm_map(4096);

    log_main = &silent;
    for (int round = 0; round < 60; round++) {
        for (unsigned i = 0; i < 10; i++) {
            add(i);
        }
        *turns = 0;
        pid_t child = fork();
        if (child == 0) {
            add_and_drop_for_ever(turns);
        }
        while (atomic_load(turns) < 20U + (unsigned) round) {
        }
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, NULL, 0), child);
        shm_table_lock(table);
        check_lists();
        shm_table_unlock(table);
    }
    shm_unmap(turns, 4096);
    log_main = former;
}

/* The lists are torn when the next process gets the lock, at the worst place. */
static void torn_lists_are_mended(void **state)
{
    struct log silent = {.level = LOG_STDERR};
    struct log *former = log_main;

    log_main = &silent;
    for (unsigned i = 0; i < 10; i++) {
        add(i);
    }
    pid_t child = fork();
    if (child == 0) {
        shm_table_lock(table);
        for (unsigned i = 0; i < 10; i++) {
            struct entry *entry = shm_table_at(table, i);
            entry->record.next = entry->record.newer = entry->record.older = 3;
        }
        ((struct entry *) shm_table_at(table, 4))->record.kind = SHM_FREE;
        _exit(0);
    }
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_true(shm_table_lock(table));
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(find(i) == NULL, i == 4);
    }
    assert_int_equal(add(4)->record.number, 4);
    shm_table_unlock(table);
    assert_false(shm_table_lock(table));
    shm_table_unlock(table);
    log_main = former;
}

#define test(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(keys_are_found),
        test(table_outlives_its_reading),
        test(secrets_differ),
        test(order_of_use),
        test(zone_can_be_filled),
        test(the_smallest_zone_is_of_use),
        test(large_records_fit_a_small_zone),
        test(plain_records),
        test(killed_user_leaves_a_usable_table),
        test(torn_lists_are_mended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
