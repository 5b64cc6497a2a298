/* Toy modules for the tests: rows of every kind at three levels, shaped as a web server's are. */
#ifndef TESTS_CONF_TOY_H
#define TESTS_CONF_TOY_H

#include "conf/fixture.h"

struct main_settings {
    bool daemon;
    struct str pid;
    struct str includes; /* a CONF_PATH */
    int64_t workers;
};

struct place_settings {
    bool sendfile;
    unsigned satisfy;
    unsigned methods;
    unsigned merged;
    int64_t level;
    uint64_t buffer;
    int64_t body;
    uint64_t timeout;
    uint64_t age;
    struct str root;
    struct str handler; /* INHERIT_NEVER */
    struct template *text;
    struct template *rate;
    struct vec index;
    struct vec merged_list;
    struct vec skip;
    struct vec headers;
    struct buffers buffers;
    struct vec rules; /* of a custom row */
    int fresh_count;  /* of no row */
    struct str derived;
    struct str name;
};

struct plain_settings {
    int64_t number;
    struct vec words;
};

static struct variable_set variables;
static struct buf calls; /* what was called, in order */

static const struct directive_word satisfy_words[] = {{"all", 1}, {"any", 2}, {NULL, 0}};
static const struct directive_word method_words[] = {{"get", 1},
                                                     {"put", 2},
                                                     {"post", 4},
                                                     {NULL, 0}};

static bool apply_rule(struct conf_scope *scope, const struct directive *row,
                       struct conf_node *node, void *settings)
{
    struct place_settings *place = settings;

    if (str_is(node->args[1], "bad")) {
        conf_error(scope->conf, node, "bad rule");
        conf_hint(scope->conf, "a good one is better");
        return false;
    }
    if (str_is(node->args[1], "silent")) {
        return false;
    }
    *vec_add(&place->rules, scope->conf->arena, struct str) = node->args[1];
    return true;
}

static bool check_level(struct conf_scope *scope, const struct directive *row,
                        struct conf_node *node, void *settings)
{
    const struct place_settings *place = settings;

    return place->level != 7 || conf_error(scope->conf, node, "seven is unlucky");
}

static bool apply_types(struct conf_scope *scope, const struct directive *row,
                        struct conf_node *node, void *settings)
{
    for (const struct conf_node *line = node->children; line != NULL; line = line->next) {
        buf_printf(&calls, "%.*s/%u ", STR_ARG(line->args[0]), line->count);
    }
    return true;
}

static struct settings_key main_key, place_key, plain_key, twin_key;

static void name_scope(struct conf_scope *scope, void *arg)
{
    struct place_settings *place = conf_settings(scope, &place_key);
    place->name = *(struct str *) arg;
}

static struct conf_scope *scopes[32];
static unsigned scope_count;

static bool enter_block(struct conf_scope *scope, const struct directive *row,
                        struct conf_node *node, void *settings)
{
    uint32_t context = str_is(node->args[0], "http")     ? IN_HTTP
                       : str_is(node->args[0], "events") ? IN_EVENTS
                       : str_is(node->args[0], "server") ? IN_SERVER
                       : str_is(node->args[0], "if")
                           ? (scope->context == IN_SERVER ? IN_SERVER_IF : IN_LOCATION_IF)
                           : IN_LOCATION;
    struct str name = node->args[node->count - 1];

    buf_printf(&calls, "enter:%.*s ", STR_ARG(name));
    if (context == IN_HTTP) {
        conf_set_variables(scope->conf, &variables);
    }
    if (str_is(name, "twice")) {
        return conf_error(scope->conf, node, "duplicate location \"twice\"");
    }
    struct conf_scope *inner =
        conf_enter(scope, node, context, context == IN_EVENTS ? NULL : name_scope, &name);
    if (scope_count < COUNT(scopes)) {
        scopes[scope_count++] = inner;
    }
    if (str_is(name, "empty")) {
        return conf_error(scope->conf, node, "nothing is inside \"empty\"");
    }
    return context != IN_HTTP || variable_check_all(scope->conf, &variables);
}

static bool finish_place(struct conf_scope *scope, void *settings)
{
    struct place_settings *place = settings;

    buf_printf(&calls, "finish:%.*s ", STR_ARG(place->name));
    place->derived = arena_printf(scope->conf->arena, "%.*s!", STR_ARG(place->root));
    if (place->level == 13) {
        return conf_error(scope->conf, scope->node, "level 13 does not fit");
    }
    return true;
}

static void fresh_place(void *settings)
{
    struct place_settings *place = settings;
    place->fresh_count = 0;
}

#define PLACES (IN_HTTP | IN_SERVER | IN_LOCATION | IN_LOCATION_IF)

static const struct directive main_rows[] = {
    {"daemon", IN_MAIN, FLAG(struct main_settings, daemon), .initial = "on", .doc = "Own process."},
    {"pid", IN_MAIN, PATH(struct main_settings, pid), .initial = "logs/pid"},
    {"conf_file", IN_MAIN, CONF_PATH(struct main_settings, includes)},
    {"workers", IN_MAIN, NUMBER(struct main_settings, workers), .initial = "1", .min = 1,
     .max = INT64_MAX},
    {"events", IN_MAIN, BLOCK(enter_block)},
    {"http", IN_MAIN, BLOCK(enter_block)},
    {"connections", IN_EVENTS, NUMBER(struct main_settings, workers)},
    {NULL},
};

static const struct directive place_rows[] = {
    {"server", IN_HTTP, BLOCK(enter_block), .repeat = REPEAT_CUSTOM},
    {"location", IN_SERVER | IN_LOCATION, BLOCK(enter_block), ARGS(1, 2), .repeat = REPEAT_CUSTOM},
    {"if", IN_SERVER | IN_LOCATION, BLOCK(enter_block), ARGS(1, 4), .repeat = REPEAT_CUSTOM},
    {"types", PLACES, FREE_FORM(apply_types)},
    {"sendfile", PLACES, FLAG(struct place_settings, sendfile), .initial = "off",
     .doc = "Files go from kernel to kernel."},
    {"satisfy", PLACES, ENUM(struct place_settings, satisfy, satisfy_words), .initial = "all"},
    {"methods", PLACES, BITS(struct place_settings, methods, method_words), .repeat = REPEAT_APPEND,
     .initial = "get"},
    {"merged", PLACES, BITS(struct place_settings, merged, method_words), .repeat = REPEAT_MERGE},
    {"level", PLACES, NUMBER(struct place_settings, level), .initial = "1", .min = 1, .max = 20,
     .apply = check_level},
    {"buffer", PLACES, SIZE(struct place_settings, buffer), .initial = "8k"},
    {"body", PLACES, OFFSET(struct place_settings, body), .initial = "1m"},
    {"timeout", PLACES, MSEC(struct place_settings, timeout), .initial = "60s"},
    {"age", PLACES, SEC(struct place_settings, age), .initial = "1d"},
    {"root", PLACES, STRING(struct place_settings, root), .initial = "html"},
    {"pass", IN_LOCATION | IN_LOCATION_IF, STRING(struct place_settings, handler),
     .inherit = INHERIT_NEVER},
    {"text", PLACES, TEMPLATE(struct place_settings, text), .initial = "\"$host!\""},
    {"rate", PLACES, TEMPLATE_SIZE(struct place_settings, rate), .initial = "0"},
    {"index", PLACES, STRINGS(struct place_settings, index), .repeat = REPEAT_APPEND,
     .initial = "index.html index.htm"},
    {"merged_list", PLACES, STRINGS(struct place_settings, merged_list), .repeat = REPEAT_MERGE},
    {"skip", PLACES, TEMPLATES(struct place_settings, skip), .repeat = REPEAT_APPEND},
    {"header", PLACES, KEY_TEMPLATE(struct place_settings, headers), .repeat = REPEAT_APPEND,
     .initial = "Host $host; Connection \"\""},
    {"buffers", PLACES, BUFFERS(struct place_settings, buffers), .initial = "8 4k"},
    {"rule", PLACES, CUSTOM_FIELD(struct place_settings, rules, apply_rule), ARGS(1, 1),
     .repeat = REPEAT_APPEND, .initial = "first; second"},
    {"gone", PLACES, OBSOLETE, .doc = "since 1.0"},
    {"old_root", PLACES, STRING(struct place_settings, root), .replaced_by = "root"},
    {"server_only", IN_SERVER | IN_SERVER_IF, FLAG(struct place_settings, sendfile)},
    {NULL},
};

static const struct directive plain_rows[] = {
    {"number", PLACES, NUMBER(struct plain_settings, number), .initial = "5"},
    {"words", PLACES, STRINGS(struct plain_settings, words), .repeat = REPEAT_APPEND},
    {NULL},
};

/* The same name as in main_rows, at another level. */
static const struct directive twin_rows[] = {
    {"connections", IN_SERVER, STRINGS(struct plain_settings, words), .repeat = REPEAT_APPEND},
    {NULL},
};

static const struct directive_table main_table = {&main_key, main_rows, IN_MAIN,
                                                  sizeof(struct main_settings),
                                                  .module_name = "main_module"};
static const struct directive_table place_table = {&place_key,
                                                   place_rows,
                                                   PLACES | IN_SERVER_IF,
                                                   sizeof(struct place_settings),
                                                   .finish = finish_place,
                                                   .fresh = fresh_place,
                                                   .module_name = "place_module"};
static const struct directive_table plain_table = {&plain_key, plain_rows, PLACES,
                                                   sizeof(struct plain_settings),
                                                   .module_name = "plain_module"};
static const struct directive_table twin_table = {&twin_key, twin_rows, PLACES,
                                                  sizeof(struct plain_settings),
                                                  .module_name = "plain_module"};

static bool get_host(struct variable_env *env, const struct variable *variable, struct str *out)
{
    *out = STR("example.org");
    return true;
}

static const struct variable host_rows[] = {
    {.name = STR_INIT("host"), .get = get_host},
    {.name = STR_NONE},
};

/* Parses and applies; gives the report. */
static inline struct str run(const char *text)
{
    static struct conf_table tables[] = {{0},
                                         {&main_table, NULL},
                                         {&place_table, NULL},
                                         {&plain_table, NULL},
                                         {&twin_table, NULL}};

    scope_count = 0;
    calls.len = 0;
    memset(&variables, 0, sizeof(variables));
    variable_add_all(&conf, &variables, host_rows);
    conf.tables = tables;
    conf.table_count = COUNT(tables);
    parse(text);
    bool is_good = conf_apply(&conf);
    assert_int_equal(is_good, conf.error_count == 0);
    return report();
}

/* The text between http { and }. */
static inline struct str run_http(const char *text)
{
    return run(arena_printf(&arena, "http {\n%s\n}\n", text).data);
}

static inline struct place_settings *place(unsigned index)
{
    assert_true(index < scope_count);
    return conf_settings(scopes[index], &place_key);
}

#endif
