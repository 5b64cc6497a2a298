/* ngx_http_rewrite_module: rewrite, return, set, if, break. This file parses the directives. */
#include "http/modules/values/rewrite/rewrite.h"

#include "base/parse.h"
#include "http/routing/hooks.h"
#include "http/variables/variables.h"
#include "server/module.h"

#define IN_REWRITE IN_SERVER | IN_SERVER_IF | IN_LOCATION | IN_LOCATION_IF

static struct settings_key rewrite_key;

const struct rewrite_settings *rewrite_settings_at(const struct http_location *location)
{
    return location_settings(location, &rewrite_key);
}

static struct instruction *instruction_new(struct conf_scope *scope, enum instruction_kind kind)
{
    struct instruction *instruction = arena_new(scope->conf->arena, struct instruction);

    instruction->kind = kind;
    return instruction;
}

static bool instruction_add(struct conf_scope *scope, struct rewrite_settings *settings,
                            struct instruction *instruction)
{
    *vec_add(&settings->instructions, scope->conf->arena, struct instruction *) = instruction;
    return true;
}

/* Does the text begin with a URL scheme? */
static bool is_absolute(struct str text)
{
    return str_starts(text, STR("http://")) || str_starts(text, STR("https://")) ||
           str_starts(text, STR("$scheme"));
}

/* ---- rewrite ---- */

static bool parse_flag(struct conf_scope *scope, const struct conf_node *node,
                       struct instruction *instruction)
{
    struct str flag = node->args[3];

    if (str_is(flag, "last")) {
        instruction->end = REWRITE_LAST;
    } else if (str_is(flag, "break")) {
        instruction->end = REWRITE_BREAK;
    } else if (str_is(flag, "redirect")) {
        instruction->status = 302;
    } else if (str_is(flag, "permanent")) {
        instruction->status = 301;
    } else {
        return conf_error(scope->conf, node, "invalid parameter \"%.*s\"", STR_ARG(flag));
    }
    return true;
}

static bool rewrite_apply(struct conf_scope *scope, const struct directive *row,
                          struct conf_node *node, void *settings)
{
    struct conf *conf = scope->conf;
    struct str text = node->args[2];
    struct instruction *instruction = instruction_new(scope, DO_REWRITE);

    instruction->regex = regex_compile(conf, node, node->args[1], false, true);
    if (instruction->regex == NULL) {
        return false;
    }
    if (text.len == 0) {
        return conf_error(conf, node, "empty replacement");
    }
    if (is_absolute(text)) {
        instruction->status = 302;
    }
    if (node->count == 4 && !parse_flag(scope, node, instruction)) {
        return false;
    }
    instruction->is_named = *text.data == '@' && instruction->status == 0;
    instruction->keeps_args = text.data[text.len - 1] != '?';
    if (!instruction->keeps_args) {
        text.len--;
    }
    instruction->replacement = template_compile(conf, node, text);
    return instruction->replacement != NULL && instruction_add(scope, settings, instruction);
}

/* ---- return ---- */

static bool is_redirect_code(unsigned status)
{
    return (status >= 301 && status <= 303) || status == 307 || status == 308;
}

static bool return_apply(struct conf_scope *scope, const struct directive *row,
                         struct conf_node *node, void *settings)
{
    struct conf *conf = scope->conf;
    struct instruction *instruction = instruction_new(scope, DO_RETURN);
    struct str first = node->args[1];
    struct str text = node->count == 3 ? node->args[2] : STR_NONE;
    uint64_t status;

    if (parse_uint(first, &status) && status <= 999) {
        instruction->status = (unsigned) status;
    } else if (node->count == 2 && is_absolute(first)) {
        instruction->status = 302;
        text = first;
    } else {
        return conf_error(conf, node, "invalid return code \"%.*s\"", STR_ARG(first));
    }
    if (text.data != NULL) {
        instruction->replacement = template_compile(conf, node, text);
        if (instruction->replacement == NULL) {
            return false;
        }
    }
    instruction->is_redirect = is_redirect_code(instruction->status);
    instruction->is_text =
        !instruction->is_redirect && (instruction->status < 400 || text.len != 0);
    return instruction_add(scope, settings, instruction);
}

/* ---- set, break ---- */

/* The value of a variable of `set` before any assignment; it is cached, so that each request warns
 * once. */
static bool get_uninitialized(struct variable_env *env, const struct variable *variable,
                              struct str *out)
{
    const struct request *request = variable_request(env);

    if (rewrite_settings_at(request->location)->uninitialized_variable_warn) {
        log_warn(env->log, 0, "using uninitialized \"%.*s\" variable", STR_ARG(variable->name));
    }
    return variable_give(out, STR(""));
}

static struct variable *assigned(struct conf_scope *scope, const struct conf_node *node,
                                 struct str word)
{
    struct variable *variable = variable_assignable_word(scope->conf, node, word);

    if (variable != NULL && variable->get == NULL) {
        variable->get = get_uninitialized;
        variable->kind = &request_subject;
    }
    return variable;
}

static bool set_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                      void *settings)
{
    struct conf *conf = scope->conf;
    struct instruction *instruction = instruction_new(scope, DO_SET);

    instruction->variable = assigned(scope, node, node->args[1]);
    instruction->replacement = template_compile(conf, node, node->args[2]);
    if (instruction->variable == NULL || instruction->replacement == NULL) {
        return false;
    }
    return instruction_add(scope, settings, instruction);
}

static bool break_apply(struct conf_scope *scope, const struct directive *row,
                        struct conf_node *node, void *settings)
{
    return instruction_add(scope, settings, instruction_new(scope, DO_BREAK));
}

/* ---- if ---- */

/* The arguments between the parentheses. */
struct condition {
    const struct conf_node *node;
    struct str words[3];
    unsigned count;
};

static bool bad_condition(struct conf *conf, const struct condition *condition)
{
    return conf_error(conf, condition->node, "invalid condition \"%.*s\"",
                      STR_ARG(condition->words[0]));
}

/* Removes the parentheses; each may be an argument of its own or part of one. */
static bool read_condition(struct conf *conf, const struct conf_node *node,
                           struct condition *condition)
{
    unsigned first = 1;
    unsigned end = node->count;
    struct str word = node->args[1];

    condition->node = node;
    if (word.len == 0 || *word.data != '(') {
        return conf_error(conf, node, "invalid condition \"%.*s\"", STR_ARG(word));
    }
    word = str_skip(word, 1);
    if (word.len == 0) {
        first++;
        if (first == end) {
            return conf_error(conf, node, "invalid condition \"(\"");
        }
        word = node->args[first];
    }
    struct str *last = first + 1 == end ? &word : &node->args[end - 1];
    condition->words[0] = word;
    if (last->len == 0 || last->data[last->len - 1] != ')' || end - first > 4) {
        return bad_condition(conf, condition);
    }
    struct str tail = str_head(*last, last->len - 1);
    for (unsigned i = first; i < end; i++) {
        struct str part = i == end - 1 ? tail : i == first ? word : node->args[i];
        bool is_dropped = i == end - 1 && part.len == 0;
        if (!is_dropped && condition->count == 3) {
            return bad_condition(conf, condition);
        }
        if (!is_dropped) {
            condition->words[condition->count++] = part;
        }
    }
    return condition->count != 0 || bad_condition(conf, condition);
}

/* The operators between a variable and a value. */
struct comparison {
    struct str sign;
    enum test_kind kind;
    bool is_negated;
    bool is_nocase;
};

/* clang-format off */
static const struct comparison comparisons[] = {
    {STR_INIT("="), TEST_EQUAL, false, false},
    {STR_INIT("!="), TEST_EQUAL, true, false},
    {STR_INIT("~"), TEST_REGEX, false, false},
    {STR_INIT("~*"), TEST_REGEX, false, true},
    {STR_INIT("!~"), TEST_REGEX, true, false},
    {STR_INIT("!~*"), TEST_REGEX, true, true},
    {STR_INIT("<"), TEST_LESS, false, false},
    {STR_INIT(">="), TEST_LESS, true, false},
    {STR_INIT(">"), TEST_GREATER, false, false},
    {STR_INIT("<="), TEST_GREATER, true, false},
};
/* clang-format on */

static bool parse_comparison(struct conf *conf, const struct condition *condition,
                             struct test *test)
{
    const struct comparison *found = comparisons;
    const struct comparison *end = comparisons + sizeof(comparisons) / sizeof(comparisons[0]);

    while (found != end && !str_equal(found->sign, condition->words[1])) {
        found++;
    }
    if (found == end) {
        return conf_error(conf, condition->node, "unexpected \"%.*s\" in condition",
                          STR_ARG(condition->words[1]));
    }
    test->kind = found->kind;
    test->is_negated = found->is_negated;
    if (found->kind == TEST_REGEX) {
        test->regex =
            regex_compile(conf, condition->node, condition->words[2], found->is_nocase, true);
        return test->regex != NULL;
    }
    test->other = template_compile(conf, condition->node, condition->words[2]);
    return test->other != NULL;
}

/* "-f", "!-d" and others. */
static bool parse_file_test(struct str word, struct test *test)
{
    test->is_negated = word.len != 0 && *word.data == '!';
    if (test->is_negated) {
        word = str_skip(word, 1);
    }
    if (word.len != 2 || *word.data != '-') {
        return false;
    }
    switch (word.data[1]) {
    case 'f':
        test->kind = TEST_FILE;
        return true;
    case 'd':
        test->kind = TEST_DIRECTORY;
        return true;
    case 'e':
        test->kind = TEST_EXISTS;
        return true;
    case 'x':
        test->kind = TEST_EXECUTABLE;
        return true;
    default:
        return false;
    }
}

static bool parse_test(struct conf *conf, const struct condition *condition, struct test *test)
{
    struct str first = condition->words[0];

    if (first.len > 1 && *first.data == '$') {
        if (condition->count == 2) {
            return bad_condition(conf, condition);
        }
        test->value = template_compile(conf, condition->node, first);
        if (test->value == NULL) {
            return false;
        }
        test->kind = TEST_TRUE;
        return condition->count == 1 || parse_comparison(conf, condition, test);
    }
    if (condition->count != 2 || !parse_file_test(first, test)) {
        return bad_condition(conf, condition);
    }
    test->value = template_compile(conf, condition->node, condition->words[1]);
    return test->value != NULL;
}

/* Adds the condition to the list of instructions. */
static bool if_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                     void *settings)
{
    struct instruction *instruction = instruction_new(scope, DO_IF);
    struct condition condition = {0};

    if (!read_condition(scope->conf, node, &condition) ||
        !parse_test(scope->conf, &condition, &instruction->test)) {
        return false;
    }
    node->user = instruction;
    return instruction_add(scope, settings, instruction);
}

/* Then enters the block: in a location it has settings of its own, in a server only directives. */
static bool if_enter(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                     void *settings)
{
    struct instruction *instruction = node->user;

    if (scope->context == IN_SERVER) {
        struct conf_scope *inner = conf_enter(scope, node, IN_SERVER_IF, NULL, NULL);
        instruction->inside = inner == NULL ? NULL : conf_settings(inner, &rewrite_key);
        return inner != NULL;
    }
    instruction->location = location_enter_unnamed(scope, node, IN_LOCATION_IF);
    if (instruction->location == NULL) {
        return false;
    }
    instruction->inside = rewrite_settings_at(instruction->location);
    return true;
}

/* ---- instructions of other modules ---- */

static void add_step(struct conf_scope *scope, const struct rewrite_step *step)
{
    struct instruction *instruction = instruction_new(scope, DO_STEP);

    instruction->step = step;
    instruction_add(scope, conf_settings(scope, &rewrite_key), instruction);
}

static bool rewrite_begin(struct conf *conf, struct http_main *main)
{
    main->hooks->add_step = add_step;
    main->hooks->assigned = assigned;
    return true;
}

/* ---- the module ---- */

static void rewrite_fresh(void *settings)
{
    ((struct rewrite_settings *) settings)->instructions = (struct vec){0};
}

#define L struct rewrite_settings
static const struct directive rewrite_rows[] = {
    {"rewrite", IN_REWRITE, CUSTOM(rewrite_apply), ARGS(2, 3), .repeat = REPEAT_CUSTOM,
     .syntax = "regex replacement [last | break | redirect | permanent]",
     .doc = "Changes a URI that matches the regular expression. Without a flag, later "
            "directives process the new URI; `last` searches for a location with it, "
            "`break` stays in the location. The replacement may be a named location."},
    {"return", IN_REWRITE, CUSTOM(return_apply), ARGS(1, 2), .repeat = REPEAT_CUSTOM,
     .syntax = "code [text] | code URL | URL",
     .doc = "Responds immediately. 444 closes the connection without a response."},
    {"set", IN_REWRITE, CUSTOM(set_apply), ARGS(2, 2), .repeat = REPEAT_CUSTOM,
     .syntax = "$variable value", .doc = "Assigns a value to a variable."},
    {"if", IN_SERVER | IN_LOCATION, BLOCK(if_enter), .apply = if_apply, ARGS(1, ARGS_ANY),
     .repeat = REPEAT_CUSTOM, .syntax = "(condition)",
     .doc = "Contains settings and rewrite directives for requests that meet a condition: "
            "a variable; a comparison with = != ~ ~* !~ !~* < > <= >=; or a check of a "
            "path with -f -d -e -x, which may be negated with `!`."},
    {"break", IN_REWRITE, CUSTOM(break_apply), ARGS(0, 0), .repeat = REPEAT_CUSTOM,
     .doc = "Stops the processing of rewrite directives."},
    {"rewrite_log", IN_HTTP | IN_REWRITE, FLAG(L, rewrite_log), .initial = "off",
     .doc = "Whether the results of rewrite directives are logged at level notice."},
    {"uninitialized_variable_warn", IN_HTTP | IN_REWRITE, FLAG(L, uninitialized_variable_warn),
     .initial = "on",
     .doc = "Whether a warning is logged if a variable is used before it has a value."},
    {0},
};
#undef L

static const struct phase_hook rewrite_phases[] = {
    {.phase = PHASE_SERVER_REWRITE,
     .name = "rewrite",
     .run = rewrite_run_server,
     .when = SETTING(rewrite_key, struct rewrite_settings, instructions.count)},
    {.phase = PHASE_REWRITE,
     .name = "rewrite",
     .run = rewrite_run_location,
     .when = SETTING(rewrite_key, struct rewrite_settings, instructions.count)},
    {.run = NULL},
};

static const struct http_module rewrite_hooks = {.phases = rewrite_phases, .begin = rewrite_begin};

const struct module ngx_http_rewrite_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_rewrite_module",
    .kind = MODULE_HTTP,
    .table = {.key = &rewrite_key,
              .rows = rewrite_rows,
              .contexts = IN_HTTP_LOCATION_SETTINGS,
              .size = sizeof(struct rewrite_settings),
              .fresh = rewrite_fresh},
    .hooks = &rewrite_hooks,
};
