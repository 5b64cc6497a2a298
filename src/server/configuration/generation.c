/* Generations: from the text of a configuration to open files and sockets. */
#include "server/generation.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "conf/regex.h"
#include "net/shards/listener.h"
#include "server/configuration/generation_life.h"
#include "server/configuration/history.h"
#include "server/configuration/log_pipe.h"
#include "server/configuration/not_built.h"
#include "server/configuration/registry.h"
#include "server/configuration/thread_pools.h"
#include "server/module.h"
#include "server/process/pid_file.h"
#include "server/process/server.h"

struct generation *generation_now;

static struct str directory_of(struct str path)
{
    const char *slash = str_find_last_char(path, '/');

    return slash == NULL ? STR_NONE : str_from(path.data, slash + 1);
}

/* Reads the tree, loads modules, applies the directives. Errors become messages. */
static bool read_and_apply(struct generation *generation)
{
    struct conf *conf = &generation->conf;

    regex_use_jit(true);
    bool is_good = conf_read(conf, server.file_name, server.options.extra);
    if (conf->root == NULL) {
        return false;
    }
    is_good = registry_collect(conf, generation) && is_good;
    is_good = conf_apply(conf) && is_good;
    if (!is_good || conf->error_count != 0) {
        return false;
    }
    for (const struct module *const *m = generation->modules; *m != NULL; m++) {
        if ((*m)->configured != NULL && !(*m)->configured(conf, generation)) {
            is_good = false;
        }
    }
    return is_good && conf->error_count == 0;
}

static void free_zones(void *generation)
{
    generation_free_zones(generation);
}

static struct generation *generation_new(unsigned number, bool is_test)
{
    struct generation *generation = calloc(1, sizeof(*generation));

    if (generation == NULL) {
        fatal_no_memory(sizeof(*generation));
    }
    generation->magic = GENERATION_MAGIC;
    generation->number = number;
    generation->read_ms = (uint64_t) clock_now.seconds * 1000 + clock_now.milliseconds;
    generation->is_test = is_test;
    arena_init(&generation->arena);
    /* Registered first, so that it runs last: finalizers of Lua use shared dictionaries. */
    arena_on_free(&generation->arena, free_zones, generation);

    struct conf *conf = &generation->conf;
    conf->arena = &generation->arena;
    conf->prefix = server.prefix;
    conf->file_name = server.file_name;
    conf->conf_prefix = directory_of(server.file_name);
    conf->generation = generation;
    conf->explain_unknown = not_built_explain;
    return generation;
}

struct generation *registry_peek(void)
{
    struct generation *generation = generation_new(1, true);
    struct conf *conf = &generation->conf;

    conf_read(conf, server.file_name, server.options.extra);
    registry_collect(conf, generation);
    return generation;
}

struct generation *generation_peek(void)
{
    return generation_peek_kept(NULL);
}

struct generation *generation_peek_kept(const struct conf_file *files)
{
    struct generation *generation = generation_new(1, true);

    generation->conf.kept = files;
    conf_read(&generation->conf, server.file_name, server.options.extra);
    return generation;
}

/* Reads a new generation. NULL after messages; it was freed then. */
static struct generation *read_new(struct generation *generation, struct generation *old,
                                   bool is_verbose)
{
    generation_inherit_zones(old);
    bool is_good = read_and_apply(generation);
    generation_inherit_zones(NULL);
    conf_report(&generation->conf, log_main, is_verbose);
    if (!is_good) {
        generation_free(generation);
        return NULL;
    }
    return generation;
}

static struct generation *next_of(const struct generation *old, bool is_test)
{
    return generation_new(old == NULL ? 1 : old->number + 1, is_test);
}

struct generation *generation_read(struct generation *old, bool is_test, bool is_verbose)
{
    return read_new(next_of(old, is_test), old, is_verbose);
}

struct generation *generation_read_kept(struct generation *old, struct str directory,
                                        unsigned number, bool is_test, bool is_verbose)
{
    struct generation *generation = next_of(old, is_test);
    struct history_entry entry;

    if (!history_load(&generation->arena, directory, number, &entry)) {
        generation_free(generation);
        return NULL;
    }
    generation->conf.kept = entry.files;
    generation->kept.number = number;
    generation->kept.before = entry.before;
    generation->kept.directory = str_of(arena_cstr(&generation->arena, directory));
    return read_new(generation, old, is_verbose);
}

/* At least one connection per listening socket, and one for a client. */
static bool check_connections(struct generation *generation)
{
    int64_t connections = generation->events->worker_connections;
    int64_t sockets = 0;

    for (struct listener *listener = generation->listeners; listener != NULL;
         listener = listener->next) {
        sockets++;
    }
    if (connections < sockets + 1) {
        log_emerg(log_main, 0, "%lld worker_connections are not enough for %lld listening sockets",
                  (long long) connections, (long long) sockets);
        return false;
    }
    return true;
}

static void log_cpu_quota(const struct core_settings *core)
{
    if (core->cpu_quota != 0 && core->cpu_quota < server.cpu_count) {
        log_notice(log_main, 0,
                   "\"worker_processes auto\" is %u of %u CPUs, by the CPU quota of the control "
                   "group",
                   core->cpu_quota, server.cpu_count);
    }
}

static void check_affinity(const struct core_settings *core)
{
    size_t masks = core->affinity.count;

    if (core->affinity_mode == AFFINITY_MASKS && masks != 1 &&
        masks != (size_t) core->worker_processes) {
        log_warn(log_main, 0,
                 "the number of \"worker_processes\" is not equal to the number of "
                 "\"worker_cpu_affinity\" masks, using last mask for remaining worker processes");
    }
}

bool generation_check(struct generation *generation)
{
    if (generation->events == NULL) {
        log_emerg(log_main, 0, "no \"events\" section in configuration");
        return false;
    }
    const struct core_settings *core = generation->core;
    const struct events_settings *events = generation->events;

    generation->slots = core->master_process ? (unsigned) core->worker_processes : 1;
    generation->is_sharded = events->reuse_port_set ? events->reuse_port : generation->slots > 1;
    check_affinity(core);
    return thread_pools_check(generation) && check_connections(generation) &&
           generation_check_zones(generation);
}

static bool modules_open(struct generation *generation)
{
    for (const struct module *const *m = generation->modules; *m != NULL; m++) {
        if ((*m)->opened != NULL && !(*m)->opened(generation)) {
            return false;
        }
    }
    return true;
}

bool generation_open(struct generation *generation, bool is_first_start)
{
    CHECK_MAGIC(generation, GENERATION_MAGIC);
    if (!generation_open_logs(generation) || !log_pipes_open(generation)) {
        return false;
    }
    /* At the first start they are started later, as children of the process that stays in the
       background. */
    if (!is_first_start && !generation->is_test) {
        log_programs_start(generation);
    }
    struct log *former = log_main;

    log_main = &generation->log;
    if (generation_make_paths(generation) && modules_open(generation) &&
        (!generation->is_test || pid_file_touch(generation->core->pid_path)) &&
        (generation->is_test || shards_open(generation->listeners, generation->slots,
                                            generation->is_sharded, is_first_start, log_main))) {
        log_cpu_quota(generation->core);
        return true;
    }
    log_main = former;
    return false;
}

void generation_free(struct generation *generation)
{
    CHECK_MAGIC(generation, GENERATION_MAGIC);
    arena_free(&generation->arena);
    generation->magic = 0;
    free(generation);
}
