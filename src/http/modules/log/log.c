/* ngx_http_log_module: access_log, log_format, open_log_file_cache, and Tengine's log_escape, log_empty_request, ratio=. */
#include <errno.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/parse.h"
#include "config.h"
#include "http/hooks.h"
#include "http/modules/log/file.h"
#include "http/modules/log/format.h"
#include "http/modules/log/path.h"
#include "http/variables.h"
#include "server/module.h"

#define GZIP_BUFFER (64 * 1024)
#define RATIO_DIGITS 4
#define RATIO_ONE 10000

/* What one access_log says. One of lines, path, syslog and pipe is set. */
struct access_log {
    const struct log_format *format;
    struct log_lines *lines; /* of a file */
    struct template *path;   /* that holds variables: opened for each line */
    struct syslog_target *syslog;
    struct log_pipe *pipe;
    struct template *condition; /* if=, or NULL */
    unsigned ratio;             /* parts of RATIO_ONE that are logged */
    unsigned share;             /* of the next line; it is written when RATIO_ONE is reached */
};

/* The logs of a place; emptied as a whole at the first access_log of a block. */
struct access_logs {
    struct vec items; /* struct access_log */
    bool is_off;
};

/* Settings at the location level. */
struct log_settings {
    struct access_logs logs;
    struct log_path_cache *paths; /* open_log_file_cache; NULL = off */
    unsigned escape;              /* enum log_escape, for formats that name none */
    bool log_empty_request;
};

/* Settings of the http level. */
struct log_formats {
    struct vec items; /* struct log_format * */
};

static struct directive_table log_table;

static const struct log_settings *settings_at(const struct http_location *location)
{
    return location_settings(location, &log_table);
}

/* ---- logging a request ---- */

static bool is_wanted(struct access_log *log, struct request *request)
{
    if (log->condition != NULL) {
        struct str value = template_text(log->condition, &request->env);
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

/* Logs by variables are made only where the root directory is: else any name would make a file. */
static bool has_root(struct request *request)
{
    struct str root = template_text(request->location->root, &request->env);
    struct stat info;
    int error = stat(root.data, &info) != 0 ? errno : S_ISDIR(info.st_mode) ? 0 : ENOTDIR;

    if (error != 0) {
        log_error(&request->log, error, "testing \"%.*s\" existence failed", STR_ARG(root));
    }
    return error == 0;
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
 * The path comes from the client in part: it may not lead out of where the configuration points. So
 * no value may bring a "..", nor a NUL that hides the rest.
 */
static bool is_safe(const struct access_log *log, struct str path, struct request *request)
{
    if (str_find_char(path, '\0') == NULL &&
        count_parents(path) <= count_parents(log->path->source)) {
        return true;
    }
    log_error(&request->log, 0, "unsafe path of an access log \"%.*s\"", STR_ARG(path));
    return false;
}

static void write_by_path(const struct access_log *log, struct request *request,
                          const struct log_settings *settings, struct str line)
{
    if (!has_root(request)) {
        return;
    }
    struct str path = template_text(log->path, &request->env);
    if (is_safe(log, path, request)) {
        log_path_write(settings->paths, path, line, &request->log);
    }
}

/* To where no lines gather: laid out in a place that is used again and again. */
static void write_at_once(const struct access_log *log, struct request *request,
                          const struct log_settings *settings)
{
    static struct buf line;

    line.len = 0;
    log_format_write(log->format, request, (enum log_escape) settings->escape, &line);
    if (log->syslog != NULL) {
        syslog_send(log->syslog, -1, str_head(buf_str(&line), line.len - 1));
    } else if (log->pipe != NULL) {
        log_pipe_write(log->pipe, str_head(buf_str(&line), line.len - 1));
    } else {
        write_by_path(log, request, settings, buf_str(&line));
    }
}

/* A connection that sent nothing that could be read. */
static bool is_empty_request(const struct request *request)
{
    unsigned status = request_status(request);

    return request->line.len == 0 && (status == 400 || status == 408);
}

static enum flow log_write_all(struct request *request)
{
    const struct log_settings *settings = settings_at(request->location);

    if (!settings->log_empty_request && is_empty_request(request)) {
        return FLOW_NEXT;
    }
    /* In a log $sent_http_connection is "close", whatever was sent: so it is in nginx's. */
    request->keepalive = false;
    vec_each(struct access_log, log, &settings->logs.items) {
        if ((log->condition != NULL || log->ratio != RATIO_ONE) && !is_wanted(log, request)) {
            continue;
        }
        if (log->lines == NULL) {
            write_at_once(log, request, settings);
            continue;
        }
        size_t start = log->lines->pending.len;
        log_format_write(log->format, request, (enum log_escape) settings->escape,
                         &log->lines->pending);
        log_lines_added(log->lines, start);
    }
    return FLOW_NEXT;
}

/* The default log of a server is added only after this was asked: only `off` is known for sure. */
static bool is_active(const struct http_location *location)
{
    return !settings_at(location)->logs.is_off;
}

/* ---- log_format ---- */

static struct log_formats *formats_of(struct conf *conf)
{
    return conf_state(conf, "http.log_formats", sizeof(struct log_formats));
}

static struct log_format *find_format(struct conf *conf, struct str name)
{
    vec_each(struct log_format *, format, &formats_of(conf)->items) {
        if (str_equal((*format)->name, name)) {
            return *format;
        }
    }
    return NULL;
}

static struct log_format *add_format(struct conf *conf, struct str name)
{
    struct log_format *format = arena_new(conf->arena, struct log_format);

    format->name = name;
    format->escape = LOG_ESCAPE_UNSET;
    *(struct log_format **) vec_push(&formats_of(conf)->items, conf->arena, sizeof(format)) =
        format;
    return format;
}

static bool make_combined(struct conf *conf, struct http_main *main)
{
    (void) main;
    return log_format_compile(
        conf, NULL, add_format(conf, STR("combined")),
        STR("$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent "
            "\"$http_referer\" \"$http_user_agent\""));
}

static bool parse_escape(struct conf *conf, const struct conf_node *node, struct str word,
                         struct log_format *format)
{
    if (str_is(word, "default")) {
        format->escape = LOG_ESCAPE_DEFAULT;
    } else if (str_is(word, "json")) {
        format->escape = LOG_ESCAPE_JSON;
    } else if (str_is(word, "none")) {
        format->escape = LOG_ESCAPE_NONE;
    } else {
        return conf_error(conf, node, "unknown log format escaping \"%.*s\"", STR_ARG(word));
    }
    return true;
}

static bool log_format_apply(struct conf_scope *scope, const struct directive *row,
                             struct conf_node *node, void *settings)
{
    struct conf *conf = scope->conf;
    unsigned arg = 2;

    (void) row;
    (void) settings;
    if (find_format(conf, node->args[1]) != NULL) {
        return conf_error(conf, node, "duplicate \"log_format\" name \"%.*s\"",
                          STR_ARG(node->args[1]));
    }
    struct log_format *format = add_format(conf, node->args[1]);
    if (str_starts(node->args[2], STR("escape="))) {
        if (!parse_escape(conf, node, str_skip(node->args[2], 7), format)) {
            return false;
        }
        arg++;
    }
    for (; arg < node->count; arg++) {
        if (!log_format_compile(conf, node, format, node->args[arg])) {
            return false;
        }
    }
    return true;
}

/* ---- access_log ---- */

/* Parameters behind the format's name, before they are known to fit together. */
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
    (void) word;
    (void) parameters;
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

/* What the first argument names. */
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

static bool access_log_apply(struct conf_scope *scope, const struct directive *row,
                             struct conf_node *node, void *settings)
{
    struct conf *conf = scope->conf;
    struct access_logs *logs = &((struct log_settings *) settings)->logs;
    struct access_log log = {.ratio = RATIO_ONE};
    struct parameters parameters = {0};
    struct str format = node->count > 2 ? node->args[2] : STR("combined");

    (void) row;
    if (str_is(node->args[1], "off")) {
        logs->is_off = true;
        return node->count == 2 ||
               conf_error(conf, node, "invalid parameter \"%.*s\"", STR_ARG(node->args[2]));
    }
    log.format = find_format(conf, format);
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
    *(struct access_log *) vec_push(&logs->items, conf->arena, sizeof(log)) = log;
    return true;
}

/* A server that has no access_log, neither of its own nor of http, writes the usual one. `off` wins over what stands beside it. */
static bool log_finish(struct conf_scope *scope, void *settings)
{
    struct conf *conf = scope->conf;
    struct access_logs *logs = &((struct log_settings *) settings)->logs;

    if (logs->is_off) {
        logs->items = (struct vec){0};
    } else if (logs->items.count == 0 && scope->context == IN_SERVER) {
        const struct log_buffering none = {0};
        struct access_log *log = vec_push(&logs->items, conf->arena, sizeof(*log));
        log->format = find_format(conf, STR("combined"));
        log->ratio = RATIO_ONE;
        log->lines = log_lines_for(conf, scope->node, STR(DEFAULT_HTTP_LOG), &none);
    }
    return true;
}

/* ---- open_log_file_cache ---- */

static bool parse_cache_parameter(struct str word, uint64_t *max, struct log_path_cache *cache)
{
    if (str_starts(word, STR("max="))) {
        return parse_uint(str_skip(word, 4), max);
    }
    if (str_starts(word, STR("inactive="))) {
        return parse_sec(str_skip(word, 9), &cache->inactive_s);
    }
    if (str_starts(word, STR("min_uses="))) {
        return parse_uint(str_skip(word, 9), &cache->min_uses);
    }
    if (str_starts(word, STR("valid="))) {
        return parse_sec(str_skip(word, 6), &cache->valid_s);
    }
    return false;
}

static bool open_log_file_cache_apply(struct conf_scope *scope, const struct directive *row,
                                      struct conf_node *node, void *settings)
{
    struct log_settings *log = settings;
    struct conf *conf = scope->conf;
    struct log_path_cache wanted = {.inactive_s = 10, .valid_s = 60, .min_uses = 1};
    uint64_t max = 0;
    bool is_off = false;

    (void) row;
    for (unsigned arg = 1; arg < node->count; arg++) {
        if (str_is(node->args[arg], "off")) {
            is_off = true;
        } else if (!parse_cache_parameter(node->args[arg], &max, &wanted)) {
            return conf_error(conf, node, "invalid \"open_log_file_cache\" parameter \"%.*s\"",
                              STR_ARG(node->args[arg]));
        }
    }
    log->paths = NULL;
    if (is_off) {
        return true;
    }
    if (max == 0) {
        return conf_error(conf, node, "\"open_log_file_cache\" must have \"max\" parameter");
    }
    log->paths = log_path_cache_new(conf->arena, max);
    log->paths->inactive_s = wanted.inactive_s;
    log->paths->valid_s = wanted.valid_s;
    log->paths->min_uses = wanted.min_uses;
    return true;
}

/* ---- the module ---- */

static const struct directive_word escape_words[] = {
    {"on", LOG_ESCAPE_DEFAULT},
    {"off", LOG_ESCAPE_NONE},
    {"ascii", LOG_ESCAPE_ASCII},
    {"unprintable", LOG_ESCAPE_UNPRINTABLE},
    {NULL, 0},
};

#define L struct log_settings
static const struct directive log_rows[] = {
    {"log_format", IN_HTTP | IN_SERVER | IN_LOCATION, CUSTOM(log_format_apply), ARGS(2, ARGS_ANY),
     .repeat = REPEAT_APPEND, .syntax = "name [escape=default | json | none] string ...",
     .doc = "Names a format for the access_log lines that follow, wherever they stand: a name is "
            "one for all of http. \"combined\" is there already."},
    {"access_log", IN_HTTP_ALL | IN_LOCATION_IF | IN_LIMIT_EXCEPT,
     CUSTOM_FIELD(L, logs, access_log_apply), ARGS(1, ARGS_ANY), .repeat = REPEAT_APPEND,
     .syntax = "path [format [buffer=size] [gzip[=level]] [flush=time] [if=condition] "
               "[ratio=number]] | syslog:parameters [format [if=condition] [ratio=number]] | "
               "pipe:command [format [if=condition] [ratio=number]] | off",
     .doc =
         "Writes a line for each request. Several may stand at one level; a block with some of "
         "its own inherits none. Without any, logs/access.log has the format combined. syslog: "
         "takes server=address,facility=name,severity=level,tag=word,nohostname or Tengine's "
         "facility:level:target:port:ident, the target a host or a path, without one /dev/log. "
         "pipe: starts the command with the master's rights and writes lines to its standard input, "
         "cut at 4096 bytes; those it does not take in time are lost and counted."},
    {"open_log_file_cache", IN_HTTP_ALL, CUSTOM_FIELD(L, paths, open_log_file_cache_apply),
     ARGS(1, 4), .initial = "off",
     .syntax = "max=number [inactive=time] [min_uses=number] [valid=time] | off",
     .doc = "Keeps logs open whose paths hold variables."},
    {"log_escape", IN_HTTP_ALL, ENUM(L, escape, escape_words), .initial = "on",
     .doc =
         "Escapes values of formats that have no escape= of their own: on as escape=default, off "
         "not at all; ascii leaves bytes above 127, unprintable leaves quotes and backslashes."},
    {"log_empty_request", IN_HTTP_ALL, FLAG(L, log_empty_request), .initial = "on",
     .doc = "off leaves out lines of clients that were answered 400 or 408 without a request."},
    {0},
};
#undef L

static struct directive_table log_table = {.rows = log_rows,
                                           .contexts = IN_HTTP_LOCATION_SETTINGS,
                                           .size = sizeof(struct log_settings),
                                           .finish = log_finish};

static struct directive_table *const log_tables[] = {&log_table, NULL};

static const struct phase_hook log_phases[] = {
    {.phase = PHASE_LOG, .order = 100, .run = log_write_all, .is_active = is_active},
    {.run = NULL},
};

/* The end of the block is of no concern to logs, but the core has no hook of its own. */
static const struct http_module log_hooks = {
    .phases = log_phases,
    .begin = make_combined,
    .end = variables_add_optional,
};

/* What is buffered leaves with the worker. */
static void log_worker_end(struct generation *generation)
{
    for (struct log_file *file = generation->log_files; file != NULL; file = file->next) {
        if (file->flush != NULL) {
            file->flush(file);
        }
    }
}

const struct module ngx_http_log_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_log_module",
    .kind = MODULE_HTTP,
    .tables = log_tables,
    .hooks = &log_hooks,
    .worker_end = log_worker_end,
};
