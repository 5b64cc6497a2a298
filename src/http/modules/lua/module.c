/* ngx_http_lua_module: Lua in the phases of a request. Directives, and how its VM begins. */
#include "config.h"
#include "http/modules/lua/ffi.h"
#include "http/modules/lua/lua.h"
#include "http/routing/hooks.h"
#include "lua/balancer/balancer.h"
#include "lua/config/main.h"
#include "lua/config/rows.h"
#include "lua/dict/lua.h"
#include "lua/process/threads.h"
#include "lua/upstream/upstream.h"
#include "lua/values/values.h"
#include "lua/values/args.h"
#include "lua/vm/library.h"
#include "server/module.h"
#include "upstream/upstream.h"

#define API_VERSION 10032 /* ngx.config.ngx_lua_version */

static const char main_key[] = "lua http"; /* of script_main_of */

/* ---- directives */

static struct http_lua_main *main_of(struct conf *conf)
{
    return container_of(script_main_of(conf, main_key), struct http_lua_main, script);
}

static bool content_apply(struct conf_scope *scope, const struct directive *row,
                          struct conf_node *node, void *settings)
{
    content_set(scope_location(scope), http_lua_content, NULL);
    return script_code_apply(scope, row, node, settings);
}

static bool rewrite_apply(struct conf_scope *scope, const struct directive *row,
                          struct conf_node *node, void *settings)
{
    if ((scope->context & IN_LOCATION_IF) != 0) {
        main_of(scope->conf)->has_if_rewrite = true;
    }
    return script_code_apply(scope, row, node, settings);
}

static const struct directive main_rows[] = {
    SCRIPT_MAIN_ROWS(IN_HTTP, struct http_lua_main),
    {"lua_worker_thread_vm_pool_size", IN_HTTP,
     NUMBER(struct http_lua_main, script.options.thread_vms), .initial = "10", .min = 1,
     .max = 65535,
     .doc = "Largest number of Lua VMs that a worker creates for ngx.run_worker_thread."},
    {"rewrite_by_lua_no_postpone", IN_HTTP, FLAG(struct http_lua_main, rewrite_is_early),
     .initial = "off",
     .doc = "Whether rewrite_by_lua runs before the directives of the rewrite module instead of "
            "after them."},
    {"access_by_lua_no_postpone", IN_HTTP, FLAG(struct http_lua_main, access_is_early),
     .initial = "off",
     .doc = "Whether access_by_lua runs before the access checks of other modules instead of "
            "after them."},
    {"precontent_by_lua_no_postpone", IN_HTTP, FLAG(struct http_lua_main, precontent_is_early),
     .initial = "off",
     .doc = "Whether precontent_by_lua runs before try_files and mirror instead of after them."},
    {0},
};

#define IN_REWRITE IN_SERVER | IN_SERVER_IF | IN_LOCATION | IN_LOCATION_IF
#define SET_DOC                                                                                    \
    "Sets the variable to the value that the Lua code returns. Runs in order with the "            \
    "directives of the rewrite module. Arguments are available in ngx.arg."

static const struct directive place_rows[] = {
    {"set_by_lua_block", IN_REWRITE, CUSTOM(http_lua_set_apply), ARGS(2, 2),
     .repeat = REPEAT_CUSTOM, .syntax = "$variable { Lua }", .doc = SET_DOC},
    {"set_by_lua", IN_REWRITE, CUSTOM(http_lua_set_apply), ARGS(2, ARGS_ANY),
     .repeat = REPEAT_CUSTOM, .syntax = "$variable Lua [argument ...]", .doc = SET_DOC},
    {"set_by_lua_file", IN_REWRITE, CUSTOM(http_lua_set_apply), ARGS(2, ARGS_ANY),
     .repeat = REPEAT_CUSTOM, .syntax = "$variable path [argument ...]", .doc = SET_DOC},
    SCRIPT_PLACE_ROWS(IN_HTTP_ALL | IN_LOCATION_IF, struct http_lua_settings),
    {"lua_capture_max_size", IN_HTTP_ALL | IN_LOCATION_IF,
     SIZE(struct http_lua_settings, capture_max), .initial = "64m", .min = 1,
     .doc = "Largest size of a response body that ngx.location.capture stores. A longer one is "
            "truncated, and `truncated` is set."},
    SCRIPT_SOCKET_TLS_ROWS(IN_HTTP_ALL, struct http_lua_settings),
    {"lua_transform_underscores_in_response_headers", IN_HTTP_ALL | IN_LOCATION_IF,
     FLAG(struct http_lua_settings, transforms_names), .initial = "on",
     .doc = "Whether underscores in names of ngx.header are replaced by hyphens."},
    {"lua_need_request_body", IN_HTTP_ALL | IN_LOCATION_IF,
     FLAG(struct http_lua_settings, needs_body), .initial = "off",
     .doc = "Whether the request body is read before Lua code runs."},
    {"lua_http10_buffering", IN_HTTP_ALL | IN_LOCATION_IF,
     FLAG(struct http_lua_settings, gathers_http10), .initial = "on",
     .doc = "Whether the output of Lua code for HTTP/1.0 clients is buffered, so that the "
            "response has a Content-Length field. Output larger than 4 MB is sent without it."},
    {"lua_use_default_type", IN_HTTP_ALL | IN_LOCATION_IF,
     FLAG(struct http_lua_settings, has_default_type), .initial = "on",
     .doc = "Whether responses of Lua code have the type set by types and default_type."},
    SCRIPT_CODE_BLOCK_ROWS(
        "server_rewrite_by_lua", IN_HTTP | IN_SERVER, struct http_lua_settings, server_rewrite,
        script_code_apply,
        "Runs Lua code in the server rewrite phase, before a location is selected."),
    SCRIPT_CODE_ROWS(
        "rewrite_by_lua", IN_HTTP_ALL | IN_LOCATION_IF, struct http_lua_settings, rewrite,
        rewrite_apply,
        "Runs Lua code in the rewrite phase, after the directives of the rewrite module."),
    SCRIPT_CODE_ROWS("access_by_lua", IN_HTTP_ALL | IN_LOCATION_IF, struct http_lua_settings,
                     access, script_code_apply,
                     "Runs Lua code in the access phase, after the checks of other modules."),
    SCRIPT_CODE_BLOCK_ROWS("precontent_by_lua", IN_HTTP_ALL | IN_LOCATION_IF,
                           struct http_lua_settings, precontent, script_code_apply,
                           "Runs Lua code in the precontent phase, between the access and content "
                           "phases."),
    SCRIPT_CODE_ROWS("content_by_lua", IN_LOCATION | IN_LOCATION_IF, struct http_lua_settings,
                     content, content_apply, "Runs Lua code that generates the response."),
    SCRIPT_BACKEND_ROWS(IN_LOCATION | IN_LOCATION_IF, struct http_lua_settings),
    SCRIPT_TLS_ROWS(IN_HTTP | IN_SERVER, struct http_lua_settings),
    SCRIPT_TLS_SESSION_ROWS(IN_HTTP, struct http_lua_settings),
    SCRIPT_CODE_ROWS("header_filter_by_lua", IN_HTTP_ALL | IN_LOCATION_IF, struct http_lua_settings,
                     header_filter, script_code_apply,
                     "Runs Lua code to modify the header of a response."),
    SCRIPT_CODE_ROWS("body_filter_by_lua", IN_HTTP_ALL | IN_LOCATION_IF, struct http_lua_settings,
                     body_filter, script_code_apply,
                     "Runs Lua code on each part of a response body."),
    SCRIPT_CODE_ROWS("log_by_lua", IN_HTTP_ALL | IN_LOCATION_IF, struct http_lua_settings, log,
                     script_code_apply, "Runs Lua code in the log phase."),
    {0},
};

/* Where a request of a group with such a script goes. */
static void direct(struct upstream_pick *pick)
{
    script_balance(&http_lua_request_of(pick->subject)->subject, pick);
}

static const struct balancer http_lua_balancer = {.name = "balancer_by_lua",
                                                  .pick = round_robin_pick,
                                                  .direct = direct};

static bool balancer_apply(struct conf_scope *scope, const struct directive *row,
                           struct conf_node *node, void *settings)
{
    return script_balancer_read(scope, node, &http_lua_balancer);
}

static const struct directive group_rows[] = {
    SCRIPT_BALANCER_ROWS(IN_UPSTREAM, balancer_apply),
    {"balancer_keepalive", IN_UPSTREAM, CUSTOM(script_balancer_keepalive_apply), ARGS(1, 1),
     .syntax = "connections",
     .doc = "Largest number of idle connections to a peer that each worker keeps, if a script "
            "enables keepalive."},
    {0},
};
static const struct directive_table group_table = {.rows = group_rows};

/* The settings of the http block, for the end of the reading. */
static bool main_finish(struct conf_scope *scope, void *settings)
{
    const struct http_lua_settings *place = conf_settings(scope, &http_lua_key);

    script_main_set(scope, main_key, &((struct http_lua_main *) settings)->script,
                    &(struct script_location){.settings = &place->script,
                                              .error_log = &scope_location(scope)->error_log});
    return true;
}

static const struct directive_table main_table = {.key = &http_lua_main_key,
                                                  .rows = main_rows,
                                                  .contexts = IN_HTTP,
                                                  .size = sizeof(struct http_lua_main),
                                                  .finish = main_finish};
/* What Lua needs of other modules' settings of the place, and they of it. */
static bool place_finish(struct conf_scope *scope, void *settings)
{
    struct http_location *location = scope_location(scope);
    struct http_lua_settings *own = settings;

    own->script.resolver = location->resolver;
    own->script.resolver_timeout_ms = location->resolver_timeout_ms;
    if (own->backend.certificate != NULL || own->backend.verify != NULL) {
        location->backend_hooks = http_lua_backend_hooks;
    }
    return script_tls_finish(scope, &own->script.tls);
}

static const struct directive_table place_table = {.key = &http_lua_key,
                                                   .rows = place_rows,
                                                   .contexts =
                                                       IN_HTTP_LOCATION_SETTINGS | IN_SERVER_IF,
                                                   .size = sizeof(struct http_lua_settings),
                                                   .finish = place_finish};
static const struct directive_table *const http_lua_tables[] = {&main_table, &place_table,
                                                                &group_table, NULL};

/* ---- the VM */

SCRIPT_TEXT(http_lua_library_request, "src/http/modules/lua/request.lua")

/* What is written in Lua, on FFI (ffi.h). */
static void add_library(lua_State *L)
{
    script_text_run(L, "ngx.request", SCRIPT_TEXT_OF(http_lua_library_request), 0);
}

static void add_api(struct script_vm *vm, lua_State *L)
{
    script_add_common(vm, L);
    script_worker_threads_add(L);
    http_lua_req_line_add(L);
    http_lua_uri_add(L);
    http_lua_subrequests_add(L);
    http_lua_req_body_add(L);
    http_lua_req_socket_add(L);
    http_lua_exec_add(L);
    add_library(L);
    script_balancer_add(L);
    script_upstream_add(L);
#ifdef WITH_DYUPS_LUA_API
    script_changes_add(L);
#endif
    http_lua_output_add(L);
    http_lua_exit_add(L);
    http_lua_filters_add(L);
    http_lua_abort_add(L);
}

static void add_api_of_thread(struct script_vm *vm, lua_State *L)
{
    script_values_add(vm, L);
    script_args_add(L);
    script_dict_add(vm, L);
}

static const struct script_subsystem subsystem = {.name = "http",
                                                  .api_version = API_VERSION,
                                                  .add = add_api,
                                                  .add_to_thread = add_api_of_thread};

static bool http_lua_end(struct conf *conf, struct http_main *http)
{
    if (script_main_end(conf, main_key, &subsystem)) {
        http_lua_handshakes_end(http);
    }
    return true;
}

static bool opened(struct generation *generation)
{
    return script_main_opened(generation, main_key);
}

static bool http_lua_worker_start(struct generation *generation)
{
    if (!upstream_worker_start(generation, &upstream_http)) { /* scripts of init_worker see peers */
        return false;
    }
    script_main_worker_start(generation, main_key);
    return true;
}

static void http_lua_worker_end(struct generation *generation)
{
    script_main_worker_end(generation, main_key);
}

/* ---- hooks */

TYPED_SETTINGS(http_lua_settings_at, struct http_lua_settings, http_lua_key, struct http_location)

TYPED_SETTINGS(http_lua_main_at, struct http_lua_main, http_lua_main_key, struct http_location)

static bool may_rewrite(const struct http_location *location)
{
    return http_lua_settings_at(location)->rewrite != NULL ||
           http_lua_main_at(location)->has_if_rewrite;
}

static bool has_late_rewrite(const struct http_location *location)
{
    return may_rewrite(location) && !http_lua_main_at(location)->rewrite_is_early;
}

static bool has_early_rewrite(const struct http_location *location)
{
    return may_rewrite(location) && http_lua_main_at(location)->rewrite_is_early;
}

static bool has_late_access(const struct http_location *location)
{
    return http_lua_settings_at(location)->access != NULL &&
           !http_lua_main_at(location)->access_is_early;
}

static bool has_early_access(const struct http_location *location)
{
    return http_lua_settings_at(location)->access != NULL &&
           http_lua_main_at(location)->access_is_early;
}

static bool has_late_precontent(const struct http_location *location)
{
    return http_lua_settings_at(location)->precontent != NULL &&
           !http_lua_main_at(location)->precontent_is_early;
}

static bool has_early_precontent(const struct http_location *location)
{
    return http_lua_settings_at(location)->precontent != NULL &&
           http_lua_main_at(location)->precontent_is_early;
}

static bool has_filter(const struct http_location *location)
{
    const struct http_lua_settings *settings = http_lua_settings_at(location);

    return settings->header_filter != NULL || settings->body_filter != NULL;
}

static const struct phase_hook phases[] = {
    {.phase = PHASE_SERVER_REWRITE,
     .name = "lua",
     .before = "rewrite",
     .run = http_lua_server_rewrite,
     .when = SETTING(http_lua_key, struct http_lua_settings, server_rewrite)},
    {.phase = PHASE_REWRITE,
     .name = "lua",
     .after = "headers_more", /* as in OpenResty's build */
     .run = http_lua_rewrite,
     .is_active = has_late_rewrite},
    {.phase = PHASE_REWRITE,
     .name = "lua early",
     .before = "rewrite",
     .run = http_lua_rewrite,
     .is_active = has_early_rewrite},
    {.phase = PHASE_ACCESS,
     .name = "lua",
     .after = "auth_request",
     .run = http_lua_access,
     .is_active = has_late_access},
    {.phase = PHASE_ACCESS,
     .name = "lua early",
     .before = "access",
     .run = http_lua_access,
     .is_active = has_early_access},
    {.phase = PHASE_PRECONTENT,
     .name = "lua",
     .after = "mirror",
     .run = http_lua_precontent,
     .is_active = has_late_precontent},
    {.phase = PHASE_PRECONTENT,
     .name = "lua early",
     .before = "try_files",
     .run = http_lua_precontent,
     .is_active = has_early_precontent},
    {.phase = PHASE_LOG,
     .name = "lua",
     .before = "log",
     .run = http_lua_log,
     .when = SETTING(http_lua_key, struct http_lua_settings, log)},
    {0},
};

static const struct filter_hook filters[] = {
    {.name = "lua", .before = "srcache", .run = http_lua_filter_response, .is_active = has_filter},
    {0},
};

static const struct http_module hooks = {.phases = phases, .filters = filters, .end = http_lua_end};

const struct module ngx_http_lua_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_lua_module",
    .kind = MODULE_HTTP,
    .tables = http_lua_tables,
    .hooks = &hooks,
    .opened = opened,
    .worker_start = http_lua_worker_start,
    .worker_quit = script_main_worker_quit,
    .worker_end = http_lua_worker_end,
};
