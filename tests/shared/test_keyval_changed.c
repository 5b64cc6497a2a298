/* Tests of pairs that two processes of a node change: what one has written, and the other takes of
 * another node meanwhile. */
#include "base/unit.h"

#include "base/log.h"

/* In place of the store: another process has taken a pair just before the note. */
#define store_table_note note_after_another_process
#define store_table_flush flush_nothing
#include "shared/keyval/keyval.c"

enum { ZONE_SIZE = 16 * 4096 };

static struct zone memory;
static struct keyval_zone zone;
static struct arena arena;
static struct log silent = {.level = LOG_STDERR};
static struct store_item taken; /* an empty name: nothing */
static bool is_dropped;         /* and not taken */
static unsigned notes;

void note_after_another_process(struct store_table *table, struct str name)
{
    notes++;
    if (is_dropped) {
        keyval_item_drop(&zone, name);
    } else if (taken.name.len != 0) {
        keyval_item_put(&zone, &taken);
    }
}

void flush_nothing(struct store_table *table, const struct vec *names)
{
}

static int set_up(void **state)
{
    arena_init(&arena);
    log_main = &silent;
    memory = (struct zone){.size = ZONE_SIZE, .memory = shm_map(ZONE_SIZE)};
    memory.slab = slab_init(memory.memory, ZONE_SIZE);
    zone = (struct keyval_zone){.zone = &memory,
                                .store = keyval_store_of(&memory, KEYVAL_STRING),
                                .table = (struct store_table *) &memory};
    taken = (struct store_item){.name = STR_NONE};
    is_dropped = false;
    notes = 0;
    return zone.store == NULL;
}

static int tear_down(void **state)
{
    arena_free(&arena);
    shm_unmap(memory.memory, ZONE_SIZE);
    return 0;
}

static void change(struct keyval_change change)
{
    const struct vec changes = {.items = &change, .count = 1};

    make_or_change(zone.store, &changes);
    keyval_changed(&zone, &changes);
    assert_int_equal(notes, 1);
}

static struct str value_of(const char *key)
{
    struct keyval_pair pair;

    return keyval_get(zone.store, str_of(key), &arena, &pair) ? pair.value : STR_NONE;
}

static void a_pair_that_is_written_stays(void **state)
{
    taken = (struct store_item){.name = STR("k"), .value = STR("older")};
    change((struct keyval_change){.pair = {STR("k"), STR("new"), KEYVAL_NEVER}});
    assert_text(value_of("k"), "new");
}

static void a_pair_that_is_written_is_not_dropped(void **state)
{
    is_dropped = true;
    change((struct keyval_change){.pair = {STR("k"), STR("new"), KEYVAL_NEVER}});
    assert_text(value_of("k"), "new");
}

static void a_pair_that_is_removed_stays_away(void **state)
{
    taken = (struct store_item){.name = STR("k"), .value = STR("older")};
    change((struct keyval_change){.pair = {STR("k"), STR_NONE, 0}, .is_deleted = true});
    assert_text(value_of("k"), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_pair_that_is_written_stays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_pair_that_is_written_is_not_dropped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_pair_that_is_removed_stays_away, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
