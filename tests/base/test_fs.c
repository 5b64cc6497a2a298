/* Tests of the helpers about files. */
#include "base/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"

static struct arena arena;
static char folder[] = "/tmp/test_fs.XXXXXX";

static int set_up(void **state)
{
    arena_init(&arena);
    return mkdtemp(folder) == NULL ? -1 : 0;
}

static int tear_down(void **state)
{
    arena_free(&arena);
    return rmdir(folder);
}

static const char *path_of(const char *name)
{
    return arena_printf(&arena, "%s/%s", folder, name).data;
}

static void what_was_written_is_read_up_to_the_limit(void **state)
{
    const char *path = path_of("file");
    struct str whole = STR("a\0b\nc");
    struct str got = STR_NONE;

    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_true(fs_write_all(fd, whole));
    assert_true(fs_write_all(fd, STR_NONE));
    close(fd);
    assert_true(fs_read_all(&arena, path, whole.len, &got));
    assert_str(got, whole);
    assert_int_equal(got.data[got.len], '\0');
    assert_false(fs_read_all(&arena, path, whole.len - 1, &got));
    assert_int_equal(errno, EFBIG);
    unlink(path);
    assert_false(fs_read_all(&arena, path, 10, &got));
    assert_int_equal(errno, ENOENT);
    assert_false(fs_read_all(&arena, folder, 10, &got));
    assert_int_equal(errno, EISDIR);
    assert_true(fs_read_all(&arena, "/dev/null", 0, &got));
    assert_int_equal(got.len, 0);
    assert_false(fs_read_all(&arena, "/dev/zero", 100000, &got));
    assert_int_equal(errno, EFBIG);
    assert_false(fs_write_all(-1, STR("x")));
    assert_int_equal(errno, EBADF);
}

static void full_name_takes_the_prefix_for_relative_ones(void **state)
{
    struct str name = fs_full_name(&arena, STR("/etc/"), STR("a.conf"));
    assert_text(name, "/etc/a.conf");
    assert_int_equal(name.data[name.len], '\0');
    assert_text(fs_full_name(&arena, STR("/etc/"), STR("/a")), "/a");
    assert_text(fs_full_name(&arena, STR("/etc/"), STR_NONE), "/etc/");
}

static void directory_is_made_or_taken_as_it_is(void **state)
{
    const char *path = path_of("folder");
    const char *file = path_of("file");
    struct stat info;

    assert_true(fs_make_directory(path, 0700, (uid_t) -1));
    assert_true(fs_make_directory(path, 0700, getuid()));
    chmod(path, 0500);
    assert_true(fs_make_directory(path, 0700, getuid()));
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0700);
    assert_false(fs_make_directory(path_of("no/such"), 0700, (uid_t) -1));
    assert_int_equal(errno, ENOENT);
    close(open(file, O_WRONLY | O_CREAT, 0600));
    assert_false(fs_make_directory(file, 0700, (uid_t) -1));
    assert_int_equal(errno, ENOTDIR);
    unlink(file);
    rmdir(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_written_is_read_up_to_the_limit),
        cmocka_unit_test(full_name_takes_the_prefix_for_relative_ones),
        cmocka_unit_test(directory_is_made_or_taken_as_it_is),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
