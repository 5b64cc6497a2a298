/* Tests of the helpers about files. */
#include "base/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
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

/* As root: a link that somebody else has laid is not followed, wherever it stands. */
static void links_of_others_are_not_followed(void **state)
{
    const int to_write = O_WRONLY | O_CREAT | O_APPEND;
    const char *goal = path_of("goal");
    const char *link = path_of("link");
    const char *below = path_of("link/below");
    struct stat info;

    if (geteuid() != 0) {
        skip();
    }
    assert_int_equal(mkdir(goal, 0711), 0);
    assert_int_equal(symlink("goal", link), 0);
    /* Root's own are. */
    assert_true(fs_make_directory(link, 0700, 0));
    assert_true(fs_make_directory(below, 0700, 65534));
    assert_int_equal(stat(below, &info), 0);
    assert_int_equal(info.st_uid, 65534);
    int fd = fs_open_trusted(path_of("link//file"), to_write, 0600);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(lchown(link, 65534, 65534), 0);
    assert_false(fs_make_directory(link, 0700, 65534));
    assert_int_equal(errno, ELOOP);
    assert_false(fs_make_directory(below, 0700, 65534));
    assert_int_equal(errno, ELOOP);
    assert_int_equal(fs_open_trusted(path_of("link/file"), to_write, 0600), -1);
    assert_int_equal(errno, ELOOP);
    assert_int_equal(stat(goal, &info), 0);
    assert_int_equal(info.st_uid, 0);
    unlink(link);
    assert_int_equal(symlink("file", path_of("goal/link")), 0);
    fd = fs_open_trusted(path_of("goal/link"), to_write, 0600);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(lchown(path_of("goal/link"), 65534, 65534), 0);
    assert_int_equal(fs_open_trusted(path_of("goal/link"), to_write, 0600), -1);
    assert_int_equal(errno, ELOOP);
    unlink(path_of("goal/link"));
    unlink(path_of("goal/file"));
    rmdir(path_of("goal/below"));
    rmdir(goal);
}

/* As root: a worker can rename what root has laid in a folder of the worker's. */
static void what_others_may_have_renamed_is_not_given_away(void **state)
{
    const char *shared = path_of("shared"), *goal = path_of("goal");
    const char *link = path_of("shared/link"), *moved = path_of("shared/moved");
    struct stat info;

    if (geteuid() != 0) {
        skip();
    }
    assert_int_equal(mkdir(shared, 0755), 0);
    assert_int_equal(mkdir(goal, 0700), 0);
    assert_int_equal(chown(shared, 65534, 65534), 0);
    assert_int_equal(symlink(goal, link), 0);
    assert_false(fs_make_directory(link, 0700, 65534));
    assert_int_equal(errno, ELOOP);
    assert_false(fs_make_directory(path_of("shared/link/below"), 0700, 65534));
    assert_int_equal(errno, ELOOP);
    assert_int_equal(stat(goal, &info), 0);
    assert_int_equal(info.st_uid, 0);
    /* An empty one is: that is what the first start as root leaves. */
    assert_true(fs_make_directory(moved, 0700, (uid_t) -1));
    assert_true(fs_make_directory(moved, 0700, 65534));
    assert_int_equal(chown(moved, 0, 0), 0);
    assert_int_equal(mkdir(path_of("shared/moved/secret"), 0700), 0);
    assert_false(fs_make_directory(moved, 0700, 65534));
    assert_int_equal(errno, EPERM);
    /* Where everybody may write, but none may rename what is another's. */
    assert_int_equal(chown(shared, 0, 0), 0);
    assert_int_equal(chmod(shared, 01777), 0);
    assert_true(fs_make_directory(moved, 0700, 65534));
    assert_true(fs_make_directory(link, 0700, 65534));
    rmdir(path_of("shared/moved/secret"));
    rmdir(moved);
    unlink(link);
    rmdir(shared);
    rmdir(goal);
}

static void links_that_lead_nowhere_or_round(void **state)
{
    const char *link = path_of("round");

    assert_int_equal(symlink("round", link), 0);
    assert_int_equal(fs_open_trusted(link, O_RDONLY, 0), -1);
    assert_int_equal(errno, ELOOP);
    unlink(link);
    assert_int_equal(fs_open_trusted(path_of("no/file"), O_RDONLY, 0), -1);
    assert_int_equal(errno, ENOENT);
    assert_int_equal(fs_open_trusted("/dev/null/file", O_RDONLY, 0), -1);
    assert_int_equal(errno, ENOTDIR);
    assert_int_equal(fs_open_trusted("", O_RDONLY, 0), -1);
}

/* What logs are told to go to in containers. */
static void standard_output_is_a_link_that_is_followed(void **state)
{
    int ends[2];
    int kept = dup(STDOUT_FILENO);
    const char *link = path_of("log");

    assert_int_equal(pipe(ends), 0);
    assert_int_equal(symlink("/dev/stdout", link), 0);
    fflush(stdout);
    dup2(ends[1], STDOUT_FILENO);
    int direct = fs_open_trusted("/dev/stdout", O_WRONLY | O_APPEND | O_CREAT, 0644);
    int by_link = fs_open_trusted(link, O_WRONLY | O_APPEND | O_CREAT, 0644);
    dup2(kept, STDOUT_FILENO);
    assert_true(direct >= 0);
    assert_true(by_link >= 0);
    close(direct);
    close(by_link);
    close(ends[0]);
    close(ends[1]);
    close(kept);
    unlink(link);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_written_is_read_up_to_the_limit),
        cmocka_unit_test(full_name_takes_the_prefix_for_relative_ones),
        cmocka_unit_test(directory_is_made_or_taken_as_it_is),
        cmocka_unit_test(links_of_others_are_not_followed),
        cmocka_unit_test(what_others_may_have_renamed_is_not_given_away),
        cmocka_unit_test(links_that_lead_nowhere_or_round),
        cmocka_unit_test(standard_output_is_a_link_that_is_followed),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
