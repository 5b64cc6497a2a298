/* load_module and the dso block, which take effect before anything else is applied. */
#include "server/configuration/dso_module.h"

#include "base/fs.h"
#include "config.h"
#include "server/module.h"

static bool is_directive(const struct conf_node *node, const char *name)
{
    return node->count != 0 && str_is(node->args[0], name);
}

/* The directory of `path`: relative to the run prefix, as modules are. */
static struct str dso_directory(struct conf *conf, const struct conf_node *block)
{
    struct str path = STR(DEFAULT_MODULES_PATH);

    for (const struct conf_node *node = block->children; node != NULL; node = node->next) {
        if (is_directive(node, "path") && node->count == 2) {
            path = node->args[1];
        }
    }
    path = fs_full_name(conf->arena, conf->prefix, path);
    return path.len != 0 && path.data[path.len - 1] == '/'
               ? path
               : arena_printf(conf->arena, "%.*s/", STR_ARG(path));
}

/* The name if it is absolute, else the name in the directory. module_load tries the default
   directory as well. */
static struct str dso_name(struct conf *conf, struct str directory, struct str name)
{
    if (!str_ends(name, STR(".so"))) {
        name = arena_printf(conf->arena, "%.*s.so", STR_ARG(name));
    }
    return fs_full_name(conf->arena, directory, name);
}

static bool dso_load_block(struct conf *conf, const struct conf_node *block)
{
    struct str directory = dso_directory(conf, block);
    bool is_good = true;

    for (const struct conf_node *node = block->children; node != NULL; node = node->next) {
        if (is_directive(node, "load") && (node->count == 2 || node->count == 3)) {
            struct str path = dso_name(conf, directory, node->args[node->count - 1]);

            is_good = module_load(conf, node, path) && is_good;
        }
    }
    return is_good;
}

bool dso_load_all(struct conf *conf)
{
    bool is_good = true;
    bool is_late = false;

    for (const struct conf_node *node = conf->root == NULL ? NULL : conf->root->children;
         node != NULL; node = node->next) {
        if (is_directive(node, "load_module") && node->count == 2 && !node->is_block) {
            is_good =
                (is_late ? conf_error(conf, node, "\"load_module\" directive is specified too late")
                         : module_load(conf, node, node->args[1])) &&
                is_good;
        } else if (is_directive(node, "dso") && node->is_block) {
            is_good = dso_load_block(conf, node) && is_good;
        } else if (node->is_block) {
            is_late = true;
        }
    }
    return is_good;
}

bool dso_row_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                   void *settings)
{
    return true;
}

static bool enter_dso(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                      void *settings)
{
    return conf_enter(scope, node, IN_DSO, NULL, NULL) != NULL;
}

static const struct directive main_rows[] = {
    {"dso", IN_MAIN, BLOCK(enter_dso),
     .doc = "Loads dynamic modules. Older form of load_module. From Tengine."},
    {0},
};

static const struct directive dso_rows[] = {
    {"load", IN_DSO, CUSTOM(dso_row_apply), ARGS(1, 2), .repeat = REPEAT_APPEND,
     .syntax = "[<name>] <file>",
     .doc = "Loads a module. The name may omit `.so`; a relative name is searched for in the "
            "directory set by `path` and in the default directory for modules. A module that is "
            "compiled in is skipped."},
    {"path", IN_DSO, CUSTOM(dso_row_apply), ARGS(1, 1), .syntax = "<directory>",
     .initial = DEFAULT_MODULES_PATH, .doc = "Directory in which `load` searches for modules."},
    {"module_stub", IN_DSO, OBSOLETE, ARGS(1, 1), .repeat = REPEAT_APPEND, .syntax = "<name>",
     .doc = "Accepted and ignored: it sets the order of modules in Tengine 2; here the order is "
            "fixed."},
    {0},
};

static const struct directive_table main_table = {.rows = main_rows, .contexts = IN_MAIN};
static const struct directive_table dso_table = {.rows = dso_rows, .contexts = IN_DSO};
static const struct directive_table *const tables[] = {&main_table, &dso_table, NULL};

const struct module ngx_dso_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_dso_module",
    .kind = MODULE_CORE,
    .tables = tables,
};
