/* What the cache has for a request: found, waited for, given while it is fetched again. */
#include "base/clock.h"
#include "base/parse.h"
#include "http/client/connection.h"
#include "http/exchange/cache/caching.h"
#include "http/request/wire.h"
#include "server/generation.h"

static void access_release(void *arg)
{
    struct cached *cached = arg;

    cache_close(&cached->access);
}

/* The cache of this location; *result is HANDLER_FAIL when its name leads nowhere. NULL: none. */
static struct cache *find_cache(struct exchange *x, enum handler_result *result)
{
    const struct exchange_settings *settings = x->settings;
    struct request *request = x->request;

    if (settings->cache != NULL || settings->cache_name == NULL) {
        return settings->cache;
    }
    struct str name = template_text(settings->cache_name, &request->env);
    if (name.len == 0 || str_is(name, "off")) {
        return NULL;
    }
    struct cache *cache = cache_find(generation_now, name);
    if (cache == NULL) {
        log_error(&request->log, 0, "cache \"%.*s\" not found", STR_ARG(name));
        *result = request_fail(request, 500);
    }
    return cache;
}

/* Does the request ask for a range that begins beyond cache_max_range_offset? Where no stored
 * response can be given, such a request is passed on with its Range, and nothing is stored. */
static bool begins_too_far(const struct exchange *x)
{
    const struct field *range = fields_get(&x->request->headers, FIELD_RANGE);
    int64_t limit = x->settings->cache_max_range_offset;
    uint64_t start;

    if (limit == INT64_MAX || range == NULL || !str_starts_nocase(range->value, STR("bytes="))) {
        return false;
    }
    struct str rest = str_trim(str_skip(range->value, 6));
    struct str first = str_cut(&rest, '-');
    if (first.len == 0) {
        return true; /* the last bytes, wherever they are */
    }
    return parse_uint(first, &start) && start >= (uint64_t) limit;
}

static struct str key_of(struct exchange *x)
{
    if (x->settings->cache_key != NULL) {
        return template_text(x->settings->cache_key, &x->request->env);
    }
    return x->protocol->default_cache_key != NULL ? x->protocol->default_cache_key(x) : STR_NONE;
}

/* Was something found that answers the request? What HEAD has left has no page. */
static void note_found(struct exchange *x, enum cache_found found)
{
    struct cached *cached = x->cache.state->cached;
    bool is_there = found == CACHE_FRESH || found == CACHE_EXPIRED;

    if (is_there && x->request->method != METHOD_HEAD &&
        packed_response_is_of_head(cached->access.meta.head)) {
        found = CACHE_MISS;
        is_there = false;
    }
    cached->found = found;
    cached->has_content = is_there;
}

/* One look, at the variant that this request needs. */
static void look_up_variant(struct exchange *x)
{
    struct cached *cached = x->cache.state->cached;
    uint8_t variant[CACHE_KEY_SIZE];

    note_found(x, cache_open(&cached->access));
    if (!cached->has_content || cached->access.meta.vary.len == 0) {
        return;
    }
    vary_variant(x, cached->access.meta.vary, variant);
    if (memcmp(variant, cached->access.meta.variant, sizeof(variant)) == 0) {
        return;
    }
    note_found(x, cache_open_variant(&cached->access, variant));
}

/* May the expired response be given while another request renews it? */
static bool serves_while_updating(const struct exchange *x)
{
    return (x->settings->cache_use_stale & NEXT_UPDATING) != 0 ||
           x->cache.state->cached->access.meta.stale_while_updating_until >= clock_now.seconds;
}

/* The response is to be stored, even if the client leaves. */
static void store_answer(struct exchange *x)
{
    x->cache.state->cached->may_store = true;
    x->cache.is_cacheable = true;
    x->cache.outlives_client = true;
}

/* The response is to be stored: the whole of it is asked for, or whether the stored one still
 * holds. */
static void expect_storing(struct exchange *x)
{
    const struct cache_meta *meta = &x->cache.state->cached->access.meta;

    store_answer(x);
    if (!x->settings->cache_revalidate || !x->cache.state->cached->has_content ||
        (meta->status != 200 && meta->status != 206)) {
        return;
    }
    x->cache.renews_etag = meta->etag;
    if (meta->last_modified != -1) {
        char *text = arena_text(&x->request->arena, HTTP_DATE_LENGTH);
        x->cache.renews_since = str_from(text, http_date_format(text, meta->last_modified));
    }
}

/*
 * Gives the client the expired response at once; the same fiber fetches a fresh one afterwards. The
 * connection's next request waits for that, as with nginx. MAY WAIT.
 */
static enum handler_result serve_and_update(struct exchange *x)
{
    struct request *request = x->request;
    enum handler_result result =
        sent_body_hold(x); /* giving a response drops what is there of the body */

    if (result == HANDLER_NEXT) {
        result = cached_serve(x, STR("STALE"), CACHE_COUNT_STALE);
    }
    if (result != HANDLER_DONE) {
        return result;
    }
    struct str status = x->cache.state->status;
    struct vec attempts = x->attempts;
    request_flush(request);
    if (request->wire->answered != NULL) {
        request->wire->answered(request);
    }
    const enum exchange_output output = x->cache.output;
    x->cache.output = OUTPUT_NONE;
    fiber_shield_begin();
    /* What another node fetches now, a later request takes. */
    if (share_ask(x, 0) == SHARE_FETCH) {
        exchange_fetch(x);
    }
    fiber_shield_end();
    x->cache.output = output;
    x->cache.state->status = status; /* what is logged is what the client was given */
    x->attempts = attempts;
    x->attempt = NULL;
    return result;
}

/* The request has the claim at this node: what other nodes have, or they are waited for until then.
 * HANDLER_NEXT: fetch. MAY WAIT. */
static enum handler_result use_shared(struct exchange *x, uint64_t until_ms)
{
    switch (share_ask(x, until_ms)) {
    case SHARE_TAKEN:
        x->cache.state->cached->found = CACHE_FRESH;
        return cached_serve(x, STR("HIT"), CACHE_COUNT_HIT);
    case SHARE_BUSY:
        cache_unclaim(&x->cache.state->cached->access);
        return cached_serve(x, STR("UPDATING"), CACHE_COUNT_UPDATING);
    case SHARE_CANCELLED:
        return HANDLER_CLOSED;
    case SHARE_FETCH:
        break;
    }
    return HANDLER_NEXT;
}

/* An expired response is there. HANDLER_NEXT: fetch, unless it was served. MAY WAIT. */
static enum handler_result use_expired(struct exchange *x, uint64_t until_ms, bool *again)
{
    struct cached *cached = x->cache.state->cached;
    const struct exchange_settings *settings = x->settings;
    bool is_mine = cache_claim(&cached->access, settings->cache_lock_age_ms);
    bool is_stored = !begins_too_far(x);

    if (serves_while_updating(x)) {
        if (!is_mine) {
            return cached_serve(x, STR("UPDATING"), CACHE_COUNT_UPDATING);
        }
        until_ms = 0;
        if (settings->cache_background_update) {
            expect_storing(x);
            return serve_and_update(x);
        }
    } else if (!is_mine && settings->cache_lock && is_stored) {
        *again = true;
        return HANDLER_NEXT;
    }
    if (is_mine && is_stored) {
        enum handler_result result = use_shared(x, until_ms);
        if (result != HANDLER_NEXT || x->cache.is_served) {
            return result;
        }
    }
    cached_note(x, STR("EXPIRED"), CACHE_COUNT_EXPIRED);
    if (is_stored) {
        expect_storing(x);
    }
    return HANDLER_NEXT;
}

/* Nothing is there. HANDLER_NEXT: fetch, unless it was served; *again: another request is fetching
 * it. MAY WAIT. */
static enum handler_result use_nothing(struct exchange *x, uint64_t until_ms, bool *again)
{
    struct cached *cached = x->cache.state->cached;

    if (begins_too_far(x)) {
        cached_note(x, STR("MISS"), CACHE_COUNT_MISS);
        return HANDLER_NEXT;
    }
    if (cache_claim(&cached->access, x->settings->cache_lock_age_ms) || !x->settings->cache_lock) {
        enum handler_result result = use_shared(x, until_ms);
        if (result != HANDLER_NEXT || x->cache.is_served) {
            return result;
        }
        cached_note(x, STR("MISS"), CACHE_COUNT_MISS);
        expect_storing(x);
        return HANDLER_NEXT;
    }
    *again = true;
    return HANDLER_NEXT;
}

/* Looks, and looks again after another request's fetch, as long as cache_lock_timeout lets it. MAY
 * WAIT. */
static enum handler_result look_and_wait(struct exchange *x)
{
    struct cached *cached = x->cache.state->cached;
    uint64_t until_ms = clock_now.now_ms + x->settings->cache_lock_timeout_ms;

    for (;;) {
        bool again = false;
        enum handler_result result = HANDLER_NEXT;

        look_up_variant(x);
        switch (cached->found) {
        case CACHE_FRESH:
            return cached_serve(x, STR("HIT"), CACHE_COUNT_HIT);
        case CACHE_FAILED:
            return cached_refuse(x);
        case CACHE_SCARCE:
            cached_note(x, STR("MISS"), CACHE_COUNT_SCARCE);
            return HANDLER_NEXT;
        case CACHE_EXPIRED:
            result = use_expired(x, until_ms, &again);
            break;
        case CACHE_MISS:
        case CACHE_ERROR:
            result = use_nothing(x, until_ms, &again);
            break;
        }
        if (!again) {
            return result;
        }
        uint64_t now = clock_now.now_ms;
        switch (now >= until_ms ? CACHE_LOCK_TIMED_OUT
                                : cache_wait(&cached->access, until_ms - now)) {
        case CACHE_LOCK_READY:
            break;
        case CACHE_LOCK_TIMED_OUT:
            cached_note(x, STR("MISS"), CACHE_COUNT_MISS);
            return HANDLER_NEXT; /* for itself, without storing */
        case CACHE_LOCK_CANCELLED:
            return HANDLER_CLOSED;
        }
    }
}

/* The request's dealings with its cache begin; nothing was looked up yet. */
static struct cached *cached_new(struct exchange *x, struct cache *cache)
{
    struct request *request = x->request;
    struct cached *cached = &x->cache.state->room;

    if (request->trace != NULL) {
        cached->began_ns = clock_read_ns();
    }
    cached->access.cache = cache;
    cached->access.arena = &request->arena;
    cached->access.log = &request->log;
    cached->access.key = key_of(x);
    cached->access.min_uses = (unsigned) x->settings->cache_min_uses;
    unsigned rounds = connection_hops(request->connection);
    cached->access.rounds = rounds < CACHE_ROUNDS ? rounds : CACHE_ROUNDS - 1;
    arena_on_free(&request->arena, access_release, cached);
    return cached;
}

enum handler_result cached_lookup(struct exchange *x)
{
    const struct exchange_settings *settings = x->settings;
    struct request *request = x->request;
    enum handler_result result = HANDLER_NEXT;

    if (settings->cache == NULL && settings->cache_name == NULL) {
        return HANDLER_NEXT;
    }
    struct cache *cache = find_cache(x, &result);
    if (cache == NULL) {
        return result;
    }
    x->cache.state->cached = cached_new(x, cache);
    if (settings->cache_purge != NULL) {
        result = cached_purge(x);
        if (result != HANDLER_NEXT) {
            return result;
        }
    }
    if ((request->method & settings->cache_methods) == 0) {
        x->cache.state->cached = NULL;
        return HANDLER_NEXT;
    }
    if (templates_any_true(&settings->cache_bypass, &request->env)) {
        cached_note(x, STR("BYPASS"), CACHE_COUNT_BYPASS);
        x->cache.state->cached->is_bypassed = true;
        store_answer(x);
        return HANDLER_NEXT;
    }
    return look_and_wait(x);
}
