/* Templates: text with variables, compiled once and evaluated for each request. */
#include "conf/template.h"
#include "conf/internal.h"

#define PARTS_ON_STACK 16 /* parts whose values need no memory from the arena */

/* What follows a '$'. */
enum name_kind { NAME_VARIABLE, NAME_CAPTURE, NAME_BAD, NAME_UNCLOSED };

static bool is_name_byte(char c)
{
    unsigned char lowered = ascii_lower((unsigned char) c);

    return (lowered >= 'a' && lowered <= 'z') || ascii_is_digit((unsigned char) c) || c == '_';
}

/* Reads what follows a '$' and moves *rest past it. A capture is one digit from 1 to 9. */
static enum name_kind read_name(struct str *rest, struct str *name)
{
    if (rest->len != 0 && *rest->data >= '1' && *rest->data <= '9') {
        *name = str_head(*rest, 1);
        *rest = str_skip(*rest, 1);
        return NAME_CAPTURE;
    }
    bool is_braced = rest->len != 0 && *rest->data == '{';
    if (is_braced) {
        *rest = str_skip(*rest, 1);
    }
    size_t len = 0;
    while (len < rest->len && is_name_byte(rest->data[len])) {
        len++;
    }
    *name = str_head(*rest, len);
    bool is_closed = is_braced && len < rest->len && rest->data[len] == '}';
    if (is_braced && !is_closed) {
        return rest->len == 0 ? NAME_BAD : NAME_UNCLOSED;
    }
    *rest = str_skip(*rest, len + is_closed);
    return len == 0 ? NAME_BAD : NAME_VARIABLE;
}

unsigned template_variable_count(struct str text)
{
    unsigned count = 0;

    for (size_t i = 0; i < text.len; i++) {
        count += text.data[i] == '$';
    }
    return count;
}

static void finish_constant(struct template *template, struct arena *arena)
{
    struct str text = template->count == 0 ? STR("") : template->parts[0].text;
    bool is_relative = template->is_path && (text.len == 0 || text.data[0] != '/');

    template->is_constant = true;
    struct str parts[3] = {is_relative ? template->prefix : STR_NONE, text, STR("\0")};
    template->constant = arena_join(arena, parts, 3);
    template->constant.len--; /* the NUL is not counted */
}

/* 1 + the index of the first part with this variable; 0 = none has it. */
static unsigned find_same(const struct template *template, const struct variable *variable)
{
    for (unsigned i = 0; i < template->count; i++) {
        if (template->parts[i].kind == PART_VARIABLE && template->parts[i].variable == variable) {
            return i + 1;
        }
    }
    return 0;
}

/* Adds the part for a '$'. False after an error. */
static bool template_add_name(struct conf *conf, const struct conf_node *node,
                              struct template *template, struct str *rest)
{
    struct variable_set *set = conf_variables(conf);
    struct template_part *part = &template->parts[template->count];
    struct str name;

    switch (read_name(rest, &name)) {
    case NAME_CAPTURE:
        part->kind = PART_CAPTURE;
        part->capture = (unsigned) (*name.data - '0');
        break;
    case NAME_VARIABLE:
        if (set == NULL) {
            return conf_error(conf, node, "variables are not supported here: \"$%.*s\"",
                              STR_ARG(name));
        }
        part->kind = PART_VARIABLE;
        part->variable = variable_use(conf, node, set, name);
        if (part->variable == NULL) {
            return false;
        }
        part->same = find_same(template, part->variable);
        break;
    case NAME_UNCLOSED:
        return conf_error(conf, node, "the closing bracket in \"%.*s\" variable is missing",
                          STR_ARG(name));
    case NAME_BAD:
        return conf_error(conf, node, "invalid variable name");
    }
    template->count++;
    return true;
}

struct template *template_compile(struct conf *conf, const struct conf_node *node, struct str text)
{
    struct template *template = arena_new(conf->arena, struct template);
    unsigned most = 2 * template_variable_count(text) + 1;
    struct str rest = text;

    template->source = text;
    template->parts = arena_array(conf->arena, most, sizeof(struct template_part));
    while (rest.len != 0) {
        const char *dollar = str_find_char(rest, '$');
        size_t plain = dollar == NULL ? rest.len : (size_t) (dollar - rest.data);
        if (plain != 0) {
            struct template_part *part = &template->parts[template->count++];
            part->kind = PART_TEXT;
            part->text = str_head(rest, plain);
            rest = str_skip(rest, plain);
            continue;
        }
        rest = str_skip(rest, 1);
        if (!template_add_name(conf, node, template, &rest)) {
            return NULL;
        }
    }
    if (template->count == 0 || (template->count == 1 && template->parts[0].kind == PART_TEXT)) {
        finish_constant(template, conf->arena);
    }
    return template;
}

struct template *template_join(struct conf *conf, const struct vec *templates)
{
    struct template *joined = arena_new(conf->arena, struct template);
    unsigned count = 0;

    vec_each(const struct template *, one, templates) {
        count += (*one)->count;
    }
    joined->parts = arena_array(conf->arena, count + 1, sizeof(struct template_part));
    joined->is_constant = true;
    vec_each(const struct template *, one, templates) {
        joined->source = arena_concat(conf->arena, joined->source, (*one)->source);
        joined->is_constant = joined->is_constant && (*one)->is_constant;
        for (unsigned i = 0; i < (*one)->count; i++) {
            struct template_part *part = &joined->parts[joined->count + i];

            *part = (*one)->parts[i];
            part->same += part->same == 0 ? 0 : joined->count;
        }
        joined->count += (*one)->count;
    }
    if (joined->is_constant) {
        joined->constant =
            (struct str){arena_cstr(conf->arena, joined->source), joined->source.len};
    }
    return joined;
}

void template_make_path(struct template *template, struct arena *arena, struct str prefix)
{
    template->is_path = true;
    template->prefix = prefix;
    if (template->is_constant) {
        finish_constant(template, arena);
    }
}

/* ---- evaluation */

static struct str part_value(const struct template_part *part, struct variable_env *env)
{
    struct str value = STR_NONE;

    if (part->kind == PART_TEXT) {
        return part->text;
    }
    if (part->kind == PART_CAPTURE) {
        return part->capture < env->capture_count ? env->captures[part->capture] : STR_NONE;
    }
    return variable_get(env, part->variable, &value) ? value : STR_NONE;
}

/* A variable may match an expression (map) and so change the captures. As with nginx, these then
 * hold for the whole text: captures are taken after all variables. */
static void eval_parts(const struct template *template, struct variable_env *env,
                       struct str *values)
{
    const struct str *captures = env->captures;

    for (unsigned i = 0; i < template->count; i++) {
        const struct template_part *part = &template->parts[i];

        values[i] = part->same == 0 ? part_value(part, env) : values[part->same - 1];
    }
    for (unsigned i = 0; env->captures != captures && i < template->count; i++) {
        if (template->parts[i].kind == PART_CAPTURE) {
            values[i] = part_value(&template->parts[i], env);
        }
    }
}

/* The first byte of the value decides whether a path is relative. */
static bool is_relative_path(const struct str *values, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        if (values[i].len != 0) {
            return values[i].data[0] != '/';
        }
    }
    return true;
}

/* A single part such as "$value": nothing is concatenated. */
static struct str eval_one(const struct template *template, struct variable_env *env)
{
    struct str value = part_value(&template->parts[0], env);
    char *text = arena_text(env->arena, value.len + 1);

    *str_put(text, value) = '\0';
    return (struct str){text, value.len};
}

struct str template_eval(const struct template *template, struct variable_env *env)
{
    struct str few[PARTS_ON_STACK];
    struct str *values = few;
    size_t len = 0;

    if (template->is_constant) {
        return template->constant;
    }
    if (template->count == 1 && !template->is_path) {
        return eval_one(template, env);
    }
    if (template->count > PARTS_ON_STACK) {
        values = arena_array(env->arena, template->count, sizeof(*values));
    }
    eval_parts(template, env, values);
    for (unsigned i = 0; i < template->count; i++) {
        len += values[i].len;
    }
    struct str prefix = STR_NONE;
    if (template->is_path && is_relative_path(values, template->count)) {
        prefix = template->prefix;
        len += prefix.len;
    }
    char *text = arena_text(env->arena, len + 1);
    struct writer writer = {text, text + len};
    writer_put(&writer, prefix);
    for (unsigned i = 0; i < template->count; i++) {
        writer_put(&writer, values[i]);
    }
    *writer.at = '\0';
    return str_from(text, writer.at);
}

static bool is_true(struct str value)
{
    return value.len != 0 && !(value.len == 1 && value.data[0] == '0');
}

bool templates_any_true(const struct vec *templates, struct variable_env *env)
{
    vec_each(struct template *, item, templates) {
        if (is_true(template_text(*item, env))) {
            return true;
        }
    }
    return false;
}

bool templates_all_true(const struct vec *templates, struct variable_env *env)
{
    vec_each(struct template *, item, templates) {
        if (!is_true(template_text(*item, env))) {
            return false;
        }
    }
    return true;
}
