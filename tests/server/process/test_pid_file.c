/* The pid file: written, read, renamed; what is no number is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "server/process/pid_file.h"

static char directory[] = "/tmp/portunus-pid-XXXXXX";
static struct arena arena;
static struct str path;
static struct buf lines;

static void keep_line(struct log_sink *sink, enum log_level level, struct str line)
{
    buf_append(&lines, line);
    buf_append_char(&lines, '\n');
}

static void put(const char *text)
{
    FILE *file = fopen(path.data, "w");

    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void assert_refused(const char *text, const char *words)
{
    put(text);
    lines.len = 0;
    assert_int_equal(pid_file_read(path), 0);
    assert_non_null(str_find(buf_str(&lines), str_of(words)));
}

static void what_is_written_is_read(void **state)
{
    struct stat info;

    umask(022);
    assert_true(pid_file_write(path));
    assert_int_equal(pid_file_read(path), getpid());
    assert_int_equal(stat(path.data, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0644);
    assert_true(pid_file_touch(path));
    assert_int_equal(pid_file_read(path), getpid());
    put("12\r\n");
    assert_int_equal(pid_file_read(path), 12);
}

/* Another file takes its place, so that nobody reads an empty one; nothing is left beside it. */
static void it_is_written_beside(void **state)
{
    FILE *former;
    char text[8] = "";
    char beside[64];

    put("12\n");
    former = fopen(path.data, "r");
    assert_true(pid_file_write(path));
    assert_int_equal(fread(text, 1, sizeof(text) - 1, former), 3);
    assert_string_equal(text, "12\n");
    fclose(former);
    snprintf(beside, sizeof(beside), "%s.tmp", path.data);
    assert_int_not_equal(access(beside, F_OK), 0);
}

/* … but where that would do harm. */
static void links_and_devices_stay(void **state)
{
    char link[64];
    struct stat info;

    snprintf(link, sizeof(link), "%s.link", path.data);
    put("12\n");
    assert_int_equal(symlink(path.data, link), 0);
    assert_true(pid_file_write(str_of(link)));
    assert_int_equal(lstat(link, &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    assert_int_equal(pid_file_read(path), getpid());
    assert_int_equal(unlink(link), 0);
    assert_true(pid_file_write(STR("/dev/null")));
    assert_int_equal(stat("/dev/null", &info), 0);
    assert_true(S_ISCHR(info.st_mode));
}

static void what_is_no_number_is_refused(void **state)
{
    assert_refused("", "[error]");
    assert_refused("x1\n", "invalid PID number \"x1\" in \"");
    assert_refused("0\n", "invalid PID number \"0\"");
    assert_refused("-5\n", "invalid PID number \"-5\"");
    assert_refused("99999999999999999999\n", "invalid PID number \"99999999999999999999\"");
    unlink(path.data);
    lines.len = 0;
    assert_int_equal(pid_file_read(path), 0);
    assert_non_null(str_find(buf_str(&lines), STR("failed (2: No such file or directory)")));
}

static void oldbin_and_back(void **state)
{
    struct str old = pid_file_old_name(&arena, path);

    assert_true(str_ends(old, STR("/nginx.pid.oldbin")));
    assert_true(pid_file_write(path));
    assert_true(pid_file_rename(path, old));
    assert_int_equal(access(path.data, F_OK), -1);
    assert_true(pid_file_rename(old, path));
    assert_int_equal(pid_file_read(path), getpid());
    pid_file_remove(path);
    assert_int_equal(access(path.data, F_OK), -1);
    assert_false(pid_file_rename(path, old));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read), cmocka_unit_test(it_is_written_beside),
        cmocka_unit_test(links_and_devices_stay),  cmocka_unit_test(what_is_no_number_is_refused),
        cmocka_unit_test(oldbin_and_back),
    };
    struct log_sink sink = {.level = LOG_INFO, .write = keep_line};
    struct log log = {.sinks = &sink, .level = LOG_INFO};

    log_main = &log;
    log_is_starting = false;
    if (mkdtemp(directory) == NULL) {
        return 1;
    }
    arena_init(&arena);
    path = arena_printf(&arena, "%s/nginx.pid", directory);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rmdir(directory);
    arena_free(&arena);
    buf_free(&lines);
    return failed;
}
