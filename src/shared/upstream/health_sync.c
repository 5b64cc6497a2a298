/* Health checks that nodes share. docs/scaling-out.md describes the items. */
#include "shared/upstream/health_sync.h"

#include "base/clock.h"
#include "base/parse.h"
#include "server/generation.h"
#include "store/table.h"

enum {
    MEMORY = 256 * 1024, /* for the names of results that the store does not have */
    INTERVAL_MS = 100,
};

/* The checks with `sync` in the groups of a protocol. */
struct health_sync {
    const struct upstream_set *set;
    struct store_table *table;
    const struct store *store;
};

static struct health_sync *health_sync_of(struct conf *conf, const struct upstream_set *set)
{
    struct health_sync *syncs = conf_state(conf, "health sync", 2 * sizeof(struct health_sync));

    return &syncs[set->subsystem == &upstream_stream];
}

static struct health_sync *sync_of_subject(const struct health_subject *subject)
{
    const struct upstream_set *set = subject->group->set;

    return health_sync_of(&set->generation->conf, set);
}

/* ---- names of items: "CHECK PEER GROUP" ---- */

static struct str subject_text(const struct health_subject *subject, struct arena *arena)
{
    return arena_printf(arena, "%u %.*s %.*s", subject->index, STR_ARG(subject->peer->name),
                        STR_ARG(subject->group->name));
}

/* The search of health_each_peer. */
struct subject_search {
    uint64_t index;  /* of the check */
    struct str name; /* "PEER GROUP" */
    void (*found)(const struct health_subject *subject, void *arg);
    void *arg;
};

static void compare_subject(const struct upstream_group *group, const struct peer *peer, void *arg)
{
    const struct subject_search *search = arg;
    struct health_subject subject = {group, group->health, 0, peer};
    struct str rest = search->name;

    if (!str_starts(rest, peer->name)) {
        return;
    }
    rest = str_skip(rest, peer->name.len);
    if (rest.len == 0 || rest.data[0] != ' ' || !str_equal(str_skip(rest, 1), group->name)) {
        return;
    }
    while (subject.settings != NULL && subject.index < search->index) {
        subject.settings = subject.settings->next;
        subject.index++;
    }
    if (subject.settings != NULL && subject.settings->sharing != NULL) {
        search->found(&subject, search->arg);
    }
}

/* An address that a group has several times is several peers with the same name. */
static void each_subject(const struct health_sync *sync, struct str name,
                         void (*found)(const struct health_subject *subject, void *arg), void *arg)
{
    struct subject_search search = {.found = found, .arg = arg};
    struct str index = str_cut(&name, ' ');

    search.name = name;
    if (name.data != NULL && parse_uint(index, &search.index)) {
        health_each_peer(sync->set, compare_subject, &search);
    }
}

/* ---- the table ---- */

/* The time after which others consider this node dead, if it does not send the next result. */
static uint64_t wait_most_ms(const struct health_settings *settings)
{
    return settings->interval_ms + settings->jitter_ms + health_lost_after_ms(settings);
}

/* The result for a peer: "NODE 1", or 0 if it is unhealthy. */
struct given_state {
    bool is_there;
    bool is_healthy;
    uint64_t ttl_ms;
};

static void give_state(const struct health_subject *subject, void *arg)
{
    struct given_state *given = arg;

    given->is_there = true;
    given->is_healthy =
        (atomic_load(&subject->peer->cell->is_unhealthy) & 1u << subject->index) == 0;
    given->ttl_ms = wait_most_ms(subject->settings);
}

static bool health_item_get(void *owner, struct str name, struct arena *arena,
                            struct store_item *item)
{
    const struct health_sync *sync = owner;
    struct given_state given = {0};

    each_subject(sync, name, give_state, &given);
    item->value =
        arena_printf(arena, "%016llx %d", (unsigned long long) store_table_node(sync->table),
                     given.is_healthy);
    item->ttl_ms = given.ttl_ms;
    return given.is_there;
}

static void learn_state(const struct health_subject *subject, void *arg)
{
    const struct given_state *given = arg;
    uint64_t most_ms = wait_most_ms(subject->settings);

    health_learn(subject, given->is_healthy, given->ttl_ms < most_ms ? given->ttl_ms : most_ms);
}

static bool health_item_put(void *owner, const struct store_item *item)
{
    const struct health_sync *sync = owner;
    struct given_state given = {.ttl_ms = item->ttl_ms};
    struct str state = item->value, node = str_cut(&state, ' ');
    uint64_t number;

    given.is_healthy = str_is(state, "1");
    if (parse_hex(node, &number) && number != store_table_node(sync->table) &&
        (given.is_healthy || str_is(state, "0"))) {
        each_subject(sync, item->name, learn_state, &given);
    }
    return true;
}

/* No node has sent the next result: this node checks when its own time has come. */
static void health_item_drop(void *owner, struct str name)
{
}

/* If the store has lost the results, it gets the next ones. */
static bool health_item_list(void *owner, uint32_t *cursor, struct arena *arena, struct vec *names)
{
    return false;
}

/* If there are no results of other nodes: the next check is due after one interval. */
static void wait_less(const struct upstream_group *group, const struct peer *peer, void *arg)
{
    unsigned index = 0;

    for (const struct health_settings *settings = group->health; settings != NULL;
         settings = settings->next, index++) {
        _Atomic uint64_t *next_ms = &peer->cell->checks[index].next_ms;
        uint64_t planned_ms = atomic_load(next_ms);
        uint64_t most_ms = clock_now.now_ms + settings->interval_ms + settings->jitter_ms;

        if (settings->sharing != NULL && planned_ms > most_ms) {
            atomic_compare_exchange_strong(next_ms, &planned_ms, most_ms);
        }
    }
}

static void health_exchanged(void *owner, struct store_table *table, bool is_read)
{
    if (!is_read) {
        health_each_peer(((const struct health_sync *) owner)->set, wait_less, NULL);
    }
}

static const struct store_table_kind health_table = {.purpose = "health_checks",
                                                     .get = health_item_get,
                                                     .put = health_item_put,
                                                     .drop = health_item_drop,
                                                     .list = health_item_list,
                                                     .exchanged = health_exchanged,
                                                     .starts_again = true};

/* ---- probes ---- */

/* MAY WAIT. */
static enum health_turn shared_turn(const struct health_subject *subject, uint64_t *leads_until_ms)
{
    struct arena arena;

    *leads_until_ms = clock_now.now_ms + wait_most_ms(subject->settings);
    arena_init(&arena);
    enum store_result result =
        store_table_lease(sync_of_subject(subject)->table, subject_text(subject, &arena),
                          wait_most_ms(subject->settings));
    arena_free(&arena);
    return result == STORE_OK       ? HEALTH_TURN_OURS
           : result == STORE_ABSENT ? HEALTH_TURN_OTHERS
                                    : HEALTH_TURN_UNKNOWN;
}

static void shared_probed(const struct health_subject *subject)
{
    struct arena arena;

    arena_init(&arena);
    store_table_note(sync_of_subject(subject)->table, subject_text(subject, &arena));
    arena_free(&arena);
}

static const struct health_sharing health_shared = {.turn = shared_turn, .probed = shared_probed};

/* ---- the configuration ---- */

bool health_sync_add(struct conf *conf, struct conf_node *node,
                     const struct store_sync_words *words, struct upstream_group *group,
                     struct health_settings *settings)
{
    struct health_sync *sync = health_sync_of(conf, group->set);
    const struct store *store =
        words->is_wanted ? store_named(conf, node, words->store) : sync->store;

    if (!words->is_wanted || store == NULL) {
        return !words->is_wanted;
    }
    if (sync->table == NULL) {
        const struct store_table_wanted wanted = {.kind = &health_table,
                                                  .owner = sync,
                                                  .name = arena_printf(conf->arena, "_%s_health",
                                                                       group->set->subsystem->name),
                                                  .size = MEMORY,
                                                  .words = words,
                                                  .interval_ms = INTERVAL_MS};
        sync->set = group->set;
        sync->store = store;
        sync->table = store_table_new(conf, node, &wanted);
    }
    if (sync->table != NULL && sync->store != store) {
        return conf_error(conf, node, "\"sync\" of health checks names two stores");
    }
    settings->sharing = &health_shared;
    return sync->table != NULL;
}
