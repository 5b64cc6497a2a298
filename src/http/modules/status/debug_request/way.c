/* Records the processing of a request. */
#include "http/modules/status/debug_request/way.h"

#include "base/clock.h"
#include "base/json.h"
#include "http/client/connection.h"
#include "http/exchange/cache/caching.h"
#include "http/exchange/exchange.h"
#include "http/routing/hooks.h"
#include "http/variables/variables.h"
#include "shared/explain/explanations.h"

#define LOCATIONS_MOST 100 /* locations that are listed for one search */

/* The record so far; in the arena of the main request. */
struct way {
    struct request_trace trace; /* must be first: requests point to it */
    struct buf text;            /* JSON of the steps */
    struct json json;
    bool is_cut; /* WAY_MOST was reached */
    const struct server_name
        *name;     /* the name that selected the server; NULL: it is the default server */
    struct str id; /* of the explanation; empty: not stored */
};

static const struct request_trace_calls calls;

static struct way *way_of(const struct request *request)
{
    return (struct way *) request_observer(request, &calls);
}

/* ---- steps ---- */

/* Begins a step, unless the size limit was reached. */
static bool begin_step(struct request *request, const char *what)
{
    struct way *way = way_of(request);

    if (way->text.len > WAY_MOST) {
        way->is_cut = true;
        return false;
    }
    json_open(&way->json, STR_NONE, '{');
    json_put_string(&way->json, "step", str_of(what));
    json_put_number(&way->json, "ms", clock_now.now_ms - request->main->start_ms);
    if (request != request->main) {
        json_put_flag(&way->json, "subrequest", true);
    }
    return true;
}

static const char *result_name(enum handler_result result)
{
    switch (result) {
    case HANDLER_NEXT:
        return "next";
    case HANDLER_ALLOW:
        return "allow";
    case HANDLER_AGAIN:
        return "again";
    case HANDLER_DONE:
        return "done";
    case HANDLER_FAIL:
        return "fail";
    default:
        return "closed";
    }
}

static void put_result(struct request *request, enum handler_result result)
{
    struct json *json = &way_of(request)->json;

    json_put_string(json, "result", str_of(result_name(result)));
    if (result == HANDLER_FAIL) {
        json_put_number(json, "status", request->response.status);
    }
}

/* Writes a string from a client, shortened if it is very long. */
static void put_text(struct json *json, const char *name, struct str text)
{
    json_put_string(json, name, str_head(text, 1024));
}

static void asked(struct request_trace *trace, struct request *request, request_handler run,
                  enum handler_result result, uint64_t began_ns)
{
    const struct phase_hook *hook = phase_hook_find(request->server->main->hooks, run);
    struct json *json = &way_of(request)->json;

    if (!begin_step(request, hook == NULL ? "handler" : phase_words[hook->phase])) {
        return;
    }
    json_put_string(json, "module", hook == NULL ? STR("-") : str_of(hook->name));
    put_result(request, result);
    if (request->uri_state == URI_MOVED) {
        put_text(json, "uri", request->uri);
    }
    json_close(json, '}');
}

/* ---- the search for a location ---- */

static const char *kind_name(enum location_kind kind)
{
    switch (kind) {
    case LOCATION_EXACT:
        return "=";
    case LOCATION_PREFIX_NO_REGEX:
        return "^~";
    case LOCATION_REGEX:
        return "~";
    default:
        return "";
    }
}

static void put_location(struct json *json, const struct http_location *location,
                         const char *result)
{
    json_open(json, STR_NONE, '{');
    json_put_string(json, "location", location->name);
    json_put_string(json, "modifier", str_of(kind_name(location->kind)));
    json_put_string(json, "result", str_of(result));
    json_close(json, '}');
}

/* Why was this location of a level not selected? NULL: it was not examined. */
static const char *result_of(const struct http_location *location,
                             const struct http_location *taken, struct str uri, bool *is_past)
{
    if (location == taken) {
        *is_past = taken->kind == LOCATION_REGEX;
        return "taken";
    }
    bool looks_at_regexes = taken == NULL || taken->kind == LOCATION_PREFIX ||
                            (taken->kind == LOCATION_REGEX && !*is_past);

    switch (location->kind) {
    case LOCATION_REGEX:
        return looks_at_regexes ? "no match" : NULL;
    case LOCATION_PREFIX:
    case LOCATION_PREFIX_NO_REGEX:
        return !str_starts(uri, location->name)                 ? NULL
               : taken != NULL && taken->kind == LOCATION_REGEX ? "a regular expression matched"
                                                                : "a longer one matched";
    default:
        return NULL;
    }
}

/* Writes the candidates of one level, in the order of the file. */
static void put_level(struct json *json, const struct http_location *level,
                      const struct http_location *taken, struct str uri)
{
    bool is_past = false;
    unsigned count = 0;

    vec_each(struct http_location *, location, &level->nested) {
        const char *result = result_of(*location, taken, uri, &is_past);

        if (result != NULL && count++ < LOCATIONS_MOST) {
            put_location(json, *location, result);
        }
    }
}

/* Writes the levels from the server down to the result of the search. */
static void put_levels(struct json *json, const struct http_location *found, struct str uri)
{
    if (found->parent != NULL) {
        put_levels(json, found->parent, uri);
        put_level(json, found->parent, found, uri);
    }
}

static void located(struct request_trace *trace, struct request *request)
{
    struct json *json = &way_of(request)->json;
    const struct http_location *found = request->location;

    if (!begin_step(request, "location")) {
        return;
    }
    put_text(json, "uri", request->uri);
    put_text(json, "args", request->args);
    json_put_string(json, "location", found->name);
    if (found->node != NULL && found->node->file != NULL) {
        json_put_string(json, "file", found->node->file->name);
        json_put_number(json, "line", found->node->line);
    }
    json_open(json, STR("tried"), '[');
    put_levels(json, found, request->uri);
    put_level(json, found, NULL, request->uri);
    json_close(json, ']');
    json_close(json, '}');
}

/* ---- backends ---- */

static void put_time(struct json *json, const char *name, uint64_t time_ms)
{
    if (time_ms != UINT64_MAX) {
        json_put_number(json, name, time_ms);
    }
}

static void put_attempt(struct json *json, const struct attempt *attempt)
{
    json_open(json, STR_NONE, '{');
    json_put_string(json, "peer", attempt->peer);
    json_put_string(json, "group", attempt->group);
    json_put_string(json, "result",
                    attempt->connect_ms == UINT64_MAX  ? STR("not connected")
                    : attempt->header_ms == UINT64_MAX ? STR("no response")
                                                       : STR("response"));
    json_put_number(json, "status", attempt->status);
    put_time(json, "queue_ms", attempt->queue_ms);
    put_time(json, "connect_ms", attempt->connect_ms);
    put_time(json, "header_ms", attempt->header_ms);
    put_time(json, "response_ms", attempt->response_ms);
    json_put_number(json, "bytes_sent", attempt->bytes_sent);
    json_put_number(json, "bytes_received", attempt->bytes_received);
    json_close(json, '}');
}

static void put_cache(struct json *json, const struct exchange *x)
{
    const struct exchange_caching *state = x->cache.state;

    if (state == NULL || state->cached == NULL) {
        return;
    }
    json_open(json, STR("cache"), '{');
    json_put_string(json, "status", state->status.len == 0 ? STR("NONE") : state->status);
    put_text(json, "key", state->cached->access.key);
    json_close(json, '}');
}

static void produced(struct request_trace *trace, struct request *request,
                     enum handler_result result, uint64_t began_ns)
{
    struct json *json = &way_of(request)->json;
    const struct exchange *x = request->exchange;

    if (!begin_step(request, "produced")) {
        return;
    }
    put_result(request, result);
    if (x != NULL) {
        json_put_string(json, "protocol", x->protocol->name);
        put_cache(json, x);
        json_open(json, STR("attempts"), '[');
        vec_each(struct attempt, attempt, &x->attempts) {
            put_attempt(json, attempt);
        }
        json_close(json, ']');
    }
    json_close(json, '}');
}

static const struct request_trace_calls calls = {.asked = asked,
                                                 .located = located,
                                                 .produced = produced};

/* ---- the whole record ---- */

static void free_text(void *arg)
{
    buf_free(arg);
}

bool way_is_kept(const struct request *request)
{
    return request_observer(request, &calls) != NULL;
}

struct str way_id(const struct request *request)
{
    return way_of(request)->id;
}

void way_begin(struct request *request, bool has_id)
{
    if (way_is_kept(request)) {
        return;
    }
    struct way *way = arena_new(&request->arena, struct way);

    way->trace.calls = &calls;
    way->json = (struct json){.out = &way->text, .arena = &request->arena};
    way->name =
        server_names_find(&request->connection->listen->names, request->head.host, &request->env);
    if (has_id) {
        char *id = arena_text(&request->arena, EXPLANATION_ID_SIZE);

        explanation_id_make(id);
        way->id = (struct str){id, EXPLANATION_ID_SIZE};
    }
    arena_on_free(&request->arena, free_text, &way->text);
    request_observe(request, &way->trace);
}

static void put_server(struct json *json, const struct request *request, const struct way *way)
{
    const struct http_server *server = request->server;

    json_open(json, STR("server"), '{');
    json_put_string(json, "name", server->name);
    put_text(json, "host", request->head.host);
    if (way->name != NULL && way->name->owner == server) {
        json_put_string(json, "matched", way->name->written);
    }
    json_put_string(json, "why",
                    way->name != NULL && way->name->owner == server
                        ? STR("server_name")
                        : STR("default server of the address"));
    json_put_string(json, "file", server->node->file->name);
    json_put_number(json, "line", server->node->line);
    json_close(json, '}');
}

static void put_filters(struct json *json, const struct request *request)
{
    const struct vec *filters = &request->server->main->hooks->filters;

    json_open(json, STR("filters"), '[');
    for (const header_filter *run = request->location->header_filters; run != NULL && *run != NULL;
         run++) {
        vec_each(const struct filter_hook *, hook, filters) {
            if ((*hook)->run == *run) {
                json_put_name(json, STR_NONE);
                json_put_text(json, str_of((*hook)->name));
            }
        }
    }
    json_close(json, ']');
}

void way_put(struct request *request, struct buf *out)
{
    const struct way *way = way_of(request);
    struct json json = {.out = out, .arena = &request->arena};

    json_open(&json, STR_NONE, '{');
    if (way->id.len != 0) {
        json_put_string(&json, "id", way->id);
    }
    json_put_number(&json, "time", (uint64_t) clock_now.seconds);
    json_put_number(&json, "connection", request->log.connection);
    json_put_string(&json, "client", request_client_text(request));
    put_text(&json, "request", request->head.line);
    put_server(&json, request, way);
    json_put_number(&json, "status", request_status(request));
    json_put_number(&json, "request_ms", request_age_ms(request));
    json_put_number(&json, "request_bytes", request->head_size + request->incoming.received);
    json_put_number(&json, "response_bytes", request_bytes_sent(request));
    put_filters(&json, request);
    json_put_flag(&json, "is_cut", way->is_cut);
    json_put_name(&json, STR("way"));
    buf_append_char(out, '[');
    buf_append(out, buf_str(&way->text));
    buf_append_char(out, ']');
    json_close(&json, '}');
}
