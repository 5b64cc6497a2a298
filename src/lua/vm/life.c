/* The life of a subsystem's VM: init_by_lua, init_worker_by_lua, exit_worker_by_lua. */
#include "lua/vm/life.h"

#include <lauxlib.h>
#include <sys/uio.h>

#include "base/buf.h"
#include "conf/conf.h"
#include "lua/vm/core.h"
#include "lua/vm/thread.h"
#include "lua/vm/watch.h"
#include "server/generation.h"
#include "server/process/server.h"

static const struct script_subject_kind process_kind = {.name = "process"};

static void script_life_describe(const struct log *log, struct writer *out)
{
    (void) log;
    log_member(out, "context");
    writer_put(out, STR("init_worker_by_lua*"));
}

/* Runs a chunk that belongs to the process, with lines to `base`. False: it has failed, which was
 * logged. */
static bool script_life_run(struct script_vm *vm, enum script_phase phase,
                            const struct script_code *code, const struct log *base)
{
    struct script_subject subject;
    struct log log = *base;

    if (code == NULL) {
        return true;
    }
    if (phase == SCRIPT_INIT_WORKER) {
        log.describe = script_life_describe;
    }
    script_subject_begin(&subject, &process_kind, vm, &log);
    subject.settings = vm->options->settings;
    subject.runs_file = code->path != NULL;
    const struct script_call call = {.subject = &subject, .phase = phase, .code = code};
    enum script_end end = script_run(&call);
    script_subject_end(&subject);
    return end == SCRIPT_ENDED;
}

static int guard(lua_State *L)
{
    script_restore_getenv(L);
    script_guard_globals(L);
    return 0;
}

/* False for errors; a file that is not there is a warning only, since it may come before it is
 * wanted. */
static bool script_life_check(const struct script_vm_options *options)
{
    const struct generation *generation = options->generation;
    bool is_good = true;

    for (const struct script_code *code = options->codes; code != NULL; code = code->next) {
        struct arena arena = {0};
        struct str message;

        arena_init(&arena);
        message = script_code_check(code, &arena);
        if (message.len != 0) {
            bool is_missing = code->path != NULL && str_find(message, STR(": cannot ")) != NULL;

            log_at(&generation->log, is_missing ? LOG_WARN : LOG_EMERG, 0, "%.*s in %.*s:%u",
                   STR_ARG(message), STR_ARG(code->node->file->name), code->node->line);
            is_good = is_good && is_missing;
        }
        arena_free(&arena);
    }
    return is_good;
}

static struct script_vm *vm_begin(const struct script_vm_options *options, const struct log *log)
{
    struct script_vm *vm = script_vm_new(options, log);

    if (vm != NULL && (!script_life_run(vm, SCRIPT_INIT, options->init, log) ||
                       lua_cpcall(vm->state, guard, NULL) != 0)) {
        script_vm_free(vm);
        return NULL;
    }
    return vm;
}

/*
 * At the first start the log of the command line takes notices and worse, whatever error_log says:
 * what init_by_lua logs and the log of the configuration does not take goes there.
 */
struct start_log {
    struct log log;
    struct log_sink rest; /* in front of the sinks of log_main */
};

static void write_rest(struct log_sink *sink, enum log_level level, struct str line)
{
    const struct log_file *file = server_first_log_file();
    struct iovec parts[] = {{(char *) (uintptr_t) line.data, line.len}, {"\n", 1}};

    if (level > *(const enum log_level *) sink->data && file != NULL &&
        writev(file->fd, parts, 2) < 0) {
        return; /* as with every line that has no place */
    }
}

static const struct log *start_log_begin(struct start_log *start)
{
    if (server_first_log_file() == NULL || log_main->level >= LOG_NOTICE) {
        return log_main;
    }
    start->rest = (struct log_sink){.next = log_main->sinks,
                                    .level = LOG_NOTICE,
                                    .write = write_rest,
                                    .data = &log_main->level};
    start->log = *log_main;
    start->log.sinks = &start->rest;
    start->log.level = LOG_NOTICE;
    return &start->log;
}

bool script_opened(const struct script_vm_options *options, struct script_vm **out)
{
    struct start_log start;

    *out = NULL;
    if (options->code_count == 0) {
        return true;
    }
    if (options->generation->is_test) {
        return script_life_check(options);
    }
    *out = vm_begin(options, start_log_begin(&start));
    return *out != NULL;
}

struct script_vm *script_vm_private(const struct script_vm_options *options, const struct log *log)
{
    struct script_vm *vm = vm_begin(options, log);

    if (vm != NULL) {
        vm->is_private = true;
    }
    return vm;
}

void script_worker_begins(struct script_vm *vm)
{
    if (vm != NULL) {
        script_life_run(vm, SCRIPT_INIT_WORKER, vm->options->init_worker, &vm->options->log);
        script_watch_begin(vm->options->time_limit_ms);
    }
}

void script_worker_ends(struct script_vm *vm)
{
    if (vm != NULL) {
        script_life_run(vm, SCRIPT_EXIT_WORKER, vm->options->exit_worker, &vm->options->log);
        list_each(item, &vm->subjects) {
            script_subject_let_go(container_of(item, struct script_subject, node));
        }
    }
}
