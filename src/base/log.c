/* The error log: lays out a record once and hands it to the sinks that want it. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/hint.h"
#include "base/log.h"

const struct str log_level_names[LOG_DEBUG + 1] = {
    [LOG_STDERR] = STR_INIT("stderr"), [LOG_EMERG] = STR_INIT("emerg"),
    [LOG_ALERT] = STR_INIT("alert"),   [LOG_CRIT] = STR_INIT("crit"),
    [LOG_ERROR] = STR_INIT("error"),   [LOG_WARN] = STR_INIT("warn"),
    [LOG_NOTICE] = STR_INIT("notice"), [LOG_INFO] = STR_INIT("info"),
    [LOG_DEBUG] = STR_INIT("debug"),
};

/* Without sinks, lines go to standard error. */
static struct log first_log = {.level = LOG_NOTICE};
struct log *log_main = &first_log;
bool log_is_starting = true;

static struct log_file standard_error = {.fd = STDERR_FILENO};

bool log_level_parse(struct str word, enum log_level *out)
{
    for (int level = LOG_EMERG; level <= LOG_DEBUG; level++) {
        if (str_equal(word, log_level_names[level])) {
            *out = (enum log_level) level;
            return true;
        }
    }
    return false;
}

/* " (2: No such file or directory)" */
static void put_error(struct writer *writer, int error)
{
    if (error == 0) {
        return;
    }
#ifdef __GLIBC__
    const char *text = strerrordesc_np(error);
#else
    const char *text = strerror(error);
#endif
    writer_printf(writer, " (%d: %s)", error, text == NULL ? "Unknown error" : text);
}

/* What is to be written. */
struct record {
    enum log_level level;
    int error;              /* as log_write has it */
    const char *format;     /* of a message */
    va_list *args;          /* arguments of the format */
    const struct str *text; /* or a text whose line ends stay; else NULL */
};

/* The message and its error; of a message that is too long, the end gives way to the error. */
static void put_message(struct writer *writer, const struct record *record)
{
    char suffix_text[128];
    struct writer suffix = {suffix_text, suffix_text + sizeof(suffix_text)};

    if (record->text != NULL) {
        writer_put(writer, *record->text);
        return;
    }
    put_error(&suffix, record->error);
    struct str tail = str_from(suffix_text, suffix.at);
    size_t room_left = (size_t) (writer->end - writer->at);
    struct writer body = {writer->at, writer->end - (tail.len < room_left ? tail.len : 0)};
    va_list args;
    va_copy(args, *record->args);
    writer_vprintf(&body, record->format, args);
    va_end(args);
    writer->at = body.at;
    writer_put(writer, tail);
}

static bool is_control(char c, bool keeps_lines)
{
    return ((unsigned char) c < ' ' && c != '\t' && !(keeps_lines && c == '\n')) || c == 0x7f;
}

/*
 * A peer chooses part of what is logged: control characters (but tabs, and line ends where they are wanted) become
 * \xHH, so that nobody writes a line of his own. Works in place from the end, since the text only grows.
 */
static char *make_printable(char *start, char *at, const char *limit, bool keeps_lines)
{
    static const char digits[] = "0123456789ABCDEF";
    size_t size = 0;
    const char *end = start; /* of what will fit */

    for (; end < at; end++) {
        size_t needed = is_control(*end, keeps_lines) ? 4 : 1;
        if (size + needed > (size_t) (limit - start)) {
            break;
        }
        size += needed;
    }
    char *to = start + size;
    for (const char *from = end; to != from;) {
        unsigned char c = (unsigned char) *--from;
        if (is_control((char) c, keeps_lines)) {
            to -= 4;
            to[0] = '\\';
            to[1] = 'x';
            to[2] = digits[c >> 4];
            to[3] = digits[c & 15];
        } else {
            *--to = (char) c;
        }
    }
    return start + size;
}

/* One write for one line. A full disk is not tried again within the same second. */
static void write_line(struct log_file *file, struct str line)
{
    if (file->fd < 0 || (file->full_since != 0 && file->full_since == clock_now.seconds)) {
        return;
    }
    ssize_t n;
    do {
        n = write(file->fd, line.data, line.len);
    } while (n < 0 && errno == EINTR);
    file->full_since = n < 0 && errno == ENOSPC ? clock_now.seconds : 0;
}

static bool is_standard_error(const struct log_file *file)
{
    return file != NULL && file->path.len == 0;
}

static struct log_tap *first_tap;

void log_tap_add(struct log_tap *tap)
{
    tap->next = first_tap;
    first_tap = tap;
}

void log_tap_remove(struct log_tap *tap)
{
    struct log_tap **place = &first_tap;

    while (*place != tap) {
        place = &(*place)->next;
    }
    *place = tap->next;
}

/* Hands a dated line, its newline included, to each sink that wants its level. */
static void write_to_sinks(struct log_sink *sinks, enum log_level level, struct str line)
{
    if (sinks == NULL) {
        write_line(&standard_error, line);
    }
    for (struct log_sink *sink = sinks; sink != NULL; sink = sink->next) {
        if (level > sink->level) {
            continue;
        }
        if (sink->write != NULL) {
            sink->write(sink, level, str_head(line, line.len - 1));
        } else if (sink->file != NULL) {
            write_line(sink->file, line);
        }
    }
}

/* Whether some sink shows this level on standard error by itself. */
static bool is_shown_anyway(const struct log_sink *sinks, enum log_level level)
{
    for (const struct log_sink *sink = sinks; sink != NULL; sink = sink->next) {
        if (level <= sink->level && is_standard_error(sink->file)) {
            return true;
        }
    }
    return false;
}

/* "nginx: [emerg] …" to standard error. */
__attribute__((noinline)) static void write_start_line(const struct record *record)
{
    static __thread char line[LOG_LINE_MAX]; /* too much for a stack */
    struct writer writer = {line, line + sizeof(line) - 1};

    writer_put(&writer, STR("nginx: "));
    if (record->level != LOG_STDERR) {
        writer_printf(&writer, "[%s] ", log_level_names[record->level].data);
    }
    put_message(&writer, record);
    *writer.at++ = '\n';
    write_line(&standard_error, str_from(line, writer.at));
}

/*
 * The dated line to the sinks. Lines are too long for a stack; while one is made another may have to be logged, in a signal
 * handler. A third is left out.
 */
__attribute__((noinline)) static void write_record(const struct log *log,
                                                   const struct record *record)
{
    static __thread char lines[2][LOG_LINE_MAX];
    static __thread volatile unsigned in_use;
    const char *level = record->level != LOG_STDERR ? log_level_names[record->level].data : "";

    if (in_use == sizeof(lines) / sizeof(*lines)) {
        return;
    }
    char *line = lines[in_use];
    struct writer writer = {line, line + LOG_LINE_MAX - 1};

    in_use++;

    writer_put(&writer, CLOCK_STR(error_local));
    writer_printf(&writer, " [%s] %d#%ld: ", level, (int) getpid(), (long) syscall(SYS_gettid));
    if (log->connection != 0) {
        writer_printf(&writer, "*%llu ", (unsigned long long) log->connection);
    }
    char *start = writer.at;
    put_message(&writer, record);
    writer.at = make_printable(start, writer.at, writer.end, record->text != NULL);
    start = writer.at;
    if (log->action != NULL) {
        writer_printf(&writer, " while %s", log->action);
    }
    if (log->describe != NULL) {
        log->describe(log, &writer);
    }
    char *at = make_printable(start, writer.at, writer.end, false);
    *at++ = '\n';
    for (struct log_tap *tap = first_tap; tap != NULL; tap = tap->next) {
        tap->take(tap, record->level, str_from(line, at - 1));
    }
    write_to_sinks(log->sinks, record->level, str_from(line, at));
    in_use--;
}

enum log_level log_chain_level(const struct log_sink *sink)
{
    enum log_level level = LOG_STDERR;

    for (; sink != NULL; sink = sink->next) {
        if (sink->level > level) {
            level = sink->level;
        }
    }
    return level;
}

static void write_all(const struct log *log, const struct record *record)
{
    int saved_errno = errno;

    if (clock_now.seconds == 0) {
        clock_update();
    }
    if (record->level == LOG_STDERR && record->text == NULL) {
        write_start_line(record);
    } else {
        if (log_is_starting && record->level <= LOG_WARN &&
            !is_shown_anyway(log->sinks, record->level)) {
            write_start_line(record);
        }
        /* A log that has no sinks yet has shown what matters already. */
        if (log->sinks != NULL || !log_is_starting) {
            write_record(log, record);
        }
    }
    errno = saved_errno;
}

void log_write(const struct log *log, enum log_level level, int error, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    write_all(log,
              &(struct record){.level = level, .error = error, .format = format, .args = &args});
    va_end(args);
}

void log_write_text(const struct log *log, enum log_level level, struct str text)
{
    write_all(log, &(struct record){.level = level, .text = &text});
}

static int open_path(const struct log_file *file, const struct log *log)
{
    int fd = fs_open_trusted(file->path.data, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY,
                             file->is_secret ? 0600 : 0644);

    if (fd < 0) {
        log_emerg(log, errno, "open() \"%s\" failed", file->path.data);
        hint_path(file->path.data, errno);
    }
    return fd;
}

bool log_file_open(struct log_file *file, const struct log *log)
{
    file->fd = is_standard_error(file) ? STDERR_FILENO : open_path(file, log);
    file->full_since = 0;
    return file->fd >= 0;
}

bool log_file_reopen(struct log_file *file, const struct log *log)
{
    if (file->flush != NULL) {
        file->flush(file);
    }
    if (is_standard_error(file)) {
        return true;
    }
    if (file->fd < 0) {
        return log_file_open(file, log);
    }
    int fd = open_path(file, log);
    if (fd < 0) {
        return false;
    }
    bool is_good = dup3(fd, file->fd, O_CLOEXEC) >= 0;
    if (!is_good) {
        log_emerg(log, errno, "dup3() \"%s\" failed", file->path.data);
    }
    close(fd);
    file->full_since = 0;
    return is_good;
}

void log_fatal(int error, const char *text)
{
    log_emerg(log_main, error, "%s", text);
}
