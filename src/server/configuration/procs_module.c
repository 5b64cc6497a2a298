/* ngx_procs_module (Tengine's): processes of modules beside the workers. No module here has one, so
 * a block cannot name any. */
#include "conf/directive.h"
#include "server/module.h"

static bool enter_processes(struct conf_scope *scope, const struct directive *row,
                            struct conf_node *node, void *settings)
{
    return conf_enter(scope, node, IN_PROCESSES, NULL, NULL) != NULL;
}

static bool enter_process(struct conf_scope *scope, const struct directive *row,
                          struct conf_node *node, void *settings)
{
    conf_error(scope->conf, node, "no module has a process \"%.*s\"", STR_ARG(node->args[1]));
    conf_hint(scope->conf,
              "a program of its own is a service of its own, which systemd looks after");
    return false;
}

static const struct directive main_rows[] = {
    {"processes", IN_MAIN, BLOCK(enter_processes),
     .doc = "Contains the processes that modules run besides the workers. From Tengine."},
    {0},
};

static const struct directive processes_rows[] = {
    {"process", IN_PROCESSES, BLOCK(enter_process), ARGS(1, 1), .repeat = REPEAT_CUSTOM,
     .is_free_form = true, .syntax = "<name>",
     .doc = "Configures the process with this name. No existing module has one, so any name is "
            "an error."},
    {0},
};

const struct module ngx_procs_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_procs_module",
    .kind = MODULE_CORE,
    .table = {.rows = main_rows, .contexts = IN_MAIN},
};

/* For the blocks inside, with Tengine's name. */
const struct module ngx_proc_core_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_proc_core_module",
    .kind = MODULE_CORE,
    .table = {.rows = processes_rows, .contexts = IN_PROCESSES},
};
