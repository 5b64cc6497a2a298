/* Lua of a subsystem: the hooks that http and stream have in common, and a directive. */
#include "base/parse.h"
#include "lua/config/main.h"

#include "conf/conf.h"
#include "conf/directive.h"
#include "lua/config/rows.h"
#include "lua/dict/lua.h"
#include "lua/process/capture.h"
#include "lua/process/process.h"
#include "lua/sockets/sockets.h"
#include "lua/tasks/tasks.h"
#include "lua/tls/native.h"
#include "lua/values/args.h"
#include "lua/values/context.h"
#include "lua/values/values.h"
#include "lua/values/variables.h"
#include "lua/vm/life.h"
#include "server/generation.h"

#define CAPTURE_LEAST 4096 /* bytes */

static struct script_main **script_main_place_of(struct conf *conf, const char *key)
{
    return conf_state(conf, key, sizeof(struct script_main *));
}

void script_main_set(struct conf_scope *scope, const char *key, struct script_main *main,
                     const struct script_location *location)
{
    struct script_location *own = arena_new(scope->conf->arena, struct script_location);

    *own = *location;
    main->location = own;
    main->options.settings = location->settings;
    *script_main_place_of(scope->conf, key) = main;
}

struct script_main *script_main_of(struct conf *conf, const char *key)
{
    return *script_main_place_of(conf, key);
}

bool script_main_end(struct conf *conf, const char *key, const struct script_subsystem *subsystem)
{
    struct script_main *main = script_main_of(conf, key);

    main->options.subsystem = subsystem;
    script_options_end(conf, &main->options);
    return main->options.code_count != 0;
}

static void free_vm(void *arg)
{
    struct script_main *main = arg;

    script_vm_free(main->vm);
    main->vm = NULL;
}

bool script_main_opened(struct generation *generation, const char *key)
{
    struct script_main *main = script_main_of(&generation->conf, key);

    if (main == NULL) {
        return true;
    }
    struct log_sink *sinks = *main->location->error_log != NULL ? *main->location->error_log
                                                                : generation->core->error_log;

    main->options.log = (struct log){.sinks = sinks, .level = log_chain_level(sinks)};
    arena_on_free(&generation->arena, free_vm, main);
    return script_opened(&main->options, &main->vm);
}

static bool runs_here(const struct script_main *main)
{
    return main != NULL && worker_role != WORKER_BACKGROUND;
}

void script_main_worker_start(struct generation *generation, const char *key)
{
    const struct script_main *main = script_main_of(&generation->conf, key);

    if (runs_here(main)) {
        script_capture_begin(main->options.capture);
        script_worker_begins(main->vm);
    }
}

void script_main_worker_quit(struct generation *generation)
{
    script_timers_end(generation);
    script_sockets_quit();
}

void script_main_worker_end(struct generation *generation, const char *key)
{
    const struct script_main *main = script_main_of(&generation->conf, key);

    if (runs_here(main)) {
        script_worker_ends(main->vm);
    }
    script_sockets_quit();
}

void script_add_common(struct script_vm *vm, lua_State *L)
{
    script_tasks_add(L);
    script_values_add(vm, L);
    script_dict_add(vm, L);
    script_tls_add(L);
    script_process_add(L);
    script_sockets_add(L);
    script_args_add(L);
    script_context_add(L);
    script_variables_add(L);
}

/* ---- lua_capture_error_log ---- */

bool script_capture_apply(struct conf_scope *scope, const struct directive *row,
                          struct conf_node *node, void *settings)
{
    struct str word = node->args[1];
    uint64_t size;

    if (!parse_size(word, &size) || size < CAPTURE_LEAST || size > UINT32_MAX) {
        return conf_error(scope->conf, node,
                          "invalid capture error log size \"%.*s\", minimum size is %d",
                          STR_ARG(word), CAPTURE_LEAST);
    }
    *(struct script_capture **) (void *) ((char *) settings + row->offset) =
        script_capture_new(scope->conf->arena, size);
    return true;
}
