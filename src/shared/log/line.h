/* A line of a log that is being built: space for values, and their escapes. The functions of the
 * hot path are inline. */
#ifndef SHARED_LOG_LINE_H
#define SHARED_LOG_LINE_H

#include <string.h>

#include "base/buf.h"
#include "base/parse.h"
#include "base/str.h"

/* How bytes are escaped that could harm readers of the log. */
enum log_escape {
    LOG_ESCAPE_DEFAULT, /* \xHH for bytes below 32 and above 126, '"' and '\' */
    LOG_ESCAPE_JSON,    /* as in strings of JSON */
    LOG_ESCAPE_NONE,
    LOG_ESCAPE_ASCII,       /* Tengine: as the default, but bytes above 127 are kept */
    LOG_ESCAPE_UNPRINTABLE, /* Tengine: as the default, but '"' and '\' are kept */
    LOG_ESCAPE_UNSET,       /* in a format: the location's log_escape is used */
};

/* A line that is being built, at the end of a growing buffer. */
struct log_line {
    struct buf *buf;        /* contains the line; len is set when the line is complete */
    char *end;              /* one past the space that buf has now */
    size_t fixed;           /* bytes that the whole format needs besides values of unknown length */
    enum log_escape escape; /* used for this line */
};

/* Moves the buffer to get more space. */
char *log_line_grow(struct log_line *line, char *at, size_t needed);

/* Makes space for a value of this length, and for everything of bounded size: only values of
   unknown length need to call it. */
static inline char *log_make_room(struct log_line *line, char *at, size_t needed)
{
    needed += line->fixed;
    return (size_t) (line->end - at) >= needed ? at : log_line_grow(line, at, needed);
}

/* Copies text without escapes. */
static inline char *log_put(struct log_line *line, char *at, struct str text)
{
    at = log_make_room(line, at, text.len);
    if (text.len != 0) {
        memcpy(at, text.data, text.len);
    }
    return at + text.len;
}

/* Numbers; there is always space for them. */
static inline char *log_put_three_digits(char *at, unsigned number)
{
    at[0] = (char) ('0' + number / 100);
    at[1] = (char) ('0' + number / 10 % 10);
    at[2] = (char) ('0' + number % 10);
    return at + 3;
}

/* "seconds.milliseconds" */
static inline char *log_put_seconds(char *at, uint64_t ms)
{
    at = format_uint(at, ms / 1000);
    *at++ = '.';
    return log_put_three_digits(at, (unsigned) (ms % 1000));
}

/* Writes what replaces a value that does not exist. */
static inline char *log_put_nothing(struct log_line *line, char *at)
{
    *at = '-';
    return line->escape == LOG_ESCAPE_JSON || line->escape == LOG_ESCAPE_NONE ? at : at + 1;
}

/* Writes the value with the escape of the line. */
char *log_put_value(struct log_line *line, char *at, struct str value);

#endif
