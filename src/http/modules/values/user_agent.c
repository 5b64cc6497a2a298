/* ngx_http_user_agent_module (Tengine's): variables that depend on words of User-Agent and the
 * versions after them. */
#include <stdlib.h>

#include "http/message/fields.h"
#include "http/routing/hooks.h"
#include "http/variables/variables.h"
#include "server/module.h"

enum { VERSION_PARTS = 4, VERSION_PART_MAX = UINT16_MAX };

/* "12.0.742.112" as 16 bits per number, the first one highest; missing ones are 0. */
typedef uint64_t agent_version;

/* A range of versions, both ends included, and its value. */
struct version_range {
    agent_version first, last;
    struct str value;
};

struct agent_word {
    struct str text;
    bool is_greedy;    /* any other word takes precedence */
    struct vec ranges; /* struct version_range: in order */
};

/* A `user_agent` block. */
struct agent_table {
    struct vec words; /* struct agent_word: longer ones first */
    bool begins[256]; /* does a word begin with this byte? */
    bool has_fallback;
    struct str fallback; /* `default` */
};

/* Takes digits and dots from *text. Numbers above 65535 become 65535. False: there are more than
 * four, or an empty one. */
static bool take_version(struct str *text, agent_version *version)
{
    unsigned parts = 0;

    *version = 0;
    for (;;) {
        uint64_t part = 0;
        size_t digits = 0;

        while (digits < text->len && ascii_is_digit((unsigned char) text->data[digits])) {
            part = part * 10 + (unsigned) (text->data[digits++] - '0');
            part = part > VERSION_PART_MAX ? VERSION_PART_MAX : part;
        }
        if (digits == 0 || parts == VERSION_PARTS) {
            return false;
        }
        *version |= part << (16 * (VERSION_PARTS - 1 - parts++));
        *text = str_skip(*text, digits);
        if (text->len == 0 || text->data[0] != '.') {
            return true;
        }
        *text = str_skip(*text, 1);
    }
}

/* ---- per request ---- */

/* The longest word at the beginning of the text, or NULL. */
static const struct agent_word *word_at(const struct agent_table *table, struct str text)
{
    if (!table->begins[(unsigned char) text.data[0]]) {
        return NULL;
    }
    vec_each(const struct agent_word, word, &table->words) {
        if (str_starts(text, word->text)) {
            return word;
        }
    }
    return NULL;
}

/* The version after a word, separated by a slash or a space; 0 if there is none. */
static agent_version version_behind(struct str *text)
{
    agent_version version;
    struct str rest = *text;

    if (rest.len == 0 || (rest.data[0] != '/' && rest.data[0] != ' ')) {
        return 0;
    }
    rest = str_skip(rest, 1);
    if (rest.len == 0 || !ascii_is_digit((unsigned char) rest.data[0])) {
        return 0;
    }
    take_version(&rest, &version); /* what follows four numbers, or a trailing dot, is ignored */
    *text = rest;
    return version;
}

static const struct version_range *range_of(const struct agent_word *word, agent_version version)
{
    vec_each(const struct version_range, range, &word->ranges) {
        if (version >= range->first && version <= range->last) {
            return range;
        }
    }
    return NULL;
}

/* Tengine searches from the end: the last word with a matching version determines the value, but a
 * greedy one only if no other matches. Of several greedy ones the last one is used. */
static struct str agent_value(const struct agent_table *table, struct str agent)
{
    struct str value = table->fallback;
    bool is_final = false;

    while (agent.len != 0) {
        const struct agent_word *word = word_at(table, agent);

        if (word == NULL) {
            agent = str_skip(agent, 1);
            continue;
        }
        agent = str_skip(agent, word->text.len);
        const struct version_range *range = range_of(word, version_behind(&agent));
        if (range != NULL && (!word->is_greedy || !is_final)) {
            value = range->value;
            is_final = !word->is_greedy;
        }
    }
    return value;
}

static bool agent_variable_get(struct variable_env *env, const struct variable *variable,
                               struct str *out)
{
    const struct agent_table *table = (const struct agent_table *) variable->data;
    const struct field *agent = fields_get(&variable_request(env)->headers, FIELD_USER_AGENT);

    *out = agent == NULL ? table->fallback : agent_value(table, agent->value);
    return true;
}

/* ---- while the configuration is read ---- */

static struct agent_word *word_named(struct conf *conf, struct agent_table *table, struct str text)
{
    vec_each(struct agent_word, word, &table->words) {
        if (str_equal(word->text, text)) {
            return word;
        }
    }
    struct agent_word *word = vec_add(&table->words, conf->arena, struct agent_word);
    *word = (struct agent_word){.text = text};
    table->begins[(unsigned char) text.data[0]] = true;
    return word;
}

/* Parses "6.0" or "6.0=", "5.0+", "12.00-" or "17.0~17.9999". */
static bool read_range(struct str text, struct version_range *range)
{
    if (!take_version(&text, &range->first)) {
        return false;
    }
    range->last = range->first;
    if (str_is(text, "+")) {
        range->last = UINT64_MAX;
        return true;
    }
    if (str_is(text, "-")) {
        range->first = 0;
        return true;
    }
    if (text.len != 0 && text.data[0] == '~') {
        text = str_skip(text, 1);
        return take_version(&text, &range->last) && text.len == 0 && range->first <= range->last;
    }
    return text.len == 0 || str_is(text, "=");
}

static bool user_agent_add_line(struct conf *conf, const struct conf_node *node,
                                struct agent_table *table)
{
    struct version_range range = {0, UINT64_MAX, STR_NONE};
    struct str word = node->args[0];

    if (node->count < 2 || node->count > 3 || word.len == 0) {
        return conf_error(conf, node, "invalid number of the user_agent parameters");
    }
    range.value = node->args[node->count - 1];
    if (node->count == 2 && str_is(word, "default")) {
        if (table->has_fallback) {
            return conf_error(conf, node, "duplicate default user_agent parameter");
        }
        table->has_fallback = true;
        table->fallback = range.value;
        return true;
    }
    if (node->count == 2 && str_is(word, "greedy")) {
        if (range.value.len == 0) {
            return conf_error(conf, node, "\"greedy\" needs a word");
        }
        word_named(conf, table, range.value)->is_greedy = true;
        return true;
    }
    if (node->count == 3 && !read_range(node->args[1], &range)) {
        return conf_error(conf, node, "invalid version \"%.*s\"", STR_ARG(node->args[1]));
    }
    *vec_add(&word_named(conf, table, word)->ranges, conf->arena, struct version_range) = range;
    return true;
}

static int by_length(const void *a, const void *b)
{
    size_t left = ((const struct agent_word *) a)->text.len;
    size_t right = ((const struct agent_word *) b)->text.len;

    return left > right ? -1 : left < right;
}

static bool user_agent_apply(struct conf_scope *scope, const struct directive *row,
                             struct conf_node *node, void *settings)
{
    struct conf *conf = scope->conf;
    struct agent_table *table = arena_new(conf->arena, struct agent_table);
    struct variable *variable = variable_define_word(conf, node, node->args[1]);
    bool is_good = variable != NULL;

    for (const struct conf_node *line = node->children; line != NULL; line = line->next) {
        is_good &= user_agent_add_line(conf, line, table);
    }
    if (!is_good) {
        return false;
    }
    if (!table->has_fallback) {
        return conf_error(conf, node, "\"user_agent\" needs a \"default\"");
    }
    if (table->words.count != 0) {
        qsort(table->words.items, table->words.count, sizeof(struct agent_word), by_length);
    }
    variable->get = agent_variable_get;
    variable->kind = &request_subject;
    variable->data = (uintptr_t) table;
    return true;
}

static const struct directive user_agent_rows[] = {
    {"user_agent", IN_HTTP, FREE_FORM(user_agent_apply), ARGS(1, 1), .repeat = REPEAT_CUSTOM,
     .syntax = "$variable",
     .doc = "Defines a variable by strings in the field User-Agent, one per line: `string "
            "[versions] value`. Versions: `5.0` or `5.0=` is exactly this version, `5.0+` "
            "this and later ones, `5.0-` this and earlier ones, `5.0~6.9` a range; a "
            "string without a version has version 0. The last match sets the value; a "
            "string in a line `greedy string` is used only if no other matches. `default "
            "value` is required."},
    {0},
};

const struct module ngx_http_user_agent_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_user_agent_module",
    .kind = MODULE_HTTP,
    .table = {.rows = user_agent_rows, .contexts = IN_HTTP},
};
