/* Tests of hash maps. */
#include "base/unit.h"

#include "base/map.h"

static void empty_map_has_nothing(void **state)
{
    struct map map = {0};
    size_t count = 0;

    assert_null(map_get(&map, STR("a")));
    assert_null(map_get(&map, STR_NONE));
    map_each(slot, &map) {
        count += slot->key.len + 1;
    }
    assert_int_equal(count, 0);
}

static void put_replaces_and_gives_the_former(void **state)
{
    struct arena arena;
    struct map map = {0};
    int one, two;

    arena_init(&arena);
    assert_null(map_put(&map, &arena, STR("key"), &one));
    assert_ptr_equal(map_put(&map, &arena, STR("key"), &two), &one);
    assert_ptr_equal(map_get(&map, STR("key")), &two);
    assert_int_equal(map.count, 1);
    assert_null(map_get(&map, STR("KEY")));
    assert_null(map_get(&map, STR("key\0")));
    arena_free(&arena);
}

static void empty_key_is_a_key(void **state)
{
    struct arena arena;
    struct map map = {0};
    int value;

    arena_init(&arena);
    assert_null(map_put(&map, &arena, STR_NONE, &value));
    assert_ptr_equal(map_get(&map, STR("")), &value);
    assert_ptr_equal(map_get(&map, STR_NONE), &value);
    assert_ptr_equal(map_put(&map, &arena, STR(""), &value), &value);
    assert_int_equal(map.count, 1);
    arena_free(&arena);
}

static void case_is_ignored_where_asked(void **state)
{
    struct arena arena;
    struct map map = {0};
    int value;

    arena_init(&arena);
    assert_null(map_put_nocase(&map, &arena, STR("Content-Type"), &value));
    assert_ptr_equal(map_put_nocase(&map, &arena, STR("CONTENT-type"), &value), &value);
    assert_ptr_equal(map_get_nocase(&map, STR("content-TYPE")), &value);
    assert_ptr_equal(map_get_hashed(&map, STR("content-TYPE"), str_hash_nocase(STR("content-type")),
                                    true),
                     &value);
    arena_free(&arena);
}

static void many_keys_survive_growth(void **state)
{
    enum { MANY = 20000 };
    static int values[MANY];
    struct arena arena;
    struct map map = {0};
    size_t seen = 0;

    arena_init(&arena);
    for (int i = 0; i < MANY; i++) {
        assert_null(map_put(&map, &arena, arena_printf(&arena, "key%d", i), &values[i]));
    }
    assert_int_equal(map.count, MANY);
    assert_true(map.count * 4 <= map.capacity * 3);
    for (int i = 0; i < MANY; i++) {
        assert_ptr_equal(map_get(&map, arena_printf(&arena, "key%d", i)), &values[i]);
        assert_null(map_get(&map, arena_printf(&arena, "kez%d", i)));
    }
    map_each(slot, &map) {
        assert_non_null(slot->value);
        seen++;
    }
    assert_int_equal(seen, MANY);
    arena_free(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_map_has_nothing),
        cmocka_unit_test(put_replaces_and_gives_the_former),
        cmocka_unit_test(empty_key_is_a_key),
        cmocka_unit_test(case_is_ignored_where_asked),
        cmocka_unit_test(many_keys_survive_growth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
