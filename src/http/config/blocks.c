/* The blocks http, server and limit_except, and the steps after all of them were read. */
#include "http/client/connection.h"
#include "http/client/listen.h"
#include "http/client/protocol.h"
#include "http/config/core_values.h"
#include "http/files/path.h"
#include "http/request/request.h"
#include "http/routing/file_settings.h"
#include "http/routing/hooks.h"
#include "server/module.h"
#include "shared/variables/give.h"

static const struct module *const *modules_of(struct conf *conf)
{
    return ((struct generation *) conf->generation)->modules;
}

/* Called before any row of the block: sets up the main struct and the state of modules. */
static void http_prepare(struct conf_scope *scope, void *arg)
{
    struct conf *conf = scope->conf;
    struct http_main *main = conf_settings(scope, &http_main_key);

    http_main_set(conf, main);
    main->generation = conf->generation;
    main->hostname = variable_machine_name(conf->arena);
    main->hooks = hooks_collect(conf, modules_of(conf));
    main->unanswered = request_unanswered;
    main->variables.kind = &request_subject;
    conf_set_variables(conf, &main->variables);
    for (const struct module *const *module = modules_of(conf); *module != NULL; module++) {
        const struct http_module *http = (*module)->hooks;

        if ((*module)->kind != MODULE_HTTP || http == NULL) {
            continue;
        }
        for (const struct http_protocol *protocol = http->protocol; protocol != NULL;
             protocol = protocol->also) {
            *vec_add(&main->protocols, conf->arena, const struct http_protocol *) = protocol;
        }
        if (http->handshake != NULL) {
            main->handshake = http->handshake;
        }
        if (http->variables != NULL) {
            variable_add_all(conf, &main->variables, http->variables);
        }
        if (http->begin != NULL) {
            http->begin(conf, main);
        }
    }
    ((struct file_settings *) conf_settings(scope, &file_settings_key))->types =
        types_default(conf);
}

static bool end_modules(struct conf *conf, struct http_main *main)
{
    bool is_ok = true;

    for (const struct module *const *module = modules_of(conf); *module != NULL; module++) {
        const struct http_module *http = (*module)->hooks;
        if ((*module)->kind == MODULE_HTTP && http != NULL && http->end != NULL) {
            is_ok &= http->end(conf, main);
        }
    }
    return is_ok;
}

bool http_enter(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                void *settings)
{
    struct conf *conf = scope->conf;

    struct conf_scope *inner = conf_enter(scope, node, IN_HTTP, http_prepare, NULL);
    struct http_main *main = http_main_of(conf);
    if (inner == NULL || conf->error_count != 0) {
        return false; /* the following steps require complete settings */
    }
    hooks_link_main(main);
    bool is_ok = true;
    vec_each(struct http_server *, server, &main->servers) {
        is_ok &= locations_finish(conf, (*server)->root);
    }
    is_ok &= listens_finish(conf, main);
    is_ok &= end_modules(conf, main);
    listens_set_stages(conf, main);
    if (!variable_check_all(conf, &main->variables)) {
        return false;
    }
    ((struct generation *) conf->generation)->http = main;
    conf_set_variables(conf, NULL);
    return is_ok;
}

/* ---- server ---- */

static void server_prepare(struct conf_scope *scope, void *arg)
{
    struct http_server *server = scope_server(scope);
    struct http_location *root = scope_location(scope);
    struct http_main *main = http_main_of(scope->conf);

    server->main = main;
    server->root = root;
    server->node = scope->node;
    server->settings = scope->settings;
    server->has_listen = false;
    root->server = server;
    root->kind = LOCATION_UNNAMED;
    *vec_add(&main->servers, scope->conf->arena, struct http_server *) = server;
}

bool server_enter(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                  void *settings)
{
    struct conf_scope *inner = conf_enter(scope, node, IN_SERVER, server_prepare, NULL);
    if (inner == NULL) {
        return false;
    }
    struct http_server *server = scope_server(inner);
    if (server->names.count == 0) {
        struct server_name *name = vec_add(&server->names, scope->conf->arena, struct server_name);
        name->owner = server;
        name->block = server->node;
        name->name = STR("");
    }
    return server->has_listen || listen_default(inner, server);
}

/* ---- location level ---- */

void location_fresh(void *settings)
{
    struct http_location *location = settings;

    location->name = STR_NONE;
    location->kind = LOCATION_UNNAMED;
    location->node = NULL;
    location->index = NULL;
    location->nested = (struct vec){0};
    location->regex = NULL;
    location->limited = NULL;
    location->allowed_methods = 0;
    if (!location->content.carries) {
        location->content = (struct content_handler){0};
    }
}

/* A method for limit_except: GET includes HEAD. METHOD_OTHER: not allowed there. */
static unsigned limited_method(struct str name)
{
    unsigned method = method_named_nocase(name);

    if (method == METHOD_GET) {
        return METHOD_GET | METHOD_HEAD;
    }
    return method == METHOD_TRACE || method == METHOD_CONNECT ? METHOD_OTHER : method;
}

bool limit_except_enter(struct conf_scope *scope, const struct directive *row,
                        struct conf_node *node, void *settings)
{
    struct http_location *outer = settings;
    unsigned methods = 0;

    for (unsigned i = 1; i < node->count; i++) {
        unsigned method = limited_method(node->args[i]);
        if (method == METHOD_OTHER) {
            return conf_error(scope->conf, node, "invalid method \"%.*s\"", STR_ARG(node->args[i]));
        }
        methods |= method;
    }
    struct http_location *limited = location_enter_unnamed(scope, node, IN_LIMIT_EXCEPT);
    if (limited == NULL) {
        return false;
    }
    outer->limited = limited;
    outer->allowed_methods = methods;
    return true;
}

/* ---- hooks of ngx_http_module ---- */

bool http_configured(struct conf *conf, struct generation *generation)
{
    if (generation->http != NULL) {
        locations_set_logs(generation->http, generation->core->error_log);
    }
    return true;
}

void http_worker_abort(struct generation *generation)
{
    connections_abort();
}

void http_worker_quit(struct generation *generation)
{
    connections_quit();
}
