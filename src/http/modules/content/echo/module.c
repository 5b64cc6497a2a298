/* ngx_http_echo_module: responses written in the configuration. Directives, variables and the body
 * filter. */
#include "base/clock.h"
#include "base/text.h"
#include "http/modules/content/echo/echo.h"
#include "http/request/body.h"
#include "http/routing/hooks.h"
#include "http/variables/variables.h"
#include "server/module.h"

struct settings_key echo_key;

TYPED_SETTINGS(echo_settings_at, struct echo_settings, echo_key, struct http_location)

struct echo_state *echo_state_of(struct request *request)
{
    return request_data(request, &echo_key, sizeof(struct echo_state));
}

/* ---- echo_before_body, echo_after_body ---- */

struct echo_filter {
    struct body_filter filter;
    const struct echo_settings *settings;
    bool has_begun;
};

static bool give_texts(struct echo_filter *echo, struct request *request, const struct vec *texts)
{
    vec_each(struct template *, text, texts) {
        struct body_piece piece = {.bytes = template_text(*text, &request->env), .fd = -1};

        if (piece.bytes.len != 0 && !body_filter_next(&echo->filter, request, &piece, false)) {
            return false;
        }
    }
    return true;
}

static bool echo_send(struct body_filter *filter, struct request *request,
                      const struct body_piece *piece, bool is_last)
{
    struct echo_filter *echo = container_of(filter, struct echo_filter, filter);

    if (!echo->has_begun) {
        echo->has_begun = true;
        if (!give_texts(echo, request, &echo->settings->before)) {
            return response_drop(piece);
        }
    }
    if (!is_last || echo->settings->after.count == 0) {
        return body_filter_next(filter, request, piece, is_last);
    }
    return body_filter_next(filter, request, piece, false) &&
           give_texts(echo, request, &echo->settings->after) &&
           body_filter_next(filter, request, NULL, true);
}

static void echo_header(struct request *request)
{
    struct response *response = &request->response;

    if (response->framing == FRAMING_TUNNEL || response->status < 200 || response->status == 204 ||
        response->status == 304) {
        return;
    }
    struct str etag = response->etag;

    response_change_body(request, true);
    response->etag = etag; /* the added text is constant, so the reference keeps the entity tag */
    if (response->is_header_only) {
        return;
    }
    struct echo_filter *echo = arena_new(&request->arena, struct echo_filter);
    echo->filter.send = echo_send;
    echo->settings = echo_settings_at(request->location);
    response_append_filter(request, &echo->filter);
}

static bool echo_is_active(const struct http_location *location)
{
    const struct echo_settings *settings = echo_settings_at(location);

    return settings->before.count != 0 || settings->after.count != 0;
}

/* ---- variables ---- */

static bool get_it(struct variable_env *env, const struct variable *variable, struct str *out)
{
    const struct echo_state *state = request_data(variable_request(env), &echo_key, 0);

    return state != NULL && state->it.data != NULL && variable_give(out, state->it);
}

static bool get_timer(struct variable_env *env, const struct variable *variable, struct str *out)
{
    const struct request *request = variable_request(env);
    const struct echo_state *state = request_data(variable_request(env), &echo_key, 0);
    uint64_t start_ms =
        state != NULL && state->started_ms != 0 ? state->started_ms : request->start_ms;

    return variable_give_seconds(env, out, clock_now.now_ms - start_ms);
}

static bool get_incr(struct variable_env *env, const struct variable *variable, struct str *out)
{
    return variable_give_number(env, out, ++echo_state_of(variable_request(env)->main)->incr);
}

static bool get_method(struct variable_env *env, const struct variable *variable, struct str *out)
{
    return variable_give(out, variable_request(env)->method_name);
}

static bool get_client_method(struct variable_env *env, const struct variable *variable,
                              struct str *out)
{
    return variable_give(out, variable_request(env)->main->method_name);
}

static bool get_uri(struct variable_env *env, const struct variable *variable, struct str *out)
{
    return variable_give(out, variable_request(env)->uri);
}

static bool echo_get_status(struct variable_env *env, const struct variable *variable,
                            struct str *out)
{
    unsigned status = request_status(variable_request(env));

    return status != 0 && variable_give_number(env, out, status);
}

static bool get_body(struct variable_env *env, const struct variable *variable, struct str *out)
{
    const struct request_body *body = variable_request(env)->incoming.body;

    return body != NULL && body->fd == -1 && variable_give(out, body->bytes);
}

/* The header in the form of HTTP/1.1, whatever version the client uses. */
static bool get_headers(struct variable_env *env, const struct variable *variable, struct str *out)
{
    const struct request *main = variable_request(env)->main;
    size_t size = main->head.line.len + 4;

    if (main->wire->has_text_head) { /* as received, even if fields were changed since */
        return variable_give(out, (struct str){main->head.line.data, main->head_size});
    }
    fields_each(field, &main->headers) {
        size += field->name.len + field->value.len + 4;
    }
    char *text = arena_text(env->arena, size);
    char *at = str_put(text, main->head.line);
    at = STR_PUT(at, "\r\n");
    fields_each(field, &main->headers) {
        if (!field->is_removed) {
            at = field_put(at, field->name, field->value);
        }
    }
    at = STR_PUT(at, "\r\n");
    return variable_give(out, str_from(text, at));
}

static const struct variable echo_variables[] = {
    {.name = STR_INIT("echo_it"),
     .doc = "Current item of `echo_foreach_split`.",
     .get = get_it,
     .flags = VARIABLE_VOLATILE},
    {.name = STR_INIT("echo_timer_elapsed"),
     .doc = "Seconds since the start of the request or the last `echo_reset_timer`.",
     .get = get_timer,
     .flags = VARIABLE_VOLATILE},
    {.name = STR_INIT("echo_incr"),
     .doc = "Number that increases by 1 each time the variable is read.",
     .get = get_incr,
     .flags = VARIABLE_VOLATILE},
    {.name = STR_INIT("echo_request_method"),
     .doc = "Method of this request or subrequest.",
     .get = get_method,
     .flags = VARIABLE_VOLATILE},
    {.name = STR_INIT("echo_client_request_method"),
     .doc = "Method of the client's request.",
     .get = get_client_method,
     .flags = VARIABLE_VOLATILE},
    {.name = STR_INIT("echo_request_uri"),
     .doc = "Decoded URI with arguments.",
     .get = get_uri,
     .flags = VARIABLE_VOLATILE},
    {.name = STR_INIT("echo_cacheable_request_uri"),
     .doc = "Same as `$echo_request_uri`, evaluated once.",
     .get = get_uri},
    {.name = STR_INIT("echo_response_status"),
     .doc = "Status of the response.",
     .get = echo_get_status,
     .flags = VARIABLE_VOLATILE},
    {.name = STR_INIT("echo_request_body"),
     .doc = "Request body as far as it has been read.",
     .get = get_body,
     .flags = VARIABLE_VOLATILE},
    {.name = STR_INIT("echo_client_request_headers"),
     .doc = "Header of the client's request as received.",
     .get = get_headers,
     .flags = VARIABLE_VOLATILE},
    {.name = {NULL, 0}},
};

/* ---- while the configuration is read ---- */

static bool echo_add_text(struct conf_scope *scope, struct conf_node *node, struct str text,
                          struct vec *texts)
{
    struct template *template = template_compile(scope->conf, node, text);

    *vec_add(texts, scope->conf->arena, const struct template *) = template;
    return template != NULL;
}

/* The arguments from `from` on as one text, separated by spaces. NULL after conf_error. */
static struct template *compile_joined(struct conf_scope *scope, struct conf_node *node,
                                       unsigned from, bool has_line_end)
{
    struct vec texts = {0};
    bool is_good = true;

    for (unsigned i = from; is_good && i < node->count; i++) {
        is_good = (i == from || echo_add_text(scope, node, STR(" "), &texts)) &&
                  echo_add_text(scope, node, node->args[i], &texts);
    }
    is_good = is_good && (!has_line_end || echo_add_text(scope, node, STR("\n"), &texts));
    return is_good ? template_join(scope->conf, &texts) : NULL;
}

/* Reads leading options: "-n", and "--", which ends them. "-" alone and an argument with a variable
 * are not options. Returns the index of the first argument after them. */
static unsigned read_options(const struct conf_node *node, unsigned at, bool *has_line_end)
{
    while (at < node->count && node->args[at].len > 1 && *node->args[at].data == '-' &&
           template_variable_count(node->args[at]) == 0) {
        struct str option = node->args[at++];

        if (str_is(option, "--")) {
            break;
        }
        *has_line_end = *has_line_end && !str_is(option, "-n");
    }
    return at;
}

/* Appends a command to the list of this block. */
static struct echo_command *add_command(struct conf_scope *scope, struct echo_settings *echo,
                                        enum echo_kind kind, const struct directive *row)
{
    if (echo->commands_of != scope->node) {
        echo->commands_of = scope->node;
        echo->commands = (struct vec){0};
        echo->reads_body = false;
    }
    struct http_location *location = scope_location(scope);
    content_set(location, echo_answer, NULL);
    location->content.carries = true;
    struct echo_command *command =
        vec_add(&echo->commands, scope->conf->arena, struct echo_command);
    command->kind = kind;
    command->name = row->name;
    echo->reads_body |= kind == ECHO_READ_BODY || kind == ECHO_SUBREQUEST;
    return command;
}

/* Directives without arguments, and those with one. */
static const struct {
    const char *name;
    enum echo_kind kind;
} plain_kinds[] = {
    {"echo_flush", ECHO_FLUSH},
    {"echo_sleep", ECHO_SLEEP},
    {"echo_blocking_sleep", ECHO_SLEEP},
    {"echo_reset_timer", ECHO_RESET_TIMER},
    {"echo_read_request_body", ECHO_READ_BODY},
    {"echo_request_body", ECHO_BODY},
    {"echo_end", ECHO_END},
    {"echo_abort_parent", ECHO_ABORT_PARENT},
};

static bool plain_apply(struct conf_scope *scope, const struct directive *row,
                        struct conf_node *node, void *settings)
{
    struct echo_settings *echo = settings;
    unsigned i = 0;

    while (!str_is(node->args[0], plain_kinds[i].name)) {
        i++;
    }
    struct echo_command *command = add_command(scope, echo, plain_kinds[i].kind, row);

    return node->count == 1 || conf_value_template(scope, node, 1, &command->word);
}

static bool echo_apply(struct conf_scope *scope, const struct directive *row,
                       struct conf_node *node, void *settings)
{
    bool has_line_end = true;
    unsigned from = read_options(node, 1, &has_line_end);
    struct echo_command *command = add_command(scope, settings, ECHO_TEXT, row);

    command->text = compile_joined(scope, node, from, has_line_end);
    return command->text != NULL;
}

/* echo_duplicate, echo_foreach_split: one argument and a text; further arguments are ignored. */
static bool pair_apply(struct conf_scope *scope, const struct directive *row,
                       struct conf_node *node, void *settings)
{
    bool is_loop = str_is(node->args[0], "echo_foreach_split");
    bool has_line_end = false;
    unsigned from = read_options(node, 1, &has_line_end);

    struct echo_command *command =
        add_command(scope, settings, is_loop ? ECHO_FOREACH : ECHO_DUPLICATE, row);
    if (from + 2 > node->count) {
        return true; /* reported at each request */
    }
    return conf_value_template(scope, node, from, &command->word) &&
           conf_value_template(scope, node, from + 1, &command->text);
}

/* echo_location, echo_location_async, echo_exec: a target, and optional arguments. */
static bool location_apply(struct conf_scope *scope, const struct directive *row,
                           struct conf_node *node, void *settings)
{
    bool is_exec = str_is(node->args[0], "echo_exec");
    struct echo_command *command =
        add_command(scope, settings, is_exec ? ECHO_EXEC : ECHO_SUBREQUEST, row);

    command->is_async = str_ends(node->args[0], STR("_async"));
    return conf_value_template(scope, node, 1, &command->word) &&
           (node->count == 2 || conf_value_template(scope, node, 2, &command->args));
}

/* echo_subrequest: method, target, and options with a value each. */
static bool subrequest_apply(struct conf_scope *scope, const struct directive *row,
                             struct conf_node *node, void *settings)
{
    struct echo_command *command = add_command(scope, settings, ECHO_SUBREQUEST, row);

    command->is_async = str_ends(node->args[0], STR("_async"));
    if (!conf_value_template(scope, node, 1, &command->method) ||
        !conf_value_template(scope, node, 2, &command->word)) {
        return false;
    }
    for (unsigned i = 3; i < node->count; i += 2) {
        struct str option = node->args[i];
        struct template **value = str_is(option, "-q")   ? &command->args
                                  : str_is(option, "-b") ? &command->text
                                  : str_is(option, "-f") ? &command->file
                                                         : NULL;
        if (value == NULL) {
            return conf_error(scope->conf, node, "unknown option for echo_subrequest*: %.*s",
                              STR_ARG(option));
        }
        if (i + 1 < node->count && !conf_value_template(scope, node, i + 1, value)) {
            return false;
        }
    }
    if (command->file != NULL) {
        template_make_path(command->file, scope->conf->arena, scope->conf->prefix);
    }
    return true;
}

static bool around_apply(struct conf_scope *scope, const struct directive *row,
                         struct conf_node *node, void *settings)
{
    struct echo_settings *echo = settings;
    bool has_line_end = true;
    unsigned from = read_options(node, 1, &has_line_end);
    struct template *text = compile_joined(scope, node, from, has_line_end);

    if (text == NULL) {
        return false;
    }
    *vec_add(str_is(node->args[0], "echo_before_body") ? &echo->before : &echo->after,
             scope->conf->arena, struct template *) = text;
    return true;
}

#define HERE IN_LOCATION | IN_LOCATION_IF
#define COMMAND(function, least, most) CUSTOM(function), ARGS(least, most), .repeat = REPEAT_CUSTOM
#define S struct echo_settings
static const struct directive echo_rows[] = {
    {"echo", HERE, COMMAND(echo_apply, 0, ARGS_ANY), .syntax = "[-n] [--] [string ...]",
     .doc = "Responds with the parameters, separated by spaces, and a line feed unless "
            "`-n` is given. The directives of this module are executed in order."},
    {"echo_duplicate", HERE, COMMAND(pair_apply, 2, ARGS_ANY), .syntax = "count string",
     .doc = "Responds with this number of copies of a string, at most 1 GB. Digits may be "
            "grouped: 10_000."},
    {"echo_flush", HERE, COMMAND(plain_apply, 0, 0),
     .doc = "Sends the output that has been produced so far."},
    {"echo_sleep", HERE, COMMAND(plain_apply, 1, 1), .syntax = "seconds",
     .doc = "Waits for this number of seconds; fractions such as 0.05 are allowed."},
    {"echo_blocking_sleep", HERE, COMMAND(plain_apply, 1, 1), .syntax = "seconds",
     .doc = "Same as echo_sleep: it does not block the worker."},
    {"echo_reset_timer", HERE, COMMAND(plain_apply, 0, 0), .doc = "Resets $echo_timer_elapsed."},
    {"echo_read_request_body", HERE, COMMAND(plain_apply, 0, 0),
     .doc = "Reads the request body, for use with echo_request_body and $request_body. The "
            "body has been read when the response begins."},
    {"echo_request_body", HERE, COMMAND(plain_apply, 0, 0),
     .doc = "Responds with the request body, if it has been read."},
    {"echo_location", HERE, COMMAND(location_apply, 1, 2), .syntax = "uri [args]",
     .doc = "Includes the response of another location and waits for it."},
    {"echo_location_async", HERE, COMMAND(location_apply, 1, 2), .syntax = "uri [args]",
     .doc = "Includes the response of another location without waiting for it."},
    {"echo_subrequest", HERE, COMMAND(subrequest_apply, 2, ARGS_ANY),
     .syntax = "method uri [-q args] [-b body] [-f file]",
     .doc = "Like echo_location, with a method, arguments, and a request body from a "
            "string or a file."},
    {"echo_subrequest_async", HERE, COMMAND(subrequest_apply, 2, ARGS_ANY),
     .syntax = "method uri [-q args] [-b body] [-f file]",
     .doc = "Like echo_subrequest, without waiting for it."},
    {"echo_foreach_split", HERE, COMMAND(pair_apply, 2, ARGS_ANY), .syntax = "separator string",
     .doc = "Executes the directives up to echo_end for each non-empty part of the string; "
            "$echo_it contains the part."},
    {"echo_end", HERE, COMMAND(plain_apply, 0, 0),
     .doc = "Ends the block that echo_foreach_split begins."},
    {"echo_exec", HERE, COMMAND(location_apply, 1, 2), .syntax = "uri [args] | @name",
     .doc = "Redirects internally to another location, if no output has been produced."},
    {"echo_abort_parent", HERE, COMMAND(plain_apply, 0, 0), .doc = "Fails with 500, as in nginx."},
    {"echo_status", HERE, NUMBER(S, status), .initial = "200", .min = 200, .max = 999,
     .syntax = "code",
     .doc = "Status code of the response that the directives of this module generate."},
    {"echo_before_body", HERE, CUSTOM_FIELD(S, before, around_apply), ARGS(0, ARGS_ANY),
     .repeat = REPEAT_APPEND, .syntax = "[-n] [--] [string ...]",
     .doc = "Adds a string before the body of each response."},
    {"echo_after_body", HERE, CUSTOM_FIELD(S, after, around_apply), ARGS(0, ARGS_ANY),
     .repeat = REPEAT_APPEND, .syntax = "[-n] [--] [string ...]",
     .doc = "Adds a string after the body of each response."},
    {0},
};
#undef S

static const struct filter_hook echo_filters[] = {
    {.name = "echo", .after = "gunzip", .run = echo_header, .is_active = echo_is_active},
    {.run = NULL},
};
static const struct http_module echo_hooks = {
    .variables = echo_variables,
    .filters = echo_filters,
};

const struct module ngx_http_echo_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_echo_module",
    .kind = MODULE_HTTP,
    .table = {.key = &echo_key,
              .rows = echo_rows,
              .contexts = IN_HTTP_LOCATION_SETTINGS,
              .size = sizeof(struct echo_settings)},
    .hooks = &echo_hooks,
};
