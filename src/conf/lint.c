/* The run of `nginx -t --lint`, and functions for its rules. */
#include "conf/lint.h"

#define MARK "# lint:"

/* Is the rule in a list "-a, -b"? */
static bool is_listed(struct str list, const char *rule)
{
    while (list.data != NULL) {
        struct str rest = str_trim(str_cut(&list, ','));
        struct str word = str_cut(&rest, ' '); /* a reason may follow */

        if (word.len > 1 && word.data[0] == '-' && str_is(str_skip(word, 1), rule)) {
            return true;
        }
    }
    return false;
}

/* The lint comment on one of the node's lines; empty when there is none. */
static struct str comment_of(const struct conf_node *node)
{
    const struct str text = node->file == NULL ? STR_NONE : node->file->text;
    const char *at = node->source, *end = text.data + text.len;

    if (at == NULL || text.data == NULL || at < text.data || at >= end) {
        return STR_NONE;
    }
    for (unsigned line = node->line; line <= node->end_line && at < end; line++) {
        struct str rest = str_from(at, end);
        struct str here = str_cut(&rest, '\n');
        const char *mark = str_find(here, STR(MARK));

        if (mark != NULL) {
            return str_from(mark + sizeof(MARK) - 1, here.data + here.len);
        }
        if (rest.data == NULL) {
            break;
        }
        at = rest.data;
    }
    return STR_NONE;
}

void lint_report(struct lint *lint, const struct conf_node *node, const char *format, ...)
{
    const struct lint_rule *rule = lint->rule;
    va_list args;

    if (is_listed(comment_of(node), rule->name)) {
        return;
    }
    va_start(args, format);
    if (node->file != NULL) {
        buf_printf(lint->out,
                   "%.*s:%u: ", node->file->name.len == 0 ? 12 : (int) node->file->name.len,
                   node->file->name.len == 0 ? "command line" : node->file->name.data, node->line);
    }
    buf_printf(lint->out, "[%s] ", rule->name);
    buf_vprintf(lint->out, format, args);
    buf_printf(lint->out, "; %s\n", rule->change);
    va_end(args);
    lint->count++;
}

static void check_node(struct lint *lint, const struct lint_rule *const *tables,
                       const struct conf_node *node)
{
    for (; *tables != NULL; tables++) {
        for (const struct lint_rule *rule = *tables; rule->name != NULL; rule++) {
            bool is_meant = rule->directive == NULL ||
                            (node->count != 0 && str_is(node->args[0], rule->directive));

            if (is_meant && !is_listed(lint->off, rule->name)) {
                lint->rule = rule;
                rule->check(lint, node);
            }
        }
    }
}

static void check_block(struct lint *lint, const struct lint_rule *const *tables,
                        const struct conf_node *block)
{
    check_node(lint, tables, block);
    for (const struct conf_node *node = block->children; node != NULL; node = node->next) {
        check_block(lint, tables, node);
    }
}

unsigned lint_run(struct lint *lint, const struct lint_rule *const *tables)
{
    lint->count = 0;
    check_block(lint, tables, lint->conf->root);
    return lint->count;
}

static bool is_rule(struct str name, const struct lint_rule *const *tables)
{
    for (; *tables != NULL; tables++) {
        for (const struct lint_rule *rule = *tables; rule->name != NULL; rule++) {
            if (str_is(name, rule->name)) {
                return true;
            }
        }
    }
    return false;
}

bool lint_options_check(struct str off, const struct lint_rule *const *tables, struct buf *error)
{
    while (off.data != NULL) {
        struct str word = str_trim(str_cut(&off, ','));

        if (word.len > 1 && word.data[0] == '-' && is_rule(str_skip(word, 1), tables)) {
            continue;
        }
        buf_printf(
            error,
            "invalid rule \"%.*s\" of --lint=; to switch rules off, write a minus before each, with commas between:",
            STR_ARG(word));
        for (; *tables != NULL; tables++) {
            for (const struct lint_rule *rule = *tables; rule->name != NULL; rule++) {
                buf_printf(error, " -%s", rule->name);
            }
        }
        return false;
    }
    return true;
}

const struct conf_node *lint_next(const struct conf_node *block, const struct conf_node *last,
                                  const char *name)
{
    const struct conf_node *node = last == NULL ? block->children : last->next;

    while (node != NULL && (node->count == 0 || !str_is(node->args[0], name))) {
        node = node->next;
    }
    return node;
}

const struct conf_node *lint_inherited(const struct conf_node *block, const char *name,
                                       const struct conf_node **of)
{
    for (; block != NULL; block = block->parent) {
        const struct conf_node *found = lint_next(block, NULL, name);

        if (found != NULL) {
            *of = block;
            return found;
        }
    }
    return NULL;
}

static bool is_name_byte(char c)
{
    return ascii_is_digit((unsigned char) c) || c == '_' ||
           (unsigned char) (ascii_lower((unsigned char) c) - 'a') < 26;
}

bool lint_variable(struct str *rest, struct str *name)
{
    const char *dollar = str_find_char(*rest, '$');
    const char *end = rest->data + rest->len;

    if (dollar == NULL || dollar + 1 >= end) {
        return false;
    }
    const char *start = dollar + 1 + (dollar[1] == '{'), *at = start;

    while (at < end && is_name_byte(*at)) {
        at++;
    }
    *name = str_from(start, at);
    *rest = str_from(at, end);
    return name->len != 0 || lint_variable(rest, name);
}

bool lint_has_arg(const struct conf_node *node, const char *word)
{
    for (unsigned i = 1; i < node->count; i++) {
        if (str_is(node->args[i], word)) {
            return true;
        }
    }
    return false;
}
