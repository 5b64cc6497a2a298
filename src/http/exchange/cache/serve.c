/* Stored responses on their way to clients. */
#include "base/clock.h"
#include "http/exchange/cache/caching.h"
#include "http/exchange/cache/slice.h"
#include "http/files/kept_body.h"
#include "http/message/parser.h"

void cached_note(struct exchange *x, struct str status, enum cache_counter counter)
{
    x->cache.state->status = status;
    x->cache.state->counter = counter;
    cache_count(x->cache.state->cached->access.cache, counter);
    for (struct request_trace *trace = x->request->trace; trace != NULL; trace = trace->next) {
        if (trace->calls->looked_up != NULL) {
            trace->calls->looked_up(trace, x->request, status, x->cache.state->cached->began_ns);
        }
    }
}

void cached_count_body(struct exchange *x, uint64_t bytes, bool is_written)
{
    struct exchange_caching *caching = x->cache.state;

    if (!caching->is_body_counted && caching->status.len != 0) {
        caching->is_body_counted = true;
        cache_count_body(caching->cached->access.cache, caching->counter, bytes, is_written);
    }
}

/* The stored body, after its head unless a slice continues a response. MAY WAIT. */
static enum handler_result send_stored(struct exchange *x)
{
    struct request *request = x->request;
    const struct cache_access *access = &x->cache.state->cached->access;

    if (x->cache.output != OUTPUT_BODY) {
        request->response.whole =
            x->cache.state->slice == NULL ? kept_body_whole(access) : STR_NONE;
        enum handler_result result = response_start(request);
        slice_started(x);
        if (result != HANDLER_NEXT || request->response.progress == RESPONSE_COMPLETE) {
            return result == HANDLER_NEXT ? HANDLER_DONE : result;
        }
    }
    if (x->cache.output == OUTPUT_HEAD) {
        return HANDLER_NEXT;
    }
    bool is_last = !x->cache.is_followed;
    if (!response_send_kept(request, access, is_last)) {
        return HANDLER_CLOSED;
    }
    return is_last ? HANDLER_DONE : HANDLER_NEXT;
}

/* Of the page; where there is none (HEAD, 304) what the backend said of it, or -1. */
static int64_t stored_length(const struct exchange *x)
{
    const struct field *field = fields_get(&x->response.fields, FIELD_CONTENT_LENGTH);
    int64_t length = -1;

    if (!x->response.is_of_head && x->response.status != 304) {
        return (int64_t) x->cache.state->cached->access.meta.body_size;
    }
    return field != NULL && content_length_parse(field->value, &length) ? length : -1;
}

enum handler_result cached_serve(struct exchange *x, struct str status, enum cache_counter counter)
{
    struct request *request = x->request;
    const struct cache_meta *meta = &x->cache.state->cached->access.meta;

    cached_note(x, status, counter);
    x->cache.is_served = true;
    if (x->cache.output == OUTPUT_NONE) {
        return HANDLER_DONE;
    }
    cached_count_body(x, meta->body_size, false);
    x->response = (struct upstream_response){.status = meta->status, .version = HTTP_1_1};
    if (!upstream_response_unpack(meta->head, &request->arena, &x->response)) {
        log_crit(&request->log, 0, "cache entry \"%.*s\" holds a malformed head",
                 STR_ARG(x->cache.state->cached->access.key));
        return request_fail(request, 502);
    }
    x->response.content_length = stored_length(x);
    if (x->cache.state->slice != NULL && !slice_accept(x) && x->cache.state->slice != NULL) {
        return HANDLER_CUT;
    }
    if (x->cache.output != OUTPUT_BODY) {
        enum handler_result result;
        if (exchange_is_replaced(x, &result)) {
            return result;
        }
        if (!response_from_upstream(x)) {
            return request_fail(request, 502);
        }
    }
    request->log.action = "sending to client";
    return send_stored(x);
}

enum handler_result cached_refuse(struct exchange *x)
{
    cached_note(x, STR("HIT"), CACHE_COUNT_HIT);
    x->cache.is_served = true;
    cached_count_body(x, 0, false);
    if (x->cache.output == OUTPUT_BODY) {
        return HANDLER_CUT;
    }
    return request_fail(x->request, x->cache.state->cached->access.failed_status);
}

bool cached_may_serve_stale(const struct exchange *x, unsigned kind)
{
    const struct cached *cached = x->cache.state->cached;
    /* stale-if-error is for backends that gave no response; those that gave one are
     * *_cache_use_stale's business. */
    unsigned broken = NEXT_ERROR | NEXT_TIMEOUT | NEXT_INVALID_HEADER;

    if (cached == NULL || !cached->has_content || cached->is_bypassed) {
        return false;
    }
    return (x->settings->cache_use_stale & kind) != 0 ||
           ((kind & broken) != 0 && cached->access.meta.stale_if_error_until >= clock_now.seconds);
}
