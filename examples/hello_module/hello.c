/*
 * ngx_http_hello_module, the example of docs/writing-a-module.md: a handler, a header filter and a variable.
 *
 *     location /hello {
 *         hello "Hello, $hello_name!";
 *         hello_header on;
 *     }
 */
#include "http/routing/hooks.h"
#include "http/request/request.h"
#include "server/module.h"

/* What the directives of one place say. */
struct hello_settings {
    struct template *text; /* of hello; never inherited */
    bool has_header;       /* of hello_header */
};

static struct settings_key hello_key;

/* ---- the handler: makes the response */

static enum handler_result hello_answer(struct request *request)
{
    const struct hello_settings *settings = location_settings(request->location, &hello_key);
    struct str text = template_text(settings->text, &request->env);

    if ((request->method & (METHOD_GET | METHOD_HEAD)) == 0) {
        return request_fail(request, 405);
    }
    return response_memory(request, 200, STR("text/plain"),
                           arena_concat(&request->arena, text, STR("\n")));
}

/* Called when the directive is read: its value is stored already. */
static bool hello_apply(struct conf_scope *scope, const struct directive *row,
                        struct conf_node *node, void *settings)
{
    (void) row;
    (void) settings;
    if (node->args[1].len == 0) {
        return conf_error(scope->conf, node, "there is nothing to say");
    }
    content_set(scope_location(scope), hello_answer, NULL);
    return true;
}

/* ---- the filter: sees every response of the places where it is active */

static void hello_filter(struct request *request)
{
    fields_add(&request->response.fields, &request->arena, STR("X-Hello"), STR("world"));
}

static const struct filter_hook hello_filters[] = {
    {.name = "hello",
     .after = "headers",
     .run = hello_filter,
     .when = SETTING(hello_key, struct hello_settings, has_header)},
    {0},
};

/* ---- the variable: $hello_name is the argument `name`, or "world" */

static bool get_hello_name(struct variable_env *env, const struct variable *variable,
                           struct str *out)
{
    (void) variable;
    if (!variable_get_by_name(env, STR("arg_name"), out) || out->len == 0) {
        *out = STR("world");
    }
    return true;
}

static const struct variable hello_variables[] = {
    {.name = STR_INIT("hello_name"),
     .get = get_hello_name,
     .doc = "The name to greet: the argument `name`, or \"world\"."},
    {.name = STR_NONE},
};

/* ---- the rows: one row is one directive */

static const struct directive hello_rows[] = {
    {"hello", IN_LOCATION, TEMPLATE(struct hello_settings, text), .apply = hello_apply,
     .inherit = INHERIT_NEVER, .doc = "Answers with this text."},
    {"hello_header", IN_HTTP_ALL, FLAG(struct hello_settings, has_header), .initial = "off",
     .doc = "Adds the field X-Hello to responses."},
    {0},
};

static const struct http_module hello_hooks = {
    .variables = hello_variables,
    .filters = hello_filters,
};

const struct module ngx_http_hello_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_hello_module",
    .kind = MODULE_HTTP,
    .table = {.key = &hello_key,
              .rows = hello_rows,
              .contexts = IN_HTTP_LOCATION_SETTINGS,
              .size = sizeof(struct hello_settings)},
    .hooks = &hello_hooks,
};
