/* Formats of access logs: compiled to a list of steps, each of which appends one value to a
 * line. */
#ifndef SHARED_LOG_FORMAT_H
#define SHARED_LOG_FORMAT_H

#include <stdbool.h>

#include "base/arena.h"
#include "conf/conf.h"
#include "conf/template.h"
#include "shared/log/line.h"

struct log_step;
typedef char *(*log_append)(struct log_line *line, char *at, struct variable_env *env,
                            const struct log_step *step);

/*
 * One step: text that is copied, then a value. Text is copied in words of LOG_WORD bytes: that many
 * bytes after it are readable, and each line has that much space after its end.
 */
#define LOG_WORD 16
struct log_step {
    struct str before;
    log_append append;
    const struct variable *variable; /* for values without a function of their own */
    unsigned capture;                /* for $1 to $9 */
};

struct log_format {
    struct str name;
    struct vec steps;       /* struct log_step */
    size_t fixed;           /* bytes of all text, plus the maximum of all values of bounded size */
    enum log_escape escape; /* UNSET: none was given */
};

/*
 * A variable whose value is formatted directly into the line: common ones, and those that depend on
 * the time of writing. append is called only for subjects of the family's kind.
 */
struct log_value {
    struct str name; /* of the variable; empty ends a list */
    log_append append;
};

/* The logs of http, or of stream: formats by name, and the values that are formatted directly. */
struct log_family {
    const char *state;              /* key for conf_state */
    const struct log_value *values; /* ended by an empty name */
    bool needs_format;              /* there is no default format: an access_log must name one */
    /* May a file be created whose path has values of this subject? NULL: always. */
    bool (*may_open)(struct variable_env *env);
};

/* The format with this name, or NULL. */
const struct log_format *log_format_find(struct conf *conf, const struct log_family *family,
                                         struct str name);
/* Adds a new, empty format. */
struct log_format *log_format_add(struct conf *conf, const struct log_family *family,
                                  struct str name);
/* Reads a `log_format`. False after conf_error. */
bool log_format_read(struct conf *conf, const struct conf_node *node,
                     const struct log_family *family);
/* Appends one argument to a format. False after conf_error. */
bool log_format_compile(struct conf *conf, const struct conf_node *node,
                        const struct log_value *values, struct log_format *format, struct str text);

/* Appends the line for a subject to buf, with its newline. escape: for a format without one. */
void log_format_write(const struct log_format *format, struct variable_env *env,
                      enum log_escape escape, struct buf *buf);

#endif
