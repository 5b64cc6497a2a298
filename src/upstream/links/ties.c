/* Links of one client alone, because it may have logged in by them: who has them, and where they rest. */
#include "upstream/ties.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "server/generation.h"
#include "upstream/links/links.h"

#define LINKS_MAX 8     /* of one client's connection; those beyond serve one request */
#define RESTING_SHARE 4 /* of all connections of a worker one in so many may rest here */
#define TOLD_EVERY_MS 60000

struct link_tie {
    struct list links; /* struct upstream_link by in_tie: the one used last is first */
    unsigned count;
};

/* Those that rest, of all ties of this worker; by in_pool, the one that came last is first. */
static struct list resting = {&resting, &resting};
static unsigned resting_count;
static uint64_t told_ms; /* when the log was told last that there are too many */

/* ---- who has which ---- */

static void unbind(struct upstream_link *link)
{
    link->tie->count--;
    list_remove(&link->in_tie);
    link->tie = NULL;
}

void link_bind(struct upstream_link *link, struct link_tie **at)
{
    if (link->tie != NULL || link->is_doomed) {
        return;
    }
    if (*at == NULL) {
        *at = calloc(1, sizeof(**at));
        if (*at == NULL) {
            fatal_no_memory(sizeof(**at));
        }
        list_init(&(*at)->links);
    }
    struct link_tie *tie = *at;
    if (link->users > 1 || tie->count == LINKS_MAX) {
        link->is_doomed = true;
        return;
    }
    link->tie = tie;
    tie->count++;
    list_push_front(&tie->links, &link->in_tie);
}

void tie_forget(struct upstream_link *link)
{
    if (link->tie != NULL) {
        unbind(link);
    }
}

void tie_end(struct link_tie *tie)
{
    if (tie == NULL) {
        return;
    }
    list_each(item, &tie->links) {
        struct upstream_link *link = container_of(item, struct upstream_link, in_tie);

        unbind(link);
        if (link->users != 0) {
            link->is_doomed = true;
        } else {
            tie_rest_ends(link);
            link_destroy(link);
        }
    }
    free(tie);
}

/* ---- rest ---- */

static struct upstream_link *longest_resting(void)
{
    return list_is_empty(&resting) ? NULL
                                   : container_of(resting.prev, struct upstream_link, in_pool);
}

void tie_rest_ends(struct upstream_link *link)
{
    list_remove(&link->in_pool);
    timer_clear(&link->conn->timer);
    conn_backend_is_busy(link->conn, true);
    resting_count--;
}

bool tie_close_one(void)
{
    struct upstream_link *link = longest_resting();

    if (link != NULL) {
        idle_close(link);
    }
    return link != NULL;
}

/* Clients decide how many there are; what they leave to others has a bound. */
static void keep_in_bounds(void)
{
    if (resting_count < conn_pool.limit / RESTING_SHARE) {
        return;
    }
    counters_mine->limited++;
    if (told_ms == 0 || clock_now.now_ms - told_ms >= TOLD_EVERY_MS) {
        told_ms = clock_now.now_ms;
        log_warn(log_main, 0,
                 "%u upstream connections rest that clients have logged in by, closing the oldest",
                 resting_count);
    }
    tie_close_one();
}

bool tie_keep(struct upstream_link *link)
{
    if (!link_may_rest(link)) {
        return false;
    }
    keep_in_bounds();
    if (!link_lay_down(link)) {
        return false;
    }
    list_push_front(&resting, &link->in_pool);
    resting_count++;
    return true;
}

struct upstream_link *tie_take(struct link_tie *tie, const struct peer_local *local,
                               const struct link_kind *kind)
{
    list_each(item, &tie->links) {
        struct upstream_link *link = container_of(item, struct upstream_link, in_tie);

        if (link->users != 0 || link->local != local || !link_kind_is(&link->kind, kind)) {
            continue;
        }
        if (!link_is_sound(link)) {
            idle_close(link);
            continue;
        }
        tie_rest_ends(link);
        list_remove(&link->in_tie);
        list_push_front(&tie->links, &link->in_tie);
        link->conn->owner = link->owner;
        return link;
    }
    return NULL;
}

void ties_close(const struct group_state *state, const struct peer_local *local)
{
    list_each(item, &resting) {
        struct upstream_link *link = container_of(item, struct upstream_link, in_pool);

        if (link->group->worker_state == state && (local == NULL || link->local == local)) {
            idle_close(link);
        }
    }
}

/* ---- the peer that has them ---- */

static struct peer *find_peer(const struct peer_set *set, const struct peer_local *local)
{
    for (unsigned i = 0; i < set->count; i++) {
        if (set->peers[i].local == local) {
            return &set->peers[i];
        }
    }
    return NULL;
}

struct peer *tie_peer(const struct link_tie *tie, const struct upstream_pick *pick)
{
    list_each(item, &tie->links) {
        const struct upstream_link *link = container_of(item, struct upstream_link, in_tie);
        struct peer *peer;

        if (link->group != pick->group) {
            continue;
        }
        peer = find_peer(&pick->list->primary, link->local);
        return peer != NULL ? peer : find_peer(&pick->list->backup, link->local);
    }
    return NULL;
}
