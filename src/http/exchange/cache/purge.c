/* Requests that remove stored responses: *_cache_purge. */
#include "http/exchange/cache/purge.h"

#include "base/text.h"
#include "http/exchange/cache/caching.h"
#include "http/routing/settings.h"

/* Removes one entry, or with a '*' at the end all that begin so. MAY WAIT. */
static bool remove_key(struct request *request, struct cache *cache, struct str key)
{
    if (key.len != 0 && key.data[key.len - 1] == '*') {
        return cache_purge_prefix(cache, str_head(key, key.len - 1), &request->log) != 0;
    }
    return cache_purge(cache, key, &request->log);
}

/* The page that tells what was removed. */
static enum handler_result answer_page(struct request *request, struct str key)
{
    struct arena *arena = &request->arena;
    const struct str parts[] = {
        STR("<html>\r\n<head><title>Successful purge</title></head>\r\n<body>\r\n"
            "<center><h1>Successful purge</h1>\r\n<br>Key : "),
        escape_str(arena, key, ESCAPE_HTML),
        STR("\r\n</center>\r\n</body>\r\n</html>\r\n"),
    };

    return response_memory(request, 200, STR("text/html"), arena_join(arena, parts, 3));
}

/* ---- a location of its own: `zone key` ---- */

static enum handler_result purge_place_answer(struct request *request)
{
    const struct purge_settings *purge = request->answering->content.settings;
    struct str key = template_text(purge->key, &request->env);

    if ((request->method & (METHOD_GET | METHOD_HEAD)) == 0 &&
        !str_is(request->method_name, "PURGE")) {
        return request_fail(request, 405);
    }
    bool was_there = remove_key(request, purge->cache, key);
    struct str full = purge->full_key == NULL ? key : purge->full_key(request, key);
    if (full.len != key.len) {
        was_there |= cache_purge(purge->cache, full, &request->log);
    }
    return was_there ? answer_page(request, key) : request_fail(request, 404);
}

bool purge_place_read(struct conf_scope *scope, struct conf_node *node,
                      struct str (*full_key)(struct request *request, struct str key))
{
    struct purge_settings *purge = arena_new(scope->conf->arena, struct purge_settings);

    if (scope->context != IN_LOCATION) {
        return conf_error(scope->conf, node,
                          "\"%.*s\" with a zone and a key is for a location of its own",
                          STR_ARG(node->args[0]));
    }
    purge->cache = cache_use(scope->conf, node, node->args[1]);
    if (purge->cache == NULL || !conf_value_template(scope, node, 2, &purge->key)) {
        return false;
    }
    purge->full_key = full_key;
    struct http_location *location = scope_location(scope);
    content_set(location, purge_place_answer, purge);
    location->content.carries = false;
    return true;
}

/* ---- requests for the responses of a location ---- */

static bool cache_purge_is_wanted(const struct purge_settings *purge, struct request *request)
{
    if (purge->method.len != 0) {
        return str_equal(request->method_name, purge->method);
    }
    return templates_any_true(&purge->predicates, &request->env);
}

static bool may_purge(const struct purge_settings *purge, const struct request *request)
{
    struct addr client;

    if (purge->allowed.count == 0) {
        return true;
    }
    request_client(request, &client);
    vec_each(const struct cidr, cidr, &purge->allowed) {
        if (cidr_contains(cidr, &client)) {
            return true;
        }
    }
    return false;
}

/* What nginx Plus says. MAY WAIT. */
static enum handler_result answer_nothing(struct request *request)
{
    request->response.status = 204;
    request->response.content_length = -1;
    enum handler_result result = response_start(request);

    if (result != HANDLER_NEXT) {
        return result;
    }
    return response_send(request, NULL, true) ? HANDLER_DONE : HANDLER_CLOSED;
}

enum handler_result cached_purge(struct exchange *x)
{
    const struct purge_settings *purge = x->settings->cache_purge;
    struct request *request = x->request;
    struct str key = x->cache.state->cached->access.key;

    if (purge == NULL || !cache_purge_is_wanted(purge, request)) {
        return HANDLER_NEXT;
    }
    if (!may_purge(purge, request)) {
        log_error(&request->log, 0, "access forbidden by rule");
        return request_fail(request, 403);
    }
    if (!remove_key(request, x->cache.state->cached->access.cache, key)) {
        return request_fail(request, 404);
    }
    return purge->method.len != 0 ? answer_page(request, key) : answer_nothing(request);
}
