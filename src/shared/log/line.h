/* A line of a log in the making: room for values, and their escapes. Inline where it is used for
 * each request. */
#ifndef SHARED_LOG_LINE_H
#define SHARED_LOG_LINE_H

#include <string.h>

#include "base/buf.h"
#include "base/parse.h"
#include "base/str.h"

/* What is done to bytes that could harm readers of the log. */
enum log_escape {
    LOG_ESCAPE_DEFAULT, /* \xHH for bytes below 32 and above 126, '"' and '\' */
    LOG_ESCAPE_JSON,    /* as strings of JSON */
    LOG_ESCAPE_NONE,
    LOG_ESCAPE_ASCII,       /* Tengine: as the default, but bytes above 127 stay */
    LOG_ESCAPE_UNPRINTABLE, /* Tengine: as the default, but '"' and '\' stay */
    LOG_ESCAPE_UNSET,       /* of a format: the location's log_escape decides */
};

/* A line in the making, at the end of a buffer that grows. */
struct log_line {
    struct buf *buf;        /* the line begins somewhere in it; len is set when the line is done */
    char *end;              /* one past the room that buf has now */
    size_t fixed;           /* bytes that the whole format needs beside values of unknown length */
    enum log_escape escape; /* in force for this line */
};

/* The buffer moves. */
char *log_line_grow(struct log_line *line, char *at, size_t needed);

/* Room for a value of this length and for all that has a known size: only such values have to ask.
 */
static inline char *log_make_room(struct log_line *line, char *at, size_t needed)
{
    needed += line->fixed;
    return (size_t) (line->end - at) >= needed ? at : log_line_grow(line, at, needed);
}

/* As it is. */
static inline char *log_put(struct log_line *line, char *at, struct str text)
{
    at = log_make_room(line, at, text.len);
    if (text.len != 0) {
        memcpy(at, text.data, text.len);
    }
    return at + text.len;
}

/* Numbers; there is room for them. */
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

/* What stands for a value that is not there. */
static inline char *log_put_nothing(struct log_line *line, char *at)
{
    *at = '-';
    return line->escape == LOG_ESCAPE_JSON || line->escape == LOG_ESCAPE_NONE ? at : at + 1;
}

/* The value escaped, as the line wants it. */
char *log_put_value(struct log_line *line, char *at, struct str value);

#endif
