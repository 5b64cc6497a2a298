/* ngx_backtrace_module (Tengine's): logs the stack frames of a worker that crashes. */
#include "server/module.h"
#include "server/worker/crash.h"

struct backtrace_settings {
    struct str path;       /* backtrace_log; empty: the error log */
    int64_t frames;        /* backtrace_max_stack_size */
    struct log_file *file; /* of path */
};

static struct settings_key backtrace_key;

static bool backtrace_configured(struct conf *conf, struct generation *generation)
{
    struct backtrace_settings *settings = conf_settings(conf_main_scope(conf), &backtrace_key);

    if (settings->path.len != 0) {
        settings->file = generation_log_file(generation, settings->path);
    }
    return true;
}

static bool backtrace_worker_start(struct generation *generation)
{
    const struct backtrace_settings *settings =
        conf_settings(conf_main_scope(&generation->conf), &backtrace_key);

    crash_trace(settings->file, (unsigned) settings->frames);
    return true;
}

static const struct directive backtrace_rows[] = {
    {"backtrace_log", IN_MAIN, PATH(struct backtrace_settings, path), .syntax = "file",
     .doc = "File to which a worker that crashes writes a backtrace. By default, the backtrace "
            "is written to the error log."},
    {"backtrace_max_stack_size", IN_MAIN, NUMBER(struct backtrace_settings, frames),
     .initial = "30", .max = CRASH_FRAMES_MOST,
     .doc = "Largest number of stack frames in a backtrace. 0 disables backtraces."},
    {0},
};

const struct module ngx_backtrace_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_backtrace_module",
    .kind = MODULE_CORE,
    .table = {.key = &backtrace_key,
              .rows = backtrace_rows,
              .contexts = IN_MAIN,
              .size = sizeof(struct backtrace_settings)},
    .configured = backtrace_configured,
    .worker_start = backtrace_worker_start,
};
