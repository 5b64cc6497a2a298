/* Formats of access logs: compiled to a list of steps, each of which appends one value to a line. */
#ifndef HTTP_LOG_FORMAT_H
#define HTTP_LOG_FORMAT_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/buf.h"
#include "conf/conf.h"
#include "http/request.h"

/* What is done to bytes that could harm whoever reads the log. */
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

struct log_step;
typedef char *(*log_append)(struct log_line *line, char *at, struct request *request,
                            const struct log_step *step);

/*
 * One step: a text as it is, then a value. Texts are copied in words of LOG_WORD bytes: they have so
 * many readable bytes behind them, and each line has room for them behind its end.
 */
#define LOG_WORD 16
struct log_step {
    struct str before;
    log_append append;
    const struct variable *variable; /* of values that have no function of their own */
    unsigned capture;                /* of $1 to $9 */
};

struct log_format {
    struct str name;
    struct vec steps;       /* struct log_step */
    size_t fixed;           /* bytes of all texts, and most bytes of all values of known size */
    enum log_escape escape; /* UNSET: none was written */
};

/* Appends what one argument of log_format says. False after conf_error. */
bool log_format_compile(struct conf *conf, const struct conf_node *node, struct log_format *format,
                        struct str text);

/* Appends the line for a request to buf, its newline included. escape: of the location. */
void log_format_write(const struct log_format *format, struct request *request,
                      enum log_escape escape, struct buf *buf);

/* The value escaped, as the line wants it; for steps and tests. */
char *log_put_value(struct log_line *line, char *at, struct str value);

#endif
