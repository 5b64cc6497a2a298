/* `match` blocks: parses them, and compares responses with them. */
#include "http/modules/backends/health_check/match.h"

#include "base/parse.h"
#include "conf/directive.h"

/* ---- parsing ---- */

static bool health_check_match_invalid(struct conf *conf, const struct conf_node *line,
                                       unsigned arg)
{
    return conf_error(conf, line, "invalid parameter \"%.*s\" of \"%.*s\"",
                      STR_ARG(line->args[arg]), STR_ARG(line->args[0]));
}

static bool parse_code(struct str text, unsigned *out)
{
    uint64_t number;

    if (!parse_uint(text, &number) || number < 100 || number > 999) {
        return false;
    }
    *out = (unsigned) number;
    return true;
}

/* status [!] code | code-code … */
static bool read_status(struct conf *conf, const struct conf_node *line, struct match *match)
{
    unsigned first = line->count > 1 && str_is(line->args[1], "!") ? 2 : 1;

    if (match->has_status) {
        return conf_error(conf, line, "\"status\" is duplicate");
    }
    if (first == line->count) {
        return conf_error(conf, line, "invalid number of arguments in \"status\"");
    }
    match->has_status = true;
    match->is_status_negated = first == 2;
    for (unsigned i = first; i < line->count; i++) {
        struct match_codes *codes = vec_add(&match->codes, conf->arena, struct match_codes);
        struct str rest = line->args[i];
        struct str text = str_cut(&rest, '-');

        if (!parse_code(text, &codes->first) ||
            !parse_code(rest.data == NULL ? text : rest, &codes->last) ||
            codes->last < codes->first) {
            return health_check_match_invalid(conf, line, i);
        }
    }
    return true;
}

static bool read_regex(struct conf *conf, const struct conf_node *line, unsigned arg,
                       struct match_rule *rule)
{
    rule->how = str_is(line->args[arg - 1], "~") ? MATCH_REGEX : MATCH_NO_REGEX;
    rule->regex = regex_compile(conf, line, line->args[arg], false, false);
    return rule->regex != NULL;
}

static bool is_regex_word(struct str word)
{
    return str_is(word, "~") || str_is(word, "!~");
}

/* header name | ! name | name = value | name != value | name ~ regex | name !~ regex */
static bool read_header(struct conf *conf, const struct conf_node *line, struct match *match)
{
    struct match_rule rule = {.how = MATCH_PRESENT};

    if (line->count < 2 || line->count > 4) {
        return conf_error(conf, line, "invalid number of arguments in \"header\"");
    }
    rule.name = line->args[1];
    if (line->count == 3) {
        if (!str_is(line->args[1], "!")) {
            return health_check_match_invalid(conf, line, 1);
        }
        rule.name = line->args[2];
        rule.how = MATCH_ABSENT;
    } else if (line->count == 4 && is_regex_word(line->args[2])) {
        if (!read_regex(conf, line, 3, &rule)) {
            return false;
        }
    } else if (line->count == 4) {
        if (!str_is(line->args[2], "=") && !str_is(line->args[2], "!=")) {
            return health_check_match_invalid(conf, line, 2);
        }
        rule.how = str_is(line->args[2], "=") ? MATCH_EQUAL : MATCH_UNEQUAL;
        rule.value = line->args[3];
    }
    *vec_add(&match->headers, conf->arena, struct match_rule) = rule;
    return true;
}

/* body ~ regex | !~ regex */
static bool read_body(struct conf *conf, const struct conf_node *line, struct match *match)
{
    struct match_rule rule = {.how = MATCH_REGEX};

    if (line->count != 3) {
        return conf_error(conf, line, "invalid number of arguments in \"body\"");
    }
    if (!is_regex_word(line->args[1])) {
        return health_check_match_invalid(conf, line, 1);
    }
    if (!read_regex(conf, line, 2, &rule)) {
        return false;
    }
    *vec_add(&match->bodies, conf->arena, struct match_rule) = rule;
    return true;
}

/* require $variable … */
static bool read_require(struct conf *conf, const struct conf_node *line, struct match *match)
{
    if (line->count < 2) {
        return conf_error(conf, line, "invalid number of arguments in \"require\"");
    }
    for (unsigned i = 1; i < line->count; i++) {
        struct template *text;

        if (line->args[i].len < 2 || line->args[i].data[0] != '$') {
            return conf_error(conf, line, "invalid variable name \"%.*s\"", STR_ARG(line->args[i]));
        }
        text = template_compile(conf, line, line->args[i]);
        if (text == NULL) {
            return false;
        }
        *vec_add(&match->required, conf->arena, struct template *) = text;
    }
    return true;
}

static bool health_check_match_read_line(struct conf *conf, const struct conf_node *line,
                                         struct health_match *block)
{
    struct match *match = container_of(block, struct match, block);
    struct str name = line->args[0];

    if (str_is(name, "status")) {
        return read_status(conf, line, match);
    }
    if (str_is(name, "header")) {
        return read_header(conf, line, match);
    }
    if (str_is(name, "body")) {
        return read_body(conf, line, match);
    }
    if (str_is(name, "require")) {
        return read_require(conf, line, match);
    }
    return conf_error(conf, line, "unknown directive \"%.*s\"", STR_ARG(name));
}

static const struct health_match_kind http_matches = {.state = "http match",
                                                      .size = sizeof(struct match),
                                                      .read_line = health_check_match_read_line};

bool match_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                 void *settings)
{
    return health_match_apply(scope->conf, &http_matches, node);
}

struct match *match_named(struct conf *conf, const struct conf_node *node, struct str name)
{
    return container_of(health_match_named(conf, &http_matches, node, name), struct match, block);
}

bool match_check_all(struct conf *conf)
{
    return health_match_check_all(conf, &http_matches);
}

/* ---- comparing ---- */

static bool fits_status(const struct match *match, unsigned status)
{
    bool is_listed = false;

    vec_each(struct match_codes, codes, &match->codes) {
        is_listed |= codes->first <= status && status <= codes->last;
    }
    return !match->has_status || is_listed != match->is_status_negated;
}

/* Does one of the fields with that name have the value? */
static bool has_header(const struct match_rule *rule, const struct fields *fields,
                       const struct log *log)
{
    fields_each(field, fields) {
        if (!str_equal_nocase(field->name, rule->name)) {
            continue;
        }
        switch (rule->how) {
        case MATCH_EQUAL:
        case MATCH_UNEQUAL:
            if (str_equal(field->value, rule->value)) {
                return true;
            }
            break;
        case MATCH_REGEX:
        case MATCH_NO_REGEX:
            if (regex_match(rule->regex, field->value, NULL, log)) {
                return true;
            }
            break;
        default:
            return true;
        }
    }
    return false;
}

static bool health_check_match_is_wanted(const struct match_rule *rule)
{
    return rule->how == MATCH_PRESENT || rule->how == MATCH_EQUAL || rule->how == MATCH_REGEX;
}

bool match_judge(struct health_probe *probe, struct probe_response *response, const void *settings)
{
    const struct match_use *use = settings;
    const struct match *match = use->match;
    bool is_status_good = match == NULL ? response->status >= 200 && response->status < 400
                                        : fits_status(match, response->status);

    if (!is_status_good) {
        return health_fail(probe,
                           arena_printf(probe->arena, "status code %u", response->status).data, 0);
    }
    if (match == NULL) {
        return true;
    }
    vec_each(const struct match_rule, rule, &match->headers) {
        if (has_header(rule, &response->fields, probe->log) != health_check_match_is_wanted(rule)) {
            return health_fail(
                probe, arena_printf(probe->arena, "header \"%.*s\"", STR_ARG(rule->name)).data, 0);
        }
    }
    vec_each(const struct match_rule, rule, &match->bodies) {
        if (regex_match(rule->regex, response->body, NULL, probe->log) !=
            health_check_match_is_wanted(rule)) {
            return health_fail(probe, "body", 0);
        }
    }
    if (match->required.count != 0 &&
        !match_required(&match->required, use->variables, probe, response)) {
        return health_fail(probe, "required variables", 0);
    }
    return true;
}
