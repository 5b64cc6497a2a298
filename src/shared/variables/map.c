/* The map block: variables whose values depend on the value of a text. */
#include "shared/variables/map.h"

#include "conf/regex.h"
#include "conf/template.h"
#include "server/module.h"
#include "shared/names/host_map.h"

/* A `map` block. */
struct value_map {
    struct template *source;
    struct host_map keys;        /* -> struct template *; without hostnames, exact names only */
    struct vec regexes;          /* struct regex *: in file order */
    struct vec regex_values;     /* struct template *: with the same index */
    struct regex_set *regex_set; /* of regexes; NULL when there are none */
    struct template *fallback;   /* `default`; NULL = empty */
    bool has_hostnames;
    bool is_volatile;
};

/* ---- at run time ---- */

/* Order: the exact name, the longest wildcard, the expressions in file order, the default. */
static bool map_variable_get(struct variable_env *env, const struct variable *variable,
                             struct str *out)
{
    const struct value_map *map = (const struct value_map *) variable->data;
    struct str key = template_text(map->source, env);
    const struct template *value;

    if (map->has_hostnames && key.len != 0 && key.data[key.len - 1] == '.') {
        key.len--;
    }
    value = map->has_hostnames ? host_map_find(&map->keys, key)
                               : map_get_nocase(&map->keys.exact, key.data == NULL ? STR("") : key);
    if (value == NULL && map->regex_set != NULL) {
        int which = regex_set_first(map->regex_set, key, env, env->log);
        if (which >= 0) {
            value = *vec_at(&map->regex_values, struct template *, which);
        }
    }
    if (value == NULL) {
        value = map->fallback;
    }
    *out = value == NULL ? STR("") : template_text(value, env);
    return true;
}

/* ---- while the configuration is read ---- */

static bool add_regex(struct conf *conf, const struct conf_node *node, struct value_map *map,
                      struct str pattern, struct template *value)
{
    bool is_nocase = pattern.len != 0 && *pattern.data == '*';
    struct regex *regex =
        regex_compile(conf, node, str_skip(pattern, is_nocase ? 1 : 0), is_nocase, true);

    if (regex == NULL) {
        return false;
    }
    *vec_add(&map->regexes, conf->arena, struct regex *) = regex;
    *vec_add(&map->regex_values, conf->arena, struct template *) = value;
    return true;
}

/* A line with a key and a value. */
static bool add_entry(struct conf *conf, const struct conf_node *node, struct value_map *map)
{
    struct str key = node->args[0];
    struct template *value = template_compile(conf, node, node->args[1]);

    if (value == NULL) {
        return false;
    }
    if (str_is(key, "default")) {
        if (map->fallback != NULL) {
            return conf_error(conf, node, "duplicate default map parameter");
        }
        map->fallback = value;
        return true;
    }
    if (key.len != 0 && *key.data == '~') {
        return add_regex(conf, node, map, str_skip(key, 1), value);
    }
    if (key.len != 0 && *key.data == '\\') {
        key = str_skip(key, 1);
    }
    if (map->has_hostnames) {
        const struct host_name name = {key, node->args[0], value};
        return host_map_put(&map->keys, conf, node, &name);
    }
    if (map_put_nocase(&map->keys.exact, conf->arena, key, value) != NULL) {
        return conf_error(conf, node, "conflicting parameter \"%.*s\"", STR_ARG(node->args[0]));
    }
    return true;
}

static bool variables_map_add_line(struct conf *conf, const struct conf_node *node,
                                   struct value_map *map)
{
    if (node->count == 1 && str_is(node->args[0], "hostnames")) {
        map->has_hostnames = true;
        return true;
    }
    if (node->count == 1 && str_is(node->args[0], "volatile")) {
        map->is_volatile = true;
        return true;
    }
    if (node->count != 2) {
        return conf_error(conf, node, "invalid number of the map parameters");
    }
    return add_entry(conf, node, map);
}

bool value_map_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                     void *settings)
{
    struct conf *conf = scope->conf;
    struct value_map *map = arena_new(conf->arena, struct value_map);
    bool is_good = true;

    map->source = template_compile(conf, node, node->args[1]);
    if (map->source == NULL) {
        return false;
    }
    struct variable *variable = variable_define_word(conf, node, node->args[2]);
    if (variable == NULL) {
        return false;
    }
    for (const struct conf_node *line = node->children; line != NULL; line = line->next) {
        is_good &= variables_map_add_line(conf, line, map);
    }
    if (map->regexes.count != 0 && is_good) {
        map->regex_set = regex_set_new(conf, map->regexes.items, (unsigned) map->regexes.count);
    }
    variable_compute(variable, map_variable_get, map);
    if (map->is_volatile) {
        variable->flags |= VARIABLE_VOLATILE;
    }
    return is_good;
}

/* ---- the modules of http and stream ---- */

static const struct directive http_map_rows[] = {VALUE_MAP_ROWS(IN_HTTP), {0}};

const struct module ngx_http_map_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_map_module",
    .kind = MODULE_HTTP,
    .table = {.rows = http_map_rows,
              .contexts = IN_HTTP,
              .size = sizeof(struct value_map_settings)},
};

static const struct directive stream_map_rows[] = {VALUE_MAP_ROWS(IN_STREAM), {0}};

const struct module ngx_stream_map_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_stream_map_module",
    .kind = MODULE_STREAM,
    .table = {.rows = stream_map_rows,
              .contexts = IN_STREAM,
              .size = sizeof(struct value_map_settings)},
};
