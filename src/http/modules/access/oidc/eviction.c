/* Makes space in a store that is full, so that a login does not fail because of earlier ones. */
#include <stdlib.h>

#include "base/clock.h"
#include "http/modules/access/oidc/oidc.h"
/* A 16th of the sessions is removed at once, so that all of them are scanned rarely. */

#define SHARE 16
#define LINE_EVERY_MS 60000

struct old_pair {
    uint64_t expires_ms;
    struct str key;
};

struct old_pairs {
    struct arena arena;
    struct vec list; /* struct old_pair */
};

/* A zone may have pairs of other modules as well. */
static bool is_of_session(struct str key)
{
    return str_starts(key, STR("session:")) || str_starts(key, STR("sid:"));
}

static void see(const struct keyval_pair *pair, void *arg)
{
    struct old_pairs *pairs = arg;

    if (is_of_session(pair->key)) {
        *vec_add(&pairs->list, &pairs->arena, struct old_pair) =
            (struct old_pair){pair->expires_ms, arena_dup(&pairs->arena, pair->key)};
    }
}

/* All have the same lifetime: those that expire first are the oldest. */
static int compare(const void *left, const void *right)
{
    uint64_t a = ((const struct old_pair *) left)->expires_ms;
    uint64_t b = ((const struct old_pair *) right)->expires_ms;

    return (a > b) - (a < b);
}

static void report(struct oidc_provider *provider, unsigned count)
{
    provider->dropped += count;
    counters_mine->limited += count;
    if (provider->full_ms != 0 && clock_now.now_ms - provider->full_ms < LINE_EVERY_MS) {
        return;
    }
    log_warn(
        log_main, 0,
        "the store of the OpenID provider \"%.*s\" is full: its %u oldest sessions were removed; increase the size of \"session_store\"",
        STR_ARG(provider->name), provider->dropped);
    provider->full_ms = clock_now.now_ms;
    provider->dropped = 0;
}

bool oidc_store_make_room(struct oidc_provider *provider)
{
    struct keyval_store *store = provider->store->store;
    struct old_pairs pairs = {.list = {0}};
    unsigned count = 0;

    arena_init(&pairs.arena);
    for (uint32_t cursor = 0; keyval_visit(store, &cursor, see, &pairs);) {
    }
    if (pairs.list.count != 0) {
        qsort(pairs.list.items, pairs.list.count, sizeof(struct old_pair), compare);
    }
    for (size_t i = 0; i < (pairs.list.count + SHARE - 1) / SHARE; i++) {
        const struct keyval_change gone =
            {.pair = {.key = vec_at(&pairs.list, struct old_pair, i)->key}, .is_deleted = true};

        count += keyval_change(store, &(const struct vec){.items = (void *) &gone, .count = 1}) ==
                 KEYVAL_DONE;
    }
    if (pairs.list.count != 0) {
        report(provider, count);
    }
    bool has_made_room = pairs.list.count != 0;
    arena_free(&pairs.arena);
    return has_made_room;
}
