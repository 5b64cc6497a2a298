/* CPU masks, and which CPU a worker gets. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "server/process/affinity.h"

static struct arena arena;

static cpu_set_t cpus(const char *mask)
{
    cpu_set_t set;
    char bad;

    assert_true(affinity_parse(str_of(mask), &set, &bad));
    return set;
}

static void the_last_digit_is_cpu_0(void **state)
{
    cpu_set_t set = cpus("0110");

    assert_int_equal(CPU_COUNT(&set), 2);
    assert_true(CPU_ISSET(1, &set) && CPU_ISSET(2, &set));
    assert_int_equal(CPU_COUNT(&(cpu_set_t){0}), 0);
}

static void bad_masks(void **state)
{
    static char wide[CPU_SETSIZE + 2];
    cpu_set_t set;
    char bad;

    assert_false(affinity_parse(STR("012"), &set, &bad));
    assert_int_equal(bad, '2');
    memset(wide, '1', sizeof(wide) - 1);
    assert_false(affinity_parse(str_of(wide), &set, &bad));
    assert_int_equal(bad, '\0');
    memset(wide, '0', sizeof(wide) - 1);
    assert_true(affinity_parse(str_of(wide), &set, &bad));
    assert_int_equal(CPU_COUNT(&set), 0);
}

static void auto_counts_the_allowed_cpus(void **state)
{
    struct core_settings core = {.affinity_mode = AFFINITY_AUTO};
    cpu_set_t allowed = cpus("101100");
    cpu_set_t got;
    const int wanted[] = {2, 3, 5, 2, 3};

    for (unsigned n = 0; n < 5; n++) {
        assert_true(affinity_choose(&core, n, &allowed, &got));
        assert_int_equal(CPU_COUNT(&got), 1);
        assert_true(CPU_ISSET(wanted[n], &got));
    }
    *vec_add(&core.affinity, &arena, cpu_set_t) = cpus("100100");
    assert_true(affinity_choose(&core, 1, &allowed, &got));
    assert_true(CPU_COUNT(&got) == 1 && CPU_ISSET(5, &got));
}

static void masks_the_last_of_which_repeats(void **state)
{
    struct core_settings core = {.affinity_mode = AFFINITY_MASKS};
    cpu_set_t allowed = cpus("11");
    cpu_set_t got;

    *vec_add(&core.affinity, &arena, cpu_set_t) = cpus("01");
    *vec_add(&core.affinity, &arena, cpu_set_t) = cpus("110");
    assert_true(affinity_choose(&core, 0, &allowed, &got));
    assert_true(CPU_COUNT(&got) == 1 && CPU_ISSET(0, &got));
    assert_true(affinity_choose(&core, 7, &allowed, &got));
    assert_true(CPU_COUNT(&got) == 2 && CPU_ISSET(2, &got));
}

static void off_chooses_nothing(void **state)
{
    struct core_settings core = {.affinity_mode = AFFINITY_OFF};
    cpu_set_t allowed = cpus("1");
    cpu_set_t got;

    assert_false(affinity_choose(&core, 0, &allowed, &got));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_digit_is_cpu_0),
        cmocka_unit_test(bad_masks),
        cmocka_unit_test(auto_counts_the_allowed_cpus),
        cmocka_unit_test(masks_the_last_of_which_repeats),
        cmocka_unit_test(off_chooses_nothing),
    };

    arena_init(&arena);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_free(&arena);
    return failed;
}
