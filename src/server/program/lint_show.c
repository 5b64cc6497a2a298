/* `-t --lint`: runs the rules of all modules. */
#include "server/program/lint_show.h"

#include <unistd.h>

#include "base/fs.h"
#include "server/module.h"

/* Those of the modules of a generation; NULL-ended. */
static const struct lint_rule *const *tables_of(struct generation *generation)
{
    struct vec tables = {0};

    for (const struct module *const *m = generation->modules; *m != NULL; m++) {
        if ((*m)->lint_rules != NULL) {
            *vec_add(&tables, &generation->arena, const struct lint_rule *) = (*m)->lint_rules;
        }
    }
    *vec_add(&tables, &generation->arena, const struct lint_rule *) = NULL;
    return tables.items;
}

int lint_show(struct generation *generation, struct str off)
{
    const struct lint_rule *const *tables = tables_of(generation);
    struct buf text = {0};

    if (!lint_options_check(off, tables, &text)) {
        log_write(log_main, LOG_STDERR, 0, "%.*s", STR_ARG(buf_str(&text)));
        buf_free(&text);
        return 1;
    }
    struct lint lint = {.conf = &generation->conf, .out = &text, .off = off};
    unsigned count = lint_run(&lint, tables);

    fs_write_all(STDOUT_FILENO, buf_str(&text));
    buf_free(&text);
    return count == 0 ? 0 : LINT_FOUND;
}
