/* A log that tests look at: `messages` has its lines, "[level] text\n" each, without date and
 * process. */
#ifndef TESTS_BASE_MEMORY_LOG_H
#define TESTS_BASE_MEMORY_LOG_H

#include "base/buf.h"
#include "base/log.h"

static struct buf messages;

static inline void keep_line(struct log_sink *sink, enum log_level level, struct str line)
{
    const char *mark = str_find(line, STR("#"));
    const char *text = str_find(str_from(mark, line.data + line.len), STR(": "));

    buf_printf(&messages, "[%s] %.*s\n", log_level_names[level].data,
               (int) (line.data + line.len - text - 2), text + 2);
}

static struct log_sink memory_sink = {.level = LOG_INFO, .write = keep_line};
static struct log memory_log = {.sinks = &memory_sink, .level = LOG_INFO};

static inline unsigned times_logged(const char *text)
{
    struct str rest = buf_str(&messages);
    unsigned n = 0;

    for (const char *at; (at = str_find(rest, str_of(text))) != NULL; n++) {
        rest = str_from(at + 1, rest.data + rest.len);
    }
    return n;
}

static inline bool was_logged(const char *text)
{
    return times_logged(text) != 0;
}

#endif
