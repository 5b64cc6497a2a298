/* Counters of all processes: what stays when one ends, and what goes with it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <cmocka.h>

#include <sys/wait.h>
#include <unistd.h>

#include "net/conn/conn.h"
#include "server/process/cells.h"

static void totals_stay_and_open_things_go(void **state)
{
    struct slot_counters sum;
    uint32_t one = cell_take();
    uint32_t two = cell_take();

    assert_int_not_equal(one, two);
    cell_counters(one)->requests = 10;
    cell_counters(one)->active = 3;
    cell_counters(two)->requests = 5;
    cell_counters(two)->active = 2;
    counters_sum(&sum);
    assert_int_equal(sum.requests, 15);
    assert_int_equal(sum.active, 5);
    cell_give_back(one);
    counters_sum(&sum);
    assert_int_equal(sum.requests, 15);
    assert_int_equal(sum.active, 2);
    assert_int_equal(cell_take(), one);
    assert_int_equal(cell_counters(one)->requests, 0);
    cell_give_back(one);
    cell_give_back(two);
}

static void a_child_counts_in_shared_memory(void **state)
{
    uint32_t cell = cell_take();
    pid_t pid = fork();

    if (pid == 0) {
        cell_counters(cell)->accepted = 7;
        cell_pulse(cell)->turns = 9;
        atomic_fetch_add_explicit(conn_serial, 1, memory_order_relaxed);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(cell_counters(cell)->accepted, 7);
    assert_int_equal(cell_pulse(cell)->turns, 9);
    assert_int_equal(*conn_serial, 1);
    cell_give_back(cell);
}

static void cells_run_out_without_harm(void **state)
{
    uint32_t cell;
    unsigned count = 0;

    while ((cell = cell_take()) != CELL_NONE) {
        assert_in_range(++count, 1, 1 << 20);
    }
    assert_non_null(cell_counters(CELL_NONE));
    assert_null(cell_pulse(CELL_NONE));
    cell_give_back(CELL_NONE);
    while (count-- != 0) {
        cell_give_back(count);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(totals_stay_and_open_things_go),
        cmocka_unit_test(a_child_counts_in_shared_memory),
        cmocka_unit_test(cells_run_out_without_harm),
    };

    if (!cells_init()) {
        return 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
