/* ngx_google_perftools_module: profiles the CPU time of each worker with gperftools. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include <gperftools/profiler.h>

#include "base/log.h"
#include "server/generation.h"
#include "server/module.h"

struct perftools_settings {
    struct str profiles; /* google_perftools_profiles; empty = none */
};

static struct settings_key perftools_key;

/* The generation whose profile this process is writing; NULL: none. */
static const struct generation *profiled;

static const struct perftools_settings *google_perftools_settings_of(struct generation *generation)
{
    return conf_settings(conf_main_scope(&generation->conf), &perftools_key);
}

/* With CPUPROFILE in the environment the library starts by itself, in the process that loads it:
 * the master. It is stopped there. */
static bool google_perftools_configured(struct conf *conf, struct generation *generation)
{
    if (getenv("CPUPROFILE") != NULL) {
        ProfilerStop();
    }
    return true;
}

static bool google_perftools_worker_start(struct generation *generation)
{
    const struct perftools_settings *settings = google_perftools_settings_of(generation);
    struct arena *arena = &generation->arena;

    if (profiled != NULL) { /* a single process got another configuration */
        ProfilerStop();
        profiled = NULL;
    }
    if (settings->profiles.len == 0) {
        return true;
    }
    struct str name = arena_printf(arena, "%.*s.%d", STR_ARG(settings->profiles), (int) getpid());
    if (ProfilerStart(name.data)) {
        ProfilerRegisterThread();
        profiled = generation;
    } else {
        log_crit(log_main, errno, "cannot write a CPU profile to \"%.*s\"", STR_ARG(name));
    }
    return true;
}

static void google_perftools_worker_end(struct generation *generation)
{
    if (profiled == generation) {
        ProfilerStop();
        profiled = NULL;
    }
}

static const struct directive perftools_rows[] = {
    {"google_perftools_profiles", IN_MAIN, PATH(struct perftools_settings, profiles),
     .syntax = "file",
     .doc = "Each worker writes a CPU profile to `file.PID`, for pprof, when it exits. The user "
            "of the workers must be able to create files in its directory."},
    {0},
};

const struct module ngx_google_perftools_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_google_perftools_module",
    .kind = MODULE_CORE,
    .table = {.key = &perftools_key,
              .rows = perftools_rows,
              .contexts = IN_MAIN,
              .size = sizeof(struct perftools_settings)},
    .configured = google_perftools_configured,
    .worker_start = google_perftools_worker_start,
    .worker_end = google_perftools_worker_end,
};
