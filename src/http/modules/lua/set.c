/* set_by_lua: Lua among the lines of the rewrite module, whose result a variable gets. */
#include "http/modules/lua/lua.h"
#include "http/routing/hooks.h"
#include "lua/config/rows.h"

struct set_step {
    struct rewrite_step step;
    struct script_code *code;
    struct variable *variable;
    struct template **arguments; /* ngx.arg */
    unsigned count;
};

/* What a run gives. */
struct set_result {
    struct request *request;
    struct str value;
};

/* The arguments are those of the chunk, too: "...". */
static int push_arguments(lua_State *L, void *arg)
{
    const struct set_result *result = arg;
    const struct http_lua_request *lua = http_lua_request_of(result->request);

    luaL_checkstack(L, (int) lua->argument_count, "too many arguments");
    for (unsigned i = 0; i < lua->argument_count; i++) {
        script_push_str(L, lua->arguments[i]);
    }
    return (int) lua->argument_count;
}

static void take_result(lua_State *L, void *arg)
{
    struct set_result *result = arg;

    struct str text;

    if (lua_gettop(L) == 0 || !lua_isstring(L, 1)) {
        return;
    }
    text.data = lua_tolstring(L, 1, &text.len);
    result->value = arena_dup(&result->request->arena, text);
}

static enum handler_result run_set(struct request *request, const struct rewrite_step *step)
{
    const struct set_step *set = container_of(step, struct set_step, step);
    struct http_lua_request *lua = http_lua_request_of(request);
    struct set_result result = {request, STR("")};
    struct script_call call = {.subject = &lua->subject,
                               .phase = SCRIPT_SET,
                               .code = set->code,
                               .begin = push_arguments,
                               .finish = take_result,
                               .arg = &result};

    lua->argument_count = set->count;
    lua->arguments = arena_array(&request->arena, set->count, sizeof(struct str));
    for (unsigned i = 0; i < set->count; i++) {
        lua->arguments[i] = template_text(set->arguments[i], &request->env);
    }
    enum script_end end = script_run(&call);
    lua->argument_count = 0;
    if (end != SCRIPT_ENDED) {
        return request_fail(request, 500);
    }
    variable_assign(&request->env, set->variable, result.value);
    return HANDLER_NEXT;
}

bool http_lua_set_apply(struct conf_scope *scope, const struct directive *row,
                        struct conf_node *node, void *settings)
{
    const struct http_hooks *hooks = http_main_of(scope->conf)->hooks;
    struct set_step *set = arena_new(scope->conf->arena, struct set_step);

    (void) row;
    (void) settings;
    if (hooks->assigned == NULL) {
        return conf_error(scope->conf, node, "\"%.*s\" needs the rewrite module",
                          STR_ARG(node->args[0]));
    }
    set->step.run = run_set;
    set->variable = hooks->assigned(scope, node, node->args[1]);
    set->code = script_code_new(scope, node, STR("set_by_lua"), node->args[2]);
    set->count = node->count - 3;
    set->arguments = arena_array(scope->conf->arena, set->count, sizeof(struct template *));
    for (unsigned i = 0; i < set->count; i++) {
        if (!conf_value_template(scope, node, i + 3, &set->arguments[i])) {
            return false;
        }
    }
    if (set->variable == NULL || set->code == NULL) {
        return false;
    }
    hooks->add_step(scope, &set->step);
    return true;
}
