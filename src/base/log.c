/* The error log: formats a record once and passes it to the sinks of its level. */
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
#include "base/text.h"

const struct str log_level_names[LOG_DEBUG + 1] = {
    [LOG_STDERR] = STR_INIT("stderr"), [LOG_EMERG] = STR_INIT("emerg"),
    [LOG_ALERT] = STR_INIT("alert"),   [LOG_CRIT] = STR_INIT("crit"),
    [LOG_ERROR] = STR_INIT("error"),   [LOG_WARN] = STR_INIT("warn"),
    [LOG_NOTICE] = STR_INIT("notice"), [LOG_INFO] = STR_INIT("info"),
    [LOG_DEBUG] = STR_INIT("debug"),
};

/* Writes to standard error, since it has no sinks. */
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

/* A record to be written. */
struct record {
    enum log_level level;
    int error;              /* as passed to log_write */
    const char *format;     /* of a message */
    va_list *args;          /* arguments of the format */
    const struct str *text; /* of log_write_text: line ends are kept; else NULL */
};

/* Writes the message and its error; if they are too long, the message is cut before the error. */
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

/* ---- members ---- */

#define MEMBERS_MAX 24

/* Where the members of the line are while describe writes it: before make_printable, so the values
 * are raw. */
struct log_members {
    unsigned count;
    struct {
        const char *name;
        const char *begins; /* ", NAME: " */
        const char *value;
    } items[MEMBERS_MAX];
};

static __thread struct log_members *members_now;

void log_member(struct writer *out, const char *name)
{
    const char *begins = out->at;

    writer_printf(out, ", %s: ", name);
    if (members_now != NULL && members_now->count != MEMBERS_MAX) {
        members_now->items[members_now->count].name = name;
        members_now->items[members_now->count].begins = begins;
        members_now->items[members_now->count++].value = out->at;
    }
}

/* ---- JSON ---- */

#define CUT_MARK "\",\"truncated\":true}"

/* A line of JSON. Space is reserved for the mark, so that a line that is too long is a complete
   object as well. */
struct json_line {
    struct writer out;
    bool is_cut;
};

/* Writes the whole text, or nothing. */
static void line_put(struct json_line *line, struct str text)
{
    line->is_cut = line->is_cut || text.len > (size_t) (line->out.end - line->out.at);
    if (!line->is_cut) {
        writer_put(&line->out, text);
    }
}

/* Invalid UTF-8 becomes \xHH, as control characters do in the text format; control characters have
 * JSON's own escapes. */
static void line_put_text(struct json_line *line, struct str text)
{
    char escaped[8];

    while (text.len != 0 && !line->is_cut) {
        struct str rest = text;
        uint32_t point = utf8_next(&rest);
        unsigned char first = (unsigned char) text.data[0];
        struct writer one = {escaped, escaped + sizeof(escaped)};

        if (point == UINT32_MAX) {
            writer_printf(&one, "\\\\x%02X", first);
        } else if (point < ' ' || point == 0x7f) {
            writer_printf(&one, "\\u%04x", (unsigned) point);
        } else if (point == '"' || point == '\\') {
            writer_printf(&one, "\\%c", (char) point);
        }
        line_put(line,
                 one.at != escaped ? str_from(escaped, one.at) : str_from(text.data, rest.data));
        text = rest;
    }
}

/* Writes `,"NAME":"TEXT`; the closing quote is written by what follows, or by the mark. */
static void line_put_string(struct json_line *line, struct str name, struct str text)
{
    size_t needed = 3 + name.len + 3; /* `","NAME":"` */

    if (line->is_cut || needed > (size_t) (line->out.end - line->out.at)) {
        line->is_cut = true;
        return;
    }
    line_put(line, STR("\",\""));
    line_put(line, name);
    line_put(line, STR("\":\""));
    line_put_text(line, text);
}

/* A value that describe has written, without its quotes. */
static struct str unquoted(struct str value)
{
    bool is_quoted = value.len >= 2 && value.data[0] == '"' && value.data[value.len - 1] == '"';

    return is_quoted ? str_from(value.data + 1, value.data + value.len - 1) : value;
}

/* A record for JSON, with raw values. */
struct json_record {
    const struct record *record;
    const struct log *log;
    const char *level;
    struct str message;
    const struct log_members *members;
    const char *end; /* end of the last member */
};

/* Writes one object, with its newline. */
static struct str put_json(char *at, size_t size, const struct json_record *json)
{
    struct json_line line = {{at, at + size - sizeof(CUT_MARK)}, false};
    const struct log *log = json->log;

    writer_printf(&line.out, "{\"pid\":%d,\"tid\":%ld", (int) getpid(), (long) syscall(SYS_gettid));
    if (log->connection != 0) {
        writer_printf(&line.out, ",\"connection\":%llu", (unsigned long long) log->connection);
    }
    if (json->record->error != 0) {
        writer_printf(&line.out, ",\"code\":%d", json->record->error);
    }
    writer_printf(&line.out, ",\"level\":\"%s\",\"time\":\"", json->level);
    line_put(&line, CLOCK_STR(iso8601));
    line_put_string(&line, STR("message"), json->message);
    if (log->action != NULL) {
        line_put_string(&line, STR("action"), str_of(log->action));
    }
    for (unsigned i = 0; i < json->members->count; i++) {
        const char *end =
            i + 1 < json->members->count ? json->members->items[i + 1].begins : json->end;

        line_put_string(&line, str_of(json->members->items[i].name),
                        unquoted(str_from(json->members->items[i].value, end)));
    }
    line.out.end += sizeof(CUT_MARK); /* the reserved space */
    writer_put(&line.out, line.is_cut ? STR(CUT_MARK) : STR("\"}"));
    *line.out.at++ = '\n';
    return str_from(at, line.out.at);
}

static bool wants_json(const struct log_sink *sink, enum log_level level)
{
    for (; sink != NULL; sink = sink->next) {
        if (sink->is_json && level <= sink->level) {
            return true;
        }
    }
    return false;
}

/* ---- lines ---- */

static bool is_control(char c, bool keeps_lines)
{
    return ((unsigned char) c < ' ' && c != '\t' && !(keeps_lines && c == '\n')) || c == 0x7f;
}

/*
 * A peer chooses part of what is logged: control characters (except tabs, and line ends if
 * keeps_lines) become \xHH, so that it cannot write log lines of its own. Works in place from the
 * end, since the text only grows.
 */
static char *make_printable(char *start, char *at, const char *limit, bool keeps_lines)
{
    static const char digits[] = "0123456789ABCDEF";
    size_t size = 0;
    const char *end = start; /* end of what will fit */

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

/* Writes one line with one write(). A full disk is not tried again within the same second. */
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
    struct log_tap **link = &first_tap;

    while (*link != tap) {
        link = &(*link)->next;
    }
    *link = tap->next;
}

/* Passes a dated line, and its JSON, newlines included, to each sink of the level. */
static void write_to_sinks(struct log_sink *sinks, enum log_level level, struct str dated,
                           struct str json)
{
    if (sinks == NULL) {
        write_line(&standard_error, dated);
    }
    for (struct log_sink *sink = sinks; sink != NULL; sink = sink->next) {
        if (level > sink->level) {
            continue;
        }
        struct str line = sink->is_json ? json : dated;
        if (sink->write != NULL) {
            sink->write(sink, level, str_head(line, line.len - 1));
        } else if (sink->file != NULL) {
            write_line(sink->file, line);
        }
    }
}

/* Does any sink write this level to standard error already? */
static bool is_shown_anyway(const struct log_sink *sinks, enum log_level level)
{
    for (const struct log_sink *sink = sinks; sink != NULL; sink = sink->next) {
        if (level <= sink->level && is_standard_error(sink->file)) {
            return true;
        }
    }
    return false;
}

/* Writes "nginx: [emerg] …" to standard error. */
__attribute__((noinline)) static void write_start_line(const struct record *record)
{
    static __thread char line[LOG_LINE_MAX]; /* too large for a stack */
    struct writer writer = {line, line + sizeof(line) - 1};

    writer_put(&writer, STR("nginx: "));
    if (record->level != LOG_STDERR) {
        writer_printf(&writer, "[%s] ", log_level_names[record->level].data);
    }
    put_message(&writer, record);
    *writer.at++ = '\n';
    write_line(&standard_error, str_from(line, writer.at));
}

/* The JSON of a record whose message was formatted. describe is called again for it, to get raw
 * values. */
__attribute__((noinline)) static struct str write_json(const struct log *log,
                                                       const struct record *record,
                                                       const char *level, struct str message)
{
    static __thread char lines[2][LOG_LINE_MAX];
    static __thread char described[LOG_LINE_MAX];
    static __thread unsigned turn;
    struct log_members members = {0}, *members_before = members_now;
    struct writer out = {described, described + sizeof(described)};

    if (log->describe != NULL && members_before == NULL) {
        members_now = &members;
        log->describe(log, &out);
        members_now = members_before;
    }
    turn ^= 1; /* a line that is logged inside describe uses the other buffer */
    return put_json(lines[turn], LOG_LINE_MAX,
                    &(struct json_record){record, log, level, message, &members, out.at});
}

/*
 * Writes the dated line to the sinks. The buffers are too large for a stack. There are two, since a
 * signal handler may log while a line is being written; a third line is dropped.
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
    struct str json = STR_NONE;
    if (wants_json(log->sinks, record->level)) {
        json = write_json(log, record, level, str_from(start, writer.at));
    }
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
    write_to_sinks(log->sinks, record->level, str_from(line, at), json);
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
        /* A log without sinks has shown its important lines on standard error already. */
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
