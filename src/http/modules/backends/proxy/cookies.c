/* proxy_cookie_domain, proxy_cookie_path, proxy_cookie_flags: change Set-Cookie fields of proxied
 * responses (RFC 6265). */
#include "http/modules/backends/proxy/proxy.h"

/* ---- when the configuration is read ---- */

static bool rule_apply(struct conf_scope *scope, const struct directive *row,
                       const struct conf_node *node, bool is_nocase, struct vec *rules)
{
    struct rewrite_rule rule;
    bool is_off;

    if (scope->parent == NULL) {
        return true; /* the default: off */
    }
    if (!rules_begin(scope, row, node, rules, &is_off) || is_off) {
        return is_off;
    }
    if (node->count != 3) {
        return conf_error(scope->conf, node, "invalid parameter \"%.*s\"", STR_ARG(node->args[1]));
    }
    if (!rewrite_rule_read(scope, node, is_nocase, &rule)) {
        return false;
    }
    *vec_add(rules, scope->conf->arena, struct rewrite_rule) = rule;
    return true;
}

bool proxy_cookie_domain_apply(struct conf_scope *scope, const struct directive *row,
                               struct conf_node *node, void *settings)
{
    return rule_apply(scope, row, node, true,
                      &((struct proxy_settings *) settings)->cookie_domains);
}

bool proxy_cookie_path_apply(struct conf_scope *scope, const struct directive *row,
                             struct conf_node *node, void *settings)
{
    return rule_apply(scope, row, node, false, &((struct proxy_settings *) settings)->cookie_paths);
}

/* Changes of proxy_cookie_flags. */
enum cookie_flags {
    ADD_SECURE = 1 << 0,
    DROP_SECURE = 1 << 1,
    ADD_HTTP_ONLY = 1 << 2,
    DROP_HTTP_ONLY = 1 << 3,
    SAME_SITE_STRICT = 1 << 4,
    SAME_SITE_LAX = 1 << 5,
    SAME_SITE_NONE = 1 << 6,
    DROP_SAME_SITE = 1 << 7,
    ANY_SAME_SITE = SAME_SITE_STRICT | SAME_SITE_LAX | SAME_SITE_NONE | DROP_SAME_SITE,
};

static unsigned flag_of(struct str word)
{
    static const struct {
        struct str word;
        unsigned flag;
    } flags[] = {
        {STR_INIT("secure"), ADD_SECURE},
        {STR_INIT("nosecure"), DROP_SECURE},
        {STR_INIT("httponly"), ADD_HTTP_ONLY},
        {STR_INIT("nohttponly"), DROP_HTTP_ONLY},
        {STR_INIT("samesite=strict"), SAME_SITE_STRICT},
        {STR_INIT("samesite=lax"), SAME_SITE_LAX},
        {STR_INIT("samesite=none"), SAME_SITE_NONE},
        {STR_INIT("nosamesite"), DROP_SAME_SITE},
    };

    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        if (str_equal_nocase(word, flags[i].word)) {
            return flags[i].flag;
        }
    }
    return 0;
}

static bool read_flags(struct conf_scope *scope, const struct conf_node *node,
                       struct flags_rule *rule)
{
    struct conf *conf = scope->conf;

    for (unsigned i = 2; i < node->count; i++) {
        struct template *flag = template_compile(conf, node, node->args[i]);
        if (flag == NULL) {
            return false;
        }
        if (flag->is_constant && flag_of(flag->constant) == 0) {
            conf_warn(conf, node, "unknown cookie flag \"%.*s\"", STR_ARG(flag->constant));
        }
        *vec_add(&rule->flags, conf->arena, struct template *) = flag;
    }
    return true;
}

bool proxy_cookie_flags_apply(struct conf_scope *scope, const struct directive *row,
                              struct conf_node *node, void *settings)
{
    struct conf *conf = scope->conf;
    struct vec *rules = &((struct proxy_settings *) settings)->cookie_flags;
    struct flags_rule rule = {0};
    struct str name = node->args[1];
    bool is_off;

    if (scope->parent == NULL) {
        return true; /* the default: off */
    }
    if (!rules_begin(scope, row, node, rules, &is_off) || is_off) {
        return is_off;
    }
    if (node->count == 2) {
        return conf_error(conf, node, "invalid parameter \"%.*s\"", STR_ARG(name));
    }
    if (name.len != 0 && *name.data == '~') {
        rule.regex = regex_compile(conf, node, str_skip(name, 1), true, true);
    } else {
        rule.name = template_compile(conf, node, name);
    }
    if ((rule.regex == NULL && rule.name == NULL) || !read_flags(scope, node, &rule)) {
        return false;
    }
    *vec_add(rules, conf->arena, struct flags_rule) = rule;
    return true;
}

/* ---- for a response ---- */

/* A part between semicolons: "name=value", or only a name. */
struct attribute {
    struct str name;
    struct str value; /* NULL data = none */
    bool is_dropped;
};

/* A parsed Set-Cookie; the first part is the cookie itself. */
struct cookie {
    struct request *request;
    struct vec attributes; /* struct attribute */
    bool is_changed;
};

static struct attribute split(struct str part)
{
    const char *sign = str_find_char(part, '=');
    struct attribute attribute = {.name = str_trim(part)};

    if (sign != NULL) {
        attribute.name = str_trim(str_from(part.data, sign));
        attribute.value = str_trim(str_from(sign + 1, part.data + part.len));
    }
    return attribute;
}

/* False: it is not a cookie, and stays unchanged. */
static bool parse(struct cookie *cookie, struct str text)
{
    struct str rest = text;

    while (rest.data != NULL) {
        struct attribute attribute = split(str_cut(&rest, ';'));
        if (cookie->attributes.count == 0 && attribute.value.data == NULL) {
            return false;
        }
        *vec_add(&cookie->attributes, &cookie->request->arena, struct attribute) = attribute;
    }
    return cookie->attributes.count != 0;
}

static struct str print(const struct cookie *cookie)
{
    struct arena *arena = &cookie->request->arena;
    struct str *parts = arena_array(arena, cookie->attributes.count * 4, sizeof(*parts));
    size_t count = 0;

    vec_each(const struct attribute, attribute, &cookie->attributes) {
        if (attribute->is_dropped) {
            continue;
        }
        parts[count] = count == 0 ? STR_NONE : STR("; ");
        count++;
        parts[count++] = attribute->name;
        parts[count++] = attribute->value.data == NULL ? STR_NONE : STR("=");
        parts[count++] = attribute->value;
    }
    return arena_join(arena, parts, count);
}

static struct str without_dot(struct str domain)
{
    return domain.len != 0 && *domain.data == '.' ? str_skip(domain, 1) : domain;
}

/* A leading dot is ignored when domains are compared; the cookie keeps its dot. */
static void adapt_domain(struct cookie *cookie, const struct vec *rules,
                         struct attribute *attribute)
{
    struct request *request = cookie->request;
    struct str domain = without_dot(attribute->value);
    struct str dot = str_head(attribute->value, attribute->value.len - domain.len);

    vec_each(const struct rewrite_rule, rule, rules) {
        bool holds =
            rule->regex != NULL
                ? regex_match(rule->regex, domain, &request->env, &request->log)
                : str_equal_nocase(domain, without_dot(template_text(rule->text, &request->env)));
        if (holds) {
            struct str replacement = without_dot(template_text(rule->replacement, &request->env));
            attribute->value = arena_concat(&request->arena, dot, replacement);
            cookie->is_changed = true;
            return;
        }
    }
}

static void adapt_path(struct cookie *cookie, const struct vec *rules, struct attribute *attribute)
{
    struct request *request = cookie->request;

    vec_each(const struct rewrite_rule, rule, rules) {
        struct str text = rule->text == NULL ? STR_NONE : template_text(rule->text, &request->env);
        struct str rest = STR_NONE;
        bool holds = rule->regex != NULL
                         ? regex_match(rule->regex, attribute->value, &request->env, &request->log)
                         : str_starts(attribute->value, text);
        if (!holds) {
            continue;
        }
        if (rule->regex == NULL) {
            rest = str_skip(attribute->value, text.len);
        }
        attribute->value =
            arena_concat(&request->arena, template_text(rule->replacement, &request->env), rest);
        cookie->is_changed = true;
        return;
    }
}

/* The flags of the first rule that matches the name. */
static unsigned flags_for(struct request *request, const struct vec *rules, struct str name)
{
    vec_each(const struct flags_rule, rule, rules) {
        unsigned flags = 0;
        bool holds = rule->regex != NULL
                         ? regex_match(rule->regex, name, &request->env, &request->log)
                         : str_equal_nocase(name, template_text(rule->name, &request->env));
        if (!holds) {
            continue;
        }
        vec_each(struct template *const, flag, &rule->flags) {
            flags |= flag_of(template_text(*flag, &request->env));
        }
        return flags;
    }
    return 0;
}

static struct attribute *find_attribute(struct cookie *cookie, struct str name)
{
    for (size_t i = 1; i < cookie->attributes.count; i++) {
        struct attribute *attribute = vec_at(&cookie->attributes, struct attribute, i);
        if (!attribute->is_dropped && str_equal_nocase(attribute->name, name)) {
            return attribute;
        }
    }
    return NULL;
}

static void drop_attribute(struct cookie *cookie, struct str name)
{
    struct attribute *attribute;

    while ((attribute = find_attribute(cookie, name)) != NULL) {
        attribute->is_dropped = true;
        cookie->is_changed = true;
    }
}

static struct attribute *add_attribute(struct cookie *cookie, struct str name)
{
    struct attribute *attribute =
        vec_add(&cookie->attributes, &cookie->request->arena, struct attribute);

    attribute->name = name;
    cookie->is_changed = true;
    return attribute;
}

/* Adds or removes an attribute without a value. */
static void set_flag(struct cookie *cookie, struct str name, bool is_wanted, bool is_unwanted)
{
    if (is_unwanted) {
        drop_attribute(cookie, name);
    } else if (is_wanted && find_attribute(cookie, name) == NULL) {
        add_attribute(cookie, name);
    }
}

static void set_same_site(struct cookie *cookie, unsigned flags)
{
    struct str name = STR("SameSite");

    if ((flags & DROP_SAME_SITE) != 0) {
        drop_attribute(cookie, name);
        return;
    }
    struct attribute *attribute = find_attribute(cookie, name);
    if (attribute == NULL) {
        attribute = add_attribute(cookie, name);
    }
    attribute->name = name;
    attribute->value = (flags & SAME_SITE_STRICT) != 0 ? STR("Strict")
                       : (flags & SAME_SITE_LAX) != 0  ? STR("Lax")
                                                       : STR("None");
    cookie->is_changed = true;
}

static void adapt_flags(struct cookie *cookie, const struct vec *rules)
{
    struct str name = vec_at(&cookie->attributes, struct attribute, 0)->name;
    unsigned flags = flags_for(cookie->request, rules, name);

    set_flag(cookie, STR("Secure"), (flags & ADD_SECURE) != 0, (flags & DROP_SECURE) != 0);
    set_flag(cookie, STR("HttpOnly"), (flags & ADD_HTTP_ONLY) != 0, (flags & DROP_HTTP_ONLY) != 0);
    if ((flags & ANY_SAME_SITE) != 0) {
        set_same_site(cookie, flags);
    }
}

void cookie_adapt(struct exchange *x, struct field *field)
{
    const struct proxy_settings *settings = x->module_settings;
    struct cookie cookie = {.request = x->request};

    if (!parse(&cookie, field->value)) {
        return;
    }
    for (size_t i = 1; i < cookie.attributes.count; i++) {
        struct attribute *attribute = vec_at(&cookie.attributes, struct attribute, i);
        if (attribute->value.data == NULL) {
            continue;
        }
        if (str_equal_nocase(attribute->name, STR("domain"))) {
            adapt_domain(&cookie, &settings->cookie_domains, attribute);
        } else if (str_equal_nocase(attribute->name, STR("path"))) {
            adapt_path(&cookie, &settings->cookie_paths, attribute);
        }
    }
    if (settings->cookie_flags.count != 0) {
        adapt_flags(&cookie, &settings->cookie_flags);
    }
    if (cookie.is_changed) {
        field->value = field_value_safe(&x->request->arena, print(&cookie));
    }
}
