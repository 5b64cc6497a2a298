/* Modules that this build is without: whose an unknown directive is. */
#include "server/not_built.h"

#include "server/module.h"
#include "server/not_built_rows.h"

#define ROW_COUNT (sizeof(not_built_rows) / sizeof(not_built_rows[0]))

/* Was it built as an object that load_module can load? */
static bool is_loadable(const char *module)
{
    for (const char *const *name = loadable_modules; *name != NULL; name++) {
        if (str_is(str_of(*name), module)) {
            return true;
        }
    }
    return false;
}

static bool is_linked(const char *module)
{
    for (const struct module *const *m = linked_modules; *m != NULL; m++) {
        if (str_is(str_of((*m)->name), module)) {
            return true;
        }
    }
    return false;
}

static bool has_name(struct str names, struct str name)
{
    while (names.data != NULL) {
        if (str_equal(str_cut(&names, ' '), name)) {
            return true;
        }
    }
    return false;
}

struct str not_built_explain(struct conf *conf, struct str directive)
{
    for (size_t i = 0; i < ROW_COUNT; i++) {
        const struct not_built_row *row = &not_built_rows[i];

        if (directive.len != 0 && has_name(str_of(row->names), directive)) {
            return arena_printf(conf->arena, "it belongs to %s, which is not %s", row->module,
                                is_loadable(row->module) ? "loaded" : "built");
        }
    }
    return STR_NONE;
}

bool not_built_is(struct str module)
{
    for (size_t i = 0; i < ROW_COUNT; i++) {
        if (str_is(module, not_built_rows[i].module)) {
            return !is_linked(not_built_rows[i].module) && !is_loadable(not_built_rows[i].module);
        }
    }
    return false;
}
