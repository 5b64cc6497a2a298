/* How many CPUs the quotas of control groups come to. */
#define _GNU_SOURCE
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "server/process/cpu_quota.h"

static char root[] = "/tmp/cpu-quota-XXXXXX";

static void put(const char *name, const char *text)
{
    char path[256];

    snprintf(path, sizeof(path), "%s/%s", root, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void make_folder(const char *name)
{
    char path[256];

    snprintf(path, sizeof(path), "%s/%s", root, name);
    mkdir(path, 0755);
}

static unsigned quota(const char *groups)
{
    char path[256];

    put("groups", groups);
    snprintf(path, sizeof(path), "%s/groups", root);
    return cpu_quota(path, root);
}

static void version_2_rounds_up(void **state)
{
    make_folder("a");
    make_folder("a/b");
    put("a/b/cpu.max", "150000 100000\n");
    assert_int_equal(quota("0::/a/b\n"), 2);
    put("a/b/cpu.max", "200000 100000\n");
    assert_int_equal(quota("0::/a/b\n"), 2);
    put("a/b/cpu.max", "1000 100000\n");
    assert_int_equal(quota("0::/a/b\n"), 1);
    put("a/b/cpu.max", "max 100000\n");
    assert_int_equal(quota("0::/a/b\n"), UINT_MAX);
}

static void the_least_of_all_groups_above_holds(void **state)
{
    put("a/b/cpu.max", "400000 100000\n");
    put("a/cpu.max", "300000 100000\n");
    assert_int_equal(quota("0::/a/b\n"), 3);
    put("cpu.max", "50000 100000\n"); /* a container's own, at its root */
    assert_int_equal(quota("0::/a/b\n"), 1);
    assert_int_equal(quota("0::/\n"), 1);
    assert_int_equal(quota("0::/not/there\n"), 1);
    put("cpu.max", "max 100000\n");
}

static void version_1(void **state)
{
    make_folder("cpu,cpuacct");
    make_folder("cpu,cpuacct/x");
    put("cpu,cpuacct/x/cpu.cfs_quota_us", "250000\n");
    put("cpu,cpuacct/x/cpu.cfs_period_us", "100000\n");
    assert_int_equal(quota("9:memory:/x\n4:cpu,cpuacct:/x\n0::/\n"), 3);
    assert_int_equal(quota("4:cpuset:/x\n"), UINT_MAX);
    put("cpu,cpuacct/x/cpu.cfs_quota_us", "-1\n");
    assert_int_equal(quota("4:cpu,cpuacct:/x\n"), UINT_MAX);
}

static void nonsense_is_no_quota(void **state)
{
    static const char *const texts[] = {"", "\n", "0", "0:", "::", "4:cpu:", "0::/a/b"};

    put("a/b/cpu.max", "x\n");
    put("a/cpu.max", "100000\n");
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        assert_int_equal(quota(texts[i]), UINT_MAX);
    }
    assert_int_equal(cpu_quota("/not/there", root), UINT_MAX);
}

static int make_root(void **state)
{
    return mkdtemp(root) == NULL;
}

static int remove_root(void **state)
{
    char command[64];

    snprintf(command, sizeof(command), "rm -r %s", root);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(version_2_rounds_up),
        cmocka_unit_test(the_least_of_all_groups_above_holds),
        cmocka_unit_test(version_1),
        cmocka_unit_test(nonsense_is_no_quota),
    };

    return cmocka_run_group_tests(tests, make_root, remove_root);
}
