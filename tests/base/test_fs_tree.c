/* Tests of trees of files. */
#define _GNU_SOURCE
#include "base/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/fs_tree.h"

static struct arena arena;
static char folder[] = "/tmp/test_fs_tree.XXXXXX";
static int top = -1; /* the folder, opened */

static const struct fs_tree_rules plain = {0};
static const struct fs_tree_rules following = {.follows_links = true};

static int set_up(void **state)
{
    arena_init(&arena);
    strcpy(folder + strlen(folder) - 6, "XXXXXX");
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    top = open(folder, O_PATH | O_DIRECTORY);
    return top == -1 ? -1 : 0;
}

static int tear_down(void **state)
{
    close(top);
    arena_free(&arena);
    return fs_remove_tree((struct fs_location){AT_FDCWD, folder}) ? 0 : -1;
}

static struct fs_location at(const char *name)
{
    return (struct fs_location){top, name};
}

static void put(const char *name, const char *text)
{
    int fd = openat(top, name, O_WRONLY | O_CREAT | O_EXCL, 0640);

    assert_true(fd != -1 && fs_write_all(fd, str_of(text)));
    close(fd);
}

static bool has(const char *name)
{
    return faccessat(top, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static void assert_holds(const char *name, const char *text)
{
    struct str got;

    assert_true(fs_read_all(&arena, arena_printf(&arena, "%s/%s", folder, name).data, 100, &got));
    assert_str(got, str_of(text));
}

static void make_tree(void)
{
    mkdirat(top, "a", 0750);
    mkdirat(top, "a/b", 0700);
    put("a/one", "1");
    put("a/b/two", "2");
    put("outside", "out");
    assert_int_equal(symlinkat("../outside", top, "a/link"), 0);
    assert_int_equal(symlinkat("..", top, "a/up"), 0);
    assert_int_equal(symlinkat("nowhere", top, "a/broken"), 0);
    mkfifoat(top, "a/fifo", 0600);
}

static void a_tree_is_removed_but_not_what_its_links_lead_to(void **state)
{
    make_tree();
    assert_true(fs_remove_tree(at("a")));
    assert_false(has("a"));
    assert_holds("outside", "out");
    assert_true(fs_remove_tree(at("outside")));
    assert_true(fs_remove_tree(at("missing")));
}

static void a_copy_has_contents_permissions_and_time(void **state)
{
    struct timespec times[2] = {{.tv_sec = 5}, {.tv_sec = 1000000000}};
    struct stat info;

    put("from", "text");
    put("to", "a longer one");
    utimensat(top, "from", times, 0);
    assert_true(fs_copy_tree(at("from"), at("to"), &plain));
    assert_holds("to", "text");
    assert_int_equal(fstatat(top, "to", &info, 0), 0);
    assert_int_equal(info.st_mode & 07777, 0640);
    assert_int_equal(info.st_mtime, 1000000000);
    assert_false(fs_copy_tree(at("missing"), at("to"), &plain));
    assert_int_equal(errno, ENOENT);
    mkdirat(top, "directory", 0700);
    assert_false(fs_copy_tree(at("from"), at("directory"), &plain));
    assert_int_equal(errno, EISDIR);
}

static void a_tree_is_copied_without_links(void **state)
{
    struct stat info;

    make_tree();
    assert_true(fs_copy_tree(at("a"), at("c"), &plain));
    assert_holds("c/one", "1");
    assert_holds("c/b/two", "2");
    assert_false(has("c/link") || has("c/up") || has("c/broken") || has("c/fifo"));
    assert_int_equal(fstatat(top, "c", &info, 0), 0);
    assert_int_equal(info.st_mode & 0777, 0750);
    assert_false(fs_copy_tree(at("a"), at("c"), &plain));
    assert_int_equal(errno, EEXIST);
}

static void files_behind_links_are_copied_where_links_are_followed(void **state)
{
    struct stat info;

    make_tree();
    assert_true(fs_copy_tree(at("a"), at("c"), &following));
    assert_holds("c/link", "out");
    assert_int_equal(fstatat(top, "c/link", &info, AT_SYMLINK_NOFOLLOW), 0);
    assert_true(S_ISREG(info.st_mode));
    assert_false(has("c/up") || has("c/broken"));
}

static void a_shallow_copy_is_an_empty_directory(void **state)
{
    const struct fs_tree_rules shallow = {.is_shallow = true};

    make_tree();
    assert_true(fs_copy_tree(at("a"), at("c"), &shallow));
    assert_true(fs_remove_tree(at("a")));
    assert_int_equal(unlinkat(top, "c", AT_REMOVEDIR), 0);
}

static void a_tree_moves(void **state)
{
    make_tree();
    assert_true(fs_move_tree(at("a"), at("c"), &plain));
    assert_false(has("a"));
    assert_true(has("c/link"));
}

/* /dev/shm is a file system of its own nearly everywhere. */
static void a_tree_moves_to_another_file_system(void **state)
{
    char name[] = "/dev/shm/test_fs_tree.XXXXXX";
    struct stat here;
    struct stat there;

    if (mkdtemp(name) == NULL) {
        skip();
    }
    int other = open(name, O_PATH | O_DIRECTORY);
    fstat(top, &here);
    fstat(other, &there);
    make_tree();
    bool is_moved = fs_move_tree(at("a"), (struct fs_location){other, "c"}, &plain);
    bool has_copy = faccessat(other, "c/b/two", F_OK, 0) == 0;
    fs_remove_tree((struct fs_location){AT_FDCWD, name});
    close(other);
    assert_true(is_moved && has_copy);
    assert_false(has("a"));
    if (here.st_dev == there.st_dev) {
        skip();
    }
}

static void trees_that_are_too_deep_are_refused(void **state)
{
    int fd = openat(top, ".", O_PATH | O_DIRECTORY);

    for (int i = 0; i < FS_TREE_DEPTH_MAX + 3; i++) {
        mkdirat(fd, "d", 0700);
        int next = openat(fd, "d", O_PATH | O_DIRECTORY);
        close(fd);
        fd = next;
    }
    close(fd);
    assert_false(fs_remove_tree(at("d")));
    assert_int_equal(errno, ENAMETOOLONG);
    assert_false(fs_copy_tree(at("d"), at("e"), &plain));
    assert_int_equal(errno, ENAMETOOLONG);
    assert_true(fs_remove_tree(at("e")));
    /* From below it goes. */
    int lower = openat(top, "d/d/d/d", O_PATH | O_DIRECTORY);
    assert_true(fs_remove_tree((struct fs_location){lower, "d"}));
    close(lower);
}

static void what_is_inside_is_found_by_its_directories(void **state)
{
    struct stat a;
    struct stat other;

    make_tree();
    mkdirat(top, "other", 0700);
    fstatat(top, "a", &a, 0);
    fstatat(top, "other", &other, 0);
    int b = openat(top, "a/b", O_PATH | O_DIRECTORY);
    assert_true(fs_is_inside(b, &a));
    assert_false(fs_is_inside(b, &other));
    assert_false(fs_is_inside(top, &a));
    close(b);
}

static void parents_are_made(void **state)
{
    char long_name[400];

    make_tree();
    assert_true(fs_make_parents(top, "x/y//z/file", 0700, false));
    assert_true(has("x/y/z"));
    assert_false(has("x/y/z/file"));
    assert_true(fs_make_parents(top, "x/y/file", 0700, false));
    assert_true(fs_make_parents(top, "file", 0700, false));
    assert_false(fs_make_parents(top, "outside/y/file", 0700, false));
    assert_int_equal(errno, ENOTDIR);
    assert_false(fs_make_parents(top, "a/up/new/file", 0700, false));
    assert_true(fs_make_parents(top, "a/up/new/file", 0700, true));
    assert_true(has("new"));
    memset(long_name, 'n', sizeof(long_name));
    memcpy(long_name + sizeof(long_name) - 3, "/f", 3);
    assert_false(fs_make_parents(top, long_name, 0700, false));
    assert_int_equal(errno, ENAMETOOLONG);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_tree_is_removed_but_not_what_its_links_lead_to),
        TEST(a_copy_has_contents_permissions_and_time),
        TEST(a_tree_is_copied_without_links),
        TEST(files_behind_links_are_copied_where_links_are_followed),
        TEST(a_shallow_copy_is_an_empty_directory),
        TEST(a_tree_moves),
        TEST(a_tree_moves_to_another_file_system),
        TEST(trees_that_are_too_deep_are_refused),
        TEST(what_is_inside_is_found_by_its_directories),
        TEST(parents_are_made),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
