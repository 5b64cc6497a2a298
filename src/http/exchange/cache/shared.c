/* One fetch for all nodes: what other nodes have fetched is stored as if it had come from a
 * backend, and what this one fetches for all is given. */
#include <unistd.h>

#include "base/clock.h"
#include "fiber/fiber.h"
#include "http/exchange/cache/caching.h"
#include "http/exchange/cache/shared_text.h"
#include "http/message/parser.h"

enum {
    POLL_FIRST_MS = 10, /* between two questions whether another node is done; doubled */
    POLL_LAST_MS = 50,  /* or as many as requests of this worker wait */
    GIVEN_MOST_MS =
        60000, /* a response stays in the store: so long nodes remember what they purged, too */
    QUESTIONS_MOST = 3, /* in a row, where what was found is of no use to this request */
};

/* ---- what another node has fetched ---- */

enum taken {
    TAKEN_STORED,
    TAKEN_USELESS, /* it is not fresh, or was purged since: it is fetched again, for all */
    TAKEN_ALONE,   /* this node does not store it */
};

/* x->response was read from the text. */
static enum taken store_shared(struct exchange *x, const struct shared_found *found,
                               const struct shared_times *times, struct str body)
{
    struct cached *cached = x->cache.state->cached;
    uint64_t passed_s = (found->since_given_ms + 999) / 1000;
    time_t given = clock_now.seconds - (time_t) passed_s;
    struct cache_meta meta;

    if (!cached_describe(x, &meta)) {
        return TAKEN_ALONE;
    }
    if (memcmp(meta.variant, times->variant, sizeof(meta.variant)) != 0) {
        return TAKEN_ALONE; /* it answers requests with other fields */
    }
    if (times->valid_s <= passed_s) {
        return TAKEN_USELESS;
    }
    if (templates_any_true(&x->settings->no_cache, &x->request->env)) {
        return TAKEN_ALONE;
    }
    meta.date = given - (time_t) times->age_s;
    meta.valid_until = given + (time_t) times->valid_s;
    if (times->stale_while_updating_s != 0) {
        meta.stale_while_updating_until = given + (time_t) times->stale_while_updating_s;
    }
    if (times->stale_if_error_s != 0) {
        meta.stale_if_error_until = given + (time_t) times->stale_if_error_s;
    }
    cache_fill_begin(&cached->access, x->settings->temp_path);
    /* A turn may have begun some time ago; both are rounded. */
    if (!cache_fill_date_back(&cached->access, found->since_begun_ms + clock_age_ms() + 1)) {
        cache_fill_abort(&cached->access);
        return TAKEN_USELESS;
    }
    /* What goes wrong from here on is this node's: others may have it. */
    return cache_fill_write(&cached->access, body) && cache_fill_commit(&cached->access, &meta)
               ? TAKEN_STORED
               : TAKEN_ALONE;
}

static enum taken take_shared(struct exchange *x, const struct shared_found *found,
                              struct arena *arena)
{
    struct cached *cached = x->cache.state->cached;
    struct upstream_response former = x->response;
    struct shared_times times;
    struct str body;

    if (!shared_text_read(found->text, arena, &times, &x->response, &body)) {
        shared_fetch_unreadable(&cached->shared);
        x->response = former;
        return TAKEN_ALONE;
    }
    enum taken taken = store_shared(x, found, &times, body);
    x->response = former; /* its bytes are those of the text */
    if (taken == TAKEN_STORED) {
        cache_count_shared(cached->access.cache, CACHE_SHARED_TAKEN);
        cached->has_content = true;
    }
    return taken;
}

/* ---- asking ---- */

/* Responses to the key differ: that to requests like this one is asked for. False: it is for none
 * (Vary: *). */
static bool ask_for_variant(struct exchange *x, struct str vary)
{
    struct cached *cached = x->cache.state->cached;
    uint8_t variant[CACHE_KEY_SIZE];

    if (cached->shared.is_variant || !vary_variant(x, vary, variant)) {
        return false;
    }
    shared_fetch_open(&cached->shared, cached->shared.share, &cached->access, variant);
    return true;
}

/* A question to the store, and what follows from the reply. *again: is to be asked once more, at
 * once. MAY WAIT. */
static enum share_outcome ask_once(struct exchange *x, struct shared_found *found, bool *again)
{
    struct shared_fetch *shared = &x->cache.state->cached->shared;
    enum share_outcome outcome = SHARE_FETCH;
    struct arena arena;

    *again = false;
    arena_init(&arena);
    switch (shared_fetch_claim(shared, &arena, x->settings->cache_lock_age_ms, found)) {
    case SHARED_FETCH_THERE:
        switch (take_shared(x, found, &arena)) {
        case TAKEN_STORED:
            outcome = SHARE_TAKEN;
            break;
        case TAKEN_USELESS:
            *again = true;
            break;
        case TAKEN_ALONE:
            break;
        }
        break;
    case SHARED_FETCH_VARIES:
        *again = ask_for_variant(x, found->text);
        found->token[0] = '\0'; /* of no response: the variant that came with it has it, too */
        break;
    case SHARED_FETCH_BUSY:
        outcome = SHARE_BUSY;
        break;
    case SHARED_FETCH_MINE:
    case SHARED_FETCH_ALONE:
    case SHARED_FETCH_GONE:
        break;
    }
    arena_free(&arena);
    return outcome;
}

/* Until it is time to ask again, so that all who wait ask some thousand times a second at most. MAY
 * WAIT. */
static enum wait_result wait_to_ask(uint64_t until_ms, uint64_t *poll_ms)
{
    static unsigned waiting; /* in this worker */

    uint64_t left_ms = until_ms - clock_now.now_ms;
    waiting++;
    enum wait_result result =
        fiber_sleep(clock_now.now_ms + (left_ms < *poll_ms ? left_ms : *poll_ms));
    uint64_t most_ms = waiting > POLL_LAST_MS ? waiting : POLL_LAST_MS;
    *poll_ms = *poll_ms * 2 > most_ms ? most_ms : *poll_ms * 2;
    waiting--;
    return result;
}

enum share_outcome share_ask(struct exchange *x, uint64_t until_ms)
{
    static const uint8_t none[CACHE_KEY_SIZE];
    struct cached *cached = x->cache.state->cached;
    struct cache_access *access = &cached->access;
    struct shared_found found = {.text = STR_NONE};
    uint64_t poll_ms = POLL_FIRST_MS;
    unsigned questions = 0;
    bool again;

    if (x->settings->cache_lock_share == NULL || !access->is_mine) {
        return SHARE_FETCH;
    }
    bool is_variant = memcmp(access->variant, none, sizeof(none)) != 0;
    shared_fetch_open(&cached->shared, x->settings->cache_lock_share, access,
                      is_variant ? access->variant : NULL);
    for (;;) {
        enum share_outcome outcome = ask_once(x, &found, &again);
        if (again && ++questions <= QUESTIONS_MOST) {
            continue;
        }
        if (outcome != SHARE_BUSY || until_ms == 0) {
            return outcome;
        }
        if (clock_now.now_ms >= until_ms) {
            cache_count_shared(access->cache, CACHE_SHARED_TIMED_OUT);
            return SHARE_FETCH;
        }
        if (wait_to_ask(until_ms, &poll_ms) == WAIT_CANCELLED) {
            return SHARE_CANCELLED;
        }
    }
}

/* ---- what this node has fetched ---- */

void share_check(struct exchange *x, uint64_t size)
{
    struct shared_fetch *shared = &x->cache.state->cached->shared;

    if (shared->is_mine && !shared_fetch_has_room(shared, size)) {
        shared_fetch_let_go(shared);
    }
}

static uint64_t seconds_from_now(time_t until)
{
    return until > clock_now.seconds ? (uint64_t) (until - clock_now.seconds) : 0;
}

/* Appends the stored body, which was written a moment ago. False: it cannot be read. */
static bool append_body(const struct cache_access *access, struct buf *text)
{
    struct cache_body body;

    cache_body_of(access, &body);
    if (body.fd == -1) {
        buf_append(text, body.bytes);
        return true;
    }
    char *at = buf_reserve(text, body.size);
    for (uint64_t done = 0; done < body.size;) {
        ssize_t n = pread(body.fd, at + done, body.size - done, (off_t) (body.offset + done));
        if (n <= 0) {
            return false;
        }
        done += (uint64_t) n;
    }
    text->len += body.size;
    return true;
}

/* The response of the access as a text. False: it is not for others. */
static bool make_text(const struct exchange *x, struct buf *text)
{
    const struct cache_access *access = &x->cache.state->cached->access;
    const struct cache_meta *meta = &access->meta;
    struct upstream_response response = {.status = meta->status};
    struct shared_times times = {.valid_s = seconds_from_now(meta->valid_until),
                                 .stale_while_updating_s =
                                     seconds_from_now(meta->stale_while_updating_until),
                                 .stale_if_error_s = seconds_from_now(meta->stale_if_error_until),
                                 .age_s = meta->date < clock_now.seconds
                                              ? (uint64_t) (clock_now.seconds - meta->date)
                                              : 0};

    memcpy(times.variant, meta->variant, sizeof(times.variant));
    if (times.valid_s == 0 ||
        !upstream_response_unpack(meta->head, &x->request->arena, &response) ||
        response.is_of_head) {
        return false;
    }
    const struct field *field = fields_get(&response.fields, FIELD_CONTENT_LENGTH);
    int64_t length;
    bool is_whole = field == NULL || (content_length_parse(field->value, &length) &&
                                      (uint64_t) length == meta->body_size);
    return is_whole && shared_text_begin(text, &times, &response) && append_body(access, text);
}

void share_give(struct exchange *x)
{
    struct cached *cached = x->cache.state->cached;
    const struct cache_meta *meta = &cached->access.meta;
    struct buf text = {0};

    share_check(x, meta->head.len + meta->body_size);
    if (!cached->shared.is_mine) {
        return;
    }
    if (!make_text(x, &text) || !shared_fetch_has_room(&cached->shared, text.len)) {
        buf_free(&text);
        shared_fetch_let_go(&cached->shared);
        return;
    }
    uint64_t valid_ms = seconds_from_now(meta->valid_until) * 1000;
    uint64_t ttl_ms = x->settings->cache_lock_timeout_ms;
    ttl_ms = ttl_ms < GIVEN_MOST_MS ? ttl_ms : GIVEN_MOST_MS;
    ttl_ms = ttl_ms < valid_ms ? ttl_ms : valid_ms;
    shared_fetch_give(&cached->shared, &cached->access, buf_str(&text), meta->vary,
                      ttl_ms == 0 ? 1 : ttl_ms);
}

void share_end(struct exchange *x)
{
    shared_fetch_let_go(&x->cache.state->cached->shared);
}
