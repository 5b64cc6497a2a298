/* ngx_http_mirror_module: sends copies of requests as subrequests, and ignores the responses. */
#include "http/request/body.h"
#include "http/request/request.h"
#include "http/request/subrequest.h"
#include "http/routing/hooks.h"
#include "server/generation.h"
#include "server/module.h"

struct mirror_settings {
    struct vec uris; /* struct str: URIs of the subrequests */
    bool with_body;  /* include the request body, which is read first */
};

static struct settings_key mirror_key;

TYPED_SETTINGS(mirror_settings_at, struct mirror_settings, mirror_key, struct http_location)

/* Active mirror subrequests in this worker. Each holds two connections, the client's and the
 * backend's, even after the client got its response or is gone: a stalled backend must not use up
 * the connections of all others. */
static unsigned at_work;

static bool has_room(const struct request *request)
{
    unsigned most = conn_pool.limit / 4;

    if (at_work < most || at_work == 0) {
        return true;
    }
    counters_mine->limited++;
    log_warn(
        &request->log, 0,
        "the request is not mirrored: %u mirror subrequests are active, a quarter of worker_connections",
        at_work);
    return false;
}

static void mirror_answered(struct subrequest *sub)
{
    at_work--;
}

/* HANDLER_CLOSED: the client is gone. MAY WAIT. */
static enum handler_result mirror_begin(struct request *request, struct str uri, bool with_body)
{
    struct subrequest *sub = arena_new(&request->arena, struct subrequest);

    sub->uri = uri;
    sub->args = request->args;
    sub->output = SUBREQUEST_NONE;
    sub->method = request->method_name;
    sub->passes_body = with_body;
    sub->outlives_client = true;
    sub->answered = mirror_answered;
    at_work++;
    enum handler_result result = subrequest_begin(request, sub);
    if (result != HANDLER_DONE) {
        at_work--;
    }
    return result;
}

/* Starts the subrequests; the end of the request waits for theirs. MAY WAIT for the body. */
static enum handler_result mirror_request(struct request *request)
{
    const struct mirror_settings *settings = mirror_settings_at(request->location);
    enum handler_result result = HANDLER_NEXT;

    if (request != request->main) {
        return HANDLER_NEXT;
    }
    if (settings->with_body) {
        result = request_read_body(request);
    }
    if (result != HANDLER_NEXT) {
        return result;
    }
    vec_each(const struct str, uri, &settings->uris) {
        if (has_room(request) &&
            mirror_begin(request, *uri, settings->with_body) == HANDLER_CLOSED) {
            return HANDLER_CLOSED;
        }
    }
    return HANDLER_NEXT;
}

/* ---- directives ---- */

/* `off` must be the only value. */
static bool mirror_apply(struct conf_scope *scope, const struct directive *row,
                         struct conf_node *node, void *settings)
{
    struct mirror_settings *mirror = settings;
    bool is_off = str_is(node->args[1], "off");

    if (conf_is_default(scope)) {
        return true;
    }
    if (conf_is_set(scope, &mirror_key, "mirror") && (is_off || mirror->uris.count == 0)) {
        return conf_error(scope->conf, node, "\"mirror\" directive is duplicate");
    }
    if (!is_off) {
        *vec_add(&mirror->uris, scope->conf->arena, struct str) = node->args[1];
    }
    return true;
}

#define S struct mirror_settings
static const struct directive mirror_rows[] = {
    {"mirror", IN_HTTP_ALL, CUSTOM_FIELD(S, uris, mirror_apply), ARGS(1, 1),
     .repeat = REPEAT_APPEND, .initial = "off", .syntax = "uri | off",
     .doc = "Mirrors requests to this URI: a subrequest with the same method is made, and "
            "its response is ignored. The response to the client does not wait for it, but "
            "the next response on the connection, and the closing of the connection, do. "
            "Several mirrors run concurrently. Subrequests keep connections open until they "
            "are finished: when they use a quarter of `worker_connections`, requests are "
            "not mirrored, which is logged."},
    {"mirror_request_body", IN_HTTP_ALL, FLAG(S, with_body), .initial = "on",
     .doc = "Whether the request body is mirrored, too. If so, it is read completely before "
            "the request is processed, and is not passed on as it arrives."},
    {0},
};
#undef S

static const struct phase_hook mirror_phases[] = {
    {.phase = PHASE_PRECONTENT,
     .name = "mirror",
     .run = mirror_request,
     .when = SETTING(mirror_key, struct mirror_settings, uris.count)},
    {.run = NULL},
};
static const struct http_module mirror_hooks = {.phases = mirror_phases};

const struct module ngx_http_mirror_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_mirror_module",
    .kind = MODULE_HTTP,
    .table = {.key = &mirror_key,
              .rows = mirror_rows,
              .contexts = IN_HTTP_LOCATION_SETTINGS,
              .size = sizeof(struct mirror_settings)},
    .hooks = &mirror_hooks,
};
