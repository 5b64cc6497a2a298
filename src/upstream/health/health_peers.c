/* Active health checks: updates the peers to probe when names resolve to other addresses. */
#include <stdlib.h>

#include "base/clock.h"
#include "upstream/health/private.h"
#include "upstream/servers.h"

static struct prober *find_prober(const struct checked_group *checked, unsigned hint,
                                  const struct peer_cell *cell, unsigned index)
{
    for (unsigned n = 0; n < checked->count; n++) {
        struct prober *prober =
            checked->probers[(hint + n) % checked->count]; /* most stay in the same position */
        if (prober->cell == cell && prober->index == index) {
            return prober;
        }
    }
    return NULL;
}

/* Appends the probers of a peer from *count on: existing ones, or new ones. */
static bool list_peer(struct checked_group *checked, struct peer *peer, struct prober **probers,
                      unsigned *count)
{
    const struct health_settings *settings = checked->group->health;

    if (peer->server->is_down) {
        return true;
    }
    for (unsigned index = 0; settings != NULL; settings = settings->next, index++) {
        struct prober *prober = find_prober(checked, *count, peer->cell, index);

        if (prober != NULL && prober->is_found) {
            continue;
        }
        if (prober == NULL) {
            prober = calloc(1, sizeof(*prober));
            if (prober == NULL) {
                return false;
            }
            prober->checked = checked;
            prober->cell = peer->cell;
            prober->index = index;
            prober->settings = settings;
        }
        prober->peer = peer;
        prober->is_found = true;
        probers[(*count)++] = prober;
        health_begin_peer(settings, index, peer, clock_now.now_ms + settings->first_delay_ms);
    }
    return true;
}

/* Does the earlier prober probe the same address in the same way? */
static bool may_lead(const struct prober *leader, const struct prober *follower)
{
    const struct health_settings *a = leader->settings;
    const struct health_settings *b = follower->settings;

    return a->is_unique && leader->leader == NULL && a->port == b->port &&
           a->is_datagram == b->is_datagram && a->speak == b->speak &&
           str_equal(a->type, b->type) && addr_equal(&leader->peer->addr, &follower->peer->addr);
}

/* Is it the same address of the same name? Each occurrence is a peer, but one probe is enough for
 * all. */
static bool is_twin(const struct prober *leader, const struct prober *follower)
{
    return leader->leader == NULL && leader->settings == follower->settings &&
           leader->peer->server == follower->peer->server &&
           addr_equal(&leader->peer->addr, &follower->peer->addr) &&
           str_equal(leader->peer->target, follower->peer->target);
}

/* Finds an earlier prober of the same address in the same group. */
static const struct prober *find_twin(const struct checked_group *checked, unsigned position)
{
    for (unsigned i = 0; i < position; i++) {
        if (is_twin(checked->probers[i], checked->probers[position])) {
            return checked->probers[i];
        }
    }
    return NULL;
}

static const struct prober *find_leader(const struct health_worker *worker,
                                        const struct prober *follower)
{
    for (const struct checked_group *checked = worker->groups; checked != follower->checked;
         checked++) {
        for (unsigned i = 0; i < checked->count; i++) {
            if (may_lead(checked->probers[i], follower)) {
                return checked->probers[i];
            }
        }
    }
    return NULL;
}

/* Sets the leader of each prober that need not probe, for `unique` and for addresses that a name
 * has twice; the same in all workers. */
void health_choose_leaders(struct health_worker *worker)
{
    for (unsigned w = 0; w < worker->group_count; w++) {
        for (unsigned i = 0; i < worker->groups[w].count; i++) {
            struct prober *prober = worker->groups[w].probers[i];
            prober->leader = prober->settings->is_unique ? find_leader(worker, prober) : NULL;
            if (prober->leader == NULL) {
                prober->leader = find_twin(&worker->groups[w], i);
            }
        }
    }
}

static unsigned count_checks(const struct upstream_group *group)
{
    unsigned count = 0;

    for (const struct health_settings *check = group->health; check != NULL; check = check->next) {
        count++;
    }
    return count;
}

bool health_renew_group(struct checked_group *checked, bool *is_ok)
{
    struct upstream_pick old = checked->pick;
    struct arena old_arena = checked->arena;
    struct prober **probers = NULL;
    unsigned count = 0;

    servers_sync(checked->group);
    if (checked->group->peers == NULL || checked->group->peers == checked->pick.list) {
        return false;
    }
    arena_init(&checked->arena);
    checked->pick =
        (struct upstream_pick){.arena = &checked->arena, .log = &checked->group->set->log};
    upstream_pick_begin(&checked->pick, checked->group);
    struct peer_list *list = checked->pick.list;
    size_t most =
        (size_t) (list->primary.count + list->backup.count) * count_checks(checked->group);
    for (unsigned i = 0; i < checked->count; i++) {
        checked->probers[i]->is_found = false;
    }
    probers = calloc(most + 1, sizeof(*probers));
    for (unsigned i = 0; probers != NULL && i < list->primary.count; i++) {
        *is_ok &= list_peer(checked, &list->primary.peers[i], probers, &count);
    }
    for (unsigned i = 0; probers != NULL && i < list->backup.count; i++) {
        *is_ok &= list_peer(checked, &list->backup.peers[i], probers, &count);
    }
    for (unsigned i = 0; i < checked->count; i++) {
        if (!checked->probers[i]->is_found) {
            health_free_prober(checked->probers[i]);
        }
    }
    free(checked->probers);
    checked->probers = probers;
    checked->count = count;
    if (old.list != NULL) {
        old.arena = &old_arena;
        upstream_pick_end(&old);
    }
    arena_free(&old_arena);
    *is_ok &= probers != NULL;
    return true;
}
