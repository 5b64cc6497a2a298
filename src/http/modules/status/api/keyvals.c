/* Keys and values of keyval_zone: shows and changes them. */
#include "base/text.h"
#include "event/loop.h"
#include "http/modules/status/api/api.h"
#include "http/request/body.h"
#include "http/request/response.h"
#include "http/variables/variables.h"
#include "server/generation.h"
#include "shared/keyval/redis.h"
#include "shared/keyval/text.h"

enum { REDIS_BODY_MAX = 1 << 20 }; /* bytes of a change of a zone in Redis */

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

/* Responds to a failure of the store. Not for KEYVAL_REDIS_DONE, nor for results about a key. */
static enum handler_result refuse_redis(struct request *request, enum keyval_redis_result result)
{
    return result == KEYVAL_REDIS_GONE
               ? api_refuse(request, 503, "KeyvalStoreGone", "the store does not answer")
               : api_refuse(request, 400, "KeyvalStoreRefused",
                            "the store refused: in a cluster, pairs are changed one by one, and "
                            "not shown or removed all at once");
}

/* Looks a key up, in the store if the zone is in Redis. KEYVAL_REDIS_DONE: *pair has its value. MAY
 * WAIT. */
static enum keyval_redis_result find_pair(struct request *request, const struct keyval_zone *zone,
                                          struct str key, struct keyval_pair *pair)
{
    if (zone->redis == NULL) {
        return keyval_get(zone->store, key, &request->arena, pair) ? KEYVAL_REDIS_DONE
                                                                   : KEYVAL_REDIS_ABSENT;
    }
    *pair = (struct keyval_pair){.key = key};
    return keyval_redis_pair(zone->redis, &request->arena, key, &pair->value);
}

/* MAY WAIT. */
static enum handler_result show_pair(struct request *request, const struct keyval_zone *zone,
                                     struct str key)
{
    struct buf out = {0};
    struct json json = {.out = &out};
    struct keyval_pair pair;

    key = percent_decode(&request->arena, key);
    enum keyval_redis_result result = find_pair(request, zone, key, &pair);
    if (result == KEYVAL_REDIS_ABSENT) {
        return api_refuse(request, 404, "KeyvalKeyNotFound", "key not found");
    }
    if (result != KEYVAL_REDIS_DONE) {
        return refuse_redis(request, result);
    }
    json_open(&json, STR_NONE, '{');
    json_put_name(&json, pair.key);
    json_put_text(&json, pair.value);
    json_close(&json, '}');
    return api_answer_text(request, 200, &out);
}

/* State of a listing of zones; in the request's arena. */
struct shown_zones {
    struct request *request;
    const struct keyval_zone *zone; /* the current zone */
    bool are_all;                   /* all zones are listed, each as a member */
    bool is_open;                   /* the member is in an object that was begun */
    bool has_begun;                 /* the zone's own object was begun */
    bool is_broken;                 /* the connection to the store failed within the pairs */
    uint32_t cursor;                /* position in the zone */
    struct keyval_walk *walk;       /* for a zone in Redis; NULL: not begun */
    struct vec pairs; /* struct keyval_pair: for a zone in Redis, to be written next */
    bool has_more;    /* for a zone in Redis: more pairs follow */
    struct json json;
};

/* Reads the next pairs of a zone in Redis. MAY WAIT. */
static enum keyval_redis_result read_redis(struct shown_zones *shown)
{
    if (shown->walk == NULL) {
        shown->walk = keyval_redis_walk(shown->zone->redis, &shown->request->arena);
    }
    return keyval_redis_walk_on(shown->walk, &shown->pairs, &shown->has_more);
}

/* Writes the next pairs. False: these were the last. MAY WAIT. */
static bool put_redis_pairs(struct shown_zones *shown)
{
    vec_each(const struct keyval_pair, pair, &shown->pairs) {
        json_put_name(&shown->json, pair->key);
        json_put_text(&shown->json, pair->value);
    }
    if (!shown->has_more) {
        return false;
    }
    if (read_redis(shown) != KEYVAL_REDIS_DONE) {
        log_error(&shown->request->log, 0,
                  "api: the store of keyval_zone_redis \"%.*s\" was lost while its pairs were "
                  "shown; the response is cut",
                  STR_ARG(shown->zone->zone->name));
        shown->is_broken = true;
    }
    return true;
}

static bool put_pairs(struct shown_zones *shown)
{
    return shown->zone->redis != NULL
               ? put_redis_pairs(shown)
               : keyval_text_put(&shown->json, shown->zone->store, &shown->cursor, false);
}

static void zone_is_shown(struct shown_zones *shown)
{
    shown->has_begun = false;
    shown->walk = NULL;
    shown->zone = shown->are_all ? shown->zone->next : NULL;
}

/* In a list of all zones, a zone whose store does not respond is null. MAY WAIT. */
static bool zone_begin(struct shown_zones *shown)
{
    struct str name = shown->zone->zone->name;

    if (shown->are_all && shown->zone->redis != NULL && read_redis(shown) != KEYVAL_REDIS_DONE) {
        log_error(&shown->request->log, 0,
                  "api: the store of keyval_zone_redis \"%.*s\" does not answer", STR_ARG(name));
        json_put_name(&shown->json, name);
        buf_append(shown->json.out, STR("null"));
        return false;
    }
    json_open(&shown->json, shown->are_all ? name : STR_NONE, '{');
    shown->has_begun = true;
    shown->cursor = 0;
    return true;
}

/* Writes some more pairs of the zone, and then continues with the next zone. MAY WAIT. */
static void show_some(struct shown_zones *shown)
{
    if (!shown->has_begun && !zone_begin(shown)) {
        zone_is_shown(shown);
        return;
    }
    if (!put_pairs(shown)) {
        json_close(&shown->json, '}');
        zone_is_shown(shown);
    }
}

/* A struct body_maker. MAY WAIT. */
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

    shown->request = request;
    shown->zone = zone;
    shown->are_all = are_all;
    if (!are_all && zone->redis != NULL) {
        enum keyval_redis_result result = read_redis(shown);
        if (result != KEYVAL_REDIS_DONE) {
            return refuse_redis(request, result);
        }
    }
    return response_produced(request, 200, STR("application/json"),
                             &(struct body_maker){show_more, shown, &shown->is_broken});
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
    return api_answer_text(request, 200, &out);
}

/* Lists all zones; with an empty argument `fields` only their names. MAY WAIT. */
static enum handler_result show_zones(struct request *request, const struct keyval_kind *kind)
{
    const struct keyval_zone *zones = keyval_zones_of(&generation_now->conf, kind);
    struct str fields;

    return request_argument(request, STR("fields"), &fields) && str_is_empty(fields)
               ? show_names(request, zones)
               : show_pairs(request, zones, true);
}

/* Does a POST have complete pairs? */
static bool are_whole(const struct vec *changes)
{
    vec_each(const struct keyval_change, change, changes) {
        if (change->is_deleted || change->keeps_value) {
            return false;
        }
    }
    return true;
}

static enum handler_result say_result(struct request *request, const struct keyval_zone *zone,
                                      enum keyval_result result, unsigned status)
{
    switch (result) {
    case KEYVAL_DONE:
        return api_answer_nothing(request, status);
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

/* Frees the memory of pairs that have expired or were deleted. MAY WAIT. False: the request was
 * cancelled. */
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

static bool are_keys(const struct vec *changes)
{
    vec_each(const struct keyval_change, change, changes) {
        if (change->pair.key.len == 0 || change->pair.key.len > KEYVAL_KEY_MAX) {
            return false;
        }
    }
    return true;
}

/* MAY WAIT. */
static enum handler_result change_redis(struct request *request, const struct keyval_zone *zone,
                                        const struct vec *changes, bool is_new)
{
    if (!are_keys(changes)) {
        return say_result(request, zone, KEYVAL_BAD_KEY, 0);
    }
    enum keyval_redis_result result =
        keyval_redis_change(zone->redis, &request->arena, changes, is_new);
    switch (result) {
    case KEYVAL_REDIS_DONE:
        return say_result(request, zone, KEYVAL_DONE, is_new ? 201 : 204);
    case KEYVAL_REDIS_EXISTS:
        return say_result(request, zone, KEYVAL_EXISTS, 0);
    case KEYVAL_REDIS_ABSENT:
        return say_result(request, zone, KEYVAL_ABSENT, 0);
    default:
        return refuse_redis(request, result);
    }
}

/* MAY WAIT. */
static enum handler_result clear_redis(struct request *request, const struct keyval_zone *zone)
{
    enum keyval_redis_result result = keyval_redis_clear(zone->redis, &request->arena);

    return result == KEYVAL_REDIS_DONE ? say_result(request, zone, KEYVAL_DONE, 204)
                                       : refuse_redis(request, result);
}

static bool is_json(struct str text)
{
    struct arena arena;

    arena_init(&arena);
    struct json_text reading = {text.data, text.data + text.len, &arena};
    bool is_one = json_skip_value(&reading) && json_is_over(&reading);
    arena_free(&arena);
    return is_one;
}

/* MAY WAIT. */
static enum handler_result change_zone(struct request *request, struct keyval_zone *zone)
{
    const struct keyval_text_form form = {.expiry =
                                              api_version(request) < 5 ? STR_NONE : STR("expire"),
                                          .from_ms = keyval_now(),
                                          .timeout_ms = zone->redis != NULL ? zone->redis->ttl_ms
                                                                            : zone->timeout_ms};
    bool is_new = request->method == METHOD_POST;
    struct vec changes = {0};
    struct str text;
    enum handler_result handled =
        api_read_body(request, zone->redis != NULL ? REDIS_BODY_MAX : zone->zone->size, &text);

    if (handled != HANDLER_NEXT) {
        return handled;
    }
    if (!keyval_text_read(text, &form, &request->arena, &changes) || changes.count == 0 ||
        (is_new && !are_whole(&changes))) {
        return is_json(text)
                   ? api_refuse(request, 400, "KeyvalFormatError", "key-value format error")
                   : api_refuse(request, 415, "JsonError", "the request body is no JSON");
    }
    if (zone->redis != NULL) {
        return change_redis(request, zone, &changes, is_new);
    }
    enum keyval_result result = make_changes(zone, &changes, is_new);
    if (result == KEYVAL_FULL) {
        if (!sweep(zone)) {
            return HANDLER_CLOSED;
        }
        result = make_changes(zone, &changes, is_new);
    }
    if (result == KEYVAL_DONE) {
        keyval_changed(zone, &changes);
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
        if (zone->redis != NULL) {
            return clear_redis(request, zone);
        }
        keyval_clear(zone->store);
        keyval_cleared(zone);
        if (!sweep(zone)) {
            return HANDLER_CLOSED;
        }
        return say_result(request, zone, KEYVAL_DONE, 204);
    default:
        return show_zone(request, zone);
    }
}

/* MAY WAIT. */
enum handler_result api_answer_keyvals(struct request *request, const struct api_path *path)
{
    const struct keyval_kind *kind = kind_of(path->root);

    if (path->name.len != 0) {
        return answer_zone(request, kind, path->name);
    }
    return api_is_read(request) ? show_zones(request, kind) : api_refuse_method(request);
}
