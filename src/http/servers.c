/* Server names: as written, and the search for the server of a host (phases-and-order.md, 15 and
 * 16). */
#include "http/request.h"

static struct str lower_copy(struct arena *arena, struct str s)
{
    char *copy = arena_text(arena, s.len + 1);

    for (size_t i = 0; i < s.len; i++) {
        copy[i] = (char) ascii_lower((unsigned char) s.data[i]);
    }
    copy[s.len] = '\0';
    return (struct str){copy, s.len};
}

static size_t count_stars(struct str s)
{
    size_t stars = 0;

    for (size_t i = 0; i < s.len; i++) {
        stars += s.data[i] == '*';
    }
    return stars;
}

/*
 * "*.a.b", "a.b.*", ".a.b", "a.b": what kind, and the name without the dots and the star of its
 * wildcard. False for what nginx refuses at once; server_name_is_sound knows the rest.
 */
static bool classify(struct server_name *name)
{
    struct str text = name->name;

    name->kind = NAME_EXACT;
    if (str_starts(text, STR("."))) {
        name->kind = NAME_BOTH;
        name->name = str_skip(text, 1);
        return text.len > 1;
    }
    if (str_starts(text, STR("*"))) {
        name->kind = NAME_HEAD;
        name->name = str_skip(text, 2);
        return str_starts(text, STR("*.")) && text.len > 2;
    }
    if (str_ends(text, STR(".*"))) {
        name->kind = NAME_TAIL;
        name->name = str_head(text, text.len - 2);
    }
    return true;
}

bool server_name_is_sound(const struct server_name *name)
{
    size_t stars = count_stars(name->written);

    if (name->kind == NAME_REGEX) {
        return true;
    }
    return stars <= 1 && str_find(name->written, STR("..")) == NULL &&
           (stars == 0 || name->kind != NAME_EXACT);
}

/* "~regex": compiled without case when it holds no upper-case letter to tell apart, as nginx does
 * for host names. */
static bool add_regex(struct conf *conf, struct conf_node *node, struct server_name *name,
                      struct str pattern)
{
    if (pattern.len == 0) {
        return conf_error(conf, node, "empty regex in server name \"%.*s\"",
                          STR_ARG(name->written));
    }
    name->kind = NAME_REGEX;
    name->regex = regex_compile(conf, node, pattern, true, true);
    return name->regex != NULL;
}

bool server_name_apply(struct conf_scope *scope, const struct directive *row,
                       struct conf_node *node, void *settings)
{
    struct http_server *server = settings;
    struct conf *conf = scope->conf;

    (void) row;
    for (unsigned i = 1; i < node->count; i++) {
        struct str text = node->args[i];
        struct server_name *name = vec_push(&server->names, conf->arena, sizeof(*name));

        name->server = server;
        name->written = text;
        if (str_find_char(text, '/') != NULL) {
            conf_warn(conf, node, "server name \"%.*s\" has suspicious symbols", STR_ARG(text));
        }
        if (text.len != 0 && text.data[0] == '~') {
            if (!add_regex(conf, node, name, str_skip(text, 1))) {
                return false;
            }
        } else {
            name->name =
                str_is(text, "$hostname") ? server->main->hostname : lower_copy(conf->arena, text);
            name->written = name->name;
            if (!classify(name)) {
                return conf_error(conf, node, "server name \"%.*s\" is invalid", STR_ARG(text));
            }
        }
        if (server->names.count == 1) {
            server->name = name->kind == NAME_BOTH ? name->name : name->written;
        }
    }
    return true;
}

/* ---- the search ---- */

/* "example.com" of "*.example.com": the longest part behind a dot that is known. */
static struct server_name *find_head(const struct map *map, struct str host)
{
    for (size_t i = 0; i + 1 < host.len; i++) {
        if (host.data[i] == '.') {
            struct server_name *name = map_get(map, str_skip(host, i + 1));
            if (name != NULL) {
                return name;
            }
        }
    }
    return NULL;
}

/* "www" of "www.*": the longest part before a dot that is known. */
static struct server_name *find_tail(const struct map *map, struct str host)
{
    for (size_t i = host.len; i > 1; i--) {
        if (host.data[i - 1] == '.') {
            struct server_name *name = map_get(map, str_head(host, i - 1));
            if (name != NULL) {
                return name;
            }
        }
    }
    return NULL;
}

const struct http_server *server_find(const struct http_listen *listen, struct str host,
                                      struct request *request)
{
    const struct server_name *name = map_get(&listen->exact, host);

    if (name == NULL && listen->wildcard_head.count != 0) {
        name = find_head(&listen->wildcard_head, host);
    }
    if (name == NULL && listen->wildcard_tail.count != 0) {
        name = find_tail(&listen->wildcard_tail, host);
    }
    if (name == NULL && listen->regexes != NULL) {
        int number = regex_set_first(listen->regexes, host, &request->env, &request->log);
        if (number >= 0) {
            name = listen->regex_names[number];
        }
    }
    return name == NULL ? listen->default_server : name->server;
}
