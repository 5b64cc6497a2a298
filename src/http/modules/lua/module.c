/* ngx_http_lua_module: Lua in the phases of a request. Directives, and how its VM begins. */
#include "http/modules/lua/lua.h"
#include "http/routing/hooks.h"
#include "lua/config/rows.h"
#include "lua/sockets/sockets.h"
#include "lua/tasks/tasks.h"
#include "server/module.h"

#define API_VERSION 10032            /* ngx.config.ngx_lua_version */
#define FIBER_STACK (2u << 20)       /* bytes of address space: C libraries of Lua recurse deeply */

struct settings_key lua_main_key;
struct settings_key lua_key;

/* ---- directives */

static bool content_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                          void *settings)
{
    content_set(scope_location(scope), lua_content, NULL);
    return script_code_apply(scope, row, node, settings);
}

static const struct directive main_rows[] = {
    SCRIPT_MAIN_ROWS(IN_HTTP, struct lua_main),
    {0},
};

static const struct directive place_rows[] = {
    SCRIPT_PLACE_ROWS(IN_HTTP_ALL | IN_LOCATION_IF, struct lua_settings),
    SCRIPT_TLS_ROWS(IN_HTTP_ALL, struct lua_settings),
    SCRIPT_CODE_ROWS("rewrite_by_lua", IN_HTTP_ALL | IN_LOCATION_IF, struct lua_settings, rewrite, script_code_apply,
                     "Lua that runs in the rewrite phase, after the directives of the rewrite module."),
    SCRIPT_CODE_ROWS("access_by_lua", IN_HTTP_ALL | IN_LOCATION_IF, struct lua_settings, access, script_code_apply,
                     "Lua that runs in the access phase, after the checks of other modules."),
    SCRIPT_CODE_ROWS("content_by_lua", IN_LOCATION | IN_LOCATION_IF, struct lua_settings, content, content_apply,
                     "Lua that answers."),
    SCRIPT_CODE_ROWS("log_by_lua", IN_HTTP_ALL | IN_LOCATION_IF, struct lua_settings, log, script_code_apply,
                     "Lua that runs when the request is logged."),
    {0},
};

/* The settings of the http block, for the end of the reading. */
static bool main_finish(struct conf_scope *scope, void *settings)
{
    *(struct lua_main **) conf_state(scope->conf, "lua http", sizeof(struct lua_main *)) = settings;
    return true;
}

static const struct directive_table main_table = {.key = &lua_main_key,
                                                  .rows = main_rows,
                                                  .contexts = IN_HTTP,
                                                  .size = sizeof(struct lua_main),
                                                  .finish = main_finish};
/* What Lua needs of other modules' settings of the place. */
static bool place_finish(struct conf_scope *scope, void *settings)
{
    const struct http_location *location = scope_location(scope);
    struct script_settings *script = &((struct lua_settings *) settings)->script;

    script->resolver = location->resolver;
    script->resolver_timeout_ms = location->resolver_timeout_ms;
    return script_tls_finish(scope, &script->tls);
}

static const struct directive_table place_table = {.key = &lua_key,
                                                   .rows = place_rows,
                                                   .contexts = IN_HTTP_LOCATION_SETTINGS,
                                                   .size = sizeof(struct lua_settings),
                                                   .finish = place_finish};
static const struct directive_table *const lua_tables[] = {&main_table, &place_table, NULL};

/* ---- the VM */

static void add_api(struct script_vm *vm, lua_State *L)
{
    (void) vm;
    script_tasks_add(L);
    script_sockets_add(L);
    lua_output_add(L);
}

static const struct script_subsystem subsystem = {.name = "http", .api_version = API_VERSION, .add = add_api};

static bool lua_end(struct conf *conf, struct http_main *http)
{
    struct lua_main *main = *(struct lua_main **) conf_state(conf, "lua http", sizeof(struct lua_main *));

    main->options.subsystem = &subsystem;
    main->options.code_count = script_code_count(conf, "http");
    main->options.main = main;
    if (main->options.code_count == 0) {
        return true;
    }
    http->generation->fiber_stack_size = FIBER_STACK;
    main->vm = script_vm_new(&main->options, log_main);
    return main->vm != NULL;
}

/* ---- hooks */

static bool has_rewrite(const struct http_location *location)
{
    return ((const struct lua_settings *) location_settings(location, &lua_key))->rewrite != NULL;
}

static bool has_access(const struct http_location *location)
{
    return ((const struct lua_settings *) location_settings(location, &lua_key))->access != NULL;
}

static bool has_log(const struct http_location *location)
{
    return ((const struct lua_settings *) location_settings(location, &lua_key))->log != NULL;
}

static const struct phase_hook phases[] = {
    {.phase = PHASE_REWRITE, .name = "lua", .after = "rewrite", .run = lua_rewrite, .is_active = has_rewrite},
    {.phase = PHASE_ACCESS, .name = "lua", .after = "auth_basic", .run = lua_access, .is_active = has_access},
    {.phase = PHASE_LOG, .name = "lua", .before = "log", .run = lua_log, .is_active = has_log},
    {0},
};

static const struct http_module hooks = {.phases = phases, .end = lua_end};

static void worker_quit(struct generation *generation)
{
    (void) generation;
    script_sockets_quit();
}

const struct module ngx_http_lua_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_lua_module",
    .kind = MODULE_HTTP,
    .tables = lua_tables,
    .hooks = &hooks,
    .worker_quit = worker_quit,
};
