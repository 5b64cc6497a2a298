/* ngx_errlog_module: error_log at the main level. */
#include "config.h"
#include "server/configuration/generation_life.h"
#include "server/module.h"
#include "server/process/server.h"

struct errlog_settings {
    struct log_sink *error_log; /* chain in the order of the file */
};

static struct settings_key key;

/* The default file is opened only when no other log is configured (errlog_configured). */
static bool apply_error_log(struct conf_scope *scope, const struct directive *row,
                            struct conf_node *node, void *settings)
{
    return conf_is_default(scope) || error_log_apply(scope, row, node, settings);
}

static const struct directive rows[] = {
    {"error_log", IN_MAIN, CUSTOM_FIELD(struct errlog_settings, error_log, apply_error_log),
     ARGS(1, ARGS_ANY), .repeat = REPEAT_APPEND, .initial = DEFAULT_ERROR_LOG " error",
     .syntax = "<file> | stderr | file:<file> | memory:<size> | pipe:<command> | "
               "syslog:server=<address>[,<parameter>=<value>] | "
               "syslog:<facility>[:<level>[:<target>[:<port>][:<ident>]]] [<level>] [json]",
     .doc = "Destination of the error log, and the lowest level that is logged: emerg, alert, "
            "crit, error, warn, notice, info or debug; by default error. May be specified "
            "several times. `pipe:` runs the command as the user of the master process and "
            "writes lines to its standard input; lines that it does not read in time are "
            "dropped and counted."},
    {0},
};

/* The sink of the first log. It is kept when the configuration names no log, or only logs that keep
 * nothing: syslog and memory. */
static struct log_sink *default_sink(struct generation *generation)
{
    struct log_sink *sink = arena_new(&generation->arena, struct log_sink);
    bool is_stderr = str_is(server.first_log_path, "stderr");

    sink->level = LOG_ERROR;
    sink->file = generation_log_file(generation, is_stderr ? STR_NONE : server.first_log_path);
    return sink;
}

static bool errlog_configured(struct conf *conf, struct generation *generation)
{
    struct errlog_settings *settings = conf_settings(conf_main_scope(conf), &key);

    if (!error_log_is_kept(settings->error_log)) {
        struct log_sink **end = &settings->error_log;

        while (*end != NULL) {
            end = &(*end)->next;
        }
        *end = default_sink(generation);
    }
    generation->core->error_log = settings->error_log;
    return true;
}

const struct module ngx_errlog_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_errlog_module",
    .kind = MODULE_CORE,
    .table = {.key = &key,
              .rows = rows,
              .contexts = IN_MAIN,
              .size = sizeof(struct errlog_settings)},
    .configured = errlog_configured,
};

/* Tengine 2's syslog. The targets `syslog:…` themselves belong to error_log and access_log. */
static const struct directive syslog_rows[] = {
    {"syslog_retry_interval", IN_MAIN, OBSOLETE, ARGS(1, 1), .syntax = "time",
     .doc = "Accepted and ignored, from Tengine 2.1: a target that failed is tried again with "
            "the next line."},
    {0},
};

const struct module ngx_syslog_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_syslog_module",
    .kind = MODULE_CORE,
    .table = {.rows = syslog_rows},
};
