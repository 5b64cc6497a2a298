/* ngx_http_array_var_module: variables with lists of values, computed among the directives of the
 * rewrite module. */
#include "base/parse.h"
#include "http/request/request.h"
#include "http/routing/hooks.h"
#include "http/variables/variables.h"
#include "server/module.h"

/* A list belongs to its request. Its variable contains a reference, "array:N": code that shows or
 * copies the variable sees only this, and a value that a client sends can refer only to lists of
 * its own request. */
struct array {
    struct vec items; /* struct str */
};

/* State of a request, in its arena. */
struct array_state {
    struct vec arrays; /* struct array */
    struct str it;     /* the current item of array_map */
};

static const char array_key; /* its address is the key of the state */

#define NAME_PREFIX "array:"

static struct array_state *array_var_state_of(struct request *request)
{
    return request_data(request->main, &array_key, sizeof(struct array_state));
}

/* The items of the list that a value refers to, or NULL. */
static const struct vec *items_of(struct request *request, struct str value)
{
    const struct vec *arrays = &array_var_state_of(request)->arrays;
    uint64_t number;

    if (!str_starts(value, STR(NAME_PREFIX)) ||
        !parse_uint(str_skip(value, sizeof(NAME_PREFIX) - 1), &number) || number >= arrays->count) {
        return NULL;
    }
    return &vec_at(arrays, struct array, number)->items;
}

static struct str array_var_keep(struct request *request, const struct vec *items)
{
    struct arena *arena = &request->main->arena;
    struct vec *arrays = &array_var_state_of(request)->arrays;

    vec_add(arrays, arena, struct array)->items = *items;
    return arena_printf(arena, NAME_PREFIX "%zu", arrays->count - 1);
}

/* ---- per request ---- */

enum array_kind { ARRAY_SPLIT, ARRAY_JOIN, ARRAY_MAP, ARRAY_MAP_OP };

/* One directive. */
struct array_step {
    struct rewrite_step step;
    enum array_kind kind;
    const char *name;      /* name of the directive */
    struct template *text; /* SPLIT, JOIN: the separator; MAP: the new value of each item */
    const struct value_function *function; /* MAP_OP */
    struct template *subject; /* SPLIT: the string to split; else the variable with the list */
    struct variable *target;
    uint64_t limit; /* SPLIT: maximum number of items; 0 = unlimited */
};

static struct str split(struct request *request, const struct array_step *array)
{
    struct str separator = template_text(array->text, &request->env);
    struct str rest = template_text(array->subject, &request->env);
    struct arena *arena = &request->main->arena;
    struct vec items = {0};

    while (rest.len != 0 && items.count + 1 != array->limit) {
        const char *at =
            separator.len == 0 ? (rest.len == 1 ? NULL : rest.data + 1) : str_find(rest, separator);
        if (at == NULL) {
            break;
        }
        *vec_add(&items, arena, struct str) = str_from(rest.data, at);
        rest = str_from(at + separator.len, rest.data + rest.len);
    }
    if (rest.len != 0 || items.count != 0) {
        *vec_add(&items, arena, struct str) = rest;
    }
    return array_var_keep(request, &items);
}

static struct str join(struct request *request, const struct vec *items, struct str separator)
{
    size_t size = 0;

    vec_each(const struct str, item, items) {
        size += item->len + separator.len;
    }
    char *buffer = arena_text(&request->arena, size);
    char *at = buffer;
    for (size_t i = 0; i < items->count; i++) {
        at = str_put(at, i == 0 ? STR_NONE : separator);
        at = str_put(at, *vec_at(items, struct str, i));
    }
    return str_from(buffer, at);
}

/* Replaces each item. False: a function failed. */
static bool map(struct request *request, const struct array_step *array, const struct vec *items,
                struct str *value)
{
    struct vec results = {0};
    bool is_sound = true;

    for (size_t i = 0; i < items->count && is_sound; i++) {
        struct str item = *vec_at(items, struct str, i);
        if (array->kind == ARRAY_MAP) {
            array_var_state_of(request)->it = item;
            item = template_text(array->text, &request->env);
        } else {
            is_sound = array->function->compute(request, &item, 1, &item);
        }
        *vec_add(&results, &request->main->arena, struct str) = item;
    }
    array_var_state_of(request)->it = STR_NONE;
    *value = is_sound ? array_var_keep(request, &results) : STR_NONE;
    return is_sound;
}

static enum handler_result run_array(struct request *request, const struct rewrite_step *step)
{
    const struct array_step *array = container_of(step, struct array_step, step);
    struct str value;

    if (array->kind == ARRAY_SPLIT) {
        variable_assign(&request->env, array->target, split(request, array));
        return HANDLER_NEXT;
    }
    const struct vec *items = items_of(request, template_text(array->subject, &request->env));
    if (items == NULL) {
        log_error(&request->log, 0, "%s: \"%.*s\" is not an array", array->name,
                  STR_ARG(array->subject->source));
        return request_fail(request, 500);
    }
    if (array->kind == ARRAY_JOIN) {
        value = join(request, items, template_text(array->text, &request->env));
    } else {
        struct vec copy = *items; /* evaluating may add lists, which moves the array of lists */
        if (!map(request, array, &copy, &value)) {
            return request_fail(request, 500);
        }
    }
    variable_assign(&request->env, array->target, value);
    return HANDLER_NEXT;
}

static bool get_it(struct variable_env *env, const struct variable *variable, struct str *out)
{
    return variable_give(out, array_var_state_of(variable_request(env))->it);
}

static const struct variable array_variables[] = {
    {.name = STR_INIT("array_it"),
     .doc = "Current element in `array_map` and `array_map_op`.",
     .get = get_it,
     .flags = VARIABLE_VOLATILE},
    {.name = {NULL, 0}},
};

/* ---- while the configuration is read ---- */

/* Reads the arguments before the list. */
static bool read_what(struct conf_scope *scope, struct conf_node *node, struct array_step *array)
{
    struct str op = node->args[1];

    if (array->kind != ARRAY_MAP_OP) {
        return conf_value_template(scope, node, 1, &array->text);
    }
    array->function = value_function_find(http_main_of(scope->conf)->hooks, op);
    if (array->function == NULL) {
        return conf_error(
            scope->conf, node,
            "array_map_op: directive \"%.*s\" not found or does not use ngx_devel_kit",
            STR_ARG(op));
    }
    if (array->function->least > 1 || array->function->most < 1) {
        return conf_error(scope->conf, node,
                          "array_map_op: directive \"%.*s\" does not take one argument",
                          STR_ARG(op));
    }
    return true;
}

/* Reads the arguments after the list: a limit, and "to=$variable", without which the list itself is
 * changed. */
static bool read_rest(struct conf_scope *scope, struct conf_node *node, struct array_step *array)
{
    struct conf *conf = scope->conf;
    struct str word = array->kind == ARRAY_SPLIT ? STR_NONE : node->args[2];

    for (unsigned i = 3; i < node->count; i++) {
        if (str_starts(node->args[i], STR("to="))) {
            word = str_skip(node->args[i], 3);
        } else if (array->kind != ARRAY_SPLIT || !parse_uint(node->args[i], &array->limit)) {
            return conf_error(conf, node, "%s: unexpected argument \"%.*s\"", array->name,
                              STR_ARG(node->args[i]));
        }
    }
    if (word.data == NULL) {
        return conf_error(conf, node, "array_split: expecting the \"to\" argument");
    }
    array->target = http_main_of(conf)->hooks->assigned(scope, node, word);
    return array->target != NULL;
}

static bool array_apply(struct conf_scope *scope, const struct directive *row,
                        struct conf_node *node, void *settings)
{
    static const char *const names[] = {"array_split", "array_join", "array_map", "array_map_op"};
    const struct http_hooks *hooks = http_main_of(scope->conf)->hooks;
    struct array_step *array = arena_new(scope->conf->arena, struct array_step);

    array->step.run = run_array;
    while (!str_is(node->args[0], names[array->kind])) {
        array->kind++;
    }
    array->name = names[array->kind];
    if (hooks->add_step == NULL) {
        return conf_error(scope->conf, node, "\"%s\" needs the rewrite module", array->name);
    }
    if (!read_what(scope, node, array) || !conf_value_template(scope, node, 2, &array->subject) ||
        !read_rest(scope, node, array)) {
        return false;
    }
    hooks->add_step(scope, &array->step);
    return true;
}

#define ROW(name, most, words, text)                                                               \
    {                                                                                              \
        name, IN_HTTP_LINES, CUSTOM(array_apply), ARGS(2, most), .repeat = REPEAT_CUSTOM,          \
                                                                 .syntax = words, .doc = text      \
    }
#define IN_HTTP_LINES IN_SERVER | IN_SERVER_IF | IN_LOCATION | IN_LOCATION_IF
static const struct directive array_rows[] = {
    ROW("array_split", 4, "separator text [limit] to=$array",
        "Splits a text into a list, of at most `limit` items; an empty separator "
        "splits it into bytes."),
    ROW("array_join", 3, "separator $array [to=$variable]",
        "Joins the items of a list into a text, with the separator between them."),
    ROW("array_map", 3, "text $array [to=$array]",
        "Replaces each item with a text, in which $array_it is the item."),
    ROW("array_map_op", 3, "directive $array [to=$array]",
        "Replaces each item with the result of a directive such as set_md5."),
    {0},
};

static const struct http_module array_hooks = {.variables = array_variables};

const struct module ngx_http_array_var_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_array_var_module",
    .kind = MODULE_HTTP,
    .table = {.rows = array_rows},
    .hooks = &array_hooks,
};
