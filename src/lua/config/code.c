/* Lua texts in a configuration. */
#include "lua/config/rows.h"

#include <string.h>

#include "conf/template.h"
#include "server/generation.h"

/*
 * Bytes of address space for each fiber where there is Lua. gsub in a function of gsub takes 9 KB a
 * level; Lua ends it with "stack overflow" when its own stack is full, some 5,500 levels deep.
 * Memory that was not touched costs nothing.
 */
#define FIBER_STACK ((size_t) 64 << 20)

/* Chunks so far, of http and of stream. */
struct chunks {
    struct {
        struct script_code *newest;
        unsigned count;
    } http, stream;
};

static struct chunks *chunks_of(struct conf *conf)
{
    return conf_state(conf, "lua chunks", sizeof(struct chunks));
}

static bool is_of_stream(const struct conf_scope *scope)
{
    return (scope->context & (IN_STREAM | IN_STREAM_SERVER | IN_STREAM_UPSTREAM)) != 0;
}

/* With the run prefix for $prefix, as it may stand in lua_package_path. */
static struct str full_path(struct conf *conf, struct str path)
{
    static const char *const words[] = {"${prefix}", "$prefix"};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        const char *at;

        while ((at = str_find(path, str_of(words[i]))) != NULL) {
            struct str head = str_from(path.data, at);
            struct str tail = str_from(at + strlen(words[i]), path.data + path.len);

            path =
                arena_printf(conf->arena, "%.*s%.*s%.*s", STR_ARG(head),
                             STR_ARG(str_head(conf->prefix, conf->prefix.len - 1)), STR_ARG(tail));
        }
    }
    return path;
}

void script_options_end(struct conf *conf, struct script_vm_options *options)
{
    const struct chunks *chunks = chunks_of(conf);
    bool is_http = !options->subsystem->is_stream;

    struct generation *generation = conf->generation;

    options->generation = generation;
    options->code_count = is_http ? chunks->http.count : chunks->stream.count;
    options->codes = is_http ? chunks->http.newest : chunks->stream.newest;
    options->package_path = full_path(conf, options->package_path);
    options->package_cpath = full_path(conf, options->package_cpath);
    if (options->code_count != 0) {
        generation->fiber_stack_size = FIBER_STACK;
    }
}

static struct str base_name(struct str path)
{
    size_t at = path.len;

    while (at > 0 && path.data[at - 1] != '/') {
        at--;
    }
    return str_from(path.data + at, path.data + path.len);
}

/* Chunks of stream whose names are without a place. */
static bool has_bare_name(const struct conf_scope *scope, struct str name)
{
    return (scope->context & IN_STREAM_UPSTREAM) != 0 || str_starts(name, STR("init_")) ||
           str_starts(name, STR("proxy_ssl_"));
}

/* A process has no variables: in the path of its file a `$` is a `$`. */
static bool is_of_process(struct str name)
{
    return str_starts(name, STR("init_")) || str_starts(name, STR("exit_worker_"));
}

static struct template *literal_template(struct arena *arena, struct str text)
{
    struct template *template = arena_new(arena, struct template);

    template->source = text;
    template->parts = arena_new(arena, struct template_part);
    template->parts[0] = (struct template_part){.kind = PART_TEXT, .text = text};
    template->count = 1;
    template->is_constant = true;
    template->constant = text;
    return template;
}

struct script_code *script_code_new(struct conf_scope *scope, const struct conf_node *node,
                                    struct str name, struct str text)
{
    struct arena *arena = scope->conf->arena;

    if (scope->conf->is_later) { /* the VMs that are there do not have it, if there are any */
        conf_error(scope->conf, node,
                   "\"%.*s\" is not allowed here: scripts are those of the configuration file",
                   STR_ARG(node->args[0]));
        return NULL;
    }
    struct script_code *code = arena_new(arena, struct script_code);
    struct chunks *chunks = chunks_of(scope->conf);
    bool is_stream = is_of_stream(scope);
    struct script_code **newest = is_stream ? &chunks->stream.newest : &chunks->http.newest;

    code->node = node;
    code->number = is_stream ? ++chunks->stream.count : ++chunks->http.count;
    if (str_ends(node->args[0], STR("_file"))) {
        code->path = is_of_process(name) ? literal_template(arena, text)
                                         : template_compile(scope->conf, node, text);
        if (code->path == NULL) {
            return NULL;
        }
        template_make_path(code->path, arena, scope->conf->prefix);
    } else {
        code->text = text;
        code->chunk = is_stream && has_bare_name(scope, name)
                          ? arena_printf(arena, "=%.*s", STR_ARG(name))
                          : arena_printf(arena, "=%.*s(%.*s:%u)", STR_ARG(name),
                                         STR_ARG(base_name(node->file->name)), node->line);
    }
    code->next = *newest;
    *newest = code;
    return code;
}

/* Handlers of requests, sessions and init_by_lua do; of the others OpenResty accepts an empty text.
 */
static bool needs_text(struct str name)
{
    return !str_starts(name, STR("init_worker_")) && !str_starts(name, STR("exit_worker_")) &&
           !str_starts(name, STR("ssl_")) && !str_starts(name, STR("proxy_ssl_"));
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
    if (node->args[1].len == 0 && needs_text(name)) {
        return conf_error(scope->conf, node, "invalid location config: no runnable Lua code");
    }
    *member = script_code_new(scope, node, name, node->args[1]);
    return *member != NULL;
}

bool script_core_apply(struct conf_scope *scope, const struct directive *row,
                       struct conf_node *node, void *settings)
{
    (void) settings;
    if (scope->context != 0) {
        conf_warn(scope->conf, node,
                  "%s is deprecated (the lua-resty-core library is required since %s)", row->name,
                  is_of_stream(scope) ? "ngx_stream_lua v0.0.8" : "ngx_lua v0.10.16");
    }
    return true;
}

bool script_cache_apply(struct conf_scope *scope, const struct directive *row,
                        struct conf_node *node, void *settings)
{
    if (scope->context != 0 && !*(bool *) ((char *) settings + row->offset)) {
        conf_alert(scope->conf, node, "%slua_code_cache is off; this will hurt performance",
                   is_of_stream(scope) ? "stream " : "");
    }
    return true;
}
