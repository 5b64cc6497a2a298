/* The cache as exchanges use it: look up, serve, store, renew. */
#include "http/connection.h"
#include "http/exchange/cached.h"

#include "base/clock.h"
#include "base/parse.h"
#include "http/v1/parser.h"
#include "http/exchange/slice.h"
#include "server/generation.h"

static enum flow cached_serve(struct exchange *x, struct str status, enum cache_counter counter);

/* ---- looking up ---- */

static void release(void *arg)
{
    struct cached *cached = arg;

    cache_close(&cached->access);
}

/* $upstream_cache_status, and the counter that goes with it. */
static void cached_note(struct exchange *x, struct str status, enum cache_counter counter)
{
    x->cache_status = status;
    cache_count(x->cached->access.cache, counter);
}

/* The cache of this place; *flow is FLOW_FAIL when its name leads nowhere. NULL: none. */
static struct cache *find_cache(struct exchange *x, enum flow *flow)
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
        *flow = request_fail(request, 500);
    }
    return cache;
}

/* Does the request ask for a range that begins beyond cache_max_range_offset? */
static bool begins_too_far(const struct exchange *x)
{
    const struct field *range = fields_get(&x->request->headers, FIELD_RANGE);
    int64_t limit = x->settings->cache_max_range_offset;
    uint64_t start;

    if (limit == INT64_MAX || range == NULL || !str_starts_nocase(range->value, STR("bytes="))) {
        return false;
    }
    struct str rest = str_skip(range->value, 6);
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
    struct cached *cached = x->cached;
    bool is_there = found == CACHE_FRESH || found == CACHE_EXPIRED;

    if (is_there && x->request->method != METHOD_HEAD &&
        answer_packed_is_of_head(cached->access.meta.head)) {
        found = CACHE_MISS;
        is_there = false;
    }
    cached->found = found;
    cached->has_content = is_there;
}

/* One look, at the variant that this request needs. */
static void look(struct exchange *x)
{
    struct cached *cached = x->cached;
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
           x->cached->access.meta.stale_while_updating_until >= clock_now.seconds;
}

/* The answer is to be stored: the whole of it is asked for, or whether the stored one still holds. */
static void expect_storing(struct exchange *x)
{
    const struct cache_meta *meta = &x->cached->access.meta;

    x->cached->may_store = true;
    x->is_cacheable = true;
    if (!x->settings->cache_revalidate || !x->cached->has_content ||
        (meta->status != 200 && meta->status != 206)) {
        return;
    }
    x->renews_etag = meta->etag;
    if (meta->last_modified != -1) {
        char *text = arena_text(&x->request->arena, HTTP_DATE_LENGTH);
        x->renews_since = str_from(text, http_date_format(text, meta->last_modified));
    }
}

/*
 * Gives the client the expired response at once; the same fiber fetches a fresh one afterwards. The
 * connection's next request waits for that, as with nginx. MAY WAIT.
 */
static enum flow serve_and_update(struct exchange *x)
{
    struct request *request = x->request;
    enum flow flow = sent_body_hold(x); /* giving an answer drops what is there of the body */

    if (flow == FLOW_NEXT) {
        flow = cached_serve(x, STR("STALE"), CACHE_COUNT_STALE);
    }
    if (flow != FLOW_DONE) {
        return flow;
    }
    struct str status = x->cache_status;
    struct vec attempts = x->attempts;
    conn_flush(request->conn);
    if (request->wire->answered != NULL) {
        request->wire->answered(request);
    }
    x->is_silent = true;
    fiber_shield_begin();
    exchange_fetch(x);
    fiber_shield_end();
    x->is_silent = false;
    x->cache_status = status; /* what is logged is what the client was given */
    x->attempts = attempts;
    x->attempt = NULL;
    return flow;
}

/* An expired response is there. FLOW_NEXT: fetch. */
static enum flow use_expired(struct exchange *x, bool *again)
{
    struct cached *cached = x->cached;
    const struct exchange_settings *settings = x->settings;
    bool is_mine = cache_claim(&cached->access, settings->cache_lock_age_ms);

    if (serves_while_updating(x)) {
        if (!is_mine) {
            return cached_serve(x, STR("UPDATING"), CACHE_COUNT_UPDATING);
        }
        if (settings->cache_background_update ||
            cached->access.meta.stale_while_updating_until >= clock_now.seconds) {
            expect_storing(x);
            if (settings->cache_background_update) {
                return serve_and_update(x);
            }
        }
    } else if (!is_mine && settings->cache_lock) {
        *again = true;
        return FLOW_NEXT;
    }
    cached_note(x, STR("EXPIRED"), CACHE_COUNT_EXPIRED);
    expect_storing(x);
    return FLOW_NEXT;
}

/* Nothing is there. FLOW_NEXT: fetch; *again: another request is fetching it. */
static enum flow use_nothing(struct exchange *x, bool *again)
{
    struct cached *cached = x->cached;

    if (cache_claim(&cached->access, x->settings->cache_lock_age_ms) || !x->settings->cache_lock) {
        cached_note(x, STR("MISS"), CACHE_COUNT_MISS);
        expect_storing(x);
        return FLOW_NEXT;
    }
    *again = true;
    return FLOW_NEXT;
}

/* Looks, and looks again after another request's fetch, as long as cache_lock_timeout lets it. MAY WAIT. */
static enum flow look_and_wait(struct exchange *x)
{
    struct cached *cached = x->cached;
    uint64_t until_ms = clock_now.now_ms + x->settings->cache_lock_timeout_ms;

    for (;;) {
        bool again = false;
        enum flow flow = FLOW_NEXT;

        look(x);
        switch (cached->found) {
        case CACHE_FRESH:
            return cached_serve(x, STR("HIT"), CACHE_COUNT_HIT);
        case CACHE_SCARCE:
            cached_note(x, STR("MISS"), CACHE_COUNT_SCARCE);
            return FLOW_NEXT;
        case CACHE_EXPIRED:
            flow = use_expired(x, &again);
            break;
        case CACHE_MISS:
        case CACHE_ERROR:
            flow = use_nothing(x, &again);
            break;
        }
        if (!again) {
            return flow;
        }
        uint64_t now = clock_now.now_ms;
        switch (now >= until_ms ? CACHE_LOCK_TIMED_OUT
                                : cache_wait(&cached->access, until_ms - now)) {
        case CACHE_LOCK_READY:
            break;
        case CACHE_LOCK_TIMED_OUT:
            cached_note(x, STR("MISS"), CACHE_COUNT_MISS);
            return FLOW_NEXT; /* for itself, without storing */
        case CACHE_LOCK_CANCELLED:
            return FLOW_CLOSED;
        }
    }
}

/* The request's dealings with its cache begin; nothing was looked up yet. */
static struct cached *cached_new(struct exchange *x, struct cache *cache)
{
    struct request *request = x->request;
    struct cached *cached = arena_new(&request->arena, struct cached);

    cached->access.cache = cache;
    cached->access.arena = &request->arena;
    cached->access.log = &request->log;
    cached->access.key = key_of(x);
    cached->access.min_uses = (unsigned) x->settings->cache_min_uses;
    unsigned rounds = connection_hops(request->http);
    cached->access.rounds = rounds < CACHE_ROUNDS ? rounds : CACHE_ROUNDS - 1;
    arena_on_free(&request->arena, release, cached);
    return cached;
}

enum flow cached_lookup(struct exchange *x)
{
    const struct exchange_settings *settings = x->settings;
    struct request *request = x->request;
    enum flow flow = FLOW_NEXT;

    if (settings->cache == NULL && settings->cache_name == NULL) {
        return FLOW_NEXT;
    }
    struct cache *cache = find_cache(x, &flow);
    if (cache == NULL) {
        return flow;
    }
    x->cached = cached_new(x, cache);
    if (settings->cache_purge != NULL) {
        flow = cached_purge(x);
        if (flow != FLOW_NEXT) {
            return flow;
        }
    }
    if ((request->method & settings->cache_methods) == 0 || begins_too_far(x)) {
        x->cached = NULL;
        return FLOW_NEXT;
    }
    if (templates_any_true(&settings->cache_bypass, &request->env)) {
        cached_note(x, STR("BYPASS"), CACHE_COUNT_BYPASS);
        x->cached->is_bypassed = true;
        x->cached->may_store = true;
        x->is_cacheable = true;
        return FLOW_NEXT;
    }
    return look_and_wait(x);
}

/* ---- serving ---- */

/* The stored body, behind its head unless a slice goes on with a response. MAY WAIT. */
static enum flow send_stored(struct exchange *x)
{
    struct request *request = x->request;
    struct cached *cached = x->cached;
    struct cache_body body;

    cache_body_of(&cached->access, &body);
    bool is_memory = body.bytes.data != NULL;
    if (!slice_continues(x)) {
        request->response.whole = is_memory && x->slice == NULL ? body.bytes : STR_NONE;
        enum flow flow = response_start(request);
        slice_begun(x);
        if (flow != FLOW_NEXT || request->response.is_complete) {
            return flow == FLOW_NEXT ? FLOW_DONE : flow;
        }
    }
    if (x->slice != NULL && x->slice->is_skipped) {
        return FLOW_NEXT;
    }
    struct body_piece piece = {
        .bytes = body.bytes,
        .fd = is_memory ? -1 : body.fd,
        .offset = (off_t) body.offset,
        .size = body.size,
        .release = cache_content_release,
        .release_arg = cached->access.content,
    };
    bool is_last = slice_is_last(x);
    cache_content_hold(cached->access.content);
    if (!response_send(request, &piece, is_last)) {
        return FLOW_CLOSED;
    }
    return is_last ? FLOW_DONE : FLOW_NEXT;
}

/* Of the page; where only HEAD was asked for what the backend said of it, or -1. */
static int64_t stored_length(const struct exchange *x)
{
    const struct field *field = fields_get(&x->answer.fields, FIELD_CONTENT_LENGTH);
    int64_t length = -1;

    if (!x->answer.is_of_head) {
        return (int64_t) x->cached->access.meta.body_size;
    }
    return field != NULL && content_length_parse(field->value, &length) ? length : -1;
}

/* Gives the client what is stored. MAY WAIT. */
static enum flow cached_serve(struct exchange *x, struct str status, enum cache_counter counter)
{
    struct request *request = x->request;
    const struct cache_meta *meta = &x->cached->access.meta;

    cached_note(x, status, counter);
    x->is_served = true;
    if (x->is_silent) {
        return FLOW_DONE;
    }
    x->answer = (struct answer){.status = meta->status, .version = HTTP_1_1};
    if (!answer_unpack(meta->head, &request->arena, &x->answer)) {
        log_crit(&request->log, 0, "cache entry \"%.*s\" holds a malformed head",
                 STR_ARG(x->cached->access.key));
        return request_fail(request, 502);
    }
    x->answer.content_length = stored_length(x);
    if (x->slice != NULL && !slice_accept(x) && x->slice != NULL) {
        return FLOW_CUT;
    }
    if (!slice_continues(x)) {
        enum flow flow;
        if (exchange_intercepts(x, &flow) || answer_redirects(x, &flow)) {
            return flow;
        }
        if (!answer_to_response(x)) {
            return request_fail(request, 502);
        }
    }
    request->log.action = "sending to client";
    return send_stored(x);
}

bool cached_may_serve_stale(const struct exchange *x, unsigned kind)
{
    const struct cached *cached = x->cached;
    unsigned broken =
        NEXT_ERROR | NEXT_TIMEOUT | NEXT_INVALID_HEADER | NEXT_500 | NEXT_502 | NEXT_503 | NEXT_504;

    if (cached == NULL || !cached->has_content || cached->is_bypassed) {
        return false;
    }
    return (x->settings->cache_use_stale & kind) != 0 ||
           ((kind & broken) != 0 && cached->access.meta.stale_if_error_until >= clock_now.seconds);
}

enum flow cached_serve_stale(struct exchange *x)
{
    return cached_serve(x, STR("STALE"), CACHE_COUNT_STALE);
}

/* ---- storing ---- */

/* The stored response still holds (304): its times are renewed, and it is given. MAY WAIT. */
static enum flow renew(struct exchange *x)
{
    struct cached *cached = x->cached;
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
    cache_refresh(&cached->access, &meta);
    cache_unclaim(&cached->access);
    attempt_end(x, 0);
    exchange_leave_link(x, exchange_skip_body(x));
    upstream_pick_done(&x->pick, PEER_SERVED);
    return cached_serve(x, STR("REVALIDATED"), CACHE_COUNT_REVALIDATED);
}

/* What is to be kept of the answer's head. False: nothing. */
static bool make_meta(struct exchange *x, struct cache_meta *meta)
{
    struct request *request = x->request;
    const struct fields *fields = &x->answer.fields;
    struct freshness freshness;

    freshness_of(x, x->answer.status, &freshness);
    if (!freshness.is_storable) {
        return false;
    }
    const struct field *modified = fields_get(fields, FIELD_LAST_MODIFIED);
    const struct field *etag = fields_get(fields, FIELD_ETAG);
    *meta = (struct cache_meta){
        .valid_until = freshness.valid_until,
        .stale_while_updating_until = freshness.stale_while_updating_until,
        .stale_if_error_until = freshness.stale_if_error_until,
        .date = clock_now.seconds,
        .last_modified = modified == NULL ? -1 : http_date_parse(modified->value),
        .etag = etag == NULL ? STR_NONE : etag->value,
        .status = x->answer.status,
        .head = answer_pack(&x->answer, &request->arena),
    };
    if (meta->head.data == NULL) {
        return false;
    }
    if ((x->settings->ignore_headers & IGNORE_VARY) == 0 &&
        fields_joined(fields, &request->arena, FIELD_VARY, &meta->vary) &&
        !vary_variant(x, meta->vary, meta->variant)) {
        return false;
    }
    return true;
}

enum flow cached_accept(struct exchange *x)
{
    struct cached *cached = x->cached;
    bool was_asked = x->renews_etag.len != 0 || x->renews_since.len != 0;

    if (x->answer.status == 304 && was_asked) {
        return renew(x);
    }
    if (cached->may_store && !templates_any_true(&x->settings->no_cache, &x->request->env) &&
        (x->answer.status != 206 || x->slice != NULL) && make_meta(x, &cached->meta)) {
        cached->is_filling = cache_fill_begin(&cached->access, x->settings->temp_path);
    }
    if (!cached->is_filling) {
        cache_unclaim(&cached->access);
    }
    return FLOW_NEXT;
}

void cached_write(struct exchange *x, struct str bytes)
{
    struct cached *cached = x->cached;

    if (cached->is_filling && !cache_fill_write(&cached->access, bytes)) {
        cached->is_filling = false;
        cache_fill_abort(&cached->access);
        cache_unclaim(&cached->access);
    }
}

/* Did nothing come but a head, of a page that may be longer? A backend that was asked with GET has sent it. */
static bool has_no_page_for_get(const struct exchange *x)
{
    unsigned status = x->answer.status;

    return x->body_received == 0 && status != 204 && status != 304 &&
           (x->request->method == METHOD_HEAD || x->answer.has_no_body);
}

void cached_end(struct exchange *x, bool is_whole)
{
    struct cached *cached = x->cached;

    if (!cached->is_filling) {
        return;
    }
    cached->is_filling = false;
    cached->meta.body_size = x->body_received;
    if (has_no_page_for_get(x)) {
        answer_packed_set_of_head(cached->meta.head);
    }
    if (!is_whole || !cache_fill_commit(&cached->access, &cached->meta)) {
        cache_fill_abort(&cached->access);
    }
    cache_unclaim(&cached->access);
}

bool cached_is_filling(const struct exchange *x)
{
    return x->cached != NULL && x->cached->is_filling;
}

bool cached_wants_fill(const struct exchange *x)
{
    return x->cached != NULL && x->cached->may_store;
}

void cached_close(struct exchange *x)
{
    if (x->cached != NULL) {
        cached_end(x, false);
        cache_unclaim(&x->cached->access);
    }
}
