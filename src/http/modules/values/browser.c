/* ngx_http_browser_module: classifies browsers as modern or ancient by User-Agent. */
#include "base/parse.h"
#include "http/message/agent.h"
#include "http/request/request.h"
#include "http/routing/hooks.h"
#include "http/variables/variables.h"
#include "server/module.h"

/* The known browsers, in the order in which a User-Agent is searched for them, since some also
 * contain the names of others. */
enum browser { OPERA, MSIE, GECKO, SAFARI, KONQUEROR, BROWSER_COUNT };

struct browser_kind {
    struct str name;  /* in modern_browser */
    struct str token; /* text before the version */
    unsigned blanks;  /* bytes of any value between token and version */
    size_t from;      /* the token is at this offset or later */
};

static const struct browser_kind kinds[BROWSER_COUNT] = {
    [OPERA] = {STR_INIT("opera"), STR_INIT("Opera"), 1, 0},
    [MSIE] = {STR_INIT("msie"), STR_INIT("MSIE "), 0, sizeof("Mozilla/4.0 (compatible; ") - 1},
    [GECKO] = {STR_INIT("gecko"), STR_INIT("rv:"), 0, sizeof("Mozilla/5.0 (") - 1},
    [SAFARI] = {STR_INIT("safari"), STR_INIT("Safari/"), 0, sizeof("Mozilla/5.0 (") - 1},
    [KONQUEROR] = {STR_INIT("konqueror"), STR_INIT("Konqueror/"), 0,
                   sizeof("Mozilla/5.0 (compatible; ") - 1},
};

#define VERSION_PARTS 4

struct version {
    uint32_t parts[VERSION_PARTS]; /* "1.2": 1, 2, 0, 0 */
};

/* This and later versions are modern. */
struct modern_browser {
    enum browser browser;
    struct version version;
};

/* The list of modern browsers at a level, and that of ancient ones, replaces the inherited one. */
struct browser_settings {
    struct vec modern;        /* struct modern_browser, in the order of the search */
    bool is_unlisted_modern;  /* browsers that are not listed are modern */
    struct vec ancient;       /* struct str: substrings of ancient browsers */
    bool is_netscape_ancient; /* Netscape 1 to 4 are ancient */
    struct str modern_value;  /* value of $modern_browser */
    struct str ancient_value;
};

static struct settings_key browser_key;

/* ---- versions ---- */

/* Parses digits and dots at the beginning of the text; returns what follows. Numbers that are too
 * large become the maximum, more than four are ignored. */
static struct str read_version(struct str text, struct version *out)
{
    unsigned part = 0;

    *out = (struct version){{0}};
    for (; text.len != 0 && (ascii_is_digit((unsigned char) *text.data) || *text.data == '.');
         text = str_skip(text, 1)) {
        if (*text.data == '.') {
            part++;
        } else if (part < VERSION_PARTS) {
            uint64_t number = (uint64_t) out->parts[part] * 10 + (unsigned) (*text.data - '0');
            out->parts[part] = number > UINT32_MAX ? UINT32_MAX : (uint32_t) number;
        }
    }
    return text;
}

static bool is_older(const struct version *version, const struct version *other)
{
    for (unsigned i = 0; i < VERSION_PARTS; i++) {
        if (version->parts[i] != other->parts[i]) {
            return version->parts[i] < other->parts[i];
        }
    }
    return false;
}

/* ---- per request ---- */

/* Is it this browser? Its version follows the first token. */
static bool find_browser(struct str agent, enum browser browser, struct version *version)
{
    const struct browser_kind *kind = &kinds[browser];

    if (agent.len < kind->from) {
        return false;
    }
    struct str rest = str_skip(agent, kind->from);
    const char *token = str_find(rest, kind->token);
    if (token == NULL) {
        return false;
    }
    rest = str_skip(rest, (size_t) (token - rest.data) + kind->token.len);
    if (rest.len <= kind->blanks) {
        return false;
    }
    read_version(str_skip(rest, kind->blanks), version);
    return true;
}

/* "Mozilla/4.8 [en] (Windows NT 5.0; U)": at least as long as such a string, and not newer than
 * 4. */
static bool is_netscape(struct str agent)
{
    struct str rest = agent;

    if (!str_starts(agent, STR("Mozilla/")) || agent.len < sizeof("Mozilla/4.08 ")) {
        return false;
    }
    rest = str_skip(rest, sizeof("Mozilla/") - 1);
    return *rest.data >= '1' && *rest.data <= '4';
}

static bool is_listed_ancient(const struct browser_settings *settings, struct str agent)
{
    vec_each(const struct str, word, &settings->ancient) {
        if (str_find(agent, *word) != NULL) {
            return true;
        }
    }
    return settings->is_netscape_ancient && is_netscape(agent);
}

static bool is_modern(const struct request *request, const struct browser_settings *settings)
{
    const struct field *field = fields_get(&request->headers, FIELD_USER_AGENT);
    const struct modern_browser *first = settings->modern.items;
    struct version version;

    if (field == NULL) {
        return settings->is_unlisted_modern;
    }
    /* Opera also contains the names of other browsers. If Opera is not listed, none of these
     * matches. */
    if (first != NULL && first->browser != OPERA && find_browser(field->value, OPERA, &version)) {
        return false;
    }
    vec_each(const struct modern_browser, modern, &settings->modern) {
        if (find_browser(field->value, modern->browser, &version)) {
            return !is_older(&version, &modern->version);
        }
    }
    return settings->is_unlisted_modern && !is_listed_ancient(settings, field->value);
}

/* data: 1 = $modern_browser, 0 = $ancient_browser. */
static bool get_browser(struct variable_env *env, const struct variable *variable, struct str *out)
{
    const struct request *request = variable_request(env);
    const struct browser_settings *settings = location_settings(request->location, &browser_key);

    if (is_modern(request, settings) != (variable->data == 1)) {
        return variable_give(out, STR(""));
    }
    return variable_give(out,
                         variable->data == 1 ? settings->modern_value : settings->ancient_value);
}

static bool get_msie(struct variable_env *env, const struct variable *variable, struct str *out)
{
    const struct field *field = fields_get(&variable_request(env)->headers, FIELD_USER_AGENT);

    bool is_msie = field != NULL && agent_is_msie(field->value);

    return variable_give(out, is_msie ? STR("1") : STR(""));
}

static const struct variable browser_variables[] = {
    {.name = STR_INIT("msie"),
     .doc = "1 for all versions of Internet Explorer.",
     .get = get_msie,
     .flags = VARIABLE_CHANGEABLE},
    {.name = STR_INIT("modern_browser"),
     .doc = "Value of `modern_browser_value` if the browser is a modern one.",
     .get = get_browser,
     .data = 1,
     .flags = VARIABLE_CHANGEABLE},
    {.name = STR_INIT("ancient_browser"),
     .doc = "Value of `ancient_browser_value` if the browser is an ancient one.",
     .get = get_browser,
     .flags = VARIABLE_CHANGEABLE},
    {.name = {NULL, 0}},
};

/* ---- directives ---- */

/* Safari and Konqueror do not contain each other's name, so they are searched for in the configured
 * order. */
static unsigned rank_of(enum browser browser)
{
    return browser == KONQUEROR ? SAFARI : browser;
}

/* Inserts after those that are searched for earlier or equally early. */
static void add_modern(struct vec *modern, struct arena *arena, struct modern_browser added)
{
    vec_add(modern, arena, struct modern_browser);
    struct modern_browser *at = vec_at(modern, struct modern_browser, modern->count - 1);
    for (; at != modern->items && rank_of(at[-1].browser) > rank_of(added.browser); at--) {
        *at = at[-1];
    }
    *at = added;
}

static bool modern_apply(struct conf_scope *scope, const struct directive *row,
                         struct conf_node *node, void *arg)
{
    struct browser_settings *settings = arg;
    struct modern_browser added = {.browser = OPERA};

    if (!conf_is_set(scope, &browser_key, "modern_browser")) {
        settings->modern = (struct vec){0};
        settings->is_unlisted_modern = false;
    }
    if (node->count == 2) {
        settings->is_unlisted_modern = true;
        return str_is(node->args[1], "unlisted") ||
               conf_error(scope->conf, node, "the version of browser \"%.*s\" is missing",
                          STR_ARG(node->args[1]));
    }
    while (added.browser < BROWSER_COUNT &&
           !str_equal_nocase(kinds[added.browser].name, node->args[1])) {
        added.browser++;
    }
    if (added.browser == BROWSER_COUNT) {
        return conf_error(scope->conf, node, "unknown browser name \"%.*s\"",
                          STR_ARG(node->args[1]));
    }
    if (read_version(node->args[2], &added.version).len != 0) {
        return conf_error(scope->conf, node, "invalid browser version \"%.*s\"",
                          STR_ARG(node->args[2]));
    }
    add_modern(&settings->modern, scope->conf->arena, added);
    return true;
}

static bool ancient_apply(struct conf_scope *scope, const struct directive *row,
                          struct conf_node *node, void *arg)
{
    struct browser_settings *settings = arg;

    if (!conf_is_set(scope, &browser_key, "ancient_browser")) {
        settings->ancient = (struct vec){0};
        settings->is_netscape_ancient = false;
    }
    for (unsigned i = 1; i < node->count; i++) {
        if (str_is(node->args[i], "netscape4")) {
            settings->is_netscape_ancient = true;
        } else {
            *vec_add(&settings->ancient, scope->conf->arena, struct str) = node->args[i];
        }
    }
    return true;
}

/* The last of several directives is effective. */
static bool value_apply(struct conf_scope *scope, const struct directive *row,
                        struct conf_node *node, void *settings)
{
    *(struct str *) (void *) ((char *) settings + row->offset) = node->args[1];
    return true;
}

#define S struct browser_settings
static const struct directive browser_rows[] = {
    {"modern_browser", IN_HTTP_ALL, CUSTOM_FIELD(S, modern, modern_apply), ARGS(1, 2),
     .repeat = REPEAT_APPEND, .syntax = "browser version | unlisted",
     .doc = "Version from which a browser (msie, gecko, opera, safari, konqueror) is "
            "modern. With `unlisted`, browsers that neither these directives nor "
            "`ancient_browser` list, and clients without User-Agent, are modern, too."},
    {"modern_browser_value", IN_HTTP_ALL, CUSTOM_FIELD(S, modern_value, value_apply), ARGS(1, 1),
     .repeat = REPEAT_CUSTOM, .initial = "1", .syntax = "string",
     .doc = "Value of $modern_browser for modern browsers. It cannot contain variables."},
    {"ancient_browser", IN_HTTP_ALL, CUSTOM_FIELD(S, ancient, ancient_apply), ARGS(1, ARGS_ANY),
     .repeat = REPEAT_APPEND, .syntax = "string ...",
     .doc = "Strings in User-Agent that identify an ancient browser; `netscape4` matches "
            "Netscape up to version 4."},
    {"ancient_browser_value", IN_HTTP_ALL, CUSTOM_FIELD(S, ancient_value, value_apply), ARGS(1, 1),
     .repeat = REPEAT_CUSTOM, .initial = "1", .syntax = "string",
     .doc = "Value of $ancient_browser for ancient browsers. It cannot contain variables."},
    {0},
};
#undef S

static const struct http_module browser_hooks = {.variables = browser_variables};

const struct module ngx_http_browser_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_browser_module",
    .kind = MODULE_HTTP,
    .table = {.key = &browser_key,
              .rows = browser_rows,
              .contexts = IN_HTTP_LOCATION_SETTINGS,
              .size = sizeof(struct browser_settings)},
    .hooks = &browser_hooks,
};
