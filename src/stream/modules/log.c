/* ngx_stream_log_module: access_log, log_format, open_log_file_cache. */
#include "base/clock.h"
#include "server/module.h"
#include "shared/log/access.h"
#include "stream/session/hooks.h"
#include "stream/session/session.h"

static struct settings_key log_key;

/* ---- values that are written without the variables ---- */

#define STEP(name)                                                                                 \
    static char *name(struct log_line *line, char *at, struct variable_env *env,                   \
                      const struct log_step *step)

STEP(append_remote_addr)
{
    struct addr client;
    char buffer[ADDR_TEXT_MAX];

    session_client(variable_session(env), &client);
    if (client.len == 0 || client.any.sa_family == AF_UNIX) {
        return log_put(line, at, STR("unix:"));
    }
    return log_put(line, at, (struct str){buffer, addr_format(&client, false, buffer)});
}

STEP(append_session_time)
{
    return log_put_seconds(at, clock_now.now_ms - variable_session(env)->start_ms);
}

STEP(append_status)
{
    return log_put_three_digits(at, variable_session(env)->status);
}

static const struct log_value log_values[] = {
    {STR_INIT("remote_addr"), append_remote_addr},
    {STR_INIT("session_time"), append_session_time},
    {STR_INIT("status"), append_status},
    {.name = STR_NONE},
};

static const struct log_family stream_logs = {
    .state = "stream.log_formats",
    .values = log_values,
    .needs_format = true,
};

static enum session_step write_all(struct session *session)
{
    access_logs_write(stream_settings(session->server, &log_key), &session->env);
    return SESSION_NEXT;
}

/* ---- directives ---- */

/* The family, which is copied down to servers with the other settings. */
static void log_fresh(void *settings)
{
    ((struct log_settings *) settings)->family = &stream_logs;
}

/* `off` overrides other access_log lines of the same level. */
static bool log_finish(struct conf_scope *scope, void *settings)
{
    struct access_logs *logs = &((struct log_settings *) settings)->logs;

    if (logs->is_off) {
        logs->items = (struct vec){0};
    }
    return true;
}

#define L struct log_settings
static const struct directive log_rows[] = {
    {"log_format", IN_STREAM, CUSTOM(log_format_apply), ARGS(2, ARGS_ANY), .repeat = REPEAT_APPEND,
     .syntax = "name [escape=default | json | none] string ...",
     .doc = "Defines a log format for access_log."},
    {"access_log", IN_STREAM | IN_STREAM_SERVER, CUSTOM_FIELD(L, logs, access_log_apply),
     ARGS(1, ARGS_ANY), .repeat = REPEAT_APPEND,
     .syntax = "path format [buffer=size] [gzip[=level]] [flush=time] [if=condition] | "
               "syslog:parameters format [if=condition] | pipe:command format [if=condition] | off",
     .doc = "Writes a line to the log when a session ends. May be specified several times at the "
            "same level. A server with its own access_log does not inherit those of stream."},
    {"open_log_file_cache", IN_STREAM | IN_STREAM_SERVER,
     CUSTOM_FIELD(L, paths, open_log_file_cache_apply), ARGS(1, 4), .initial = "off",
     .syntax = "max=number [inactive=time] [min_uses=number] [valid=time] | off",
     .doc = "Caches open log files whose paths contain variables."},
    {0},
};
#undef L

static const struct session_hook session_hooks[] = {
    {.phase = STREAM_LOG,
     .run = write_all,
     .when = SETTING(log_key, struct log_settings, logs.items.count)},
    {.run = NULL},
};
static const struct stream_module hooks = {.hooks = session_hooks};

const struct module ngx_stream_log_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_stream_log_module",
    .kind = MODULE_STREAM,
    .table = {.key = &log_key,
              .rows = log_rows,
              .contexts = IN_STREAM | IN_STREAM_SERVER,
              .size = sizeof(struct log_settings),
              .fresh = log_fresh,
              .finish = log_finish},
    .hooks = &hooks,
    .worker_end = access_logs_flush_all,
};
