/* Access logs: the directive access_log, and writing of lines to its target. */
#ifndef SHARED_LOG_ACCESS_H
#define SHARED_LOG_ACCESS_H

#include "shared/log/file.h"
#include "shared/log/format.h"
#include "shared/log/path.h"

/* One access_log. One of lines, path, syslog and pipe is set. */
struct access_log {
    const struct log_format *format;
    struct log_lines *lines; /* of a file */
    struct template *path;   /* contains variables: the file is opened for each line */
    struct syslog_target *syslog;
    struct log_pipe *pipe;
    struct template *condition; /* if=, or NULL */
    unsigned ratio;             /* ten-thousandths of the requests are logged */
    unsigned share; /* sum for the next line, which is written when it reaches a whole */
    bool is_plain;  /* every line goes to `lines`, without conditions */
    bool (*may_open)(struct variable_env *env); /* from the family */
};

/* The logs of a location; the first access_log of a block drops the inherited ones. */
struct access_logs {
    struct vec items; /* struct access_log */
    bool is_off;
};

/* Settings of a location; a module's struct begins with them. */
struct log_settings {
    struct access_logs logs;
    struct log_path_cache *paths;    /* open_log_file_cache; NULL = off */
    const struct log_family *family; /* set by the table's `fresh` */
    unsigned escape;                 /* enum log_escape, for formats without an escape */
};

/*
 * Should the line of a log that is not plain be added to `lines`? Not if its condition fails, and
 * not if its target collects no lines; then it was written here.
 */
bool access_log_gathers(struct access_log *log, struct variable_env *env,
                        const struct log_settings *settings);

/* Writes a line to each log of the location. */
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

/* Writes everything that is buffered; called when the worker ends. */
void access_logs_flush_all(struct generation *generation);

/* `apply` of the rows log_format, access_log and open_log_file_cache; settings begin with struct
 * log_settings. */
bool log_format_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                      void *settings);
bool access_log_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                      void *settings);
bool open_log_file_cache_apply(struct conf_scope *scope, const struct directive *row,
                               struct conf_node *node, void *settings);
/* Adds a log that is not configured, in the format "combined". False after conf_error. */
bool access_log_add_file(struct conf *conf, const struct conf_node *node,
                         const struct log_family *family, struct str path,
                         struct access_logs *logs);

#endif
