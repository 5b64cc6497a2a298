/* ngx_core_module, ngx_thread_pool_module, ngx_conf_module, ngx_regex_module: the directives of the
 * main level. */
#define _GNU_SOURCE
#include <sched.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/parse.h"
#include "conf/regex.h"
#include "config.h"
#include "server/configuration/dso_module.h"
#include "server/configuration/history.h"
#include "server/configuration/thread_pools.h"
#include "server/module.h"
#include "server/process/affinity.h"
#include "server/process/cpu_quota.h"
#include "server/process/server.h"

enum { WORKERS_MOST = 1024, PIPE_SIZE_LEAST = 64 * 1024 };

struct settings_key core_key;

static bool apply_user(struct conf_scope *scope, const struct directive *row,
                       struct conf_node *node, void *settings)
{
    struct core_settings *core = settings;
    struct conf *conf = scope->conf;
    struct str group = node->args[node->count - 1];

    if (conf_is_default(scope)) {
        return true; /* core_finish finds the default user, where one is needed */
    }
    if (geteuid() != 0) {
        conf_warn(conf, node,
                  "the \"user\" directive makes sense only if the master process runs with "
                  "super-user privileges, ignored");
        return true;
    }
    core->user_name = node->args[1];
    const struct passwd *passwd = getpwnam(arena_cstr(conf->arena, core->user_name));
    if (passwd == NULL) {
        return conf_error(conf, node, "getpwnam(\"%.*s\") failed", STR_ARG(core->user_name));
    }
    core->user = passwd->pw_uid;
    const struct group *entry = getgrnam(arena_cstr(conf->arena, group));
    if (entry == NULL) {
        return conf_error(conf, node, "getgrnam(\"%.*s\") failed", STR_ARG(group));
    }
    core->group = entry->gr_gid;
    return true;
}

static bool apply_worker_processes(struct conf_scope *scope, const struct directive *row,
                                   struct conf_node *node, void *settings)
{
    struct core_settings *core = settings;
    uint64_t number;

    if (str_is(node->args[1], "auto")) {
        core->cpu_quota = cpu_quota("/proc/self/cgroup", "/sys/fs/cgroup");
        core->worker_processes =
            core->cpu_quota < server.cpu_count ? core->cpu_quota : server.cpu_count;
        return true;
    }
    if (!parse_uint(node->args[1], &number)) {
        return conf_error(scope->conf, node, "\"worker_processes\" directive invalid value");
    }
    if (number == 0 || number > WORKERS_MOST) {
        return conf_error(scope->conf, node,
                          "\"worker_processes\" directive value must be between 1 and %d",
                          WORKERS_MOST);
    }
    core->worker_processes = (int64_t) number;
    return true;
}

static bool apply_worker_priority(struct conf_scope *scope, const struct directive *row,
                                  struct conf_node *node, void *settings)
{
    struct core_settings *core = settings;
    struct str word = node->args[1];

    if (str_starts(word, STR("+"))) {
        word = str_skip(word, 1);
    }
    if (!parse_int(word, &core->worker_priority) || core->worker_priority < -1000 ||
        core->worker_priority > 1000) {
        return conf_error(scope->conf, node, "\"worker_priority\" directive invalid number");
    }
    return true;
}

static bool add_mask(struct conf *conf, struct conf_node *node, struct core_settings *core,
                     struct str text)
{
    char bad;
    cpu_set_t *mask = vec_add(&core->affinity, conf->arena, cpu_set_t);

    if (affinity_parse(text, mask, &bad)) {
        return true;
    }
    if (bad == '\0') {
        return conf_error(conf, node, "\"worker_cpu_affinity\" supports up to %d CPUs only",
                          CPU_SETSIZE);
    }
    return conf_error(conf, node, "invalid character \"%c\" in \"worker_cpu_affinity\"", bad);
}

static bool apply_affinity(struct conf_scope *scope, const struct directive *row,
                           struct conf_node *node, void *settings)
{
    struct core_settings *core = settings;
    unsigned first = 1;

    if (str_is(node->args[1], "off") && node->count == 2) {
        core->affinity_mode = AFFINITY_OFF;
        return true;
    }
    core->affinity_mode = AFFINITY_MASKS;
    if (str_is(node->args[1], "auto")) {
        if (node->count > 3) {
            return conf_error(scope->conf, node,
                              "invalid number of arguments in \"worker_cpu_affinity\" directive");
        }
        core->affinity_mode = AFFINITY_AUTO;
        first = 2;
    }
    for (unsigned i = first; i < node->count; i++) {
        if (!add_mask(scope->conf, node, core, node->args[i])) {
            return false;
        }
    }
    return true;
}

static bool apply_env(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                      void *settings)
{
    struct core_settings *core = settings;

    if (node->args[1].len == 0 || node->args[1].data[0] == '=') {
        return conf_error(scope->conf, node, "invalid value \"%.*s\"", STR_ARG(node->args[1]));
    }
    *vec_add(&core->environment, scope->conf->arena, struct str) = node->args[1];
    return true;
}

/* Tengine's: sets a variable in the master's own environment, unless it exists. */
static bool apply_master_env(struct conf_scope *scope, const struct directive *row,
                             struct conf_node *node, void *settings)
{
    struct str value = node->args[1];
    struct str name = str_cut(&value, '=');

    if (name.len == 0) {
        return conf_error(scope->conf, node, "invalid value \"%.*s\"", STR_ARG(node->args[1]));
    }
    setenv(arena_cstr(scope->conf->arena, name),
           value.data == NULL ? "1" : arena_cstr(scope->conf->arena, value), 0);
    return true;
}

static bool apply_history(struct conf_scope *scope, const struct directive *row,
                          struct conf_node *node, void *settings)
{
    struct core_settings *core = settings;
    struct conf *conf = scope->conf;
    uint64_t number;

    if (!parse_uint(node->args[1], &number) || number > HISTORY_MOST) {
        return conf_error(conf, node, "\"config_history\" directive value must be between 0 and %d",
                          HISTORY_MOST);
    }
    core->history_count = (int64_t) number;
    core->history_directory =
        conf_full_name(conf, node->count == 3 ? node->args[2] : STR(HISTORY_DIRECTORY), false);
    return true;
}

static const struct directive_word debug_points_words[] = {{"stop", 1}, {"abort", 2}, {0}};

static const struct directive core_rows[] = {
    {"config_history", IN_MAIN, CUSTOM(apply_history), ARGS(1, 2),
     .syntax = "<number> [<directory>]", .initial = "0",
     .doc = "Keeps the running configuration and this number of earlier ones, for `nginx -t "
            "--diff` and `nginx -s rollback`. The directory must be writable only by the user "
            "of the master process; by default it is config_history in the prefix. 0 keeps none."},
    {"daemon", IN_MAIN, FLAG(struct core_settings, daemon), .initial = "on",
     .doc = "Whether the server runs in the background as a daemon."},
    {"master_process", IN_MAIN, FLAG(struct core_settings, master_process), .initial = "on",
     .doc = "Whether worker processes are started. When off, a single process does all the work, "
            "for debugging."},
    {"debug_points", IN_MAIN, ENUM(struct core_settings, debug_points, debug_points_words),
     .doc = "What a worker does when it exits after a WINCH signal: `stop` suspends it, `abort` "
            "makes it dump core. For debugging."},
    {"env", IN_MAIN, CUSTOM(apply_env), ARGS(1, 1), .repeat = REPEAT_APPEND,
     .syntax = "<name>[=<value>]", .initial = "TZ",
     .doc = "Environment variable that workers inherit, or that is set for them to the given "
            "value. All others except TZ are removed."},
    {"master_env", IN_MAIN, CUSTOM(apply_master_env), ARGS(1, 1), .repeat = REPEAT_APPEND,
     .syntax = "<name>[=<value>]",
     .doc = "Sets an environment variable of the master process, to 1 if no value is given."},
    {"load_module", IN_MAIN, CUSTOM(dso_row_apply), ARGS(1, 1), .repeat = REPEAT_APPEND,
     .syntax = "<file>",
     .doc = "Loads a dynamic module. A file that does not exist, or that was built for nginx, "
            "is also searched for by its name in the directory set by `--modules-path`. A "
            "module that is compiled in is skipped. A module that cannot be loaded is skipped "
            "with a warning; only the use of its directives is then an error."},
    {"lock_file", IN_MAIN, PATH(struct core_settings, lock_path), .initial = DEFAULT_LOCK,
     .doc = "Accepted and ignored: locks are in shared memory and need no file."},
    {"pid", IN_MAIN, PATH(struct core_settings, pid_path), .initial = DEFAULT_PID,
     .doc = "File that stores the process ID of the master process."},
    {"pipe_set_size", IN_MAIN, SIZE(struct core_settings, pipe_set_size), .min = PIPE_SIZE_LEAST,
     .max = INT_MAX,
     .doc = "Size of the pipes to the programs that receive logs, at least 64k. By default, the "
            "system's size is used. On Linux, users other than root cannot exceed "
            "fs.pipe-max-size."},
    {"timer_resolution", IN_MAIN, MSEC(struct core_settings, timer_resolution_ms),
     .doc = "Accepted and ignored: the clock is read once in each iteration of the event loop."},
    {"user", IN_MAIN, CUSTOM(apply_user), ARGS(1, 2), .syntax = "<user> [<group>]",
     .initial = DEFAULT_USER " " DEFAULT_GROUP, .doc = "User and group of the worker processes."},
    {"worker_cpu_affinity", IN_MAIN, CUSTOM(apply_affinity), ARGS(1, ARGS_ANY),
     .syntax = "<mask> ... | auto [<mask>] | off",
     .doc = "Binds workers to CPUs. Each mask has one binary digit for each CPU, with CPU 0 "
            "last. `auto` binds each worker to one of the CPUs that the process may use."},
    {"worker_priority", IN_MAIN, CUSTOM(apply_worker_priority), ARGS(1, 1), .syntax = "<number>",
     .initial = "0", .doc = "Nice value of the worker processes."},
    {"worker_processes", IN_MAIN, CUSTOM(apply_worker_processes), ARGS(1, 1),
     .syntax = "<number> | auto", .initial = "1",
     .doc = "Number of worker processes. `auto` starts one for each CPU that the process may "
            "use, according to its affinity and the CPU quota of its control group."},
    {"worker_rlimit_core", IN_MAIN, OFFSET(struct core_settings, worker_rlimit_core),
     .doc = "Largest size of a core file of a worker (RLIMIT_CORE)."},
    {"worker_rlimit_nofile", IN_MAIN, NUMBER(struct core_settings, worker_rlimit_nofile),
     .doc = "Largest number of open files of a worker (RLIMIT_NOFILE)."},
    {"worker_rlimit_sigpending", IN_MAIN, NUMBER(struct core_settings, worker_rlimit_sigpending),
     .doc = "Largest number of queued signals of a worker (RLIMIT_SIGPENDING)."},
    {"worker_shutdown_timeout", IN_MAIN, MSEC(struct core_settings, worker_shutdown_timeout_ms),
     .doc = "Time after which a worker that shuts down gracefully closes the connections that "
            "are still open."},
    {"shutdown_delay", IN_MAIN, MSEC(struct core_settings, shutdown_delay_ms), .initial = "0",
     .doc = "Delay between the QUIT signal and the shutdown. Meanwhile the server still accepts "
            "and answers requests, `ready` responds with 503, and responses ask clients to "
            "connect elsewhere. A second QUIT ends the delay."},
    {"force_exit", IN_MAIN, MSEC(struct core_settings, worker_shutdown_timeout_ms),
     .replaced_by = "worker_shutdown_timeout",
     .doc = "Name of worker_shutdown_timeout in Tengine 2."},
    {"working_directory", IN_MAIN, PATH(struct core_settings, working_directory),
     .doc = "Working directory of the workers, in which core files are written."},
    {"reload_confirm", IN_MAIN, MSEC(struct core_settings, reload_confirm_ms), .initial = "0",
     .doc = "Time after which a reload is undone and the previous configuration restored, "
            "unless `nginx -s confirm` is run before. Requires config_history. 0: a reload "
            "needs no confirmation."},
    {"thread_stack_size", IN_MAIN, OBSOLETE, ARGS(1, 1),
     .doc = "Accepted and ignored: it configures threads that Tengine no longer has."},
    {"worker_threads", IN_MAIN, OBSOLETE, ARGS(1, 1),
     .doc = "Accepted and ignored: it configures threads that Tengine no longer has."},
    {0},
};

/* Sets the user of the build, when the file names none and the master is root. */
static bool default_user(struct conf_scope *scope, struct core_settings *core)
{
    if (geteuid() != 0 || conf_is_set(scope, &core_key, "user")) {
        return true;
    }
    const struct passwd *passwd = getpwnam(DEFAULT_USER);
    if (passwd == NULL) {
        return conf_error(scope->conf, NULL, "getpwnam(\"" DEFAULT_USER "\") failed");
    }
    core->user_name = STR(DEFAULT_USER);
    core->user = passwd->pw_uid;
    const struct group *group = getgrnam(DEFAULT_GROUP);
    if (group == NULL) {
        return conf_error(scope->conf, NULL, "getgrnam(\"" DEFAULT_GROUP "\") failed");
    }
    core->group = group->gr_gid;
    return true;
}

static bool core_finish(struct conf_scope *scope, void *settings)
{
    struct core_settings *core = settings;

    if (core->worker_processes == 0) {
        core->worker_processes = 1;
    }
    if (!conf_is_set(scope, &core_key, "worker_rlimit_core")) {
        core->worker_rlimit_core = -1;
    }
    if (!conf_is_set(scope, &core_key, "worker_rlimit_nofile")) {
        core->worker_rlimit_nofile = -1;
    }
    if (!conf_is_set(scope, &core_key, "worker_rlimit_sigpending")) {
        core->worker_rlimit_sigpending = -1;
    }
    if (core->reload_confirm_ms != 0 && core->history_count == 0) {
        return conf_error(scope->conf, NULL,
                          "\"reload_confirm\" needs a configuration to return to: set "
                          "\"config_history\"");
    }
    return default_user(scope, core);
}

/* No user until one is found. */
static void core_fresh(void *settings)
{
    struct core_settings *core = settings;

    core->user = (uid_t) -1;
    core->group = (gid_t) -1;
}

static const struct directive_table core_table = {.key = &core_key,
                                                  .rows = core_rows,
                                                  .contexts = IN_MAIN,
                                                  .size = sizeof(struct core_settings),
                                                  .finish = core_finish,
                                                  .fresh = core_fresh};
static const struct directive_table *const tables[] = {&core_table, &thread_pool_table, NULL};

static bool configuration_core_module_configured(struct conf *conf, struct generation *generation)
{
    generation->core = conf_settings(conf_main_scope(conf), &core_key);
    generation->core->thread_pools = thread_pools_of(conf);
    return true;
}

const struct module ngx_core_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_core_module",
    .kind = MODULE_CORE,
    .tables = tables,
    .configured = configuration_core_module_configured,
};

/* ---- ngx_conf_module: include. The reader has replaced it by the files before anything is
 * applied. ---- */

static bool apply_include(struct conf_scope *scope, const struct directive *row,
                          struct conf_node *node, void *settings)
{
    return conf_error(scope->conf, node, "\"include\" directive is not allowed here");
}

static const struct directive conf_rows[] = {
    {"include", IN_ANY, CUSTOM(apply_include), ARGS(1, 1), .repeat = REPEAT_APPEND,
     .syntax = "<file> | <mask>",
     .doc = "Includes another file, or all files that match the mask, in the order of their "
            "names."},
    {0},
};

const struct module ngx_conf_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_conf_module",
    .kind = MODULE_CORE,
    .table = {.rows = conf_rows, .contexts = IN_ANY},
};

/* ---- ngx_regex_module: pcre_jit ---- */

struct regex_settings {
    bool pcre_jit;
};

/* Rows of the main level are applied before any nested block compiles its expressions. */
static bool apply_pcre_jit(struct conf_scope *scope, const struct directive *row,
                           struct conf_node *node, void *settings)
{
    regex_use_jit(((struct regex_settings *) settings)->pcre_jit);
    return true;
}

static const struct directive regex_rows[] = {
    {"pcre_jit", IN_MAIN, FLAG(struct regex_settings, pcre_jit), .initial = "on",
     .apply = apply_pcre_jit,
     .doc = "Whether regular expressions are compiled to machine code (PCRE JIT). In nginx, the "
            "default is off."},
    {0},
};

const struct module ngx_regex_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_regex_module",
    .kind = MODULE_CORE,
    .table = {.rows = regex_rows, .contexts = IN_MAIN, .size = sizeof(struct regex_settings)},
};
