/* ngx_http_api_module: an API like that of nginx Plus, which shows the state of the service and
 * changes it while it runs. */
#include "base/text.h"
#include "http/modules/status/api/api.h"
#include "http/client/connection.h"
#include "http/request/response.h"
#include "http/variables/variables.h"
#include "server/generation.h"
#include "server/module.h"
#include "shared/metrics/zones.h"
#include "upstream/servers.h"

/* Of a location, including its limit_except and `if` blocks. */
struct api_settings {
    bool may_write; /* write=on */
};

/* ---- paths ---- */

/* The part of the path after the location's own part. */
static struct str rest_of_path(const struct request *request)
{
    const struct http_location *location = request->location;
    struct str rest = request->uri;

    if (location->kind <= LOCATION_PREFIX_NO_REGEX && str_starts(rest, location->name)) {
        rest = str_skip(rest, location->name.len);
    } else {
        rest = str_skip(rest, 1);
        str_cut(&rest, '/'); /* in a regex location, its own part is the first segment */
    }
    return rest.len != 0 && *rest.data == '/' ? str_skip(rest, 1) : rest;
}

/* Cuts off the next segment; empty after the last one. */
static struct str next_segment(struct str *path)
{
    return path->data == NULL ? STR_NONE : str_cut(path, '/');
}

/* 0: invalid. */
static unsigned number_of(struct str version)
{
    return version.len == 1 && *version.data >= '1' && *version.data <= '0' + API_VERSIONS
               ? (unsigned) (*version.data - '0')
               : 0;
}

unsigned api_version(const struct request *request)
{
    struct str rest = rest_of_path(request);
    unsigned version = number_of(next_segment(&rest));

    return version == 0 ? API_VERSIONS : version;
}

/* Is the method allowed here at all? */
static bool may_do(const struct request *request)
{
    const struct api_settings *settings = request->answering->content.settings;
    const unsigned writing = METHOD_POST | METHOD_PATCH | METHOD_DELETE;

    return api_is_read(request) || (settings->may_write && (request->method & writing) != 0);
}

static struct api_path path_of(const struct request *request)
{
    struct str rest = rest_of_path(request);
    struct api_path path = {.version = next_segment(&rest)};

    path.number = number_of(path.version);
    path.root = next_segment(&rest);
    if (str_is(path.root, "http") || str_is(path.root, "stream")) {
        path.what = next_segment(&rest);
    } else {
        path.what = path.root;
        path.root = STR("");
    }
    path.name = next_segment(&rest);
    path.more = next_segment(&rest);
    path.id = next_segment(&rest);
    path.has_more = next_segment(&rest).len != 0;
    return path;
}

static struct str header_of(const struct request *request, const char *name)
{
    struct str value = STR_NONE;

    fields_by_variable_name(&request->headers, (struct arena *) &request->arena, str_of(name),
                            &value);
    return value;
}

/* The host without port, and without the brackets of IPv6. */
static struct str host_name(struct str authority)
{
    if (authority.len != 0 && *authority.data == '[') {
        authority = str_skip(authority, 1);
        return str_cut(&authority, ']');
    }
    return str_cut(&authority, ':');
}

/* With DNS rebinding, an attacker makes a name resolve to this server after a page of that name was
 * loaded: the page then has the same origin as the API. So the name must be one that this server is
 * configured for. */
static bool is_own_host(struct request *request, struct str host)
{
    struct addr addr;
    struct str name = arena_dup(&request->arena, host_name(host));

    for (size_t i = 0; i < name.len; i++) {
        ((char *) name.data)[i] = (char) ascii_lower((unsigned char) name.data[i]);
    }
    if (addr_parse_ip(name, &addr) || str_is(name, "localhost") ||
        str_ends(name, STR(".localhost"))) {
        return true;
    }
    vec_each(struct http_listen *, listen, &request->server->listens) {
        const struct server_name *found = server_names_find(&(*listen)->names, name, &request->env);

        if (found != NULL && found->owner == request->server) {
            return true;
        }
    }
    return false;
}

/* A page of another site can make a browser send requests with the browser's credentials: these
 * requests have the origin of the page (RFC 6454; Fetch Metadata). Clients that are not browsers do
 * not send it. NULL, or why the request is refused. */
static const char *cross_origin(struct request *request)
{
    struct str origin = header_of(request, "origin"), host = header_of(request, "host");
    struct str site = header_of(request, "sec_fetch_site");
    const char *slashes = str_find(origin, STR("://"));

    if (site.len != 0 && !str_is(site, "same-origin") && !str_is(site, "none")) {
        return "a page of another origin may not change anything";
    }
    if (origin.len == 0) {
        return NULL;
    }
    host = host.len != 0 ? host : request->head.host;
    if (slashes == NULL ||
        !str_equal_nocase(str_from(slashes + 3, origin.data + origin.len), host) ||
        (connection_tls(request->connection) != NULL && !str_starts(origin, STR("https:")))) {
        return "a page of another origin may not change anything";
    }
    return is_own_host(request, host)
               ? NULL
               : "the page's host is no \"server_name\" of this server, so it "
                 "may not change anything";
}

/* ---- responses ---- */

/* The names below a path. */
/* clang-format off */
static const struct api_since of_service[] = {
    {"nginx", 1},
    {"processes", 1},
    {"connections", 1},
    {"slabs", 1},
    {"http", 1},
    {"stream", 1},
    {"resolvers", 5},
    {"ssl", 1},
    {"license", 9},
    {"workers", 9},
    {"explain", 1},
    {NULL, 0},
};
static const struct api_since of_http[] = {
    {"requests", 1},
    {"server_zones", 1},
    {"location_zones", 5},
    {"caches", 1},
    {"limit_conns", 6},
    {"limit_reqs", 6},
    {"keyvals", 1},
    {"upstreams", 1},
    {NULL, 0},
};
static const struct api_since of_stream[] = {
    {"server_zones", 1},
    {"limit_conns", 6},
    {"keyvals", 2},
    {"upstreams", 1},
    {"zone_sync", 3},
    {NULL, 0},
};
/* clang-format on */

static const struct api_since *words_under(struct str root)
{
    return str_is(root, "http") ? of_http : str_is(root, "stream") ? of_stream : of_service;
}

/* Lists the names that exist in this version. */
static enum handler_result answer_words(struct request *request, const struct api_since *words,
                                        unsigned version)
{
    struct buf out = {0};
    struct json json = {.out = &out};

    if (!api_is_read(request)) {
        return api_refuse_method(request);
    }
    json_open(&json, STR_NONE, '[');
    for (; words->name != NULL; words++) {
        if (words->version <= version) {
            json_put_name(&json, STR_NONE);
            json_put_text(&json, str_of(words->name));
        }
    }
    json_close(&json, ']');
    return api_answer_text(request, 200, &out);
}

/* Does the name in the path exist in its version? */
static bool has_word(const struct api_path *path)
{
    for (const struct api_since *word = words_under(path->root); word->name != NULL; word++) {
        if (str_is(path->what, word->name)) {
            return word->version <= path->number;
        }
    }
    return true;
}

static enum handler_result answer_versions(struct request *request)
{
    struct buf out = {0};

    if (!api_is_read(request)) {
        return api_refuse_method(request);
    }
    buf_append(&out, STR("[1,2,3,4,5,6,7,8,9]"));
    return api_answer_text(request, 200, &out);
}

/* Responds with the allowed methods (RFC 9110, 9.3.7), on which the dashboard's buttons depend. */
static enum handler_result answer_options(struct request *request)
{
    const struct api_settings *settings = request->answering->content.settings;

    fields_add(&request->response.fields, &request->arena, STR("Allow"),
               settings->may_write ? STR("GET, HEAD, POST, PATCH, DELETE, OPTIONS")
                                   : STR("GET, HEAD, OPTIONS"));
    return api_answer_nothing(request, 204);
}

static const struct api_collection *find_collection(const struct api_collection *list,
                                                    const struct api_path *path)
{
    for (; list->root != NULL; list++) {
        if (str_is(path->root, list->root) && str_is(path->what, list->name)) {
            return list;
        }
    }
    return NULL;
}

/* Handles the upstream groups of http or stream: all, one, or the servers of one. MAY WAIT. */
static enum handler_result answer_groups(struct request *request,
                                         const struct api_collection *groups,
                                         const struct api_path *path)
{
    if (path->more.len != 0) {
        return api_answer_servers(request, path);
    }
    if (path->name.len != 0) {
        const struct upstream_group *group = api_find_group(path->root, path->name);

        if (group != NULL && !api_shows_group(group)) {
            return api_refuse(request, 400, "UpstreamStatic",
                              "upstream is static: it has no \"zone\" and no \"status_zone\"");
        }
    }
    return api_answer_collection(request, groups, path->name);
}

/* MAY WAIT. */
static enum handler_result answer_path(struct request *request, const struct api_path *path)
{
    const struct api_collection *groups = find_collection(api_groups, path);

    if (path->version.len == 0) {
        return answer_versions(request);
    }
    if (path->what.len == 0) {
        return answer_words(request, words_under(path->root), path->number);
    }
    if (!has_word(path)) {
        return api_refuse_path(request);
    }
    if (groups != NULL) {
        return answer_groups(request, groups, path);
    }
    if (path->more.len != 0) {
        return api_refuse_path(request);
    }
    if (path->root.len != 0 && str_is(path->what, "keyvals")) {
        return api_answer_keyvals(request, path);
    }
    const struct api_collection *figures = find_collection(api_figures, path);
    return figures != NULL ? api_answer_collection(request, figures, path->name)
                           : api_refuse_path(request);
}

/* MAY WAIT. */
static enum handler_result api_answer(struct request *request)
{
    struct api_path path = path_of(request);

    fields_add(&request->response.fields, &request->arena, STR("Cache-Control"), STR("no-store"));
    if (request->method == METHOD_OPTIONS) {
        return answer_options(request);
    }
    if (!may_do(request)) {
        return api_refuse(request, 405, "MethodDisabled", "method disabled");
    }
    const char *reason = api_is_read(request) ? NULL : cross_origin(request);
    if (reason != NULL) {
        counters_mine->limited++;
        log_error(&request->log, 0, "api: %s", reason);
        return api_refuse(request, 403, "CrossOrigin", "request of another origin");
    }
    if (path.version.len != 0 && path.number == 0) {
        return api_refuse(request, 404, "UnknownVersion", "unknown version");
    }
    return path.has_more ? api_refuse_path(request) : answer_path(request, &path);
}

/* ---- directives ---- */

static bool api_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                      void *none)
{
    struct http_location *location = scope_location(scope);
    struct api_settings *settings = arena_new(scope->conf->arena, struct api_settings);

    settings->may_write = node->count == 2 && str_is(node->args[1], "write=on");
    if (node->count == 2 && !settings->may_write && !str_is(node->args[1], "write=off")) {
        return conf_error(scope->conf, node, "invalid parameter \"%.*s\"", STR_ARG(node->args[1]));
    }
    content_set(location, api_answer, settings);
    location->content.carries = true;
    status_zones_of(scope->conf)->is_wanted = true;
    return api_figures_prepare(scope->conf, node);
}

static const struct directive rows[] = {
    {"api", IN_LOCATION, CUSTOM(api_apply), ARGS(0, 1), .repeat = REPEAT_CUSTOM,
     .syntax = "[write=on | write=off]",
     .doc = "Provides the REST API of nginx Plus in versions 1 to 9: `/VERSION/nginx`, "
            "`connections`, `ssl`, `slabs`, `processes`, `workers`, `resolvers`, "
            "`explain`; under `http` and `stream` zones, upstreams, limits, caches and "
            "keyvals. Each version contains what it had in nginx Plus. With `write=on`, "
            "POST, PATCH and DELETE change keyvals and the servers of upstreams with "
            "`zone`, and reset counters. A client with write access can direct requests to "
            "any server, so restrict the access with `allow`."},
    {0},
};
static const struct directive_table table = {.rows = rows};
static const struct directive_table *const tables[] = {&table, NULL};

const struct module ngx_http_api_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_api_module",
    .kind = MODULE_HTTP,
    .tables = tables,
};
