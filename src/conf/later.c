/* Texts that come while the service runs, read by the rows of the reading that is in force. */
#include "conf/internal.h"

void conf_later(const struct conf *conf, struct arena *arena, struct variable_set *set,
                struct conf *out)
{
    struct conf_engine *engine = arena_new(arena, struct conf_engine);

    /* Defaults that are made now are of this text's memory. */
    *engine = *conf->engine;
    engine->defaults = arena_array(arena, conf->table_count + 1, sizeof(void *));
    memcpy(engine->defaults, conf->engine->defaults, conf->table_count * sizeof(void *));
    *out = (struct conf){.arena = arena,
                         .prefix = conf->prefix,
                         .conf_prefix = conf->conf_prefix,
                         .file_name = conf->file_name,
                         .engine = engine,
                         .tables = conf->tables,
                         .table_count = conf->table_count,
                         .generation = conf->generation,
                         .is_later = true};
    conf_set_variables(out, set);
}

struct conf_scope *conf_scope_later(struct conf *later, const struct conf_scope *outer)
{
    struct conf_scope *scope = arena_new(later->arena, struct conf_scope);

    *scope = *outer;
    scope->conf = later;
    return scope;
}
