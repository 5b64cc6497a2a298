/* Tests of shared dictionaries without Lua: values, lists, eviction, and processes that die inside.
 */
#include "base/unit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "lua/dict/table.h"

static struct zone zone;
static struct script_dict dict;

static void make(size_t size)
{
    zone = (struct zone){.name = STR("dogs"), .size = dict_zone_size(size)};
    zone.memory = shm_map(zone.size);
    assert_non_null(zone.memory);
    zone.slab = slab_init(zone.memory, zone.size);
    assert_non_null(zone.slab);
    dict = (struct script_dict){.name = zone.name, .size = size, .zone = &zone};
    dict.table = dict_table_of(&zone, size);
    assert_non_null(dict.table);
}

static void drop(void)
{
    shm_unmap(zone.memory, zone.size);
}

static char room[4096]; /* for strings that are read */

static int set_text(const char *key, const char *text, double seconds)
{
    struct script_dict_value value = {.type = DICT_STRING,
                                      .data = text,
                                      .len = strlen(text),
                                      .seconds = seconds};

    return script_ffi_dict_set(&dict, key, strlen(key), DICT_SET, &value);
}

static void expect_text(const char *key, const char *text)
{
    struct script_dict_value out = {.room = room, .room_size = sizeof(room)};

    assert_int_equal(script_ffi_dict_get(&dict, key, strlen(key), 0, &out), DICT_STRING);
    assert_true(out.len == strlen(text));
    assert_memory_equal(room, text, strlen(text));
}

static bool has(const char *key)
{
    struct script_dict_value out = {.room = room, .room_size = sizeof(room)};

    return script_ffi_dict_get(&dict, key, strlen(key), 0, &out) != DICT_NONE;
}

static void a_zone_has_as_many_pages_as_in_nginx(void **state)
{
    static const struct {
        size_t size, free;
    } cases[] = {{1 << 20, 1032192}, {100 << 10, 90112}, {20 << 10, 8192}, {25 << 10, 12288}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        make(cases[i].size);
        assert_true(script_ffi_dict_free_space(&dict) == (double) cases[i].free);
        assert_true(script_ffi_dict_capacity(&dict) == (double) cases[i].size);
        drop();
    }
}

static void values_are_set_in_their_place_or_anew(void **state)
{
    make(100 << 10);
    assert_int_equal(set_text("key", "short", 0), DICT_OK);
    assert_int_equal(set_text("key", "other", 0), DICT_OK);
    expect_text("key", "other");
    assert_int_equal(set_text("key",
                              "one that needs a piece of memory of another size than before it had",
                              0),
                     DICT_OK);
    expect_text("key", "one that needs a piece of memory of another size than before it had");
    assert_int_equal(set_text("key", "", 0), DICT_OK);
    expect_text("key", "");
    drop();
}

static void time_runs_out(void **state)
{
    struct script_dict_value out = {.room = room, .room_size = sizeof(room)};

    make(100 << 10);
    clock_now.now_ms = 1000000;
    set_text("a", "1", 5);
    set_text("b", "2", 0);
    assert_int_equal(script_ffi_dict_ttl(&dict, "a", 1, &out), DICT_OK);
    assert_true(out.seconds == 5);
    clock_now.now_ms += 5000;
    assert_false(has("a"));
    assert_true(has("b"));
    assert_int_equal(script_ffi_dict_get(&dict, "a", 1, 1, &out), DICT_STRING);
    assert_true(out.is_stale);
    assert_true(script_ffi_dict_flush_expired(&dict, 0) == 1);
    assert_int_equal(script_ffi_dict_get(&dict, "a", 1, 1, &out), DICT_NONE);
    drop();
}

static void who_was_not_used_for_longest_goes_first(void **state)
{
    struct script_dict_value value = {.type = DICT_STRING, .data = "value", .len = 5};
    char key[32];
    int count = 0;

    make(32 << 10);
    do {
        value.is_forcible = false;
        int len = snprintf(key, sizeof(key), "key %d", count++);
        if (count == 10) {
            assert_true(has("key 0")); /* used again */
        }
        assert_int_equal(script_ffi_dict_set(&dict, key, (size_t) len, DICT_SET, &value), DICT_OK);
    } while (!value.is_forcible);
    assert_true(has("key 0"));
    assert_false(has("key 1"));
    assert_true(has("key 2"));

    value.type = DICT_STRING;
    assert_int_equal(script_ffi_dict_set(&dict, "new", 3, DICT_SAFE_SET, &value), DICT_NO_MEMORY);
    drop();
}

static void lists_have_two_ends(void **state)
{
    struct script_dict_value value = {.type = DICT_NUMBER, .room = room, .room_size = sizeof(room)};

    make(100 << 10);
    for (int i = 1; i <= 4; i++) {
        value.type = DICT_NUMBER;
        value.number = i;
        assert_int_equal(script_ffi_dict_push(&dict, "list", 4, i % 2, &value), DICT_OK);
        assert_true(value.number == i);
    }
    static const double order[] = {3, 1, 2, 4}; /* from the left */
    for (int i = 0; i < 4; i++) {
        assert_int_equal(script_ffi_dict_pop(&dict, "list", 4, true, &value), DICT_OK);
        assert_true(value.number == order[i]);
    }
    assert_int_equal(script_ffi_dict_pop(&dict, "list", 4, true, &value), DICT_NOT_FOUND);
    assert_false(has("list"));
    set_text("text", "no list", 0);
    value.type = DICT_NUMBER;
    assert_int_equal(script_ffi_dict_push(&dict, "text", 4, true, &value), DICT_NOT_LIST);
    drop();
}

/* ---- kill -9 ---- */

static unsigned next_random(unsigned *seed)
{
    *seed = *seed * 1103515245 + 12345;
    return *seed >> 16;
}

/* Anything that a script may do, with keys that say what their values are. */
static void do_something(unsigned *seed)
{
    char key[32], text[600];
    unsigned number = next_random(seed) % 200, len = next_random(seed) % sizeof(text);
    size_t key_len = (size_t) snprintf(key, sizeof(key), "%c%u", "slc"[number % 3], number);
    struct script_dict_value value = {.type = DICT_STRING,
                                      .data = text,
                                      .len = len,
                                      .room = room,
                                      .room_size = sizeof(room),
                                      .number = 1};

    memset(text, 'a' + (int) (number % 26), sizeof(text));
    switch (key[0]) {
    case 's':
        script_ffi_dict_set(&dict, key, key_len, (int) (next_random(seed) % 5), &value);
        break;
    case 'l':
        if (next_random(seed) % 3 != 0) {
            script_ffi_dict_push(&dict, key, key_len, len % 2, &value);
        } else {
            script_ffi_dict_pop(&dict, key, key_len, len % 2, &value);
        }
        break;
    default:
        script_ffi_dict_incr(&dict, key, key_len, true, &value);
    }
    if (next_random(seed) % 16 == 0) {
        value.type = DICT_NONE;
        script_ffi_dict_set(&dict, key, key_len, DICT_SET, &value);
    }
}

/* Every entry is what its key says, in one order of use. Gives their number. */
static unsigned check_all(void)
{
    struct dict_table *table = dict.table;
    unsigned in_chains = 0, in_order = 0;

    dict_lock(table);
    for (uint32_t i = 0; i <= table->mask; i++) {
        for (dict_ref ref = table->heads[i]; ref != 0; ref = dict_item_at(table, ref)->next) {
            in_chains++;
        }
    }
    for (dict_ref ref = table->oldest; ref != 0; ref = dict_item_at(table, ref)->newer) {
        struct dict_item *item = dict_item_at(table, ref);
        unsigned number = (unsigned) strtoul(item->data + 1, NULL, 10);

        in_order++;
        assert_int_equal(item->type, item->data[0] == 's'   ? DICT_STRING
                                     : item->data[0] == 'l' ? DICT_LIST
                                                            : DICT_NUMBER);
        for (size_t at = 0; item->type == DICT_STRING && at < item->value_len; at++) {
            assert_int_equal(dict_value_of(item)[at], 'a' + (int) (number % 26));
        }
    }
    dict_unlock(table);
    assert_int_equal(in_chains, in_order);
    return in_order;
}

static void it_survives_processes_that_are_killed(void **state)
{
    enum { ROUNDS = 150, CHILDREN = 2 };

    make(64 << 10);
    double before = script_ffi_dict_free_space(&dict);
    for (unsigned round = 0; round < ROUNDS; round++) {
        pid_t children[CHILDREN];

        for (unsigned i = 0; i < CHILDREN; i++) {
            children[i] = fork();
            if (children[i] == 0) {
                unsigned seed = round * CHILDREN + i;
                for (;;) {
                    do_something(&seed);
                }
            }
        }
        usleep(1000);
        for (unsigned i = 0; i < CHILDREN; i++) {
            kill(children[i], SIGKILL);
            waitpid(children[i], NULL, 0);
        }
        unsigned seed = round;
        do_something(&seed);
        check_all();
    }
    script_ffi_dict_flush_all(&dict);
    script_ffi_dict_flush_expired(&dict, 0);
    assert_int_equal(check_all(), 0);
    assert_true(script_ffi_dict_free_space(&dict) == before);
    drop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_zone_has_as_many_pages_as_in_nginx),
        cmocka_unit_test(values_are_set_in_their_place_or_anew),
        cmocka_unit_test(time_runs_out),
        cmocka_unit_test(who_was_not_used_for_longest_goes_first),
        cmocka_unit_test(lists_have_two_ends),
        cmocka_unit_test(it_survives_processes_that_are_killed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
