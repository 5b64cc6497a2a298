/* ngx_http_referer_module: $invalid_referer, and valid_referers. */
#include "shared/names/host_map.h"
#include "http/routing/hooks.h"
#include "http/variables/variables.h"
#include "server/module.h"

#define HOST_MAX 256 /* bytes of a host; a longer one is invalid */
/* Bytes of the shortest Referer with a public host name, "http://a.bc". */
#define REFERER_LEAST 11

/* The valid referers of a location. */
struct referers {
    struct host_map hosts;  /* -> struct str: the required prefix of the path */
    struct host_map own;    /* names of the server -> this struct */
    struct vec regexes;     /* struct regex *: for the text after "http://" */
    struct vec own_regexes; /* struct regex *: for the host */
    const struct conf_node
        *level;          /* the block of the first directive: further ones in it add to this */
    bool allows_none;    /* a request without Referer is valid */
    bool allows_blocked; /* a Referer that is not a URL of a host is valid */
    bool allows_server_names;
};

struct referer_settings {
    struct referers *referers; /* NULL: all are valid */
    int64_t hash_max_size;     /* accepted and ignored: the tables size themselves */
    int64_t hash_bucket_size;
};

static struct settings_key referer_key;

/* ---- per request ---- */

static bool matches_any(const struct vec *regexes, struct str text, const struct request *request)
{
    vec_each(struct regex *const, regex, regexes) {
        if (regex_match(*regex, text, NULL, &request->log)) {
            return true;
        }
    }
    return false;
}

/* Removes "http://" or "https://"; false if it begins with neither. */
static bool cut_scheme(struct str *referer)
{
    static const struct str schemes[] = {STR_INIT("http://"), STR_INIT("https://")};

    for (size_t i = 0; i < 2; i++) {
        if (str_starts_nocase(*referer, schemes[i])) {
            *referer = str_skip(*referer, schemes[i].len);
            return true;
        }
    }
    return false;
}

/* Splits into the host, up to its port or path, and the path. */
static void split_referer(struct str text, struct str *host, struct str *path)
{
    size_t end = 0;

    while (end < text.len && text.data[end] != '/' && text.data[end] != ':') {
        end++;
    }
    *host = str_head(text, end);
    while (end < text.len && text.data[end] != '/') {
        end++;
    }
    *path = str_skip(text, end);
}

static bool names_host(const struct referers *referers, struct str text,
                       const struct request *request)
{
    struct str host;
    struct str path;

    split_referer(text, &host, &path);
    if (host.len > HOST_MAX) {
        return false;
    }
    const struct str *prefix = host_map_find(&referers->hosts, host);
    if (prefix != NULL && str_starts(path, *prefix)) {
        return true;
    }
    return host_map_find(&referers->own, host) != NULL ||
           matches_any(&referers->own_regexes, host, request) ||
           matches_any(&referers->regexes, text, request);
}

static bool is_valid(const struct referers *referers, const struct request *request)
{
    const struct field *field = fields_get(&request->headers, FIELD_REFERER);

    if (field == NULL) {
        return referers->allows_none;
    }
    struct str text = field->value;
    bool is_whole = cut_scheme(&text);
    if (is_whole && names_host(referers, text, request)) {
        return true;
    }
    return referers->allows_blocked && (!is_whole || field->value.len < REFERER_LEAST);
}

static bool get_invalid_referer(struct variable_env *env, const struct variable *variable,
                                struct str *out)
{
    const struct request *request = variable_request(env);
    const struct referer_settings *settings = location_settings(request->location, &referer_key);

    bool is_sound = settings->referers == NULL || is_valid(settings->referers, request);
    return variable_give(out, is_sound ? STR("") : STR("1"));
}

/* ---- while the configuration is read ---- */

static bool add_regex(struct conf *conf, const struct conf_node *node, struct referers *referers,
                      struct str word)
{
    struct regex *regex;

    if (word.len == 1) {
        return conf_error(conf, node, "empty regex in \"%.*s\"", STR_ARG(word));
    }
    regex = regex_compile(conf, node, str_skip(word, 1), true, false);
    if (regex == NULL) {
        return false;
    }
    *vec_add(&referers->regexes, conf->arena, struct regex *) = regex;
    return true;
}

/* "a.b", "*.a.b/path" */
static bool add_host(struct conf *conf, const struct conf_node *node, struct referers *referers,
                     struct str word)
{
    const char *slash = str_find_char(word, '/');
    struct str host = slash == NULL ? word : str_from(word.data, slash);
    struct str *path = arena_new(conf->arena, struct str);

    *path = str_skip(word, host.len);
    const struct host_name name = {host, host, path};
    return host_map_put(&referers->hosts, conf, node, &name);
}

static bool add_word(struct conf *conf, const struct conf_node *node, struct referers *referers,
                     struct str word)
{
    if (word.len == 0) {
        return conf_error(conf, node, "invalid referer \"\"");
    }
    if (str_is(word, "none")) {
        referers->allows_none = true;
        return true;
    }
    if (str_is(word, "blocked")) {
        referers->allows_blocked = true;
        return true;
    }
    if (str_is(word, "server_names")) {
        referers->allows_server_names = true;
        return true;
    }
    return *word.data == '~' ? add_regex(conf, node, referers, word)
                             : add_host(conf, node, referers, word);
}

static bool valid_referers_apply(struct conf_scope *scope, const struct directive *row,
                                 struct conf_node *node, void *arg)
{
    struct referer_settings *settings = arg;
    bool is_good = true;

    if (settings->referers == NULL || settings->referers->level != scope->node) {
        settings->referers = arena_new(scope->conf->arena, struct referers);
        settings->referers->level = scope->node;
    }
    for (unsigned i = 1; i < node->count; i++) {
        is_good &= add_word(scope->conf, node, settings->referers, node->args[i]);
    }
    return is_good;
}

static void add_own(struct map *map, struct arena *arena, struct referers *referers,
                    struct str name)
{
    map_put_nocase(map, arena, name.len == 0 ? STR("") : name, referers);
}

/* Adds the names of the server, which are all known by now. */
static void add_server_names(struct arena *arena, struct referers *referers,
                             const struct http_server *server)
{
    vec_each(const struct server_name, name, &server->names) {
        switch (name->kind) {
        case NAME_REGEX:
            *vec_add(&referers->own_regexes, arena, struct regex *) = name->regex;
            break;
        case NAME_BOTH:
            add_own(&referers->own.exact, arena, referers, name->name);
            add_own(&referers->own.front, arena, referers, name->name);
            break;
        case NAME_EXACT:
            add_own(&referers->own.exact, arena, referers, name->name);
            break;
        case NAME_HEAD:
            add_own(&referers->own.front, arena, referers, name->name);
            break;
        case NAME_TAIL:
            add_own(&referers->own.back, arena, referers, name->name);
            break;
        }
    }
}

static bool referer_finish(struct conf_scope *scope, void *arg)
{
    const struct referer_settings *settings = arg;
    struct referers *referers = settings->referers;

    if (referers == NULL || referers->level != scope->node) {
        return true;
    }
    if (referers->allows_server_names) {
        add_server_names(scope->conf->arena, referers, scope_server(scope));
    } else if (referers->regexes.count == 0 && referers->hosts.exact.count == 0 &&
               referers->hosts.front.count == 0 && referers->hosts.back.count == 0) {
        return conf_error(scope->conf, NULL,
                          "the \"none\" or \"blocked\" referers are specified in the "
                          "\"valid_referers\" directive without any valid referer");
    }
    return true;
}

#define S struct referer_settings
static const struct directive referer_rows[] = {
    {"valid_referers", IN_SERVER | IN_LOCATION, CUSTOM(valid_referers_apply), ARGS(1, ARGS_ANY),
     .repeat = REPEAT_CUSTOM, .syntax = "none | blocked | server_names | string ...",
     .doc = "Values of the Referer field for which `$invalid_referer` is empty, and not 1: "
            "no Referer (`none`), one without a scheme (`blocked`), host names with "
            "wildcards and beginnings of paths, `~regex`."},
    {"referer_hash_bucket_size", IN_SERVER | IN_LOCATION, NUMBER(S, hash_bucket_size),
     .initial = "64", .doc = "Accepted and ignored: the hash tables are sized automatically."},
    {"referer_hash_max_size", IN_SERVER | IN_LOCATION, NUMBER(S, hash_max_size), .initial = "2048",
     .doc = "Accepted and ignored: the hash tables are sized automatically."},
    {0},
};
#undef S

static const struct variable referer_variables[] = {
    {.name = STR_INIT("invalid_referer"),
     .doc = "Empty when `valid_referers` accepts the Referer field, otherwise 1.",
     .get = get_invalid_referer},
    {.name = {NULL, 0}},
};
static const struct http_module referer_hooks = {.variables = referer_variables};

const struct module ngx_http_referer_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_referer_module",
    .kind = MODULE_HTTP,
    .table = {.key = &referer_key,
              .rows = referer_rows,
              .contexts = IN_HTTP_LOCATION_SETTINGS,
              .size = sizeof(struct referer_settings),
              .finish = referer_finish},
    .hooks = &referer_hooks,
};
