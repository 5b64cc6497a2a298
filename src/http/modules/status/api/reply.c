/* Responses of the API: objects, errors, and the selection by `fields`. */
#include "http/modules/status/api/api.h"

#include "base/text.h"
#include "http/request/body.h"
#include "http/request/response.h"
#include "http/variables/variables.h"
#include "server/generation.h"

enum { FIELDS_MOST = 64 /* names in `fields` */ };

bool api_is_read(const struct request *request)
{
    return (request->method & (METHOD_GET | METHOD_HEAD)) != 0;
}

enum handler_result api_answer_text(struct request *request, unsigned status, struct buf *text)
{
    struct str copy = arena_dup(&request->arena, buf_str(text));

    buf_free(text);
    return response_memory(request, status, STR("application/json"), copy);
}

enum handler_result api_answer_nothing(struct request *request, unsigned status)
{
    return response_memory(request, status, STR(""), STR(""));
}

enum handler_result api_refuse(struct request *request, unsigned status, const char *code,
                               const char *text)
{
    struct buf out = {0};
    struct json json = {.out = &out, .arena = &request->arena};
    struct str id = STR_NONE;

    variable_get_by_name(&request->env, STR("request_id"), &id);
    json_open(&json, STR_NONE, '{');
    if (api_version(request) < 4) { /* earlier versions have further members */
        json_put_string(&json, "path", STR(""));
        json_put_string(&json, "method", STR(""));
    }
    json_open(&json, STR("error"), '{');
    json_put_number(&json, "status", status);
    json_put_string(&json, "text", str_of(text));
    json_put_string(&json, "code", str_of(code));
    json_close(&json, '}');
    json_put_string(&json, "request_id", id);
    json_put_string(&json, "href", STR("https://nginx.org/en/docs/http/ngx_http_api_module.html"));
    json_close(&json, '}');
    return api_answer_text(request, status, &out);
}

enum handler_result api_refuse_path(struct request *request)
{
    return api_refuse(request, 404, "PathNotFound", "path not found");
}

enum handler_result api_refuse_method(struct request *request)
{
    return api_refuse(request, 405, "MethodNotSupported", "method not supported");
}

enum handler_result api_read_body(struct request *request, size_t most, struct str *out)
{
    enum handler_result handled = request_read_body(request);

    if (handled != HANDLER_NEXT) {
        return handled;
    }
    if (request->incoming.body->size > most) {
        counters_mine->limited++;
        log_error(&request->log, 0, "api: the request body has more than %zu bytes", most);
        return api_refuse(request, 413, "RequestBodyTooLarge", "request body too large");
    }
    return request_body_text(request, out)
               ? HANDLER_NEXT
               : api_refuse(request, 400, "BodyReadError", "cannot read the request body");
}

/* ---- fields ---- */

/* The names in `fields`. */
struct wanted_fields {
    bool is_given;
    bool is_empty; /* list only the names of items */
    unsigned count;
    struct str names[FIELDS_MOST];
};

static struct wanted_fields read_fields(struct request *request)
{
    struct wanted_fields wanted = {.count = 0};
    struct str list;

    wanted.is_given = request_argument(request, STR("fields"), &list);
    if (wanted.is_given) {
        list = percent_decode(&request->arena, list);
        wanted.is_empty = str_is_empty(list);
        while (list.len != 0 && wanted.count != FIELDS_MOST) {
            wanted.names[wanted.count++] = str_cut(&list, ',');
        }
    }
    return wanted;
}

static bool is_wanted(const struct wanted_fields *wanted, struct str name)
{
    for (unsigned i = 0; i < wanted->count; i++) {
        if (str_equal(wanted->names[i], name)) {
            return true;
        }
    }
    return !wanted->is_given;
}

/* Copies the selected members of a serialized object. */
static void copy_wanted(struct json *json, struct str object, const struct wanted_fields *wanted,
                        struct arena *arena)
{
    struct json_text text = {object.data, object.data + object.len, arena};
    bool is_first = true, is_end = false;
    struct str name;

    if (!json_skip(&text, '{')) {
        return;
    }
    while (json_next_member(&text, &is_first, &name, &is_end) && !is_end) {
        const char *start = text.at;

        if (!json_skip_value(&text)) {
            return;
        }
        if (is_wanted(wanted, name)) {
            json_put_name(json, name);
            buf_append(json->out, str_from(start, text.at));
        }
    }
}

/* Do items of the collection have members that this version does not have? */
static bool lacks_members(const struct api_collection *collection, unsigned version)
{
    for (const struct api_since *newer = collection->newer; newer != NULL && newer->name != NULL;
         newer++) {
        if (newer->version > version) {
            return true;
        }
    }
    return false;
}

static bool is_lacking(const struct api_since *newer, unsigned version, struct str name)
{
    for (; newer->name != NULL; newer++) {
        if (newer->version > version && str_is(name, newer->name)) {
            return true;
        }
    }
    return false;
}

/* Copies a serialized value as a member with this name, without members that the version does not
 * have. */
static void copy_older(struct json *json, struct json_text *text, struct str name,
                       const struct api_since *newer, unsigned version)
{
    char opens = json_peek(text);
    bool is_first = true, is_end = false;

    if (opens != '{' && opens != '[') {
        const char *start = text->at;

        json_skip_value(text);
        json_put_name(json, name);
        buf_append(json->out, str_from(start, text->at));
        return;
    }
    json_skip(text, opens);
    json_open(json, name, opens);
    while (opens == '[' && json_next_item(text, &is_first, &is_end) && !is_end) {
        copy_older(json, text, STR_NONE, newer, version);
    }
    while (opens == '{' && json_next_member(text, &is_first, &name, &is_end) && !is_end) {
        if (is_lacking(newer, version, name)) {
            json_skip_value(text);
        } else {
            copy_older(json, text, name, newer, version);
        }
    }
    json_close(json, opens == '{' ? '}' : ']');
}

/* Writes an item: the members that the version has and that are selected. */
static void put_thing(struct request *request, struct json *json,
                      const struct api_collection *collection, const struct api_thing *thing,
                      const struct wanted_fields *wanted)
{
    unsigned version = api_version(request);
    bool is_older = lacks_members(collection, version);
    struct buf whole = {0}, older = {0};
    struct json inner = {.out = &whole, .arena = &request->arena};
    struct json copy = {.out = &older, .arena = &request->arena};

    if (!is_older && (!wanted->is_given || wanted->is_empty)) {
        collection->put(request, json, thing);
        return;
    }
    json_open(&inner, STR_NONE, '{');
    collection->put(request, &inner, thing);
    json_close(&inner, '}');
    if (is_older) {
        struct json_text text = {whole.data, whole.data + whole.len, &request->arena};

        copy_older(&copy, &text, STR_NONE, collection->newer, version);
    }
    copy_wanted(json, buf_str(is_older ? &older : &whole), wanted, &request->arena);
    buf_free(&older);
    buf_free(&whole);
}

/* ---- collections ---- */

static enum handler_result show_things(struct request *request,
                                       const struct api_collection *collection,
                                       const struct vec *things)
{
    struct wanted_fields wanted = read_fields(request);
    bool is_array = wanted.is_empty || collection->is_array;
    struct buf out = {0};
    struct json json = {.out = &out, .arena = &request->arena};

    json_open(&json, STR_NONE, is_array ? '[' : '{');
    vec_each(const struct api_thing, thing, things) {
        if (wanted.is_empty) {
            json_put_name(&json, STR_NONE);
            json_put_text(&json, thing->name);
            continue;
        }
        json_open(&json, is_array ? STR_NONE : thing->name, '{');
        put_thing(request, &json, collection, thing, &wanted);
        json_close(&json, '}');
    }
    json_close(&json, is_array ? ']' : '}');
    return api_answer_text(request, 200, &out);
}

static enum handler_result show_thing(struct request *request,
                                      const struct api_collection *collection,
                                      const struct api_thing *thing)
{
    struct wanted_fields wanted = read_fields(request);
    struct buf out = {0};
    struct json json = {.out = &out, .arena = &request->arena};

    json_open(&json, STR_NONE, '{');
    put_thing(request, &json, collection, thing, &wanted);
    json_close(&json, '}');
    return api_answer_text(request, 200, &out);
}

static enum handler_result reset_things(struct request *request,
                                        const struct api_collection *collection,
                                        const struct vec *things)
{
    if (!collection->resets_all) {
        return api_refuse_method(request);
    }
    vec_each(const struct api_thing, thing, things) {
        collection->reset(request, thing);
    }
    return api_answer_nothing(request, 204);
}

/* GET, HEAD or DELETE of one item; NULL: it does not exist. */
static enum handler_result answer_thing(struct request *request,
                                        const struct api_collection *collection,
                                        const struct api_thing *found)
{
    if (found == NULL) {
        return collection->is_single ? api_refuse_path(request)
                                     : api_refuse(request, 404, collection->code, collection->text);
    }
    if (api_is_read(request)) {
        return show_thing(request, collection, found);
    }
    if (request->method != METHOD_DELETE || collection->reset == NULL) {
        return api_refuse_method(request);
    }
    collection->reset(request, found);
    return api_answer_nothing(request, 204);
}

enum handler_result api_answer_collection(struct request *request,
                                          const struct api_collection *collection, struct str name)
{
    struct vec things = {0};
    struct api_thing secret = {.name = name};
    const struct api_thing *found = NULL;

    if (collection->find != NULL) {
        found = name.len != 0 && collection->find(request, name, &secret) ? &secret : NULL;
        return name.len == 0 ? api_refuse_path(request) : answer_thing(request, collection, found);
    }
    collection->list(request, collection, &things);
    if (name.len == 0 && !collection->is_single) {
        return api_is_read(request)               ? show_things(request, collection, &things)
               : request->method == METHOD_DELETE ? reset_things(request, collection, &things)
                                                  : api_refuse_method(request);
    }
    vec_each(const struct api_thing, thing, &things) {
        if (found == NULL && str_equal(thing->name, name)) {
            found = thing;
        }
    }
    return answer_thing(request, collection, found);
}
