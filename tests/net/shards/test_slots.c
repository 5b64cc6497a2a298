/* What processes share about slots: who has many more connections than the mean, and who has room.
 */
#include "net/service.h"

#include "net/shards/slots.h"

static uint64_t loads[4];

static int four_workers(void **state)
{
    assert_true(shard_slots_init());
    for (unsigned slot = 0; slot < 4; slot++) {
        loads[slot] = 0;
        shard_slot_begin(slot, &(struct accept_options){.load = &loads[slot]});
    }
    return 0;
}

static void who_is_ahead_has_many_more_than_the_mean(void **state)
{
    assert_false(shard_slot_is_ahead(0, 4));
    loads[0] = 64; /* mean 16 */
    assert_false(shard_slot_is_ahead(0, 4));
    loads[0] = 100; /* mean 25 */
    assert_true(shard_slot_is_ahead(0, 4));
    assert_false(shard_slot_is_ahead(1, 4));
    for (unsigned slot = 0; slot < 4; slot++) {
        loads[slot] = 10000;
    }
    loads[2] = 12000; /* mean 10500 */
    assert_false(shard_slot_is_ahead(2, 4));
    loads[2] = 16000; /* mean 11500 */
    assert_true(shard_slot_is_ahead(2, 4));
    loads[3] = 0; /* a fresh worker: mean 9000 */
    assert_false(shard_slot_is_ahead(0, 4));
    assert_true(shard_slot_is_ahead(2, 4));
}

static void a_slot_without_a_worker_counts_as_empty(void **state)
{
    shard_slot_begin(3, &(struct accept_options){0});
    loads[0] = loads[1] = loads[2] = 1100; /* mean 825 */
    assert_true(shard_slot_is_ahead(0, 4));
}

static void room_is_looked_for_at_the_others(void **state)
{
    assert_true(shard_slot_sibling_has_room(1, 2));
    shard_slot(0)->is_full = 1;
    assert_false(shard_slot_sibling_has_room(1, 2));
    assert_true(shard_slot_sibling_has_room(0, 2));
    assert_true(shard_slot_sibling_has_room(1, 3));
    shard_slot_begin(0, &(struct accept_options){0}); /* its next worker has room */
    assert_true(shard_slot_sibling_has_room(1, 2));
    assert_false(shard_slot_sibling_has_room(0, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(who_is_ahead_has_many_more_than_the_mean, four_workers),
        cmocka_unit_test_setup(a_slot_without_a_worker_counts_as_empty, four_workers),
        cmocka_unit_test_setup(room_is_looked_for_at_the_others, four_workers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
