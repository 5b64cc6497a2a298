/* ngx_stream_lua_module: Lua in the phases of a session. Directives, and how its VM begins. */
#include "lua/balancer/balancer.h"
#include "lua/config/main.h"
#include "lua/config/rows.h"
#include "lua/upstream/upstream.h"
#include "server/module.h"
#include "stream/modules/lua/lua.h"
#include "stream/session/hooks.h"
#include "upstream/upstream.h"

#define API_VERSION 20 /* ngx.config.ngx_lua_version */

static const char main_key[] = "lua stream"; /* of script_main_of */

/* ---- directives */

static bool content_apply(struct conf_scope *scope, const struct directive *row,
                          struct conf_node *node, void *settings)
{
    scope_stream_server(scope)->content = stream_lua_content;
    return script_code_apply(scope, row, node, settings);
}

static bool add_variable_apply(struct conf_scope *scope, const struct directive *row,
                               struct conf_node *node, void *settings)
{
    return variable_define_word(scope->conf, node, node->args[1]) != NULL;
}

#define IN_BOTH (IN_STREAM | IN_STREAM_SERVER)

static const struct directive main_rows[] = {
    SCRIPT_MAIN_ROWS(IN_STREAM, struct stream_lua_main),
    {"lua_add_variable", IN_STREAM, CUSTOM(add_variable_apply), ARGS(1, 1), .repeat = REPEAT_APPEND,
     .syntax = "$variable", .doc = "Defines a variable that Lua code can assign."},
    {"preread_by_lua_no_postpone", IN_STREAM, FLAG(struct stream_lua_main, is_early),
     .initial = "off",
     .doc = "Whether preread_by_lua runs before the other modules of the preread phase instead "
            "of after them."},
    {0},
};

static const struct directive place_rows[] = {
    SCRIPT_PLACE_ROWS(IN_BOTH, struct stream_lua_settings),
    SCRIPT_TLS_ROWS(IN_BOTH, struct stream_lua_settings),
    SCRIPT_BACKEND_ROWS(IN_STREAM_SERVER, struct stream_lua_settings),
    SCRIPT_SOCKET_TLS_ROWS(IN_BOTH, struct stream_lua_settings),
    SCRIPT_CODE_ROWS(
        "preread_by_lua", IN_BOTH, struct stream_lua_settings, preread, script_code_apply,
        "Runs Lua code in the preread phase, after the modules that inspect the client's "
        "first bytes."),
    SCRIPT_CODE_ROWS("content_by_lua", IN_STREAM_SERVER, struct stream_lua_settings, content,
                     content_apply, "Lua code that handles the connection with the client."),
    SCRIPT_CODE_ROWS("log_by_lua", IN_BOTH, struct stream_lua_settings, log, script_code_apply,
                     "Runs Lua code in the log phase, when the session ends."),
    {0},
};

/* Where a session of a group with such a script goes. */
static void direct(struct upstream_pick *pick)
{
    script_balance(&stream_lua_of(pick->subject)->subject, pick);
}

static const struct balancer lua_balancer = {.name = "balancer_by_lua",
                                             .pick = round_robin_pick,
                                             .direct = direct};

static bool balancer_apply(struct conf_scope *scope, const struct directive *row,
                           struct conf_node *node, void *settings)
{
    return script_balancer_read(scope, node, &lua_balancer);
}

static const struct directive group_rows[] = {SCRIPT_BALANCER_ROWS(IN_STREAM_UPSTREAM,
                                                                   balancer_apply),
                                              {0}};
static const struct directive_table group_table = {.rows = group_rows};

/* The settings of the stream block, for the end of the reading. */
static bool main_finish(struct conf_scope *scope, void *settings)
{
    const struct stream_lua_settings *place = conf_settings(scope, &stream_lua_key);

    script_main_set(scope, main_key, &((struct stream_lua_main *) settings)->script,
                    &(struct script_location){.settings = &place->script,
                                              .error_log = &scope_stream_server(scope)->error_log});
    return true;
}

/* What Lua needs of other modules' settings of the server. */
static bool place_finish(struct conf_scope *scope, void *settings)
{
    struct stream_server *server = scope_stream_server(scope);
    struct stream_lua_settings *own = settings;

    own->script.resolver = server->resolver;
    own->script.resolver_timeout_ms = server->resolver_timeout_ms;
    if (own->backend.certificate != NULL || own->backend.verify != NULL) {
        server->backend_hooks = stream_lua_backend_hooks;
    }
    return script_tls_finish(scope, &own->script.tls);
}

static const struct directive_table main_table = {.key = &stream_lua_main_key,
                                                  .rows = main_rows,
                                                  .contexts = IN_STREAM,
                                                  .size = sizeof(struct stream_lua_main),
                                                  .finish = main_finish};
static const struct directive_table place_table = {.key = &stream_lua_key,
                                                   .rows = place_rows,
                                                   .contexts = IN_BOTH,
                                                   .size = sizeof(struct stream_lua_settings),
                                                   .finish = place_finish};
static const struct directive_table *const tables[] = {&main_table, &place_table, &group_table,
                                                       NULL};

/* ---- the VM */

static void add_api(struct script_vm *vm, lua_State *L)
{
    script_add_common(vm, L);
    script_balancer_add(L);
    script_upstream_add(L);
    stream_lua_input_add(L);
    stream_lua_output_add(L);
    stream_lua_session_add(L);
}

static const struct script_subsystem subsystem = {.name = "stream",
                                                  .is_stream = true,
                                                  .api_version = API_VERSION,
                                                  .add = add_api};

static bool stream_lua_end(struct conf *conf, struct stream_main *stream)
{
    script_main_end(conf, main_key, &subsystem);
    return stream_lua_handshakes_end(conf, stream);
}

static bool opened(struct generation *generation)
{
    return script_main_opened(generation, main_key);
}

static bool stream_lua_worker_start(struct generation *generation)
{
    if (!upstream_worker_start(generation, &upstream_stream)) { /* as in http */
        return false;
    }
    script_main_worker_start(generation, main_key);
    return true;
}

static void stream_lua_worker_end(struct generation *generation)
{
    script_main_worker_end(generation, main_key);
}

/* ---- hooks */

static bool has_preread(const struct stream_server *server, bool is_early)
{
    const struct stream_lua_settings *settings = stream_settings(server, &stream_lua_key);
    const struct stream_lua_main *main = stream_settings(server, &stream_lua_main_key);

    return settings->preread != NULL && main->is_early == is_early;
}

static bool has_late_preread(const struct stream_server *server)
{
    return has_preread(server, false);
}

static bool has_early_preread(const struct stream_server *server)
{
    return has_preread(server, true);
}

static bool has_log(const struct stream_server *server)
{
    return ((const struct stream_lua_settings *) stream_settings(server, &stream_lua_key))->log !=
           NULL;
}

static const struct session_hook session_hooks[] = {
    {.phase = STREAM_PREREAD, .run = stream_lua_preread, .is_active = has_late_preread},
    {.phase = STREAM_PREREAD,
     .is_early = true,
     .run = stream_lua_preread,
     .is_active = has_early_preread},
    {.phase = STREAM_LOG, .run = stream_lua_log, .is_active = has_log},
    {.run = NULL},
};

static const struct stream_module hooks = {.hooks = session_hooks, .end = stream_lua_end};

const struct module ngx_stream_lua_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_stream_lua_module",
    .kind = MODULE_STREAM,
    .tables = tables,
    .hooks = &hooks,
    .opened = opened,
    .worker_start = stream_lua_worker_start,
    .worker_quit = script_main_worker_quit,
    .worker_end = stream_lua_worker_end,
};
