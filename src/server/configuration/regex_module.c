/* ngx_regex_module: pcre_jit. */
#include "conf/regex.h"
#include "server/module.h"

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

static const struct directive rows[] = {
    {"pcre_jit", IN_MAIN, FLAG(struct regex_settings, pcre_jit), .initial = "on",
     .apply = apply_pcre_jit,
     .doc =
         "Compiles regular expressions to machine code. On unless it is turned off; nginx has it off."},
    {0},
};

const struct module ngx_regex_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_regex_module",
    .kind = MODULE_CORE,
    .table = {.rows = rows, .contexts = IN_MAIN, .size = sizeof(struct regex_settings)},
};
