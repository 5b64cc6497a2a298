/* Formats of access logs: compiled to a list of steps, each of which appends one value to a line.
 */
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
 * One step: a text as it is, then a value. Texts are copied in words of LOG_WORD bytes: they have
 * so many readable bytes after them, and each line has room for them after its end.
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

/*
 * A variable whose value is laid out in the line itself: the usual ones, and those of the moment of
 * writing. append is called for subjects of the kind alone that the list is of.
 */
struct log_value {
    struct str name; /* of the variable; empty: the end of a list */
    log_append append;
};

/* The logs of http, or of stream: formats, found by name, and what is laid out in their lines. */
struct log_family {
    const char *state;              /* what the formats of a reading are kept under: conf_state */
    const struct log_value *values; /* ended by an empty name */
    bool needs_format;              /* there is none that an access_log takes which names none */
    /* May a file be made whose path has values of this subject? NULL: always. */
    bool (*may_open)(struct variable_env *env);
};

/* The format of this name, or NULL. */
const struct log_format *log_format_find(struct conf *conf, const struct log_family *family,
                                         struct str name);
/* A new one, empty. */
struct log_format *log_format_add(struct conf *conf, const struct log_family *family,
                                  struct str name);
/* What a `log_format` says. False after conf_error. */
bool log_format_read(struct conf *conf, const struct conf_node *node,
                     const struct log_family *family);
/* Appends what one argument of it says. False after conf_error. */
bool log_format_compile(struct conf *conf, const struct conf_node *node,
                        const struct log_value *values, struct log_format *format, struct str text);

/* Appends the line for a subject to buf, its newline included. escape: where the format names none.
 */
void log_format_write(const struct log_format *format, struct variable_env *env,
                      enum log_escape escape, struct buf *buf);

#endif
