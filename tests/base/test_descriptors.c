/* Tests of descriptors.h: what is left goes down with what is opened. */
#include "base/unit.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/descriptors.h"

static void what_is_left_goes_by_what_is_open(void **state)
{
    const struct rlimit limit = {200, 200};
    int fds[50];

    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(descriptors_limit(), 200);
    uint32_t before = descriptors_left(0);
    assert_in_range(before, 100, 200);
    for (unsigned i = 0; i < COUNT(fds); i++) {
        fds[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
        assert_true(fds[i] >= 0);
    }
    assert_int_equal(descriptors_left(COUNT(fds)), before - COUNT(fds));
    for (unsigned i = 0; i < COUNT(fds); i++) {
        close(fds[i]);
    }
    assert_int_equal(descriptors_left(0), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_left_goes_by_what_is_open)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
