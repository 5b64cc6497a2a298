/* ngx_http_log_module: access_log, log_format, open_log_file_cache, and Tengine's log_escape,
 * log_empty_request, ratio=. */
#include <errno.h>
#include <sys/stat.h>

#include "config.h"
#include "http/client/connection.h"
#include "http/routing/file_settings.h"
#include "http/routing/hooks.h"
#include "http/variables/variables.h"
#include "server/module.h"
#include "shared/log/access.h"
#include "shared/log/format.h"

/* Settings of a location. */
struct http_log_settings {
    struct log_settings log;
    bool log_empty_request;
};

static struct settings_key log_key;

/* ---- values of requests that are formatted without evaluating variables ---- */

#define STEP(name)                                                                                 \
    static char *name(struct log_line *line, char *at, struct variable_env *env,                   \
                      const struct log_step *step)

/* Formats usual addresses here, since a variable would have to store the text. */
STEP(append_remote_addr)
{
    struct request *request = variable_request(env);
    const struct sockaddr_in *ipv4 = connection_brief_ipv4(request->connection);

    return ipv4 != NULL && request->main->client == NULL
               ? addr_put_v4(at, (const unsigned char *) &ipv4->sin_addr)
               : log_put(line, at, request_client_text(request));
}

STEP(append_remote_user)
{
    struct request *request = variable_request(env);
    struct str user;

    if (fields_get(&request->headers, FIELD_AUTHORIZATION) == NULL ||
        !request_remote_user(request, &user)) {
        return log_put_nothing(line, at);
    }
    return log_put_value(line, at, user);
}

STEP(append_request)
{
    struct request *request = variable_request(env);

    return request->head.line.data == NULL ? log_put_nothing(line, at)
                                           : log_put_value(line, at, request->head.line);
}

/* A field that usually is in the request once. */
static inline char *append_header(struct log_line *line, char *at, struct request *request,
                                  enum field_id id)
{
    const struct fields *headers = &request->headers;
    unsigned first = headers->first[id];
    struct str value;

    if (first == 0 && headers->count <= UINT8_MAX) {
        return log_put_nothing(line, at);
    }
    if (first != 0 && !headers->items[first - 1].is_removed) {
        uint32_t next = first; /* the next one with the same name */

        while (next < headers->count && headers->items[next].id != id) {
            next++;
        }
        if (next >= headers->count) {
            return log_put_value(line, at, headers->items[first - 1].value);
        }
    }
    return fields_joined(headers, &request->arena, id, &value) ? log_put_value(line, at, value)
                                                               : log_put_nothing(line, at);
}

STEP(append_referer)
{
    struct request *request = variable_request(env);

    return append_header(line, at, request, FIELD_REFERER);
}

STEP(append_user_agent)
{
    struct request *request = variable_request(env);

    return append_header(line, at, request, FIELD_USER_AGENT);
}

STEP(append_forwarded_for)
{
    struct request *request = variable_request(env);

    return append_header(line, at, request, FIELD_X_FORWARDED_FOR);
}

STEP(append_request_time)
{
    struct request *request = variable_request(env);

    return log_put_seconds(at, request_age_ms(request));
}

STEP(append_status)
{
    struct request *request = variable_request(env);
    unsigned status = request_status(request);

    if (status == 0 && request->head.version < HTTP_1_0) {
        status = 9;
    }
    return status < 1000 ? log_put_three_digits(at, status) : format_uint(at, status);
}

STEP(append_bytes_sent)
{
    struct request *request = variable_request(env);

    return format_uint(at, request_bytes_sent(request));
}

STEP(append_body_bytes_sent)
{
    struct request *request = variable_request(env);

    return format_uint(at, request_body_bytes_sent(request));
}

STEP(append_request_length)
{
    struct request *request = variable_request(env);

    return format_uint(at, request->head_size + request->incoming.received);
}

STEP(append_pipe)
{
    struct request *request = variable_request(env);

    *at = request->is_pipelined ? 'p' : '.';
    return at + 1;
}

static const struct log_value http_log_values[] = {
    {STR_INIT("remote_addr"), append_remote_addr},
    {STR_INIT("remote_user"), append_remote_user},
    {STR_INIT("request"), append_request},
    {STR_INIT("http_referer"), append_referer},
    {STR_INIT("http_user_agent"), append_user_agent},
    {STR_INIT("http_x_forwarded_for"), append_forwarded_for},
    {STR_INIT("request_time"), append_request_time},
    {STR_INIT("status"), append_status},
    {STR_INIT("bytes_sent"), append_bytes_sent},
    {STR_INIT("body_bytes_sent"), append_body_bytes_sent},
    {STR_INIT("request_length"), append_request_length},
    {STR_INIT("pipe"), append_pipe},
    {.name = STR_NONE},
};

/* ---- logging a request ---- */

/* Log files with variables in their name are created only if the root directory exists: otherwise
 * clients could create arbitrary files. */
static bool has_root(struct variable_env *env)
{
    struct request *request = variable_request(env);
    struct str root = template_text(request->location->files->root, env);
    struct stat info;
    int error = stat(root.data, &info) != 0 ? errno : S_ISDIR(info.st_mode) ? 0 : ENOTDIR;

    if (error != 0) {
        log_error(&request->log, error, "testing \"%.*s\" existence failed", STR_ARG(root));
    }
    return error == 0;
}

static const struct log_family http_logs = {
    .state = "http.log_formats",
    .values = http_log_values,
    .may_open = has_root,
};

/* A connection without a readable request. */
static bool is_empty_request(const struct request *request)
{
    unsigned status = request_status(request);

    return request->head.line.len == 0 && (status == 400 || status == 408);
}

static enum handler_result log_write_all(struct request *request)
{
    const struct http_log_settings *settings = location_settings(request->location, &log_key);

    if (!settings->log_empty_request && is_empty_request(request)) {
        return HANDLER_NEXT;
    }
    /* In log lines $sent_http_connection is "close", whatever was sent, as in nginx. */
    request->keepalive = false;
    access_logs_write(&settings->log, &request->env);
    return HANDLER_NEXT;
}

/* The default log of a server is added later, so only `off` is certain now. */
static bool log_is_active(const struct http_location *location)
{
    const struct http_log_settings *settings = location_settings(location, &log_key);

    return !settings->log.logs.is_off;
}

/* ---- directives ---- */

static bool make_combined(struct conf *conf, struct http_main *main)
{
    return log_format_compile(
        conf, NULL, http_logs.values, log_format_add(conf, &http_logs, STR("combined")),
        STR("$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent "
            "\"$http_referer\" \"$http_user_agent\""));
}

/* Initial settings, which every block inherits: through the family, functions shared with stream
 * find the formats of http. */
static void log_fresh(void *settings)
{
    ((struct log_settings *) settings)->family = &http_logs;
}

/* A server without access_log, of its own or from http, writes the default one. `off` takes
 * precedence over other access_log directives at the same level. */
static bool log_finish(struct conf_scope *scope, void *settings)
{
    struct access_logs *logs = &((struct log_settings *) settings)->logs;

    if (logs->is_off) {
        logs->items = (struct vec){0};
    } else if (logs->items.count == 0 && scope->context == IN_SERVER) {
        access_log_add_file(scope->conf, scope->node, &http_logs, STR(DEFAULT_HTTP_LOG), logs);
    }
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

#define L struct http_log_settings
static const struct directive log_rows[] = {
    {"log_format", IN_HTTP | IN_SERVER | IN_LOCATION, CUSTOM(log_format_apply), ARGS(2, ARGS_ANY),
     .repeat = REPEAT_APPEND, .syntax = "name [escape=default | json | none] string ...",
     .doc = "Defines a log format for access_log directives that follow it; its name must "
            "be unique in http. The format \"combined\" is predefined."},
    {"access_log", IN_HTTP_ALL | IN_LOCATION_IF | IN_LIMIT_EXCEPT,
     CUSTOM_FIELD(L, log.logs, access_log_apply), ARGS(1, ARGS_ANY), .repeat = REPEAT_APPEND,
     .syntax = "path [format [buffer=size] [gzip[=level]] [flush=time] [if=condition] "
               "[ratio=number]] | syslog:parameters [format [if=condition] [ratio=number]] | "
               "pipe:command [format [if=condition] [ratio=number]] | off",
     .doc = "Writes a line for each request. Several logs may be given at one level; a "
            "block with its own access_log inherits none. The default is logs/access.log "
            "in the format combined. syslog: takes "
            "server=address,facility=name,severity=level,tag=word,nohostname, or "
            "facility:level:target:port:ident as in Tengine, whose target is a host or a "
            "path and by default /dev/log. pipe: starts the command with the privileges of "
            "the master process and writes lines to its standard input, truncated to 4096 "
            "bytes; lines that it does not read in time are dropped and counted."},
    {"open_log_file_cache", IN_HTTP_ALL, CUSTOM_FIELD(L, log.paths, open_log_file_cache_apply),
     ARGS(1, 4), .initial = "off",
     .syntax = "max=number [inactive=time] [min_uses=number] [valid=time] | off",
     .doc = "Keeps log files open whose paths contain variables."},
    {"log_escape", IN_HTTP_ALL, ENUM(L, log.escape, escape_words), .initial = "on",
     .doc = "Escaping of values in formats without escape=: `on` is the same as "
            "escape=default, `off` disables it, `ascii` does not escape bytes above 127, "
            "`unprintable` does not escape quotes and backslashes."},
    {"log_empty_request", IN_HTTP_ALL, FLAG(L, log_empty_request), .initial = "on",
     .doc = "Whether connections that ended with 400 or 408 without a request are logged."},
    {0},
};
#undef L

static const struct phase_hook log_phases[] = {
    {.phase = PHASE_LOG, .name = "log", .run = log_write_all, .is_active = log_is_active},
    {.run = NULL},
};

/* A hook for the end of the http block, which the core needs and does not have itself. */
static const struct http_module log_hooks = {
    .phases = log_phases,
    .begin = make_combined,
    .end = variables_add_optional,
};

const struct module ngx_http_log_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_log_module",
    .kind = MODULE_HTTP,
    .table = {.key = &log_key,
              .rows = log_rows,
              .contexts = IN_HTTP_LOCATION_SETTINGS,
              .size = sizeof(struct http_log_settings),
              .fresh = log_fresh,
              .finish = log_finish},
    .hooks = &log_hooks,
    .worker_end = access_logs_flush_all,
};
