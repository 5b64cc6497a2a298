/* Tests of what sysguard reads in /proc. */
#include "base/unit.h"

#include "http/modules/access/sysguard/system.h"

static void loads(void **state)
{
    uint64_t load = 7;

    assert_true(system_read_load(STR("1.25 0.50 0.10 1/234 5678\n"), &load));
    assert_int_equal(load, 1250);
    assert_true(system_read_load(STR("12.3"), &load));
    assert_int_equal(load, 12300);
    assert_false(system_read_load(STR(""), &load));
    assert_false(system_read_load(STR("x 1 2"), &load));
    assert_false(system_read_load(STR("   "), &load));
}

static void processors(void **state)
{
    struct cpu_time time;

    assert_true(system_read_cpu(STR("cpu  10 2 3 80 5 1 1 4 0 0\ncpu0 1 2 3 4\n"), &time));
    assert_int_equal(time.all, 106);
    assert_int_equal(time.busy, 21);
    assert_true(system_read_cpu(STR("cpu 1 2 3 4"), &time));
    assert_int_equal(time.all, 10);
    assert_int_equal(time.busy, 6);
    assert_false(system_read_cpu(STR("cpu 1 2 3"), &time));
    assert_false(system_read_cpu(STR("cpu0 1 2 3 4 5 6 7 8"), &time));
    assert_false(system_read_cpu(STR(""), &time));
}

static void memory(void **state)
{
    struct memory_state memory;

    assert_true(
        system_read_memory(STR("MemTotal: 9 kB\nMemFree:   1 kB\nBuffers: 2 kB\nCached: 4 kB\n"
                               "SwapCached: 8 kB\nSwapTotal:  100 kB\nSwapFree: 75 kB\n"),
                           &memory));
    assert_int_equal(memory.free_bytes, 7 << 10);
    assert_int_equal(memory.swap_total, 100 << 10);
    assert_int_equal(memory.swap_free, 75 << 10);
    assert_false(system_read_memory(STR("MemFree: 1 kB\nBuffers: 2 kB\n"), &memory));
    assert_false(system_read_memory(STR("MemFree: 99999999999999999999 kB\n"), &memory));
    assert_false(system_read_memory(STR(""), &memory));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loads),
        cmocka_unit_test(processors),
        cmocka_unit_test(memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
