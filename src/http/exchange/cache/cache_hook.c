/* The cache hook of responses. What the cache has is given from there; what it has not is fetched,
 * whole or in slices, and kept on its way to the client. */
#include "http/exchange/cache/caching.h"
#include "http/exchange/cache/rows.h"
#include "http/exchange/cache/slice.h"

static bool cache_hook_is_wanted(const struct conf_scope *scope,
                                 const struct exchange_settings *own)
{
    return own->cache != NULL || own->cache_name != NULL || own->stores || slice_is_on(scope);
}

/* ---- before a backend is asked ---- */

/* One exchange: looks into the cache, then asks a backend. HANDLER_NEXT: a slice that is not the
 * last is done. MAY WAIT. */
static enum handler_result keep_fetch(struct exchange *x, struct slice *slice)
{
    x->cache.state = arena_new(&x->request->arena, struct exchange_caching);
    x->cache.state->slice = slice;
    x->cache.outlives_client = x->settings->stores;
    enum handler_result result = cached_lookup(x);

    if (result == HANDLER_NEXT && !x->cache.is_served) {
        result = exchange_fetch(x);
    }
    if (x->cache.state->cached != NULL) {
        unsigned status = x->request->response.status;
        if (result == HANDLER_FAIL && !x->cache.is_served && (status == 502 || status == 504)) {
            cached_fail(x, status);
        }
        cached_end(x, false);
        share_end(x);
        cache_unclaim(&x->cache.state->cached->access);
    }
    return result;
}

/* A fresh exchange for the next slice; what the module had set is taken over. */
static struct exchange *next_exchange(const struct exchange *x, const struct slice *slice)
{
    struct request *request = x->request;
    struct exchange *next = exchange_new(request, x->protocol, x->settings, x->module_settings);

    next->state = x->state;
    next->group = x->group;
    next->target = x->target;
    next->target_text = x->target_text;
    next->default_port = x->default_port;
    next->is_secure = x->is_secure;
    next->preface = x->preface;
    next->url_tail = x->url_tail;
    next->cache.output = OUTPUT_BODY;
    next->cache.is_followed = slice->next < slice->end;
    return next;
}

/* The other slices, one exchange after another, into the response that the first one began. MAY
 * WAIT. */
static enum handler_result keep_fetch_rest(struct exchange *x)
{
    struct slice *slice = x->cache.state->slice;
    struct request *request = x->request;

    slice->is_first = false;
    while (slice->next < slice->end) {
        slice_set_start(slice, &request->arena, slice->next);
        enum handler_result result = keep_fetch(next_exchange(x, slice), slice);
        if (result != HANDLER_NEXT) {
            return result;
        }
    }
    return response_send(request, NULL, true) ? HANDLER_DONE : HANDLER_CLOSED;
}

static enum handler_result keep_run(struct exchange *x)
{
    struct request *request = x->request;
    enum handler_result result = keep_fetch(x, slice_new(x));

    if (result == HANDLER_NEXT) {
        result = keep_fetch_rest(x);
        x->attempts = request->exchange->attempts; /* metrics count all of them */
        request->exchange = x;                     /* variables have the first slice */
    }
    return result;
}

/* ---- the response ---- */

static bool keep_accept(struct exchange *x, unsigned kind, enum handler_result *result)
{
    struct exchange_caching *caching = x->cache.state;

    if (kind != 0 && cached_may_serve_stale(x, kind)) {
        exchange_leave_connection(x, false);
        *result = cached_serve(x, STR("STALE"), CACHE_COUNT_STALE);
        return false;
    }
    if (caching->cached != NULL) {
        *result = cached_accept(x);
        if (*result != HANDLER_NEXT) {
            return false;
        }
    }
    if (caching->slice != NULL && !slice_accept(x) && caching->slice != NULL) {
        *result = HANDLER_CUT;
        return false;
    }
    return true;
}

static void keep_start(struct exchange *x)
{
    if (x->settings->stores) {
        store_begin(x);
    }
}

static void keep_write(struct exchange *x, struct str bytes)
{
    if (x->cache.state->cached != NULL) {
        cached_write(x, bytes);
    }
    if (x->cache.state->store != NULL) {
        store_write(x, bytes);
    }
}

static bool keep_end(struct exchange *x, bool is_whole)
{
    bool is_sound = !is_whole || slice_is_complete(x);

    if (x->cache.state->cached != NULL) {
        cached_end(x, is_whole && is_sound);
    }
    if (x->cache.state->store != NULL) {
        store_end(x, is_whole && is_sound);
    }
    return is_sound;
}

/* The status alone is kept. */
static void keep_drop(struct exchange *x)
{
    if (x->cache.state->cached != NULL) {
        cached_end(x, true);
    }
}

static bool keep_fail(struct exchange *x, unsigned kind, enum handler_result *result)
{
    if (x->cache.output == OUTPUT_NONE) {
        *result = HANDLER_DONE;
    } else if (cached_may_serve_stale(x, kind)) {
        *result = cached_serve(x, STR("STALE"), CACHE_COUNT_STALE);
    } else if (x->cache.output == OUTPUT_BODY) {
        *result = HANDLER_CUT;
    } else {
        return false;
    }
    return true;
}

const struct exchange_cache_hook response_cache_hook = {
    .is_wanted = cache_hook_is_wanted,
    .run = keep_run,
    .accept = keep_accept,
    .start = keep_start,
    .started = slice_started,
    .write = keep_write,
    .end = keep_end,
    .drop = keep_drop,
    .fail = keep_fail,
};
