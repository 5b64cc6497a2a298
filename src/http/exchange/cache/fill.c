/* Answers on their way into the cache, and those that are renewed there. */
#include "base/clock.h"
#include "base/parse.h"
#include "http/exchange/cache/caching.h"

/* The stored response still holds (304): its times are renewed, and it is given. MAY WAIT. */
static enum handler_result renew_stored(struct exchange *x)
{
    struct cached *cached = x->cache.state->cached;
    struct cache_meta meta = cached->access.meta;
    struct freshness freshness;

    freshness_of(x, meta.status, &freshness);
    if (freshness.is_storable) {
        meta.valid_until = freshness.valid_until;
        meta.stale_while_updating_until = freshness.stale_while_updating_until;
        meta.stale_if_error_until = freshness.stale_if_error_until;
    } else {
        meta.valid_until = clock_now.seconds;
    }
    meta.date = clock_now.seconds;
    if (cache_refresh(&cached->access, &meta)) {
        share_give(x);
    }
    cache_unclaim(&cached->access);
    attempt_end(x, 0);
    exchange_leave_connection(x, exchange_skip_body(x));
    upstream_pick_done(&x->pick, PEER_SERVED);
    return cached_serve(x, STR("REVALIDATED"), CACHE_COUNT_REVALIDATED);
}

bool cached_describe(struct exchange *x, struct cache_meta *meta)
{
    struct request *request = x->request;
    const struct fields *fields = &x->response.fields;
    const struct field *modified = fields_get(fields, FIELD_LAST_MODIFIED);
    const struct field *etag = fields_get(fields, FIELD_ETAG);

    *meta = (struct cache_meta){
        .last_modified = modified == NULL ? -1 : http_date_parse(modified->value),
        .etag = etag == NULL ? STR_NONE : etag->value,
        .status = x->response.status,
        .head = upstream_response_pack(&x->response, &request->arena),
    };
    if (meta->head.data == NULL) {
        return false;
    }
    return (x->settings->ignore_headers & IGNORE_VARY) != 0 ||
           !fields_joined(fields, &request->arena, FIELD_VARY, &meta->vary) ||
           vary_variant(x, meta->vary, meta->variant);
}

/* What is to be kept of the response's head. False: nothing. */
static bool make_meta(struct exchange *x, struct cache_meta *meta)
{
    struct freshness freshness;

    freshness_of(x, x->response.status, &freshness);
    if (!freshness.is_storable || !cached_describe(x, meta)) {
        return false;
    }
    meta->valid_until = freshness.valid_until;
    meta->stale_while_updating_until = freshness.stale_while_updating_until;
    meta->stale_if_error_until = freshness.stale_if_error_until;
    meta->date = clock_now.seconds;
    return true;
}

/* What one client may have, or as it comes, is not for others: X-Accel-Redirect leads to what the
 * backend allowed this request, and a response that is passed on unbuffered may never end. */
static bool is_for_one_client(const struct exchange *x)
{
    return !exchange_is_buffered(x) ||
           ((x->settings->ignore_headers & IGNORE_X_ACCEL_REDIRECT) == 0 &&
            fields_get(&x->response.fields, FIELD_X_ACCEL_REDIRECT) != NULL);
}

/* A part of a response is stored under a key of its own: that of a slice, or one that holds the
 * client's Range. Under another key it would be given to clients that want the whole. */
static bool is_storable(const struct exchange *x)
{
    const struct field *range = fields_get(&x->request->headers, FIELD_RANGE);

    return x->response.status != 206 || x->cache.state->slice != NULL ||
           (range != NULL && str_starts(range->value, STR("bytes=")) &&
            str_find(x->cache.state->cached->access.key, range->value) != NULL);
}

enum handler_result cached_accept(struct exchange *x)
{
    struct cached *cached = x->cache.state->cached;
    bool was_asked = x->cache.renews_etag.len != 0 || x->cache.renews_since.len != 0;

    cached->has_answer = true;
    if (x->response.status == 304 && was_asked) {
        return renew_stored(x);
    }
    if (cached->may_store && !templates_any_true(&x->settings->no_cache, &x->request->env) &&
        is_storable(x) && !is_for_one_client(x) && make_meta(x, &cached->meta)) {
        cached->is_filling = cache_fill_begin(&cached->access, x->settings->temp_path);
    }
    x->cache.is_kept = cached->is_filling;
    if (!cached->is_filling) {
        share_end(x);
        cache_unclaim(&cached->access);
    } else if (x->response.content_length > 0) {
        share_check(x, (uint64_t) x->response.content_length);
    }
    return HANDLER_NEXT;
}

void cached_write(struct exchange *x, struct str bytes)
{
    struct cached *cached = x->cache.state->cached;

    if (cached->is_filling && !cache_fill_write(&cached->access, bytes)) {
        cached->is_filling = x->cache.is_kept = false;
        cache_fill_abort(&cached->access);
        cache_unclaim(&cached->access);
        share_end(x);
    }
    share_check(x, x->body_received);
}

/* Did nothing come but a head, of a page that may be longer? A backend that was asked with GET has
 * sent it. */
static bool has_no_page_for_get(const struct exchange *x)
{
    unsigned status = x->response.status;

    return x->body_received == 0 && status != 204 && status != 304 &&
           (x->request->method == METHOD_HEAD || x->response.has_no_body);
}

void cached_end(struct exchange *x, bool is_whole)
{
    struct cached *cached = x->cache.state->cached;

    if (!cached->is_filling) {
        cached_count_body(x, x->body_received, false);
        return;
    }
    cached->is_filling = x->cache.is_kept = false;
    cached->meta.body_size = x->body_received;
    if (has_no_page_for_get(x)) {
        packed_response_set_of_head(cached->meta.head);
    }
    bool is_written = is_whole && cache_fill_commit(&cached->access, &cached->meta);
    if (is_written) {
        share_give(x);
    } else {
        cache_fill_abort(&cached->access);
        share_end(x);
    }
    cached_count_body(x, x->body_received, is_written);
    cache_unclaim(&cached->access);
}

void cached_fail(struct exchange *x, unsigned status)
{
    struct cached *cached = x->cache.state->cached;
    uint64_t seconds = cache_valid_seconds(&x->settings->cache_valid, status);

    if (cached->may_store && !cached->has_answer && !cached->is_bypassed && seconds != 0 &&
        !templates_any_true(&x->settings->no_cache, &x->request->env)) {
        cache_fail(&cached->access, status, clock_now.seconds + (time_t) seconds);
    }
}
