/* proxy_redirect: adapts Location and Refresh of proxied responses for clients of this server. */
#include "http/modules/backends/proxy/proxy.h"

/* ---- when the configuration is read ---- */

bool rewrite_rule_read(struct conf_scope *scope, const struct conf_node *node, bool is_nocase,
                       struct rewrite_rule *rule)
{
    struct conf *conf = scope->conf;
    struct str text = node->args[1];

    rule->text = NULL;
    rule->regex = NULL;
    if (text.len != 0 && *text.data == '~') {
        text = str_skip(text, 1);
        if (text.len != 0 && *text.data == '*') {
            text = str_skip(text, 1);
            is_nocase = true;
        }
        rule->regex = regex_compile(conf, node, text, is_nocase, true);
    } else {
        rule->text = template_compile(conf, node, text);
    }
    rule->replacement = template_compile(conf, node, node->args[2]);
    return rule->replacement != NULL && (rule->text != NULL || rule->regex != NULL);
}

static struct template *constant(struct conf *conf, struct str text)
{
    struct template *template = arena_new(conf->arena, struct template);

    template->source = text;
    template->is_constant = true;
    template->constant = text;
    return template;
}

/* Proxied servers see the URL of proxy_pass as their own; clients see the location instead. */
static void add_default(struct conf_scope *scope, struct proxy_settings *settings)
{
    struct conf *conf = scope->conf;
    const struct proxy_target *target = settings->target;
    bool has_uri = target->url.uri.len != 0;
    struct rewrite_rule *rule = vec_add(&settings->redirects, conf->arena, struct rewrite_rule);
    struct str from =
        has_uri ? target->url.text : arena_concat(conf->arena, target->url.text, STR("/"));

    rule->text = constant(conf, from);
    rule->replacement = constant(conf, has_uri ? target->prefix : STR("/"));
}

void redirect_default(struct conf_scope *scope, struct proxy_settings *settings)
{
    settings->redirects = (struct vec){0};
    if (settings->target->text == NULL) {
        add_default(scope, settings);
    }
}

static bool apply_default(struct conf_scope *scope, const struct directive *row,
                          const struct conf_node *node, struct proxy_settings *settings)
{
    if (scope->node == NULL || !proxy_pass_is_set(scope) || settings->has_default_redirect) {
        return conf_error(scope->conf, node,
                          "\"%s default\" should be placed after the \"proxy_pass\" directive",
                          row->name);
    }
    if (settings->target == NULL) {
        return false; /* the error was logged */
    }
    if (settings->target->text != NULL) {
        return conf_error(
            scope->conf, node,
            "\"%s default\" cannot be used with \"proxy_pass\" directive with variables",
            row->name);
    }
    settings->has_default_redirect = true;
    add_default(scope, settings);
    return true;
}

bool proxy_redirect_apply(struct conf_scope *scope, const struct directive *row,
                          struct conf_node *node, void *own)
{
    struct proxy_settings *settings = own;
    struct rewrite_rule rule;
    bool is_off;

    if (scope->parent == NULL) {
        return true; /* the default of all; proxy_finish makes it */
    }
    if (!rules_begin(scope, row, node, &settings->redirects, &is_off)) {
        return false;
    }
    settings->has_redirects = true;
    if (is_off) {
        return true;
    }
    if (node->count == 2 && str_is(node->args[1], "default")) {
        return apply_default(scope, row, node, settings);
    }
    if (node->count != 3) {
        return conf_error(scope->conf, node, "invalid parameter \"%.*s\"", STR_ARG(node->args[1]));
    }
    if (!rewrite_rule_read(scope, node, false, &rule)) {
        return false;
    }
    *vec_add(&settings->redirects, scope->conf->arena, struct rewrite_rule) = rule;
    return true;
}

/* ---- for a response ---- */

/* Applies the first rule that matches: replaces the prefix of a string rule, or the whole value of
 * a regex rule. */
static bool rewrite(struct request *request, const struct vec *rules, struct str *url)
{
    struct variable_env *env = &request->env;

    vec_each(const struct rewrite_rule, rule, rules) {
        if (rule->regex != NULL) {
            if (regex_match(rule->regex, *url, env, &request->log)) {
                *url = template_text(rule->replacement, env);
                return true;
            }
            continue;
        }
        struct str text = template_text(rule->text, env);
        if (str_starts(*url, text)) {
            *url = arena_concat(&request->arena, template_text(rule->replacement, env),
                                str_skip(*url, text.len));
            return true;
        }
    }
    return false;
}

/* Finds the URL in "5; url=http://…", case-insensitively; NULL: there is none. */
static const char *find_refresh_url(struct str value)
{
    for (size_t i = 0; i + 4 <= value.len; i++) {
        if (str_equal_nocase((struct str){value.data + i, 4}, STR("url="))) {
            return value.data + i + 4;
        }
    }
    return NULL;
}

void redirect_adapt(struct exchange *x, struct field *field)
{
    const struct proxy_settings *settings = x->module_settings;
    struct request *request = x->request;
    struct str url = field->value;
    struct str before = STR_NONE;

    if (field->id == FIELD_REFRESH) {
        const char *start = find_refresh_url(field->value);
        if (start == NULL) {
            return;
        }
        before = str_from(field->value.data, start);
        url = str_from(start, field->value.data + field->value.len);
    }
    if (rewrite(request, &settings->redirects, &url)) {
        field->value =
            field_value_safe(&request->arena, arena_concat(&request->arena, before, url));
    }
}
