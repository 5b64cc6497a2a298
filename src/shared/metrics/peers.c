/* Lists the groups that are shown, and their peers. */
#include "shared/metrics/peers.h"

#include "server/generation.h"
#include "upstream/servers.h"

/* A list that is being built. */
struct gathering {
    const struct upstream_set *set;
    struct arena *arena;
    struct vec shown;
    size_t first; /* index of the group that peers are added to */
};

static bool is_shown(const struct gathering *gathering, const struct peer *peer)
{
    for (size_t i = gathering->first; i < gathering->shown.count; i++) {
        const struct shown_peer *other = vec_at(&gathering->shown, struct shown_peer, i);

        if (other->peer != NULL && str_equal(other->peer->name, peer->name)) {
            return true;
        }
    }
    return false;
}

static void add_peers(struct gathering *gathering, const struct upstream_group *group,
                      const struct peer_set *set)
{
    for (unsigned i = 0; i < set->count; i++) {
        if (!is_shown(gathering, &set->peers[i])) {
            unsigned id = (unsigned) (gathering->shown.count - gathering->first);

            *vec_add(&gathering->shown, gathering->arena, struct shown_peer) =
                (struct shown_peer){upstream_shown_name(group), group, &set->peers[i], id};
        }
    }
}

static void add_group(struct gathering *gathering, const struct upstream_group *group)
{
    if (group->peers != NULL) {
        add_peers(gathering, group, &group->peers->primary);
        add_peers(gathering, group, &group->peers->backup);
    }
}

static void end_group(struct gathering *gathering, const struct upstream_group *group)
{
    if (gathering->shown.count == gathering->first) {
        *vec_add(&gathering->shown, gathering->arena, struct shown_peer) =
            (struct shown_peer){.group = upstream_shown_name(group), .of = group};
    }
    gathering->first = gathering->shown.count;
}

/* Adds a group that has no block in the configuration. */
static void add_changed(struct upstream_group *group, void *arg)
{
    struct gathering *gathering = arg;

    if (map_get_nocase(&gathering->set->blocks, group->name) == NULL) {
        add_group(gathering, group);
        end_group(gathering, group);
    }
}

struct vec shown_peers(const struct upstream_subsystem *subsystem, struct arena *arena)
{
    const struct upstream_set *set = upstream_set_of(&generation_now->conf, subsystem);
    struct gathering gathering = {.set = set, .arena = arena};
    struct upstream_group *changed;

    vec_each(struct upstream_group *, group, &set->groups) {
        add_group(&gathering, *group);
        if (set->find_changed != NULL && set->find_changed((*group)->name, &changed) &&
            changed != NULL) {
            add_group(&gathering, changed);
        }
        end_group(&gathering, *group);
    }
    if (set->each_changed != NULL) {
        set->each_changed(add_changed, &gathering);
    }
    return gathering.shown;
}

size_t shown_servers_size(const struct zone *zone)
{
    const struct upstream_subsystem *subsystem = zone->user;
    size_t size = 0;

    if (subsystem != &upstream_http && subsystem != &upstream_stream) {
        return 0;
    }
    vec_each(struct upstream_group *, group,
             &upstream_set_of(&generation_now->conf, subsystem)->groups) {
        size += (*group)->zone_name.data == zone->name.data ? servers_size(*group) : 0;
    }
    return size;
}
