/* Tests of explanations in shared memory: found by id, overwritten from the oldest on, users that
 * die inside. */
#include "base/unit.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "shared/explain/explanations.h"

enum { ZONE_SIZE = EXPLANATIONS_LEAST, LARGE = 100000 };

static struct zone zone;
static struct explanations *kept;
static struct arena arena;

static int set_up(void **state)
{
    zone = (struct zone){.size = ZONE_SIZE, .memory = shm_map(ZONE_SIZE)};
    zone.slab = slab_init(zone.memory, ZONE_SIZE);
    kept = explanations_of(&zone);
    arena_init(&arena);
    assert_non_null(kept);
    return 0;
}

static int tear_down(void **state)
{
    arena_free(&arena);
    shm_unmap(zone.memory, zone.size);
    return 0;
}

static struct str new_id(void)
{
    char *id = arena_text(&arena, EXPLANATION_ID_SIZE);

    explanation_id_make(id);
    return (struct str){id, EXPLANATION_ID_SIZE};
}

static struct str filled(char byte, size_t length)
{
    return (struct str){memset(arena_text(&arena, length), byte, length), length};
}

static void assert_kept(struct str id, struct str text)
{
    struct str found;

    assert_true(explanation_find_in(kept, id, &arena, &found));
    assert_true(str_equal(found, text));
}

static void assert_gone(struct str id)
{
    struct str found;

    assert_false(explanation_find_in(kept, id, &arena, &found));
}

static void test_a_text_is_found_by_its_id_alone(void **state)
{
    struct str first = new_id(), second = new_id();

    assert_true(explanation_keep(kept, first, STR("{1}")));
    assert_true(explanation_keep(kept, second, STR("{2}")));
    assert_kept(first, STR("{1}"));
    assert_kept(second, STR("{2}"));
    assert_gone(new_id());
    assert_gone(STR(""));
    assert_gone(str_head(first, EXPLANATION_ID_SIZE - 1));
    assert_gone(STR("................................"));
    assert_gone(STR("00000000000000000000000000000000"));
    explanation_drop_in(kept, STR("x"));
    explanation_drop_in(kept, first);
    assert_gone(first);
    assert_kept(second, STR("{2}"));
}

static void test_the_oldest_make_room(void **state)
{
    struct str ids[8], texts[8];

    for (unsigned i = 0; i < 8; i++) {
        ids[i] = new_id();
        texts[i] = filled((char) ('a' + i), LARGE + i);
        assert_true(explanation_keep(kept, ids[i], texts[i]));
        assert_kept(ids[i], texts[i]);
        if (i != 0) {
            assert_kept(ids[i - 1], texts[i - 1]);
        }
        if (i > 1) {
            assert_gone(ids[i - 2]); /* of three large ones two fit */
        }
    }
}

static void test_only_so_many_are_kept(void **state)
{
    struct str first = new_id(), second = new_id();

    assert_true(explanation_keep(kept, first, STR("{}")));
    assert_true(explanation_keep(kept, second, STR("{}")));
    for (unsigned i = 0; i < EXPLANATIONS_MOST - 1; i++) {
        assert_true(explanation_keep(kept, new_id(), STR("{}")));
    }
    assert_gone(first);
    assert_kept(second, STR("{}"));
}

static void test_a_text_that_is_too_long_changes_nothing(void **state)
{
    struct str id = new_id(), longest = filled('a', EXPLANATION_MOST);

    assert_true(explanation_keep(kept, id, longest));
    assert_false(explanation_keep(kept, new_id(), filled('b', EXPLANATION_MOST + 1)));
    assert_kept(id, longest);
}

static void test_the_memory_of_a_former_reading_is_taken_over(void **state)
{
    struct str id = new_id();

    assert_true(explanation_keep(kept, id, STR("{}")));
    assert_ptr_equal(explanations_of(&zone), kept);
    assert_kept(id, STR("{}"));
}

static void test_a_process_that_died_inside_leaves_nothing_broken(void **state)
{
    struct str id = new_id(), later = new_id();

    assert_true(explanation_keep(kept, id, STR("{}")));
    pid_t child = fork();
    if (child == 0) {
        shm_lock_take((struct shm_lock *) kept); /* it is first */
        _exit(0);
    }
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_gone(id);
    assert_true(explanation_keep(kept, later, STR("{}")));
    assert_kept(later, STR("{}"));
}

static void test_a_zone_without_room(void **state)
{
    enum { SMALL = 64 << 10 };
    struct zone small = {.size = SMALL, .memory = shm_map(SMALL)};

    small.slab = slab_init(small.memory, SMALL);
    assert_null(explanations_of(&small));
    shm_unmap(small.memory, SMALL);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_text_is_found_by_its_id_alone),
        TEST(test_the_oldest_make_room),
        TEST(test_only_so_many_are_kept),
        TEST(test_a_text_that_is_too_long_changes_nothing),
        TEST(test_the_memory_of_a_former_reading_is_taken_over),
        TEST(test_a_process_that_died_inside_leaves_nothing_broken),
        TEST(test_a_zone_without_room),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
