/* A request's access to one key: lookup, claim, wait, close. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/clock.h"
#include "cache/internal.h"

enum {
    POLL_FIRST_MS =
        10, /* first interval between checks of another worker's claim; doubled each time */
    POLL_LAST_MS = 50, /* the longest interval */
    WAITER_LISTS = 64,
    USES_MOST = UINT16_MAX,
};

void cache_variant(struct str text, uint8_t out[CACHE_KEY_SIZE])
{
    md5_of(text, out);
}

static bool is_main(const struct cache_access *access)
{
    static const uint8_t none[CACHE_KEY_SIZE];

    return memcmp(access->variant, none, sizeof(none)) == 0;
}

void cache_access_main_hash(const struct cache_access *access, uint8_t *out)
{
    if (access->has_main_hash) {
        memcpy(out, access->main_hash, CACHE_KEY_SIZE);
    } else if (is_main(access) && access->has_hash) {
        memcpy(out, access->hash, CACHE_KEY_SIZE);
    } else {
        md5_of(access->key, out);
    }
}

/* Keeps a content that was given to the request until the request ends, since its strings may be in
 * use. */
static void put_away(struct cache_access *access)
{
    if (access->content != NULL) {
        arena_on_free(access->arena, cache_content_release, access->content);
        access->content = NULL;
    }
}

void cache_access_take(struct cache_access *access, struct cache_content *content)
{
    put_away(access);
    access->content = content;
    access->meta = content->meta;
}

void cache_access_hash(struct cache_access *access)
{
    if (!access->has_hash) {
        md5_of(access->key, access->hash);
        access->has_hash = true;
    }
}

static enum cache_found freshness(const struct cache_access *access)
{
    return access->meta.valid_until >= clock_now.seconds ? CACHE_FRESH : CACHE_EXPIRED;
}

/* ---- lookup ---- */

/* What the index knows about a key. */
struct known {
    uint64_t version; /* of the stored response, or of its removal; 0 = unknown */
    uint64_t size;    /* 0 = nothing is stored */
    /* The index is not complete: there may be a file that it does not know. */
    bool is_cold;
    unsigned uses;          /* including this one; 0 = no memory in the index */
    unsigned failed_status; /* of a recent failure of all backends; 0 = none */
};

static struct cache_entry *find_or_add(struct cache_access *access, struct cache_index *index,
                                       struct cache_entry *hint, struct cache_evicted *evicted)
{
    struct cache_entry *entry = cache_index_again(index, hint, access->hash);

    evicted->has_file = false;
    if (entry == NULL) {
        uint8_t main_hash[CACHE_KEY_SIZE];

        cache_access_main_hash(access, main_hash);
        entry = cache_index_add(index, access->hash, cache_family(main_hash), !is_main(access),
                                evicted);
    }
    access->entry = entry;
    return entry;
}

/* Deletes the file of an evicted entry. Called without the lock. */
static void delete_evicted(const struct cache_access *access, const struct cache_evicted *evicted)
{
    if (evicted->has_file) {
        cache_file_delete(access->cache, evicted->hash, access->log);
    }
    if (access->entry == NULL) {
        log_alert(access->log, 0, "could not allocate node in cache keys zone \"%.*s\"",
                  STR_ARG(access->cache->name));
    }
}

/* The status of a failure that is still cached; 0 = none. */
static unsigned failure_of(const struct cache_entry *entry)
{
    if ((entry->flags & (ENTRY_FAILED | ENTRY_TIMED_OUT)) == 0 ||
        (time_t) entry->failed_until < clock_now.seconds) {
        return 0;
    }
    return (entry->flags & ENTRY_FAILED) != 0 ? 502 : 504;
}

/* Counts a use and makes the entry the most recently used. */
static struct known ask_index(struct cache_access *access, struct cache_entry *hint)
{
    struct cache_index *index = cache_index_of(access->cache);
    struct cache_evicted evicted;
    struct known known = {0};

    cache_index_take(index);
    struct cache_entry *entry = find_or_add(access, index, hint, &evicted);
    known.is_cold = index->is_cold;
    if (entry != NULL) {
        entry->uses += entry->uses < USES_MOST;
        cache_index_touch(index, entry, clock_now.seconds);
        known.uses = entry->uses;
        known.version = entry->version;
        known.size = entry->size;
        known.failed_status = failure_of(entry);
        access->seen_claim = entry->claim;
        access->is_updating = cache_entry_is_claimed(entry, clock_now.now_ms) &&
                              !(access->is_mine && entry->claim == access->claim);
    }
    cache_index_release(index);
    access->seen_version = known.version;
    delete_evicted(access, &evicted);
    return known;
}

/* The file does not exist, or may not be used: updates the index, unless the entry has changed. */
static void learn_absence(struct cache_access *access, const struct known *known)
{
    struct cache_index *index = cache_index_of(access->cache);

    cache_index_take(index);
    struct cache_entry *entry = cache_index_again(index, access->entry, access->hash);
    if (entry != NULL && entry->version == known->version && entry->size != 0) {
        cache_index_store(index, entry, cache_index_version(index), 0);
        access->seen_version = entry->version;
    }
    cache_index_release(index);
}

/* The file was read: updates the index by it. True: the content is what the index has now. */
static bool learn_presence(struct cache_access *access, const struct known *known,
                           const struct cache_content *content)
{
    struct cache_index *index = cache_index_of(access->cache);
    bool is_current = false;

    cache_index_take(index);
    struct cache_entry *entry = cache_index_again(index, access->entry, access->hash);
    if (entry != NULL && entry->version == known->version) {
        if (entry->version != content->version || entry->size == 0) {
            cache_index_store(index, entry, content->version,
                              cache_index_round(index, content->file_size));
        }
        entry->flags &= (uint16_t) ~ENTRY_RESTORED;
    }
    if (entry != NULL) {
        access->entry = entry;
        access->seen_version = entry->version;
        is_current = entry->version == content->version;
    }
    cache_index_release(index);
    return is_current;
}

static enum cache_found absent(const struct cache_access *access, const struct known *known)
{
    return known->uses < access->min_uses ? CACHE_SCARCE : CACHE_MISS;
}

/* Was the content purged since it was stored, by its key or by a prefix? */
static bool was_purged(struct cache_index *index, const struct cache_content *content)
{
    cache_index_take(index);
    bool was_purged = cache_index_was_purged(index, content->main_hash, content->version);
    cache_index_release(index);
    return was_purged || cache_index_is_purged(index, content->key, content->version);
}

static enum cache_found read_content(struct cache_access *access, const struct known *known)
{
    struct cache_index *index = cache_index_of(access->cache);
    uint64_t rules_version = atomic_load_explicit(&index->rules_version, memory_order_acquire);
    struct cache_content *content;

    switch (cache_content_read(access, &content)) {
    case CONTENT_READ:
        break;
    case CONTENT_FAILED:
        return CACHE_ERROR;
    case CONTENT_OTHER:
        return absent(access, known);
    case CONTENT_NONE:
    case CONTENT_BROKEN:
    default:
        learn_absence(access, known);
        return absent(access, known);
    }
    if (was_purged(index, content)) {
        cache_file_delete(access->cache, access->hash, access->log);
        learn_absence(access, known);
        cache_content_release(content);
        return absent(access, known);
    }
    if (learn_presence(access, known, content)) {
        content->entry = access->entry;
        content->rules_version = rules_version;
        cache_content_touched(content, clock_now.seconds);
        cache_kept_put(content);
    }
    cache_access_take(access, content);
    return freshness(access);
}

/* Is the content what the index has now, as far as can be seen without the lock? */
static bool is_current(struct cache_content *content, struct cache_index *index)
{
    if (atomic_load_explicit(&content->entry->version, memory_order_acquire) != content->version) {
        return false;
    }
    uint64_t rules_version = atomic_load_explicit(&index->rules_version, memory_order_acquire);
    if (content->rules_version != rules_version) {
        if (cache_index_is_purged(index, content->key, content->version)) {
            return false;
        }
        content->rules_version = rules_version;
    }
    return true;
}

static enum cache_found take_kept(struct cache_access *access, struct cache_content *content)
{
    cache_kept_use(content);
    cache_content_hold(content);
    cache_access_take(access, content);
    return freshness(access);
}

/* A hit on fresh content that was used within this second takes no lock and makes no system
 * call. */
static enum cache_found look_up(struct cache_access *access)
{
    struct cache_index *index = cache_index_of(access->cache);
    uint64_t kept_hash = cache_kept_hash(access->key, access->variant);
    struct cache_content *content =
        cache_kept_find(access->cache, kept_hash, access->key, access->variant);

    put_away(access);
    memset(&access->meta, 0, sizeof(access->meta));
    access->entry = NULL;
    access->is_updating = false;
    if (content != NULL) {
        memcpy(access->hash, content->hash, CACHE_KEY_SIZE);
        access->has_hash = true;
        if (!is_current(content, index)) {
            cache_kept_drop(content);
            content = NULL;
        } else if (content->touched == clock_now.seconds &&
                   content->looked_at == clock_now.seconds &&
                   content->epoch == atomic_load_explicit(&index->epoch, memory_order_relaxed) &&
                   content->meta.valid_until >= clock_now.seconds) {
            access->entry = content->entry;
            access->seen_version = content->version;
            return take_kept(access, content);
        }
    } else {
        cache_access_hash(access);
    }
    struct known known = ask_index(access, content == NULL ? NULL : content->entry);
    if (known.failed_status != 0) {
        access->failed_status = known.failed_status;
        return CACHE_FAILED;
    }
    if (content != NULL) {
        if (known.size != 0 && known.version == content->version &&
            cache_content_is_there(content)) {
            cache_content_touched(content, clock_now.seconds);
            return take_kept(access, content);
        }
        cache_kept_drop(content);
    }
    if (known.size != 0 || (known.is_cold && known.version == 0)) {
        return read_content(access, &known);
    }
    return absent(access, &known);
}

enum cache_found cache_open(struct cache_access *access)
{
    if (!is_main(access)) {
        cache_claim_end(access);
        memset(access->variant, 0, sizeof(access->variant));
        access->has_hash = false;
    }
    return look_up(access);
}

enum cache_found cache_open_variant(struct cache_access *access,
                                    const uint8_t variant[CACHE_KEY_SIZE])
{
    uint8_t main_hash[CACHE_KEY_SIZE];

    cache_access_main_hash(access, main_hash);
    cache_claim_end(access);
    memcpy(access->main_hash, main_hash, CACHE_KEY_SIZE);
    access->has_main_hash = true;
    memcpy(access->variant, variant, CACHE_KEY_SIZE);
    cache_variant_hash(main_hash, variant, access->hash);
    access->has_hash = true;
    return look_up(access);
}

/* ---- claims ---- */

bool cache_claim(struct cache_access *access, uint64_t lock_age_ms)
{
    struct cache_index *index = cache_index_of(access->cache);
    struct cache_evicted evicted;

    if (access->is_mine) {
        return true;
    }
    cache_access_hash(access);
    cache_index_take(index);
    struct cache_entry *entry = find_or_add(access, index, access->entry, &evicted);
    access->is_updating = entry != NULL && cache_entry_is_claimed(entry, clock_now.now_ms);
    access->is_mine = !access->is_updating;
    if (entry != NULL) {
        if (access->is_mine) {
            entry->claim = access->claim = ++index->claims * CACHE_ROUNDS + access->rounds;
            entry->claim_until_ms = clock_now.now_ms + lock_age_ms;
            entry->claim_pid = getpid();
        }
        access->seen_claim = entry->claim;
        access->seen_version = entry->version;
    }
    cache_index_release(index);
    delete_evicted(access, &evicted);
    return access->is_mine;
}

void cache_claim_end(struct cache_access *access)
{
    struct cache_index *index = cache_index_of(access->cache);

    if (!access->is_mine) {
        return;
    }
    access->is_mine = false;
    cache_index_take(index);
    struct cache_entry *entry = cache_index_again(index, access->entry, access->hash);
    if (entry != NULL && entry->claim == access->claim) {
        entry->claim = 0;
    }
    cache_index_release(index);
    access->claim = 0;
    cache_wake(access->cache, access->hash);
}

void cache_fail(struct cache_access *access, unsigned status, time_t until)
{
    struct cache_index *index = cache_index_of(access->cache);

    cache_index_take(index);
    struct cache_entry *entry = cache_index_again(index, access->entry, access->hash);
    /* If another worker took over the claim and stored a response, the failure must not hide it. */
    if (entry != NULL && entry->version == access->seen_version) {
        entry->flags &= (uint16_t) ~(ENTRY_FAILED | ENTRY_TIMED_OUT);
        entry->flags |= status == 504 ? ENTRY_TIMED_OUT : ENTRY_FAILED;
        entry->failed_until = until > (time_t) UINT32_MAX ? UINT32_MAX : (uint32_t) until;
    }
    cache_index_release(index);
}

/* ---- waiting for another request ---- */

/* A request of this worker that waits for another one; on its fiber's stack. */
struct waiter {
    struct list node; /* in order of arrival */
    struct cache_access *access;
    struct wait_point point;
};

static struct list waiters[WAITER_LISTS];

static struct list *waiters_of(const uint8_t *hash)
{
    struct list *list = &waiters[hash[0] % WAITER_LISTS];

    if (list->next == NULL) {
        list_init(list);
    }
    return list;
}

static bool waits_for(const struct waiter *waiter, const struct cache *cache, const uint8_t *hash)
{
    return cache_index_of(waiter->access->cache) == cache_index_of(cache) &&
           memcmp(waiter->access->hash, hash, CACHE_KEY_SIZE) == 0;
}

void cache_wake(const struct cache *cache, const uint8_t *hash)
{
    list_each(item, waiters_of(hash)) {
        struct waiter *waiter = container_of(item, struct waiter, node);

        if (waits_for(waiter, cache, hash)) {
            wait_signal_later(&waiter->point);
        }
    }
}

/* The first request of this worker that waits for this key; NULL = none. */
static struct waiter *first_waiter(const struct cache_access *access)
{
    list_each(item, waiters_of(access->hash)) {
        struct waiter *waiter = container_of(item, struct waiter, node);

        if (waits_for(waiter, access->cache, access->hash)) {
            return waiter;
        }
    }
    return NULL;
}

/* The current state of a claim. */
struct claim {
    bool has_changed; /* it has ended, or a response was stored */
    int32_t pid;      /* of the holder */
    uint64_t until_ms;
};

static struct claim look_at_claim(struct cache_access *access)
{
    struct cache_index *index = cache_index_of(access->cache);
    struct claim claim = {.has_changed = true};

    cache_index_take(index);
    const struct cache_entry *entry = cache_index_again(index, access->entry, access->hash);
    if (entry != NULL) {
        claim.has_changed = entry->claim != access->seen_claim ||
                            entry->version != access->seen_version ||
                            !cache_entry_is_claimed(entry, clock_now.now_ms);
        claim.pid = entry->claim_pid;
        claim.until_ms = entry->claim_until_ms;
    }
    cache_index_release(index);
    return claim;
}

/* Ends the claim of a process that has died. */
static void end_claim_of_dead(struct cache_access *access)
{
    struct cache_index *index = cache_index_of(access->cache);

    cache_index_take(index);
    struct cache_entry *entry = cache_index_again(index, access->entry, access->hash);
    if (entry != NULL && entry->claim == access->seen_claim) {
        entry->claim = 0;
    }
    cache_index_release(index);
}

/* Has what the waiter waits for happened? Otherwise *pause_ms is the time until the next check, if
 * no wakeup comes before. A claim of this worker is checked when it expires; a claim of another
 * worker is polled by the first waiter only. */
static bool has_changed(const struct waiter *waiter, uint64_t poll_ms, uint64_t *pause_ms)
{
    struct claim claim = look_at_claim(waiter->access);

    *pause_ms = UINT64_MAX;
    if (claim.has_changed) {
        return true;
    }
    if (claim.pid == getpid()) {
        *pause_ms = claim.until_ms - clock_now.now_ms;
        return false;
    }
    if (first_waiter(waiter->access) != waiter) {
        return false;
    }
    *pause_ms = poll_ms;
    if (kill(claim.pid, 0) == 0 || errno != ESRCH) {
        return false;
    }
    end_claim_of_dead(waiter->access);
    return true;
}

static enum cache_lock_result wait_for_change(struct waiter *waiter, uint64_t timeout_ms)
{
    const struct cache_access *access = waiter->access;
    uint64_t start_ms = clock_now.now_ms;
    uint64_t poll_ms = POLL_FIRST_MS;
    uint64_t pause_ms;
    enum wait_result result = WAIT_READY;

    while (!has_changed(waiter, poll_ms, &pause_ms)) {
        uint64_t passed_ms = clock_now.now_ms - start_ms;
        if (passed_ms >= timeout_ms) {
            return CACHE_LOCK_TIMED_OUT;
        }
        uint64_t left_ms = timeout_ms - passed_ms;
        result = fiber_wait(&waiter->point,
                            clock_now.now_ms + (left_ms < pause_ms ? left_ms : pause_ms));
        if (result == WAIT_CANCELLED) {
            return CACHE_LOCK_CANCELLED;
        }
        poll_ms = poll_ms * 2 > POLL_LAST_MS ? POLL_LAST_MS : poll_ms * 2;
    }
    if (result == WAIT_TIMED_OUT) {
        cache_wake(access->cache, access->hash); /* the other waiters did not check */
    }
    return CACHE_LOCK_READY;
}

enum cache_lock_result cache_wait(struct cache_access *access, uint64_t timeout_ms)
{
    struct waiter waiter = {.access = access};

    if (access->seen_claim % CACHE_ROUNDS < access->rounds) {
        return CACHE_LOCK_TIMED_OUT;
    }
    list_push_back(waiters_of(access->hash), &waiter.node);
    enum cache_lock_result result = wait_for_change(&waiter, timeout_ms);
    bool was_first = first_waiter(access) == &waiter;
    list_remove(&waiter.node);
    if (was_first && result != CACHE_LOCK_READY) {
        struct waiter *next = first_waiter(access);
        if (next != NULL) {
            wait_signal_later(&next->point); /* which polls from now on */
        }
    }
    return result;
}

/* ---- close ---- */

void cache_unclaim(struct cache_access *access)
{
    cache_fill_abort(access);
    cache_claim_end(access);
}

void cache_close(struct cache_access *access)
{
    if (access->cache == NULL) {
        return;
    }
    cache_unclaim(access);
    cache_content_release(access->content);
    access->content = NULL;
    access->entry = NULL;
}
