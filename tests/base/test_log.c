/* Tests of the error log: line form, limits, sinks, start lines, reopening, full disks. */
#define _GNU_SOURCE
#include "base/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"

static struct arena arena;
static char folder[] = "/tmp/test_log.XXXXXX";
static const char *stderr_path; /* file that stands in for standard error */
static int real_stderr;

static const char *path_of(const char *name)
{
    return arena_printf(&arena, "%s/%s", folder, name).data;
}

static int set_up(void **state)
{
    arena_init(&arena);
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    stderr_path = path_of("stderr");
    real_stderr = dup(STDERR_FILENO);
    return 0;
}

static int tear_down(void **state)
{
    close(real_stderr);
    arena_free(&arena);
    return rmdir(folder);
}

static int each_set_up(void **state)
{
    int fd = open(stderr_path, O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0600);
    dup2(fd, STDERR_FILENO);
    close(fd);
    log_is_starting = false;
    return 0;
}

static int each_tear_down(void **state)
{
    dup2(real_stderr, STDERR_FILENO);
    unlink(stderr_path);
    log_is_starting = true;
    return 0;
}

static struct str content_of(const char *path)
{
    struct str text = STR_NONE;
    assert_true(fs_read_all(&arena, path, 1 << 20, &text));
    return text;
}

/* What a sink of this kind has got, without the date in front. */
static struct str last_line;
static int lines_count;

static void keep_line(struct log_sink *sink, enum log_level level, struct str line)
{
    last_line = arena_dup(&arena, str_skip(line, sizeof(clock_now.error_local)));
    lines_count++;
}

static struct log_sink memory_sink = {.level = LOG_DEBUG, .write = keep_line};

/* " [level] PID#PID: rest", the process having one thread. */
static void assert_line(const char *level, const char *rest)
{
    assert_str(last_line, arena_printf(&arena, " [%s] %d#%d: %s", level, (int) getpid(),
                                       (int) getpid(), rest));
}

static void describe_peer(const struct log *log, struct writer *out)
{
    writer_printf(out, ", client: %s", (const char *) log->subject);
}

static void line_has_all_its_parts(void **state)
{
    struct log log = {.sinks = &memory_sink, .level = LOG_INFO};

    log_error(&log, 0, "plain %d", 5);
    assert_line("error", "plain 5");
    log_error(&log, ENOENT, "open() \"%s\" failed", "/x");
    assert_line("error", "open() \"/x\" failed (2: No such file or directory)");
    log.connection = 7;
    log.action = "reading client request line";
    log.describe = describe_peer;
    log.subject = "10.0.0.1";
    log_info(&log, ECONNRESET, "recv() failed");
    assert_line("info", "*7 recv() failed (104: Connection reset by peer)"
                        " while reading client request line, client: 10.0.0.1");
    log_error(&log, 99999, "x");
    assert_line("error", "*7 x (99999: Unknown error)"
                         " while reading client request line, client: 10.0.0.1");
}

static unsigned depth;

/* As a signal handler may, it writes a line while another one is made. */
static void describe_loudly(const struct log *log, struct writer *out)
{
    if (depth++ < 4) {
        log_error(log, 0, "inner %u", depth);
    }
    writer_printf(out, ", end");
}

static void a_line_amid_another(void **state)
{
    struct log log = {.sinks = &memory_sink, .level = LOG_INFO, .describe = describe_loudly};

    for (int round = 0; round < 2; round++) {
        depth = 0;
        lines_count = 0;
        log_error(&log, 0, "outer");
        assert_int_equal(lines_count, 2); /* the innermost ones are left out */
        assert_line("error", "outer, end");
    }
}

static void date_is_in_front(void **state)
{
    struct log_file file = {.path = str_of(path_of("log"))};
    struct log_sink sink = {.level = LOG_ERROR, .file = &file};
    struct log log = {.sinks = &sink, .level = LOG_ERROR};

    assert_true(log_file_open(&file, &log));
    log_error(&log, 0, "x");
    struct str text = content_of(file.path.data);
    assert_str(str_head(text, 19), CLOCK_STR(error_local));
    assert_true(str_ends(text, STR(": x\n")));
    close(file.fd);
    unlink(file.path.data);
}

static void errno_is_left_alone(void **state)
{
    struct log log = {.sinks = &memory_sink, .level = LOG_ERROR};

    errno = EPIPE;
    log_error(&log, 0, "x");
    assert_int_equal(errno, EPIPE);
}

static void levels_are_filtered_by_log_and_by_sink(void **state)
{
    struct log_sink quiet = {.level = LOG_CRIT, .write = keep_line};
    struct log_sink loud = {.next = &quiet, .level = LOG_INFO, .write = keep_line};
    struct log log = {.sinks = &loud, .level = LOG_INFO};

    lines_count = 0;
    log_crit(&log, 0, "x");
    assert_int_equal(lines_count, 2);
    log_info(&log, 0, "x");
    assert_int_equal(lines_count, 3);
    log_at(&log, LOG_DEBUG, 0, "x");
    assert_int_equal(lines_count, 3);
}

static void control_characters_cannot_begin_a_line(void **state)
{
    struct log log = {.sinks = &memory_sink, .level = LOG_ERROR};

    log_error(&log, 0, "open() \"%s\" failed", "a\nb\r\x1b\x7f\tc\xc3\xa9");
    assert_line("error", "open() \"a\\x0Ab\\x0D\\x1B\\x7F\tc\xc3\xa9\" failed");
}

static void long_lines_end_with_the_error(void **state)
{
    struct log_file file = {.path = str_of(path_of("log"))};
    struct log_sink sink = {.level = LOG_ERROR, .file = &file};
    struct log log = {.sinks = &sink, .level = LOG_ERROR};
    char message[9000];

    for (int kind = 0; kind < 3; kind++) {
        memset(message, kind == 1 ? '\n' : 'm', sizeof(message));
        message[sizeof(message) - 1] = '\0';
        assert_true(log_file_open(&file, &log));
        log_error(&log, kind == 2 ? EPIPE : 0, "%s", message);
        struct str text = content_of(file.path.data);
        assert_true(text.len <= LOG_LINE_MAX && text.len > LOG_LINE_MAX - 4);
        assert_ptr_equal(str_find_char(text, '\n'), text.data + text.len - 1);
        assert_true(kind != 2 || str_ends(text, STR("mm (32: Broken pipe)\n")));
        close(file.fd);
        unlink(file.path.data);
    }
}

static void while_starting_warnings_go_to_standard_error_too(void **state)
{
    struct log log = {.sinks = &memory_sink, .level = LOG_NOTICE};

    log_is_starting = true;
    log_emerg(&log, ENOENT, "open() \"%s\" failed", "/x");
    assert_line("emerg", "open() \"/x\" failed (2: No such file or directory)");
    log_warn(&log, 0, "odd");
    log_notice(&log, 0, "not shown");
    assert_line("notice", "not shown");
    log_at(&log, LOG_STDERR, 0, "the configuration file x syntax is ok");
    assert_line("notice", "not shown");
    log_is_starting = false;
    log_emerg(&log, 0, "later");
    assert_str(content_of(stderr_path),
               STR("nginx: [emerg] open() \"/x\" failed (2: No such file or directory)\n"
                   "nginx: [warn] odd\n"
                   "nginx: the configuration file x syntax is ok\n"));
}

static void standard_error_as_a_sink_is_not_written_twice(void **state)
{
    struct log_file file = {.fd = -1};
    struct log_sink sink = {.level = LOG_ERROR, .file = &file};
    struct log log = {.sinks = &sink, .level = LOG_ERROR};

    assert_true(log_file_open(&file, &log));
    log_is_starting = true;
    log_emerg(&log, 0, "once");
    struct str text = content_of(stderr_path);
    assert_true(str_ends(text, STR(": once\n")));
    assert_ptr_equal(str_find(text, STR("once")), text.data + text.len - 5);
    assert_null(str_find(text, STR("nginx:")));
    assert_true(log_file_reopen(&file, &log));
    assert_int_equal(file.fd, STDERR_FILENO);
}

static void log_without_sinks_writes_to_standard_error(void **state)
{
    struct log log = {.level = LOG_NOTICE};

    log_is_starting = true;
    log_emerg(&log, 0, "early");
    log_notice(&log, 0, "not worth it");
    assert_text(content_of(stderr_path), "nginx: [emerg] early\n");
    log_is_starting = false;
    log_notice(&log, 0, "dated");
    struct str text = content_of(stderr_path);
    assert_true(str_ends(text, STR(": dated\n")));
    assert_non_null(str_find(text, STR(" [notice] ")));
}

static int flushes;

static void count_flush(struct log_file *file)
{
    flushes++;
    assert_true(write(file->fd, "gathered\n", 9) == 9);
}

static void reopening_keeps_the_descriptor(void **state)
{
    struct log log = {.sinks = &memory_sink, .level = LOG_ERROR};
    struct log_file file = {.path = str_of(path_of("log")), .flush = count_flush};
    const char *old = path_of("log.1");
    struct stat info;

    flushes = 0;
    assert_true(log_file_open(&file, &log));
    assert_int_equal(fcntl(file.fd, F_GETFL) & O_APPEND, O_APPEND);
    assert_int_equal(fcntl(file.fd, F_GETFD), FD_CLOEXEC);
    assert_int_equal(fstat(file.fd, &info), 0);
    assert_int_equal(info.st_mode & 0777 & ~0644, 0);
    int fd = file.fd;
    assert_int_equal(rename(file.path.data, old), 0);
    assert_true(log_file_reopen(&file, &log));
    assert_int_equal(file.fd, fd);
    assert_int_equal(fcntl(file.fd, F_GETFD), FD_CLOEXEC);
    assert_int_equal(flushes, 1);
    assert_int_equal(write(file.fd, "new\n", 4), 4);
    assert_text(content_of(old), "gathered\n");
    assert_text(content_of(file.path.data), "new\n");
    unlink(old);

    /* When the new one cannot be opened, the old one goes on. */
    unlink(file.path.data);
    assert_int_equal(mkdir(file.path.data, 0700), 0);
    lines_count = 0;
    assert_false(log_file_reopen(&file, &log));
    assert_int_equal(lines_count, 1);
    assert_true(str_ends(last_line, STR("failed (21: Is a directory)")));
    assert_int_equal(write(file.fd, "still\n", 6), 6);
    rmdir(file.path.data);
    close(file.fd);
}

static void full_disk_drops_lines_for_a_second(void **state)
{
    struct log_file file = {.path = STR("/dev/full")};
    struct log_sink sink = {.level = LOG_ERROR, .file = &file};
    struct log log = {.sinks = &sink, .level = LOG_ERROR};

    if (access("/dev/full", W_OK) != 0) {
        skip();
    }
    assert_true(log_file_open(&file, &log));
    clock_update();
    log_error(&log, 0, "lost");
    assert_int_equal(file.full_since, clock_now.seconds);
    /* A descriptor that could be written to now is not tried within this second. */
    int full = file.fd;
    file.fd = open(path_of("log"), O_WRONLY | O_CREAT | O_APPEND, 0600);
    log_error(&log, 0, "lost");
    assert_int_equal(content_of(path_of("log")).len, 0);
    clock_now.seconds++;
    log_error(&log, 0, "written");
    assert_true(str_ends(content_of(path_of("log")), STR(": written\n")));
    assert_int_equal(file.full_since, 0);
    close(file.fd);
    close(full);
    unlink(path_of("log"));
}

static void keep_object(struct log_sink *sink, enum log_level level, struct str line)
{
    last_line = arena_dup(&arena, line);
    lines_count++;
}

static void describe_members(const struct log *log, struct writer *out)
{
    log_member(out, "client");
    writer_put(out, STR("10.0.0.1"));
    log_member(out, "request");
    writer_printf(out, "\"%s\"", (const char *) log->subject);
}

/* What of the object comes after the time. */
static void assert_rest(const char *rest)
{
    const char *at = memmem(last_line.data, last_line.len, "\"message\"", 9);

    assert_non_null(at);
    struct str found = str_from(at, last_line.data + last_line.len);
    assert_str(found, str_of(rest));
}

static void json_has_members_as_they_came(void **state)
{
    struct log_sink sink = {.level = LOG_INFO, .is_json = true, .write = keep_object};
    struct log log = {.sinks = &sink, .level = LOG_INFO};

    log_error(&log, ENOENT, "open() \"%s\" failed", "/x\n\x7f");
    assert_true(str_starts(last_line, STR("{\"pid\":")));
    assert_rest(
        "\"message\":\"open() \\\"/x\\u000a\\u007f\\\" failed (2: No such file or directory)\"}");
    log.connection = 7;
    log.action = "reading";
    log.describe = describe_members;
    log.subject = "GET /\", client: \"2.2.2.2 \\ \xc3\xbc\xff";
    log_info(&log, 0, "gone");
    assert_non_null(
        memmem(last_line.data, last_line.len, "\"connection\":7,\"level\":\"info\"", 29));
    assert_rest("\"message\":\"gone\",\"action\":\"reading\",\"client\":\"10.0.0.1\","
                "\"request\":\"GET /\\\", client: \\\"2.2.2.2 \\\\ \xc3\xbc\\\\xFF\"}");
}

/* Of every length around the limit, of bytes that grow and of those that do not. */
static void json_that_is_too_long_is_whole(void **state)
{
    static char text[LOG_LINE_MAX + 1];
    static const char fillers[] = {'a', '"', '\x01', '\xff'};
    struct log_sink sink = {.level = LOG_INFO, .is_json = true, .write = keep_object};
    struct log log = {.sinks = &sink,
                      .level = LOG_INFO,
                      .describe = describe_members,
                      .subject = text};

    for (size_t f = 0; f < sizeof(fillers); f++) {
        for (size_t length = 1; length < LOG_LINE_MAX; length += length < 500 ? 7 : 3) {
            memset(text, fillers[f], length);
            text[length] = '\0';
            log_info(&log, 0, "x");
            assert_true(last_line.len < LOG_LINE_MAX);
            bool is_cut = memmem(last_line.data, last_line.len, "\"truncated\":true}", 17) != NULL;
            assert_true(is_cut || length < LOG_LINE_MAX);
            assert_true(last_line.data[last_line.len - 1] == '}');
        }
    }
}

/* The same record to sinks of both forms. */
static void json_beside_a_line(void **state)
{
    struct log_sink object = {.level = LOG_INFO, .is_json = true, .write = keep_object};
    struct log_sink line = {.next = &object, .level = LOG_INFO, .write = keep_line};
    struct log log = {.sinks = &line,
                      .level = LOG_INFO,
                      .describe = describe_members,
                      .subject = "GET"};
    int before = lines_count;

    log_info(&log, 0, "both");
    assert_int_equal(lines_count, before + 2);
    assert_rest("\"message\":\"both\",\"client\":\"10.0.0.1\",\"request\":\"GET\"}");
    object.level = LOG_ERROR;
    log_info(&log, 0, "line");
    assert_line("info", "line, client: 10.0.0.1, request: \"GET\"");
}

static void level_words(void **state)
{
    enum log_level level = LOG_DEBUG;

    assert_true(log_level_parse(STR("emerg"), &level));
    assert_int_equal(level, LOG_EMERG);
    for (int i = LOG_EMERG; i <= LOG_DEBUG; i++) {
        assert_true(log_level_parse(log_level_names[i], &level));
        assert_int_equal(level, i);
    }
    assert_false(log_level_parse(STR("stderr"), &level));
    assert_false(log_level_parse(STR("err"), &level));
    assert_false(log_level_parse(STR("warn\0"), &level));
    assert_false(log_level_parse(STR_NONE, &level));
}

#define test(function) cmocka_unit_test_setup_teardown(function, each_set_up, each_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(line_has_all_its_parts),
        test(a_line_amid_another),
        test(date_is_in_front),
        test(errno_is_left_alone),
        test(levels_are_filtered_by_log_and_by_sink),
        test(control_characters_cannot_begin_a_line),
        test(long_lines_end_with_the_error),
        test(while_starting_warnings_go_to_standard_error_too),
        test(standard_error_as_a_sink_is_not_written_twice),
        test(log_without_sinks_writes_to_standard_error),
        test(reopening_keeps_the_descriptor),
        test(full_disk_drops_lines_for_a_second),
        test(json_has_members_as_they_came),
        test(json_that_is_too_long_is_whole),
        test(json_beside_a_line),
        test(level_words),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
