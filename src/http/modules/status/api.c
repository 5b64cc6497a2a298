/* ngx_http_api_module, in the shape of nginx Plus' interface: keys and values of keyval_zone, shown and changed; what limits decided. */
#include "base/json.h"
#include "base/text.h"
#include "event/loop.h"
#include "http/request/body.h"
#include "http/request/response.h"
#include "http/routing/hooks.h"
#include "http/variables/variables.h"
#include "server/generation.h"
#include "server/module.h"
#include "shared/keyval/keyval.h"
#include "shared/keyval/text.h"
#include "shared/limit/zone.h"

enum { VERSIONS = 9 }; /* that clients may name: what is here is the same in all of them */

/* Of a location, and of the limit_except and `if` blocks in it: what is asked is the same there. */
struct api_settings {
    bool may_write; /* write=on */
};

/* ---- answers ---- */

static bool is_read(const struct request *request)
{
    return (request->method & (METHOD_GET | METHOD_HEAD)) != 0;
}

static enum handler_result answer(struct request *request, unsigned status, struct buf *text)
{
    struct str copy = arena_dup(&request->arena, buf_str(text));

    buf_free(text);
    return response_memory(request, status, STR("application/json"), copy);
}

static enum handler_result api_refuse(struct request *request, unsigned status, const char *code,
                                      const char *text)
{
    struct buf out = {0};
    struct json json = {.out = &out, .arena = &request->arena};
    struct str id = STR_NONE;

    variable_get_by_name(&request->env, STR("request_id"), &id);
    json_open(&json, STR_NONE, '{');
    json_open(&json, STR("error"), '{');
    json_put_number(&json, "status", status);
    json_put_string(&json, "text", str_of(text));
    json_put_string(&json, "code", str_of(code));
    json_close(&json, '}');
    json_put_string(&json, "request_id", id);
    json_put_string(&json, "href", STR("https://nginx.org/en/docs/http/ngx_http_api_module.html"));
    json_close(&json, '}');
    return answer(request, status, &out);
}

static enum handler_result unknown_path(struct request *request)
{
    return api_refuse(request, 404, "PathNotFound", "path not found");
}

/* A list of words: what stands below a path. */
static enum handler_result answer_list(struct request *request, const char *list)
{
    struct buf out = {0};

    buf_append(&out, str_of(list));
    return answer(request, 200, &out);
}

/* ---- keys and values ---- */

static const struct keyval_kind *kind_of(struct str protocol)
{
    return str_is(protocol, "http")     ? &keyval_http
           : str_is(protocol, "stream") ? &keyval_stream
                                        : NULL;
}

static struct keyval_zone *zone_named(const struct keyval_kind *kind, struct str name)
{
    struct keyval_zone *zone = keyval_zones_of(&generation_now->conf, kind);

    while (zone != NULL && !str_equal(zone->zone->name, name)) {
        zone = zone->next;
    }
    return zone;
}

static enum handler_result show_pair(struct request *request, const struct keyval_zone *zone,
                                     struct str key)
{
    struct buf out = {0};
    struct json json = {.out = &out};
    struct keyval_pair pair;

    key = percent_decode(&request->arena, key);
    if (!keyval_get(zone->store, key, &request->arena, &pair)) {
        return api_refuse(request, 404, "KeyvalKeyNotFound", "key not found");
    }
    json_open(&json, STR_NONE, '{');
    json_put_name(&json, pair.key);
    json_put_text(&json, pair.value);
    json_close(&json, '}');
    return answer(request, 200, &out);
}

/* Zones whose pairs are being shown; in the request's arena. */
struct shown_zones {
    const struct keyval_zone *zone; /* the one whose turn it is */
    bool are_all;                   /* those after it follow, and each is a member of its own */
    bool is_open;                   /* the member is in an object that was begun */
    bool has_begun;                 /* the zone's own object was */
    uint32_t cursor;                /* in the zone */
    struct json json;
};

/* Some pairs more of the zone; then the next one's turn comes. */
static void show_some(struct shown_zones *shown)
{
    struct json *json = &shown->json;

    if (!shown->has_begun) {
        json_open(json, shown->are_all ? shown->zone->zone->name : STR_NONE, '{');
        shown->has_begun = true;
        shown->cursor = 0;
    }
    if (!keyval_text_put(json, shown->zone->store, &shown->cursor, false)) {
        json_close(json, '}');
        shown->has_begun = false;
        shown->zone = shown->are_all ? shown->zone->next : NULL;
    }
}

/* struct body_maker. */
static bool show_more(void *arg, struct buf *out)
{
    struct shown_zones *shown = arg;

    shown->json.out = out;
    if (shown->are_all && !shown->is_open) {
        json_open(&shown->json, STR_NONE, '{');
        shown->is_open = true;
    }
    if (shown->zone != NULL) {
        show_some(shown);
    }
    if (shown->zone == NULL && shown->are_all) {
        json_close(&shown->json, '}');
    }
    return shown->zone != NULL;
}

/* MAY WAIT. */
static enum handler_result show_pairs(struct request *request, const struct keyval_zone *zone,
                                      bool are_all)
{
    struct shown_zones *shown = arena_new(&request->arena, struct shown_zones);

    shown->zone = zone;
    shown->are_all = are_all;
    return response_produced(request, STR("application/json"),
                             &(struct body_maker){show_more, shown});
}

/* MAY WAIT. */
static enum handler_result show_zone(struct request *request, const struct keyval_zone *zone)
{
    struct str key;

    return request_argument(request, STR("key"), &key) ? show_pair(request, zone, key)
                                                       : show_pairs(request, zone, false);
}

static enum handler_result show_names(struct request *request, const struct keyval_zone *zone)
{
    struct buf out = {0};
    struct json json = {.out = &out};

    json_open(&json, STR_NONE, '[');
    for (; zone != NULL; zone = zone->next) {
        json_put_name(&json, STR_NONE);
        json_put_text(&json, zone->zone->name);
    }
    json_close(&json, ']');
    return answer(request, 200, &out);
}

/* All zones; with an empty argument `fields` their names alone. MAY WAIT. */
static enum handler_result show_zones(struct request *request, const struct keyval_kind *kind)
{
    const struct keyval_zone *zones = keyval_zones_of(&generation_now->conf, kind);
    struct str fields;

    return request_argument(request, STR("fields"), &fields) && str_is_empty(fields)
               ? show_names(request, zones)
               : show_pairs(request, zones, true);
}

/* Does a POST bring whole pairs? */
static bool are_whole(const struct vec *changes)
{
    vec_each(const struct keyval_change, change, changes) {
        if (change->is_deleted || change->keeps_value) {
            return false;
        }
    }
    return true;
}

static enum handler_result say_result(struct request *request, struct keyval_zone *zone,
                                      enum keyval_result result, unsigned status)
{
    switch (result) {
    case KEYVAL_DONE:
        keyval_changed(zone);
        return response_memory(request, status, STR(""), STR(""));
    case KEYVAL_EXISTS:
        return api_refuse(request, 409, "KeyvalKeyExists", "key already exists");
    case KEYVAL_ABSENT:
        return api_refuse(request, 404, "KeyvalKeyNotFound", "key not found");
    case KEYVAL_BAD_KEY:
        return api_refuse(request, 400, "KeyvalFormatError", "invalid key");
    case KEYVAL_FULL:
        break;
    }
    counters_mine->limited++;
    log_error(&request->log, 0, "keyval_zone \"%.*s\" has no room", STR_ARG(zone->zone->name));
    return api_refuse(request, 507, "KeyvalZoneFull", "zone has no room");
}

static enum keyval_result make_changes(const struct keyval_zone *zone, const struct vec *changes,
                                       bool is_new)
{
    return is_new ? keyval_make(zone->store, changes) : keyval_change(zone->store, changes);
}

/* Memory of what has expired, or was cleared, is given back. MAY WAIT. False: the request was cancelled. */
static bool sweep(const struct keyval_zone *zone)
{
    uint32_t cursor = 0;
    bool has_more;

    do {
        has_more = keyval_visit(zone->store, &cursor, NULL, NULL);
        if (!loop_share()) {
            return false;
        }
    } while (has_more);
    return true;
}

/* MAY WAIT. */
static enum handler_result change_zone(struct request *request, struct keyval_zone *zone)
{
    const struct keyval_text_form form = {.expiry = STR("expire"),
                                          .from_ms = keyval_now(),
                                          .timeout_ms = zone->timeout_ms};
    bool is_new = request->method == METHOD_POST;
    struct vec changes = {0};
    struct str text;
    enum handler_result handled = request_read_body(request);

    if (handled != HANDLER_NEXT) {
        return handled;
    }
    if (request->body->size > zone->zone->size) {
        counters_mine->limited++;
        log_error(&request->log, 0, "keyval_zone \"%.*s\": the body is larger than the zone",
                  STR_ARG(zone->zone->name));
        return api_refuse(request, 413, "RequestBodyTooLarge", "request body too large");
    }
    if (!request_body_text(request, &text)) {
        return request_fail(request, 500);
    }
    if (!keyval_text_read(text, &form, &request->arena, &changes) || changes.count == 0 ||
        (is_new && !are_whole(&changes))) {
        return api_refuse(request, 400, "KeyvalFormatError", "key-value format error");
    }
    enum keyval_result result = make_changes(zone, &changes, is_new);
    if (result == KEYVAL_FULL) {
        if (!sweep(zone)) {
            return HANDLER_CLOSED;
        }
        result = make_changes(zone, &changes, is_new);
    }
    return say_result(request, zone, result, is_new ? 201 : 204);
}

/* MAY WAIT. */
static enum handler_result answer_zone(struct request *request, const struct keyval_kind *kind,
                                       struct str name)
{
    struct keyval_zone *zone = zone_named(kind, name);

    if (zone == NULL) {
        return api_refuse(request, 404, "KeyvalNotFound", "keyval not found");
    }
    switch (request->method) {
    case METHOD_POST:
    case METHOD_PATCH:
        return change_zone(request, zone);
    case METHOD_DELETE:
        keyval_clear(zone->store);
        if (!sweep(zone)) {
            keyval_changed(zone);
            return HANDLER_CLOSED;
        }
        return say_result(request, zone, KEYVAL_DONE, 204);
    default:
        return show_zone(request, zone);
    }
}

/* ---- limits ---- */

/* "limit_reqs", "limit_conns" of a protocol: is the zone one of them? */
static bool is_of_limits(const struct limit_zone *zone, struct str protocol, struct str what)
{
    struct str label = zone->kind->delays ? STR("limit_reqs") : STR("limit_conns");

    return str_equal(label, what) && str_is(protocol, zone->kind->protocol);
}

static enum handler_result show_limits(struct request *request, struct str protocol,
                                       struct str what)
{
    struct buf out = {0};
    struct json json = {.out = &out, .arena = &request->arena};
    const struct limit_zone *zone = limit_zones_all(&generation_now->conf);

    json_open(&json, STR_NONE, '{');
    for (; zone != NULL; zone = zone->beside) {
        if (is_of_limits(zone, protocol, what)) {
            json_open(&json, zone->zone->name, '{');
            limit_counts_put(&json, zone);
            json_close(&json, '}');
        }
    }
    json_close(&json, '}');
    return answer(request, 200, &out);
}

static enum handler_result answer_limit(struct request *request, struct str protocol,
                                        struct str what, struct str name)
{
    struct buf out = {0};
    struct json json = {.out = &out, .arena = &request->arena};
    const struct limit_zone *zone = limit_zones_all(&generation_now->conf);

    while (zone != NULL &&
           !(is_of_limits(zone, protocol, what) && str_equal(zone->zone->name, name))) {
        zone = zone->beside;
    }
    if (zone == NULL) {
        return str_is(what, "limit_reqs")
                   ? api_refuse(request, 404, "LimitReqNotFound", "limit_req not found")
                   : api_refuse(request, 404, "LimitConnNotFound", "limit_conn not found");
    }
    if (request->method == METHOD_DELETE) {
        limit_counts_reset(zone);
        return response_memory(request, 204, STR(""), STR(""));
    }
    if (!is_read(request)) {
        return api_refuse(request, 405, "MethodNotSupported", "method not supported");
    }
    json_open(&json, STR_NONE, '{');
    limit_counts_put(&json, zone);
    json_close(&json, '}');
    return answer(request, 200, &out);
}

/* ---- paths ---- */

/* What of the path follows the location's own part. */
static struct str rest_of_path(const struct request *request)
{
    const struct http_location *location = request->location;
    struct str rest = request->uri;

    if (location->kind <= LOCATION_PREFIX_NO_REGEX && str_starts(rest, location->name)) {
        rest = str_skip(rest, location->name.len);
    } else {
        rest = str_skip(rest, 1);
        str_cut(&rest, '/'); /* an expression has matched: its own part is the first segment */
    }
    return rest.len != 0 && *rest.data == '/' ? str_skip(rest, 1) : rest;
}

/* The next segment; empty after the last one. */
static struct str next_segment(struct str *path)
{
    return path->data == NULL ? STR_NONE : str_cut(path, '/');
}

/* May this method be used at all here? */
static bool may_do(const struct request *request)
{
    const struct api_settings *settings = request->answering->content.settings;
    const unsigned writing = METHOD_POST | METHOD_PATCH | METHOD_DELETE;

    return is_read(request) || (settings->may_write && (request->method & writing) != 0);
}

/* The words of a path after the location's own part. */
struct api_path {
    struct str version, protocol, what, name;
    bool has_more; /* after the name */
};

static struct api_path path_of(const struct request *request)
{
    struct str rest = rest_of_path(request);
    struct api_path path = {.version = next_segment(&rest)};

    path.protocol = next_segment(&rest);
    path.what = next_segment(&rest);
    path.name = next_segment(&rest);
    path.has_more = next_segment(&rest).len != 0;
    return path;
}

static bool is_limit(const struct api_path *path)
{
    return str_is(path->what, "limit_conns") ||
           (str_is(path->what, "limit_reqs") && str_is(path->protocol, "http"));
}

/* What is there of a protocol, all of a kind. */
static enum handler_result show_all(struct request *request, const struct api_path *path)
{
    bool is_http = str_is(path->protocol, "http");

    if (path->what.len == 0) {
        return answer_list(request, is_http ? "[\"limit_conns\",\"limit_reqs\",\"keyvals\"]"
                                            : "[\"limit_conns\",\"keyvals\"]");
    }
    if (is_limit(path)) {
        return show_limits(request, path->protocol, path->what);
    }
    return str_is(path->what, "keyvals") ? show_zones(request, kind_of(path->protocol))
                                         : unknown_path(request);
}

/* One of a kind. MAY WAIT. */
static enum handler_result answer_one(struct request *request, const struct api_path *path)
{
    if (is_limit(path)) {
        return answer_limit(request, path->protocol, path->what, path->name);
    }
    return str_is(path->what, "keyvals") ? answer_zone(request, kind_of(path->protocol), path->name)
                                         : unknown_path(request);
}

static bool is_known_version(struct str version)
{
    return version.len == 1 && *version.data >= '1' && *version.data <= '0' + VERSIONS;
}

/* MAY WAIT. */
static enum handler_result api_answer(struct request *request)
{
    struct api_path path = path_of(request);

    fields_add(&request->response.fields, &request->arena, STR("Cache-Control"), STR("no-store"));
    if (!may_do(request)) {
        return api_refuse(request, 405, "MethodDisabled", "method disabled");
    }
    if (path.version.len != 0 && !is_known_version(path.version)) {
        return api_refuse(request, 404, "UnknownVersion", "unknown version");
    }
    if (path.has_more || (path.protocol.len != 0 && kind_of(path.protocol) == NULL)) {
        return unknown_path(request);
    }
    if (path.name.len != 0) {
        return answer_one(request, &path);
    }
    if (!is_read(request)) {
        return api_refuse(request, 405, "MethodNotSupported", "method not supported");
    }
    if (path.version.len == 0) {
        return answer_list(request, "[1,2,3,4,5,6,7,8,9]");
    }
    return path.protocol.len == 0 ? answer_list(request, "[\"http\",\"stream\"]")
                                  : show_all(request, &path);
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
    return true;
}

static const struct directive rows[] = {
    {"api", IN_LOCATION, CUSTOM(api_apply), ARGS(0, 1), .repeat = REPEAT_CUSTOM,
     .syntax = "[write=on | write=off]",
     .doc =
         "Answers as nginx Plus' interface does for zones of keys and values: GET "
         "`/VERSION/http/keyvals/ZONE`, and with `write=on` POST, PATCH and DELETE; and for what "
         "limits decided, `limit_reqs` and `limit_conns`. `stream` instead of `http` for those "
         "of stream. A client with write access can change what the configuration does: see "
         "`allow`."},
    {0},
};

const struct module ngx_http_api_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_api_module",
    .kind = MODULE_HTTP,
    .table = {.rows = rows},
};
