/* ngx_http_map_module: variables whose values are found by the value of another text. */
#include "http/hooks.h"
#include "http/host_map.h"
#include "http/variables.h"
#include "server/module.h"

/* A `map` block. */
struct value_map {
    struct template *source;
    struct host_map keys;        /* -> struct template *; without hostnames exact ones alone */
    struct vec regexes;          /* struct regex *: in order */
    struct vec regex_values;     /* struct template *: of the same place */
    struct regex_set *regex_set; /* of regexes; NULL when there are none */
    struct template *fallback;   /* `default`; NULL = empty */
    bool has_hostnames;
    bool is_volatile;
};

/* Settings of the http level; understood, the tables size themselves. */
struct map_settings {
    int64_t hash_bucket_size;
    int64_t hash_max_size;
};

/* ---- for a request ---- */

/* Exact, wildcards, expressions in order, default (phases-and-order.md, 19). */
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
    *(struct regex **) vec_push(&map->regexes, conf->arena, sizeof(regex)) = regex;
    *(struct template **) vec_push(&map->regex_values, conf->arena, sizeof(value)) = value;
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
        return host_map_put(&map->keys, conf, node, key, node->args[0], value);
    }
    if (map_put_nocase(&map->keys.exact, conf->arena, key, value) != NULL) {
        return conf_error(conf, node, "conflicting parameter \"%.*s\"", STR_ARG(node->args[0]));
    }
    return true;
}

static bool add_line(struct conf *conf, const struct conf_node *node, struct value_map *map)
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

static bool map_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                      void *settings)
{
    struct conf *conf = scope->conf;
    struct value_map *map = arena_new(conf->arena, struct value_map);
    bool is_good = true;

    (void) row;
    (void) settings;
    map->source = template_compile(conf, node, node->args[1]);
    if (map->source == NULL) {
        return false;
    }
    struct variable *variable = variable_define_word(conf, node, node->args[2]);
    if (variable == NULL) {
        return false;
    }
    for (const struct conf_node *line = node->children; line != NULL; line = line->next) {
        is_good &= add_line(conf, line, map);
    }
    if (map->regexes.count != 0 && is_good) {
        map->regex_set = regex_set_new(conf, map->regexes.items, (unsigned) map->regexes.count);
    }
    variable->get = map_variable_get;
    variable->data = (uintptr_t) map;
    if (map->is_volatile) {
        variable->flags |= VARIABLE_VOLATILE;
    }
    return is_good;
}

#define M struct map_settings
static const struct directive map_rows[] = {
    {"map", IN_HTTP, .type = TYPE_BLOCK, .apply = map_apply, .is_free_form = true, ARGS(2, 2),
     .repeat = REPEAT_CUSTOM, .syntax = "text $variable",
     .doc = "Defines a variable by a table: keys are texts, with `hostnames` also *.suffix and "
            "prefix.*, ~regex and ~*regex, `default`. `volatile` computes it at each use."},
    {"map_hash_bucket_size", IN_HTTP, NUMBER(M, hash_bucket_size), .initial = "64",
     .doc = "Understood; the tables of maps size themselves."},
    {"map_hash_max_size", IN_HTTP, NUMBER(M, hash_max_size), .initial = "2048",
     .doc = "Understood; the tables of maps size themselves."},
    {0},
};
#undef M

static struct directive_table map_table = {.rows = map_rows,
                                           .contexts = IN_HTTP,
                                           .size = sizeof(struct map_settings)};
static struct directive_table *const map_tables[] = {&map_table, NULL};

const struct module ngx_http_map_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_map_module",
    .kind = MODULE_HTTP,
    .tables = map_tables,
};
