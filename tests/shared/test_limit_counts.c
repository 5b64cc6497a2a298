/* Tests of the counts of limit_conn: shares, holders, full zones, and processes that die. */
#include "base/unit.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "shared/limit/counts.h"

enum { ZONE_SIZE = 16 * 4096, SHARES_MOST = 4000 };

static struct zone zone;
static struct shm_table *table;
static struct count_share shares[SHARES_MOST];
static struct log silent = {.level = LOG_STDERR};

static int set_up(void **state)
{
    zone = (struct zone){.size = ZONE_SIZE, .memory = shm_map(ZONE_SIZE)};
    zone.slab = slab_init(zone.memory, ZONE_SIZE);
    table = shm_table_of(&zone, COUNT_RECORD_SIZE, sizeof(struct count_head));
    memset(shares, 0, sizeof(shares));
    log_main = &silent;
    return table == NULL;
}

static int tear_down(void **state)
{
    shm_unmap(zone.memory, ZONE_SIZE);
    return 0;
}

static enum count_result take(unsigned number, uint32_t most, unsigned holder,
                              struct count_share *share)
{
    struct shm_key key = shm_table_key(table, (struct str){(const char *) &number, sizeof(number)});

    return count_take(table, &key, most, holder, share);
}

static unsigned taken_records(void)
{
    unsigned taken = 0;

    for (uint32_t i = 0; i < shm_table_count(table); i++) {
        taken += ((struct shm_record *) shm_table_at(table, i))->kind != SHM_FREE;
    }
    return taken;
}

/* How many more of the key may be taken while `most` may be: asked by taking them. */
static unsigned room_of(unsigned number, uint32_t most)
{
    struct count_share taken[16] = {{0}};
    unsigned room = 0;

    while (room < COUNT(taken) &&
           take(number, most, COUNT_NO_HOLDER, &taken[room]) == COUNT_TAKEN) {
        room++;
    }
    for (unsigned i = 0; i < room; i++) {
        count_release(&taken[i]);
    }
    return room;
}

static void shares_are_counted(void **state)
{
    unsigned me = count_join(table);

    assert_int_equal(take(1, 2, me, &shares[0]), COUNT_TAKEN);
    assert_int_equal(take(1, 2, me, &shares[1]), COUNT_TAKEN);
    assert_int_equal(take(1, 2, me, &shares[2]), COUNT_MOST);
    assert_int_equal(take(2, 1, me, &shares[3]), COUNT_TAKEN);
    assert_int_equal(take(1, 3, me, &shares[2]), COUNT_TAKEN);
    count_release(&shares[0]);
    count_release(&shares[0]);
    assert_int_equal(take(1, 2, me, &shares[0]), COUNT_MOST);
    count_release(&shares[2]);
    assert_int_equal(take(1, 2, me, &shares[0]), COUNT_TAKEN);
    for (unsigned i = 0; i < 4; i++) {
        count_release(&shares[i]);
    }
    assert_int_equal(taken_records(), 0);
    count_leave(table, me);
}

static void any_order_of_release_leaves_nothing(void **state)
{
    unsigned holders[] = {count_join(table), count_join(table), COUNT_NO_HOLDER};
    unsigned seed = 7;

    for (unsigned turn = 0; turn < 20000; turn++) {
        unsigned number = seed % 300;
        seed = seed * 1103515245 + 12345;
        if (shares[number].table != NULL) {
            count_release(&shares[number]);
        } else {
            assert_int_equal(take(number % 5, 1000, holders[seed % 3], &shares[number]),
                             COUNT_TAKEN);
        }
    }
    for (unsigned i = 0; i < 300; i++) {
        count_release(&shares[i]);
    }
    assert_int_equal(taken_records(), 0);
    count_leave(table, holders[0]);
    count_leave(table, holders[1]);
    assert_int_equal(count_join(table), holders[0]);
}

static void full_zone_says_so(void **state)
{
    unsigned me = count_join(table), count = 0;
    enum count_result result;

    while ((result = take(count, 1, me, &shares[count])) == COUNT_TAKEN) {
        count++;
    }
    assert_int_equal(result, COUNT_FULL);
    assert_true(count >= ZONE_SIZE / 100);
    /* A key that is there already needs no room. */
    assert_int_equal(take(0, 3, me, &shares[count]), COUNT_TAKEN);
    assert_int_equal(take(0, 3, me, &shares[count + 1]), COUNT_TAKEN);
    assert_int_equal(take(0, 3, me, &shares[count + 2]), COUNT_MOST);
    count_release(&shares[1]);
    assert_int_equal(take(count, 1, me, &shares[1]), COUNT_TAKEN);
    for (unsigned i = 0; i < count + 2; i++) {
        count_release(&shares[i]);
    }
    assert_int_equal(taken_records(), 0);
}

/* One key with more requests than there are records to name holders in. */
static void one_busy_key_leaves_room_for_others(void **state)
{
    unsigned me = count_join(table);

    for (unsigned i = 0; i < SHARES_MOST - 1; i++) {
        assert_int_equal(take(1, SHARES_MOST - 1, me, &shares[i]), COUNT_TAKEN);
    }
    assert_int_equal(take(1, SHARES_MOST - 1, me, &shares[SHARES_MOST - 1]), COUNT_MOST);
    assert_true(taken_records() <= shm_table_capacity(table) / 4 + 1);
    assert_int_equal(take(2, 1, me, &shares[SHARES_MOST - 1]), COUNT_TAKEN);
    for (unsigned i = 0; i < SHARES_MOST; i++) {
        count_release(&shares[i]);
    }
    assert_int_equal(taken_records(), 0);
}

/* What the child holds when it ends; it says nothing to the table. */
static void hold_in_child(unsigned of_one, unsigned of_two)
{
    pid_t child = fork();

    if (child == 0) {
        unsigned me = count_join(table);
        for (unsigned i = 0; i < of_one; i++) {
            take(1, 100, me, &shares[10 + i]);
        }
        for (unsigned i = 0; i < of_two; i++) {
            take(2, 100, me, &shares[20 + i]);
        }
        _exit(0);
    }
    assert_int_equal(waitpid(child, NULL, 0), child);
}

static void what_the_dead_held_is_given_back(void **state)
{
    unsigned me = count_join(table);

    take(1, 10, me, &shares[0]);
    hold_in_child(3, 2);
    assert_int_equal(room_of(1, 10), 6);
    assert_int_equal(room_of(2, 10), 8);
    unsigned successor = count_join(table);
    assert_int_not_equal(successor, me);
    assert_int_equal(room_of(1, 10), 9);
    assert_int_equal(room_of(2, 10), 10);
    count_release(&shares[0]);
    assert_int_equal(taken_records(), 0);
}

/* The first of a key dies, others of it live on. */
static void the_living_keep_what_they_hold(void **state)
{
    hold_in_child(1, 0);
    unsigned me = count_join(table);
    take(1, 10, me, &shares[0]);
    hold_in_child(2, 0);
    take(1, 10, COUNT_NO_HOLDER, &shares[1]);
    take(1, 10, me, &shares[2]);
    count_join(table);
    assert_int_equal(room_of(1, 10), 7);
    for (unsigned i = 0; i < 3; i++) {
        count_release(&shares[i]);
    }
    assert_int_equal(taken_records(), 0);
}

static void take_and_release_for_ever(_Atomic unsigned *turns)
{
    unsigned me = count_join(table);
    struct count_share mine[8] = {{0}};

    for (unsigned i = 0;; i++) {
        struct count_share *share = &mine[i * 5 % 8];
        if (share->table != NULL) {
            count_release(share);
        } else {
            take(i % 3, 100, me, share);
        }
        atomic_fetch_add(turns, 1);
    }
}

/* Wherever it is killed, its successor gives all of it back, and nothing of ours. */
static void killed_holder(void **state)
{
    unsigned me = count_join(table);
    _Atomic unsigned *turns = shm_map(4096);

    for (unsigned i = 0; i < 6; i++) {
        take(i % 3, 100, i < 3 ? me : COUNT_NO_HOLDER, &shares[i]);
    }
    for (unsigned round = 0; round < 60; round++) {
        *turns = 0;
        pid_t child = fork();
        if (child == 0) {
            take_and_release_for_ever(turns);
        }
        while (atomic_load(turns) < 20 + round) {
        }
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, NULL, 0), child);
        count_leave(table, count_join(table));
        for (unsigned number = 0; number < 3; number++) {
            assert_int_equal(room_of(number, 10), 8);
        }
        assert_int_equal(taken_records(), 3);
    }
    for (unsigned i = 0; i < 6; i++) {
        count_release(&shares[i]);
    }
    assert_int_equal(taken_records(), 0);
    shm_unmap(turns, 4096);
}

static void more_processes_than_holders(void **state)
{
    for (unsigned i = 0; i < COUNT_HOLDERS; i++) {
        assert_int_equal(count_join(table), i);
    }
    assert_int_equal(count_join(table), COUNT_NO_HOLDER);
    count_leave(table, COUNT_NO_HOLDER);
    count_leave(table, 5);
    assert_int_equal(count_join(table), 5);
}

#define test(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(shares_are_counted),
        test(any_order_of_release_leaves_nothing),
        test(full_zone_says_so),
        test(one_busy_key_leaves_room_for_others),
        test(what_the_dead_held_is_given_back),
        test(the_living_keep_what_they_hold),
        test(killed_holder),
        test(more_processes_than_holders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
