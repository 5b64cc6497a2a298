/* The manager of a cache: a fiber in the worker that has the lease in the zone. It loads the index,
 * removes entries that are inactive or exceed limits, applies purges, and saves the index. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "cache/internal.h"
#include "server/generation.h"

enum {
    LEASE_MS = 10000,      /* renewed in each turn; when it expires, another worker takes over */
    LEASE_GRACE_MS = 3000, /* for slot 0, which is preferred */
    RETRY_FIRST_SLOT_MS = 100,
    RETRY_MS = 3000,
    TURN_MS = 1000, /* longest pause of the manager */
    SAVE_EVERY_MS = 60000,
    SAVE_SHARE = 100, /* saving takes at most one part in so many of the time */
    CLAIMED_SKIPPED_MOST = 32,
    FULL_SHARE = 64,    /* one part in so many of the entries is kept free */
    END_MOST_MS = 3000, /* time for a thread to finish when the worker ends */
    END_TURN_MS = 5,
    RESTORE_INLINE_MOST =
        8 << 20, /* bytes of an index file that is read before any request is served */
};

/* ---- the lease ---- */

/* Is the process of the holder alive? */
static bool is_alive(uint64_t holder)
{
    pid_t pid = (pid_t) (holder >> 32);

    return pid > 0 && (kill(pid, 0) == 0 || errno != ESRCH);
}

static bool renew_lease(const struct cache_manager *manager)
{
    struct cache_index *index = cache_index_of(manager->cache);
    uint64_t now_ms = cache_now_ms();
    uint64_t grace_ms = worker_slot == 0 ? 0 : LEASE_GRACE_MS;
    uint64_t holder = atomic_load_explicit(&index->manager, memory_order_relaxed);
    bool is_orphaned = holder != manager->id && holder != 0 && !is_alive(holder);

    cache_index_take(index);
    bool is_mine = index->manager == manager->id || (is_orphaned && index->manager == holder) ||
                   index->manager_until_ms + grace_ms <= now_ms;
    if (is_mine) {
        atomic_store_explicit(&index->manager, manager->id, memory_order_relaxed);
        index->manager_until_ms = now_ms + LEASE_MS;
    }
    cache_index_release(index);
    return is_mine;
}

static void manager_give_up(const struct cache_manager *manager)
{
    struct cache_index *index = cache_index_of(manager->cache);

    cache_index_take(index);
    if (index->manager == manager->id) {
        atomic_store_explicit(&index->manager, 0, memory_order_relaxed);
        index->manager_until_ms = cache_now_ms();
    }
    cache_index_release(index);
}

/* ---- removing ---- */

static bool lacks_room(const struct cache *cache)
{
    struct statvfs info;

    if (cache->min_free == 0 || statvfs(cache->path->name.data, &info) != 0) {
        return false;
    }
    return (uint64_t) info.f_bavail * info.f_frsize < (uint64_t) cache->min_free;
}

static bool manager_is_over(const struct cache *cache, const struct cache_index *index)
{
    return (cache->max_size != INT64_MAX && index->size > (uint64_t) cache->max_size) ||
           (index->capacity != UINT32_MAX &&
            index->count > index->capacity - index->capacity / FULL_SHARE);
}

/* The next entry to remove, or NULL. With the lock held. */
static struct cache_entry *victim(const struct cache *cache, struct cache_index *index,
                                  bool has_no_room, uint64_t now_s, uint64_t now_ms)
{
    uint32_t number = index->oldest;
    struct cache_entry *entry = NULL;

    for (int i = 0; number != 0 && i < CLAIMED_SKIPPED_MOST; i++) {
        entry = cache_index_at(index, number);
        if (!cache_entry_is_claimed(entry, now_ms)) {
            break;
        }
        number = entry->newer;
        entry = NULL;
    }
    if (entry == NULL) {
        return NULL;
    }
    bool is_inactive = entry->used_at + cache->inactive_ms / 1000 <= now_s;
    return is_inactive || manager_is_over(cache, index) || (has_no_room && entry->size != 0) ? entry
                                                                                             : NULL;
}

/* Removes the next entry from the index. False: there is none. */
static bool take_victim(const struct cache *cache, bool has_no_room, struct cache_evicted *out)
{
    struct cache_index *index = cache_index_of(cache);

    cache_index_take(index);
    struct cache_entry *entry =
        victim(cache, index, has_no_room, (uint64_t) cache_now_seconds(), cache_now_ms());
    if (entry != NULL) {
        out->has_file = entry->size != 0;
        memcpy(out->hash, entry->hash, CACHE_KEY_SIZE);
        cache_index_drop(index, entry);
    }
    cache_index_release(index);
    return entry != NULL;
}

/* Runs on a thread. Removes at least one entry, and more as the limits allow. */
static void remove_some(void *arg)
{
    struct cache_manager *manager = arg;
    const struct cache *cache = manager->cache;
    uint64_t until_ms = cache_now_ms() + cache->manager_threshold_ms;
    bool has_no_room = lacks_room(cache);
    struct cache_evicted removed;
    unsigned files = 0;

    do {
        manager->has_more = take_victim(cache, has_no_room, &removed);
        if (manager->has_more && removed.has_file) {
            cache_file_delete(cache, removed.hash, log_main);
            has_no_room = has_no_room && lacks_room(cache);
        }
        files++;
    } while (manager->has_more && files < cache->manager_files && cache_now_ms() < until_ms);
}

/* ---- the index file ---- */

static void restore(void *arg)
{
    struct cache_manager *manager = arg;
    struct cache *cache = manager->cache;
    struct cache_index *index = cache_index_of(cache);

    cache_rules_read(cache);
    int64_t count = cache_snapshot_read(cache);
    if (count >= 0) {
        log_info(log_main, 0, "cache \"%.*s\": %lld entries from the index file",
                 STR_ARG(cache->name), (long long) count);
    }
    cache_index_take(index);
    atomic_store_explicit(&index->was_restored, true, memory_order_relaxed);
    manager->saved_changes = index->changes;
    cache_index_release(index);
}

static void save(void *arg)
{
    struct cache_manager *manager = arg;
    uint64_t changes =
        atomic_load_explicit(&cache_index_of(manager->cache)->changes, memory_order_relaxed);
    uint64_t start_ms = cache_now_ms();

    if (changes == manager->saved_changes) {
        return;
    }
    if (cache_snapshot_write(manager->cache)) {
        manager->saved_changes = changes;
    } else {
        log_error(log_main, errno, "cannot write the index file of cache \"%.*s\"",
                  STR_ARG(manager->cache->name));
    }
    uint64_t end_ms = cache_now_ms();
    uint64_t pause_ms = (end_ms - start_ms) * SAVE_SHARE;
    manager->save_at_ms = end_ms + (pause_ms > SAVE_EVERY_MS ? pause_ms : SAVE_EVERY_MS);
}

/* ---- the fiber ---- */

static void sooner(uint64_t *pause_ms, uint64_t wanted_ms)
{
    if (wanted_ms < *pause_ms) {
        *pause_ms = wanted_ms;
    }
}

static void load_index(struct cache_manager *manager, uint64_t *pause_ms)
{
    if (manager->loader == NULL) {
        return;
    }
    if (cache_loader_step(manager->loader)) {
        sooner(pause_ms, manager->cache->loader_sleep_ms);
        return;
    }
    cache_loader_free(manager->loader);
    manager->loader = NULL;
}

static void purge(struct cache_manager *manager, uint64_t *pause_ms)
{
    struct cache *cache = manager->cache;
    uint64_t found = 0;

    if (manager->purger == NULL) {
        if (!cache_rules_pending(cache)) {
            return;
        }
        manager->purger = cache_purger_new(cache);
    }
    bool goes_on = cache->purger ? cache_purger_step(manager->purger, cache->purger_files,
                                                     cache->purger_threshold_ms, &found)
                                 : cache_purger_step(manager->purger, cache->manager_files,
                                                     cache->manager_threshold_ms, &found);
    if (goes_on) {
        sooner(pause_ms, cache->purger ? cache->purger_sleep_ms : cache->manager_sleep_ms);
        return;
    }
    cache_purger_free(manager->purger);
    manager->purger = NULL;
}

/* Is there anything to remove? Checked here to avoid a needless call of a thread. */
static bool must_remove(const struct cache_manager *manager)
{
    struct cache *cache = manager->cache;
    struct cache_index *index = cache_index_of(cache);

    if (cache->min_free != 0) {
        return true;
    }
    cache_index_take(index);
    bool must = victim(cache, index, false, (uint64_t) clock_now.seconds, clock_now.now_ms) != NULL;
    cache_index_release(index);
    return must;
}

static bool is_restored(const struct cache_manager *manager)
{
    return atomic_load_explicit(&cache_index_of(manager->cache)->was_restored,
                                memory_order_relaxed);
}

static void manager_turn(struct cache_manager *manager, uint64_t *pause_ms)
{
    load_index(manager, pause_ms);
    if (manager->must_end) {
        return;
    }
    if (must_remove(manager)) {
        cache_work(remove_some, manager);
        if (manager->has_more) {
            sooner(pause_ms, manager->cache->manager_sleep_ms);
        }
    }
    if (!manager->must_end) {
        purge(manager, pause_ms);
    }
    if (!manager->must_end && clock_now.now_ms >= manager->save_at_ms) {
        cache_work(save, manager);
    }
}

static void manage_cache(void *arg)
{
    struct cache_manager *manager = arg;
    struct cache_index *index = cache_index_of(manager->cache);

    manager->fiber = fiber_self();
    manager->save_at_ms = clock_now.now_ms + SAVE_EVERY_MS;
    if (!is_restored(manager)) {
        cache_work(restore, manager);
    }
    if (atomic_load_explicit(&index->is_cold, memory_order_relaxed)) {
        manager->loader = cache_loader_new(manager->cache);
    }
    while (!manager->must_end && renew_lease(manager)) {
        uint64_t pause_ms = TURN_MS;

        manager_turn(manager, &pause_ms);
        if (!manager->must_end &&
            fiber_sleep(clock_now.now_ms + (pause_ms == 0 ? 1 : pause_ms)) == WAIT_CANCELLED) {
            break;
        }
    }
    cache_loader_free(manager->loader);
    cache_purger_free(manager->purger);
    manager->loader = NULL;
    manager->purger = NULL;
    manager_give_up(manager);
    manager->fiber = NULL;
    manager->is_running = false;
    if (!manager->must_end) {
        timer_set(&manager->retry, clock_now.now_ms + RETRY_MS);
    }
}

/* ---- life ---- */

static void try_lease(struct timer *timer)
{
    struct cache_manager *manager = container_of(timer, struct cache_manager, retry);

    if (manager->must_end || manager->is_running) {
        return;
    }
    if (renew_lease(manager)) {
        manager->is_running = true;
        manager->was_manager = true;
        if (fiber_start(manage_cache, manager, NULL) != FIBER_NO_STACK) {
            return;
        }
        manager->is_running = false;
        manager_give_up(manager);
    }
    timer_set(timer, clock_now.now_ms + (worker_slot == 0 ? RETRY_FIRST_SLOT_MS : RETRY_MS));
}

bool cache_manager_start(struct cache *cache)
{
    static uint32_t number;
    struct cache_manager *manager = calloc(1, sizeof(*manager));

    if (manager == NULL) {
        fatal_no_memory(sizeof(*manager));
    }
    manager->cache = cache;
    manager->id = (uint64_t) getpid() << 32 | ++number;
    timer_init(&manager->retry, try_lease);
    cache->worker_state = manager;
    if (worker_slot != 0) {
        timer_set(&manager->retry, clock_now.now_ms + LEASE_GRACE_MS + RETRY_MS);
        return true;
    }
    /* So that the index is loaded before the first request. */
    if (!is_restored(manager) && cache_snapshot_size(cache) <= RESTORE_INLINE_MOST &&
        renew_lease(manager)) {
        restore(manager);
    }
    timer_set(&manager->retry, clock_now.now_ms);
    return true;
}

void cache_manager_quit(struct cache *cache)
{
    struct cache_manager *manager = cache->worker_state;

    if (manager == NULL || manager->must_end) {
        return;
    }
    manager->must_end = true;
    timer_remove(&manager->retry);
    if (manager->fiber != NULL) {
        fiber_cancel(manager->fiber);
    }
}

void cache_manager_end(struct cache *cache)
{
    struct cache_manager *manager = cache->worker_state;

    if (manager == NULL) {
        return;
    }
    cache_manager_quit(cache);
    /* The generation is about to be freed, and the fiber and its thread use it. */
    for (uint64_t until_ms = cache_now_ms() + END_MOST_MS;
         manager->is_running && cache_now_ms() < until_ms;) {
        loop_turn(END_TURN_MS);
    }
    if ((manager->was_manager || worker_slot == 0) && !worker_is_replaced && is_restored(manager)) {
        save(manager);
    }
    cache->worker_state = NULL;
    if (!manager->is_running) {
        free(manager);
    }
}

/* ---- work on threads, and clocks for threads ---- */

void cache_work(void (*run)(void *arg), void *arg)
{
    struct thread_pool *pool = fiber_self() == NULL ? NULL : worker_thread_pool(STR("default"));

    if (pool == NULL) {
        run(arg);
        return;
    }
    fiber_shield_begin();
    if (thread_pool_call(pool, run, arg) != THREAD_CALL_DONE) {
        run(arg);
    }
    fiber_shield_end();
}

uint64_t cache_now_ms(void)
{
    return clock_read_ns() / 1000000;
}

time_t cache_now_seconds(void)
{
    return time(NULL);
}
