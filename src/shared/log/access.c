/* Access logs: the directive access_log, and writing of lines to its target. */
#include "shared/log/access.h"

#include "base/parse.h"
#include "config.h"

#define GZIP_BUFFER (64 * 1024)
#define RATIO_DIGITS 4
#define RATIO_ONE 10000

/* ---- writing ---- */

static bool log_access_is_wanted(struct access_log *log, struct variable_env *env)
{
    if (log->condition != NULL) {
        struct str value = template_text(log->condition, env);
        if (value.len == 0 || (value.len == 1 && *value.data == '0')) {
            return false;
        }
    }
    if (log->ratio == RATIO_ONE) {
        return true;
    }
    log->share += log->ratio;
    if (log->share < RATIO_ONE) {
        return false;
    }
    log->share -= RATIO_ONE;
    return true;
}

static unsigned count_parents(struct str path)
{
    unsigned count = 0;

    while (path.data != NULL) {
        count += str_is(str_cut(&path, '/'), "..");
    }
    return count;
}

/*
 * A part of the path comes from the client: it must not leave the configured directory. So no value
 * may add a "..", nor a NUL that hides the remainder.
 */
static bool is_safe(const struct template *written, struct str path, const struct log *log)
{
    if (str_find_char(path, '\0') == NULL &&
        count_parents(path) <= count_parents(written->source)) {
        return true;
    }
    log_error(log, 0, "unsafe path of an access log \"%.*s\"", STR_ARG(path));
    return false;
}

static void write_by_path(const struct access_log *log, struct variable_env *env,
                          const struct log_settings *settings, struct str line)
{
    if (log->may_open != NULL && !log->may_open(env)) {
        return;
    }
    struct str path = template_text(log->path, env);
    if (is_safe(log->path, path, env->log)) {
        log_path_write(settings->paths, path, line, env->log);
    }
}

/* For targets that do not collect lines: formats the line in a buffer that is reused. */
static void write_at_once(const struct access_log *log, struct variable_env *env,
                          const struct log_settings *settings)
{
    static struct buf line;

    line.len = 0;
    log_format_write(log->format, env, (enum log_escape) settings->escape, &line);
    if (log->syslog != NULL) {
        syslog_send(log->syslog, -1, str_head(buf_str(&line), line.len - 1));
    } else if (log->pipe != NULL) {
        log_pipe_write(log->pipe, str_head(buf_str(&line), line.len - 1));
    } else {
        write_by_path(log, env, settings, buf_str(&line));
    }
}

bool access_log_gathers(struct access_log *log, struct variable_env *env,
                        const struct log_settings *settings)
{
    if (!log_access_is_wanted(log, env)) {
        return false;
    }
    if (log->lines == NULL) {
        write_at_once(log, env, settings);
    }
    return log->lines != NULL;
}

void access_logs_flush_all(struct generation *generation)
{
    for (struct log_file *file = generation->log_files; file != NULL; file = file->next) {
        if (file->flush != NULL) {
            file->flush(file);
        }
    }
}

/* ---- while the configuration is read ---- */

/* Parameters after the format's name, before they are checked against each other. */
struct parameters {
    struct log_buffering buffering;
    bool has_gzip;
    bool has_flush;
};

static bool parse_gzip(struct conf *conf, const struct conf_node *node, struct str word,
                       struct parameters *parameters)
{
#ifdef HAVE_ZLIB
    uint64_t level = 1;

    if (word.len != 4 && (!parse_uint(str_skip(word, 5), &level) || level < 1 || level > 9)) {
        return conf_error(conf, node, "invalid compression level \"%.*s\"",
                          STR_ARG(str_skip(word, 5)));
    }
    parameters->has_gzip = true;
    parameters->buffering.gzip_level = (int) level;
    return true;
#else
    return conf_error(conf, node, "nginx was built without zlib support");
#endif
}

static bool parse_parameter(struct conf *conf, const struct conf_node *node, struct str word,
                            struct access_log *log, struct parameters *parameters)
{
    uint64_t number;

    if (str_starts(word, STR("buffer="))) {
        struct str value = str_skip(word, 7);
        if (!parse_size(value, &number) || number == 0) {
            return conf_error(conf, node, "invalid buffer size \"%.*s\"", STR_ARG(value));
        }
        parameters->buffering.size = number;
    } else if (str_starts(word, STR("flush="))) {
        struct str value = str_skip(word, 6);
        if (!parse_msec(value, &number) || number == 0) {
            return conf_error(conf, node, "invalid flush time \"%.*s\"", STR_ARG(value));
        }
        parameters->has_flush = true;
        parameters->buffering.flush_ms = number;
    } else if (str_is(word, "gzip") || str_starts(word, STR("gzip="))) {
        return parse_gzip(conf, node, word, parameters);
    } else if (str_starts(word, STR("if="))) {
        log->condition = template_compile(conf, node, str_skip(word, 3));
        return log->condition != NULL;
    } else if (str_starts(word, STR("ratio="))) {
        struct str value = str_skip(word, 6);
        if (!parse_fixed_point(value, RATIO_DIGITS, &number) || number > RATIO_ONE) {
            return conf_error(conf, node, "invalid ratio \"%.*s\"", STR_ARG(value));
        }
        log->ratio = (unsigned) number;
    } else {
        return conf_error(conf, node, "invalid parameter \"%.*s\"", STR_ARG(word));
    }
    return true;
}

static bool apply_syslog(struct conf *conf, const struct conf_node *node,
                         const struct parameters *parameters, struct access_log *log)
{
    struct str error = STR_NONE;

    if (parameters->buffering.size != 0 || parameters->has_gzip || parameters->has_flush) {
        return conf_error(conf, node, "logs to syslog cannot be buffered");
    }
    log->syslog = syslog_target_parse(conf->arena, str_skip(node->args[1], 7), &error);
    return log->syslog != NULL || conf_error(conf, node, "%.*s", STR_ARG(error));
}

static bool apply_pipe(struct conf *conf, const struct conf_node *node,
                       const struct parameters *parameters, struct access_log *log)
{
    if (parameters->has_gzip) {
        return conf_error(conf, node, "logs to a program cannot be compressed");
    }
    if (parameters->buffering.size != 0 || parameters->has_flush) {
        conf_warn(conf, node, "lines go to a program at once: no buffer is used");
    }
    log->pipe = generation_log_pipe(conf, node, node->args[1]);
    return log->pipe != NULL;
}

static bool apply_path(struct conf *conf, const struct conf_node *node, struct str path,
                       struct parameters *parameters, struct access_log *log)
{
    if (parameters->has_gzip && parameters->buffering.size == 0) {
        parameters->buffering.size = GZIP_BUFFER;
    }
    if (template_variable_count(path) != 0) {
        if (parameters->buffering.size != 0) {
            return conf_error(conf, node, "buffered logs cannot have variables in name");
        }
        log->path = template_compile(conf, node, path);
        if (log->path == NULL) {
            return false;
        }
        template_make_path(log->path, conf->arena, conf->prefix);
        return true;
    }
    if (parameters->has_flush && parameters->buffering.size == 0) {
        return conf_error(conf, node, "no buffer is defined for access_log \"%.*s\"",
                          STR_ARG(path));
    }
    log->lines = log_lines_for(conf, node, path, &parameters->buffering);
    return log->lines != NULL;
}

/* Applies the first argument, the target. */
static bool apply_target(struct conf *conf, const struct conf_node *node,
                         struct parameters *parameters, struct access_log *log)
{
    struct str target = node->args[1];

    if (str_starts(target, STR("syslog:"))) {
        return apply_syslog(conf, node, parameters, log);
    }
    if (str_starts(target, STR("pipe:"))) {
        return apply_pipe(conf, node, parameters, log);
    }
    if (str_starts(target, STR("file:"))) {
        target = str_skip(target, 5);
    }
    if (target.len == 0) {
        return conf_error(conf, node, "invalid value \"%.*s\"", STR_ARG(node->args[1]));
    }
    return apply_path(conf, node, target, parameters, log);
}

static bool access_log_read(struct conf *conf, const struct conf_node *node,
                            const struct log_family *family, struct access_logs *logs)
{
    struct access_log log = {.ratio = RATIO_ONE};
    struct parameters parameters = {0};
    struct str format = node->count > 2 ? node->args[2] : STR("combined");

    if (str_is(node->args[1], "off")) {
        logs->is_off = true;
        return node->count == 2 ||
               conf_error(conf, node, "invalid parameter \"%.*s\"", STR_ARG(node->args[2]));
    }
    if (node->count == 2 && family->needs_format) {
        return conf_error(conf, node, "log format is not specified");
    }
    log.format = log_format_find(conf, family, format);
    if (log.format == NULL) {
        return conf_error(conf, node, "unknown log format \"%.*s\"", STR_ARG(format));
    }
    for (unsigned arg = 3; arg < node->count; arg++) {
        if (!parse_parameter(conf, node, node->args[arg], &log, &parameters)) {
            return false;
        }
    }
    if (!apply_target(conf, node, &parameters, &log)) {
        return false;
    }
    log.may_open = family->may_open;
    log.is_plain = log.lines != NULL && log.condition == NULL && log.ratio == RATIO_ONE;
    *vec_add(&logs->items, conf->arena, struct access_log) = log;
    return true;
}

bool access_log_add_file(struct conf *conf, const struct conf_node *node,
                         const struct log_family *family, struct str path, struct access_logs *logs)
{
    const struct log_buffering none = {0};
    struct access_log *log = vec_add(&logs->items, conf->arena, struct access_log);

    log->format = log_format_find(conf, family, STR("combined"));
    log->ratio = RATIO_ONE;
    log->is_plain = true;
    log->lines = log_lines_for(conf, node, path, &none);
    return log->lines != NULL;
}

bool log_format_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                      void *settings)
{
    return log_format_read(scope->conf, node, ((struct log_settings *) settings)->family);
}

bool access_log_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                      void *settings)
{
    struct log_settings *log = settings;

    return access_log_read(scope->conf, node, log->family, &log->logs);
}

bool open_log_file_cache_apply(struct conf_scope *scope, const struct directive *row,
                               struct conf_node *node, void *settings)
{
    return log_path_cache_read(scope->conf, node, &((struct log_settings *) settings)->paths);
}
