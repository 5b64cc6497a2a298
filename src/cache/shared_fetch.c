/* One fetch for all nodes. docs/scaling-out.md describes the keys. */
#include "cache/shared_fetch.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "base/parse.h"
#include "base/text.h"
#include "cache/internal.h"
#include "store/resp.h"

enum {
    SHAPE = 1,                   /* version of the values' format */
    SIZE_DEFAULT = 256 * 1024,   /* of a response, without `sync_max_size` */
    REPLY_EXTRA = 4096,          /* bytes of a reply in addition to the response */
    UPLOADS_MOST = 256,          /* simultaneous uploads of a worker */
    UPLOAD_BYTES_MOST = 4 << 20, /* of all their responses */
    KEPT_BYTES_MOST =
        16 << 20,      /* of a worker's responses in the store: clients choose the missing keys */
    KEPT_SECONDS = 64, /* longest time that they are there */
    SEND_MS = 500,     /* for a reply that no request waits for */
    ALONE_MS = 1000, /* for so long other nodes fetch on their own; then one of them fetches for all
                        again */
    LOG_EVERY_MS = 60000,
};

struct fetch_share {
    struct store *store;
    uint64_t max_size; /* of a response */
    /* In a worker: secrets of the cache that was used last. */
    const struct cache *known;
    uint64_t name_secret[4];
    unsigned char key[TLS_SEAL_KEY];
};

/* An upload to the store, which no request waits for. */
struct upload {
    struct arena arena;
    const struct cache *cache;
    struct store *store;
    struct str key, bound, token;
    struct str text; /* data NULL: other nodes may not use it */
    /* For a variant: those of the key alone, whose value names the fields by which responses
     * vary. */
    struct str main_key, main_bound;
    struct str vary;
    uint64_t began_ms; /* when the fetch began */
    uint64_t begun_ms; /* the same by the clock of the server with the main key */
    unsigned char seal[TLS_SEAL_KEY];
    uint64_t ttl_ms;
};

/* Uploads of this worker. */
static struct {
    unsigned count;
    size_t bytes;
} uploads;

/* Bytes of responses that this worker has in the store, by the second in which they expire;
 * `second` is the last one subtracted. */
static struct {
    uint64_t second;
    uint64_t bytes, ending[KEPT_SECONDS];
} kept;

/* ---- the configuration ---- */

static bool *is_used_of(struct conf *conf)
{
    return conf_state(conf, "shared fetches", sizeof(bool));
}

bool fetch_share_is_used(struct conf *conf)
{
    return *is_used_of(conf);
}

bool fetch_share_read(struct conf *conf, struct conf_node *node, struct fetch_share **share)
{
    static const struct str size_word = STR_INIT("sync_max_size=");
    struct store_sync_words words = {.is_wanted = false};
    uint64_t size = SIZE_DEFAULT;
    bool has_size = false;

    *share = NULL;
    for (unsigned i = 2; i < node->count; i++) {
        struct str word = node->args[i];
        bool is_sync = false;

        if (str_starts(word, size_word) && !has_size) {
            has_size = parse_size(str_skip(word, size_word.len), &size) && size != 0;
            is_sync = has_size;
        } else if (!str_starts(word, STR("sync_"))) {
            if (!store_sync_read(conf, node, word, false, &words, &is_sync)) {
                return false;
            }
        }
        if (!is_sync) {
            return conf_error(conf, node, "invalid parameter \"%.*s\"", STR_ARG(word));
        }
    }
    if (!words.is_wanted) {
        return !has_size || conf_error(conf, node, "\"sync_max_size\" needs \"sync\"");
    }
    *share = arena_new(conf->arena, struct fetch_share);
    (*share)->max_size = size;
    (*share)->store = store_named(conf, node, words.store);
    *is_used_of(conf) = true;
    return (*share)->store != NULL;
}

/* ---- names ---- */

static void learn_secrets(struct fetch_share *share, const struct cache *cache)
{
    uint64_t secret[4];

    if (share->known != cache) {
        share->known = cache;
        store_secret(share->store, STR("cache_fetch name"), cache->name, share->name_secret);
        store_secret(share->store, STR("cache_fetch"), cache->name, secret);
        memcpy(share->key, secret, sizeof(share->key));
    }
}

/* The key in the store: the cache's name and a keyed hash of key and variant, so that the fetches
 * of a cache spread over all slots of a cluster. */
void shared_fetch_open(struct shared_fetch *fetch, struct fetch_share *share,
                       const struct cache_access *access, const uint8_t *variant)
{
    struct arena *arena = access->arena;
    char digits[2 * CACHE_KEY_SIZE];
    size_t digit_count = 0;

    learn_secrets(share, access->cache);
    if (variant != NULL) {
        digit_count = (size_t) (hex_encode(digits, variant, CACHE_KEY_SIZE) - digits);
    }
    *fetch = (struct shared_fetch){.share = share,
                                   .cache = access->cache,
                                   .is_variant = variant != NULL};
    memcpy(fetch->seal, share->key, sizeof(fetch->seal));
    fetch->bound =
        arena_printf(arena, "%.*s\n%.*s", (int) digit_count, digits, STR_ARG(access->key));
    struct str zone =
        arena_printf(arena, "%.*s %016llx%016llx", STR_ARG(access->cache->name),
                     (unsigned long long) siphash_1_3(fetch->bound, share->name_secret),
                     (unsigned long long) siphash_1_3(fetch->bound, share->name_secret + 2));
    const struct store_key key = {.version = SHAPE, .purpose = "cache_fetch", .zone = zone};
    fetch->key = store_key_text(share->store, arena, &key);
}

/* ---- requests to the store ---- */

static struct str number_text(struct arena *arena, uint64_t number)
{
    return arena_printf(arena, "%llu", (unsigned long long) number);
}

/*
 * A fetch is a hash in the store: `state` is fetch, response, varies or alone; `token` identifies
 * the fetch; `begun` and `given` are times of the store's clock in milliseconds. ARGV: token,
 * milliseconds of the lease, token of a response that is not usable. Gives the state; for a new
 * fetch of this node, when it began; for a response its token, how long ago the fetch began and the
 * response was given, and the response.
 */
static struct store_script claim_script = {
    .text = STORE_NOW_MS
    "local had = redis.call('HMGET', KEYS[1], 'state', 'token', 'begun', 'given')\n"
    "local state = had[1]\n"
    "if not state or (state == 'response' and had[2] == ARGV[3]) then\n"
    "  redis.call('DEL', KEYS[1])\n"
    "  redis.call('HSET', KEYS[1], 'state', 'fetch', 'token', ARGV[1],\n"
    "    'begun', string.format('%.0f', now))\n"
    "  redis.call('PEXPIRE', KEYS[1], ARGV[2])\n"
    "  return {'mine', now}\n"
    "end\n"
    "if state ~= 'response' and state ~= 'varies' then return {state} end\n"
    "return {state, had[2], now - had[3], now - had[4],\n"
    "  redis.call('HGET', KEYS[1], 'text')}"};

static enum shared_fetch_state take_response(struct shared_fetch *fetch, struct arena *arena,
                                             struct str reply, struct shared_found *found)
{
    int64_t begun_ms, given_ms;
    struct str token, sealed;

    if (!resp_next_string(&reply, &token) || token.len >= sizeof(found->token) ||
        !resp_next_integer(&reply, &begun_ms) || !resp_next_integer(&reply, &given_ms) ||
        !resp_next_string(&reply, &sealed)) {
        shared_fetch_unreadable(fetch);
        return SHARED_FETCH_ALONE;
    }
    if (given_ms < 0 || begun_ms < given_ms) {
        /* The store's clock has jumped: the time of the fetch is unknown. */
        return SHARED_FETCH_ALONE;
    }
    *str_put(found->token, token) = '\0';
    if (!tls_unseal(fetch->seal, fetch->bound, sealed, arena, &found->text)) {
        shared_fetch_unreadable(fetch);
        return SHARED_FETCH_ALONE;
    }
    found->since_begun_ms = (uint64_t) begun_ms;
    found->since_given_ms = (uint64_t) given_ms;
    return SHARED_FETCH_THERE;
}

static enum shared_fetch_state read_state(struct shared_fetch *fetch, struct arena *arena,
                                          struct str reply, struct shared_found *found)
{
    int64_t count = resp_next_list(&reply);
    struct str state;

    if (count < 1 || !resp_next_string(&reply, &state)) {
        shared_fetch_unreadable(fetch);
        return SHARED_FETCH_GONE;
    }
    if (str_is(state, "mine")) {
        int64_t begun_ms;
        fetch->begun_ms =
            resp_next_integer(&reply, &begun_ms) && begun_ms > 0 ? (uint64_t) begun_ms : 0;
        fetch->is_mine = true;
        cache_count_shared(fetch->cache, CACHE_SHARED_FETCHED);
        return SHARED_FETCH_MINE;
    }
    bool varies = str_is(state, "varies");
    if (varies || str_is(state, "response")) {
        enum shared_fetch_state taken = take_response(fetch, arena, reply, found);
        return taken == SHARED_FETCH_THERE && varies ? SHARED_FETCH_VARIES : taken;
    }
    return str_is(state, "fetch") ? SHARED_FETCH_BUSY : SHARED_FETCH_ALONE;
}

enum shared_fetch_state shared_fetch_claim(struct shared_fetch *fetch, struct arena *arena,
                                           uint64_t lease_ms, struct shared_found *found)
{
    const struct store_call call = {.store = fetch->share->store, .arena = arena};
    uint64_t random;
    struct str reply;

    fetch->began_ms = clock_now.now_ms;
    random_bytes(&random, sizeof(random));
    struct str token = arena_printf(arena, "%016llx", (unsigned long long) random);
    *str_put(fetch->token, token) = '\0';
    const struct str args[] = {token, number_text(arena, lease_ms), str_of(found->token)};
    fiber_shield_begin(); /* if the client left now, a fetch without a node would remain */
    enum store_result result =
        store_run(&call, &claim_script, &(const struct store_words){&fetch->key, 1},
                  &(const struct store_words){args, 3}, &reply);
    fiber_shield_end();
    if (result == STORE_TIMED_OUT) {
        fetch->is_mine = true; /* possibly: the store compares the token later */
        fetch->begun_ms = UINT64_MAX;
        cache_count_shared(fetch->cache, CACHE_SHARED_FETCHED);
    }
    if (result != STORE_OK) {
        cache_count_shared(fetch->cache, CACHE_SHARED_GONE);
        return SHARED_FETCH_GONE;
    }
    enum shared_fetch_state state = read_state(fetch, arena, reply, found);
    found->since_begun_ms +=
        clock_now.now_ms - fetch->began_ms + 1; /* it is rounded, and took time to arrive */
    return state;
}

/* ---- uploads ---- */

/*
 * ARGV: token, state, response, its lifetime in milliseconds; for a variant of the requested key
 * also milliseconds since the fetch began, and the time when it began by the clock of the server
 * with the key: the earlier of both is used. Another node may have taken over in the meantime.
 */
static struct store_script give_script = {
    .text = STORE_NOW_MS "local had = redis.call('HGET', KEYS[1], 'token')\n"
                         "if had ~= ARGV[1] then\n"
                         "  if had or not ARGV[5] then return 0 end\n"
                         "  local begun = math.min(now - ARGV[5], ARGV[6])\n"
                         "  redis.call('HSET', KEYS[1], 'begun', string.format('%.0f', begun))\n"
                         "end\n"
                         "redis.call('HSET', KEYS[1], 'state', ARGV[2], 'text', ARGV[3],\n"
                         "  'token', ARGV[1], 'given', string.format('%.0f', now))\n"
                         "redis.call('PEXPIRE', KEYS[1], ARGV[4])\n"
                         "return 1"};

static void upload_end(struct upload *upload)
{
    uploads.count--;
    uploads.bytes -= upload->text.len;
    free((char *) upload->text.data);
    arena_free(&upload->arena);
    free(upload);
}

/* Sets the state of a key for all nodes. MAY WAIT. */
static bool give(struct upload *upload, struct str key, const char *state, struct str sealed)
{
    struct arena *arena = &upload->arena;
    const struct store_call call = {.store = upload->store,
                                    .arena = arena,
                                    .deadline_ms = clock_now.now_ms + SEND_MS};
    bool is_variant = upload->main_key.len != 0 && str_equal(key, upload->key);
    const struct str args[] = {upload->token,
                               str_of(state),
                               sealed,
                               number_text(arena, upload->ttl_ms),
                               number_text(arena,
                                           clock_now.now_ms + clock_age_ms() - upload->began_ms),
                               number_text(arena, upload->begun_ms)};
    struct str reply;

    return store_run(&call, &give_script, &(const struct store_words){&key, 1},
                     &(const struct store_words){args, is_variant ? 6 : 4}, &reply) == STORE_OK;
}

/* The fiber of an upload. MAY WAIT. */
static void upload_run(void *arg)
{
    struct upload *upload = arg;
    struct arena *arena = &upload->arena;

    fiber_shield_begin(); /* a reload does not interrupt it */
    if (upload->text.data == NULL) {
        give(upload, upload->key, "alone", STR_NONE);
    } else {
        bool is_given = give(upload, upload->key, "response",
                             tls_seal(upload->seal, upload->bound, upload->text, arena));
        if (is_given && upload->main_key.len != 0) {
            give(upload, upload->main_key, "varies",
                 tls_seal(upload->seal, upload->main_bound, upload->vary, arena));
        }
        cache_count_shared(upload->cache, is_given ? CACHE_SHARED_GIVEN : CACHE_SHARED_DROPPED);
    }
    fiber_shield_end();
    upload_end(upload);
}

static struct upload *upload_new(const struct shared_fetch *fetch, struct str text, uint64_t ttl_ms)
{
    struct upload *upload = calloc(1, sizeof(*upload));

    if (upload == NULL) {
        fatal_no_memory(sizeof(*upload));
    }
    arena_init(&upload->arena);
    upload->cache = fetch->cache;
    upload->store = fetch->share->store;
    upload->key = arena_dup(&upload->arena, fetch->key);
    upload->bound = arena_dup(&upload->arena, fetch->bound);
    upload->token = arena_dup(&upload->arena, str_of(fetch->token));
    upload->began_ms = fetch->began_ms;
    upload->begun_ms = fetch->begun_ms;
    upload->text = text;
    upload->ttl_ms = ttl_ms;
    memcpy(upload->seal, fetch->seal, sizeof(upload->seal));
    uploads.count++;
    uploads.bytes += text.len;
    return upload;
}

static void upload_send(struct upload *upload)
{
    if (fiber_start(upload_run, upload, NULL) == FIBER_NO_STACK) {
        cache_count_shared(upload->cache, CACHE_SHARED_DROPPED);
        upload_end(upload);
    }
}

/* Bytes of this worker's responses in the store. */
static uint64_t kept_bytes(void)
{
    uint64_t now = clock_now.now_ms / 1000;

    kept.second = kept.second + KEPT_SECONDS < now ? now - KEPT_SECONDS : kept.second;
    while (kept.second < now) {
        uint64_t *ending = &kept.ending[++kept.second % KEPT_SECONDS];

        kept.bytes -= *ending;
        *ending = 0;
    }
    return kept.bytes;
}

static void kept_add(uint64_t bytes, uint64_t ttl_ms)
{
    uint64_t seconds = ttl_ms / 1000 + 1;

    kept_bytes();
    seconds = seconds < KEPT_SECONDS ? seconds : KEPT_SECONDS - 1;
    kept.ending[(kept.second + seconds) % KEPT_SECONDS] += bytes;
    kept.bytes += bytes;
}

bool shared_fetch_has_room(const struct shared_fetch *fetch, uint64_t size)
{
    uint64_t most = store_reply_max(fetch->share->store) - REPLY_EXTRA;

    if (size > fetch->share->max_size || size > most) {
        return false;
    }
    if (uploads.count >= UPLOADS_MOST || uploads.bytes + size > UPLOAD_BYTES_MOST ||
        kept_bytes() + size > KEPT_BYTES_MOST) {
        cache_count_shared(fetch->cache, CACHE_SHARED_DROPPED);
        return false;
    }
    return true;
}

void shared_fetch_give(struct shared_fetch *fetch, const struct cache_access *access,
                       struct str text, struct str vary, uint64_t ttl_ms)
{
    struct shared_fetch variant;

    fetch->is_mine = false;
    kept_add(text.len, ttl_ms);
    if (vary.len == 0 || fetch->is_variant) {
        upload_send(upload_new(fetch, text, ttl_ms));
        return;
    }
    shared_fetch_open(&variant, fetch->share, access, access->meta.variant);
    memcpy(variant.token, fetch->token, sizeof(variant.token));
    variant.began_ms = fetch->began_ms;
    variant.begun_ms = fetch->begun_ms;
    struct upload *upload = upload_new(&variant, text, ttl_ms);
    upload->main_key = arena_dup(&upload->arena, fetch->key);
    upload->main_bound = arena_dup(&upload->arena, fetch->bound);
    upload->vary = arena_dup(&upload->arena, vary);
    upload_send(upload);
}

void shared_fetch_let_go(struct shared_fetch *fetch)
{
    if (!fetch->is_mine) {
        return;
    }
    fetch->is_mine = false;
    if (uploads.count >= UPLOADS_MOST) {
        cache_count_shared(fetch->cache,
                           CACHE_SHARED_DROPPED); /* other nodes wait for the end of the lease */
        return;
    }
    cache_count_shared(fetch->cache, CACHE_SHARED_WITHHELD);
    upload_send(upload_new(fetch, STR_NONE, ALONE_MS));
}

void shared_fetch_unreadable(const struct shared_fetch *fetch)
{
    static uint64_t logged_ms;

    cache_count_shared(fetch->cache, CACHE_SHARED_UNREADABLE);
    if (logged_ms == 0 || clock_now.now_ms - logged_ms > LOG_EVERY_MS) {
        logged_ms = clock_now.now_ms;
        log_error(log_main, 0,
                  "cache \"%.*s\": the store has something else than a response of a node with "
                  "this password; it is not used",
                  STR_ARG(fetch->cache->name));
    }
}
