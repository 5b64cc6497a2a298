/* Access logs: what an access_log says, and where its lines go. */
#ifndef SHARED_LOG_ACCESS_H
#define SHARED_LOG_ACCESS_H

#include "shared/log/file.h"
#include "shared/log/format.h"
#include "shared/log/path.h"

/* What one access_log says. One of lines, path, syslog and pipe is set. */
struct access_log {
    const struct log_format *format;
    struct log_lines *lines; /* of a file */
    struct template *path;   /* that holds variables: opened for each line */
    struct syslog_target *syslog;
    struct log_pipe *pipe;
    struct template *condition; /* if=, or NULL */
    unsigned ratio;             /* ten-thousandths that are logged */
    unsigned share;             /* of the next line; it is written when they are whole */
    bool is_plain;              /* every line goes to `lines` */
    bool (*may_open)(struct variable_env *env); /* of the family */
};

/* The logs of a location; emptied as a whole at the first access_log of a block. */
struct access_logs {
    struct vec items; /* struct access_log */
    bool is_off;
};

/* Settings of a location; the struct of a module begins with them. */
struct log_settings {
    struct access_logs logs;
    struct log_path_cache *paths;    /* open_log_file_cache; NULL = off */
    const struct log_family *family; /* set by the table's `fresh` */
    unsigned escape;                 /* enum log_escape, for formats that name none */
};

/*
 * Whether the line of a log that is not plain is to gather in `lines`: not when its condition
 * fails, and not where none gather; there it was written.
 */
bool access_log_gathers(struct access_log *log, struct variable_env *env,
                        const struct log_settings *settings);

/* A line to each log of the place. */
static inline void access_logs_write(const struct log_settings *settings, struct variable_env *env)
{
    vec_each(struct access_log, log, &settings->logs.items) {
        if (log->is_plain || access_log_gathers(log, env, settings)) {
            size_t start = log->lines->pending.len;

            log_format_write(log->format, env, (enum log_escape) settings->escape,
                             &log->lines->pending);
            log_lines_added(log->lines, start);
        }
    }
}

/* What is buffered leaves with the worker. */
void access_logs_flush_all(struct generation *generation);

/* `apply` of the rows log_format, access_log and open_log_file_cache; settings: struct
 * log_settings. */
bool log_format_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                      void *settings);
bool access_log_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                      void *settings);
bool open_log_file_cache_apply(struct conf_scope *scope, const struct directive *row,
                               struct conf_node *node, void *settings);
/* A log that nobody wrote down: the format "combined". False after conf_error. */
bool access_log_add_file(struct conf *conf, const struct conf_node *node,
                         const struct log_family *family, struct str path,
                         struct access_logs *logs);

#endif
