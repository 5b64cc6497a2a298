/* Lua texts in a configuration. */
#include "lua/config/rows.h"

#include <string.h>

/* Chunks so far, of http and of stream. */
struct counts {
    unsigned http, stream;
};

static struct counts *counts_of(struct conf *conf)
{
    return conf_state(conf, "lua chunks", sizeof(struct counts));
}

static bool is_of_stream(const struct conf_scope *scope)
{
    return (scope->context & (IN_STREAM | IN_STREAM_SERVER | IN_STREAM_UPSTREAM)) != 0;
}

unsigned script_code_count(struct conf *conf, const char *subsystem)
{
    const struct counts *counts = counts_of(conf);

    return strcmp(subsystem, "http") == 0 ? counts->http : counts->stream;
}

static struct str base_name(struct str path)
{
    size_t at = path.len;

    while (at > 0 && path.data[at - 1] != '/') {
        at--;
    }
    return str_from(path.data + at, path.data + path.len);
}

struct script_code *script_code_new(struct conf_scope *scope, const struct conf_node *node, struct str name,
                                    struct str text)
{
    struct arena *arena = scope->conf->arena;
    struct script_code *code = arena_new(arena, struct script_code);
    struct counts *counts = counts_of(scope->conf);

    code->node = node;
    code->number = is_of_stream(scope) ? ++counts->stream : ++counts->http;
    code->is_cached = true;
    if (str_ends(node->args[0], STR("_file"))) {
        code->file = arena_dup(arena, conf_full_name(scope->conf, text, false));
        code->file.data = arena_cstr(arena, code->file);
        code->chunk = arena_printf(arena, "@%.*s", STR_ARG(code->file));
    } else {
        code->text = text;
        code->chunk = arena_printf(arena, "=%.*s(%.*s:%u)", STR_ARG(name), STR_ARG(base_name(node->file->name)),
                                   node->line);
    }
    return code;
}

bool script_code_apply(struct conf_scope *scope, const struct directive *row,
                       struct conf_node *node, void *settings)
{
    struct script_code **member = (void *) ((char *) settings + row->offset);
    struct str name = node->args[0];
    bool wants_code = conf_is_code_block(name);

    if (*member != NULL && (*member)->node->parent == node->parent) {
        return conf_error(scope->conf, node, "\"%.*s\" directive is duplicate", STR_ARG(name));
    }
    if (wants_code) {
        name.len -= strlen("_block");
    } else if (str_ends(name, STR("_file"))) {
        name.len -= strlen("_file");
    }
    *member = script_code_new(scope, node, name, node->args[1]);
    return *member != NULL;
}
