/* Collections of upstream groups with a `zone`, and their peers. */
#include "http/modules/status/api/api.h"
#include "http/request/response.h"
#include "server/generation.h"
#include "shared/metrics/json.h"
#include "upstream/peer.h"
#include "upstream/servers.h"

/* First id of peers that share their server; ids of servers are always lower. */
#define PEER_IDS UINT64_C(0x40000000)

uint64_t api_peer_id(const struct peer *peer)
{
    const struct upstream_server *server = peer->server;

    if (!server->resolves && server->addresses.count == 1) {
        return server->index;
    }
    return PEER_IDS + (peer->cell->number == CELL_PRIVATE ? peer->number : peer->cell->number);
}

static struct upstream_set *set_of(struct str root)
{
    return upstream_set_of(&generation_now->conf,
                           str_is(root, "http") ? &upstream_http : &upstream_stream);
}

struct upstream_group *api_find_group(struct str root, struct str name)
{
    const struct upstream_set *set = set_of(root);
    struct upstream_group *group = map_get(&set->status_zones, name);

    if (group == NULL) {
        group = map_get_nocase(&set->blocks, name);
    }
    return group != NULL && str_equal(upstream_shown_name(group), name) ? group : NULL;
}

bool api_shows_group(const struct upstream_group *group)
{
    return (servers_may_change(group) && !group->is_implicit) || group->status_zone.len != 0;
}

static void list_groups(struct request *request, const struct api_collection *collection,
                        struct vec *things)
{
    vec_each(struct upstream_group *, group, &set_of(str_of(collection->root))->groups) {
        if (api_shows_group(*group)) {
            servers_sync(*group);
            *vec_add(things, &request->arena, struct api_thing) =
                (struct api_thing){.name = upstream_shown_name(*group), .thing = *group};
        }
    }
}

static void put_peers(struct json *json, const struct upstream_group *group,
                      const struct peer_set *set)
{
    for (unsigned i = 0; i < set->count; i++) {
        json_open(json, STR_NONE, '{');
        json_put_number(json, "id", api_peer_id(&set->peers[i]));
        json_put_peer(json, group, &set->peers[i]);
        json_close(json, '}');
    }
}

static uint64_t count_open(const struct peer_set *set)
{
    uint64_t idle = 0;

    for (unsigned i = 0; i < set->count; i++) {
        uint32_t open = peer_open(set->peers[i].cell), active = peer_active(set->peers[i].cell);

        idle += open > active ? open - active : 0;
    }
    return idle;
}

static void put_group(struct request *request, struct json *json, const struct api_thing *thing)
{
    const struct upstream_group *group = thing->thing;

    json_open(json, STR("peers"), '[');
    if (group->peers != NULL) {
        put_peers(json, group, &group->peers->primary);
        put_peers(json, group, &group->peers->backup);
    }
    json_close(json, ']');
    if (group->set->subsystem == &upstream_http && group->peers != NULL) {
        json_put_number(json, "keepalive",
                        count_open(&group->peers->primary) + count_open(&group->peers->backup));
    }
    json_put_number(json, "zombies", servers_zombies(group));
    json_put_string(json, "zone",
                    group->zone_name.len != 0 ? group->zone_name : group->status_zone);
    const struct servers_queue *queue = servers_queue_of(group);
    if (group->queue_max != 0 && queue != NULL) {
        json_open(json, STR("queue"), '{');
        json_put_number(json, "size", servers_queue_waiting(queue));
        json_put_number(json, "max_size", group->queue_max);
        json_put_number(json, "overflows", queue->overflows);
        json_close(json, '}');
    }
}

static void reset_peers(const struct upstream_group *group, const struct peer_set *set)
{
    enum series_kind kind =
        group->set->subsystem == &upstream_http ? SERIES_PEER : SERIES_STREAM_PEER;
    char text[SERIES_LABEL];

    for (unsigned i = 0; i < set->count; i++) {
        unsigned series = metrics_find(kind, metrics_peer_label(text, upstream_shown_name(group),
                                                                set->peers[i].name));

        if (series != SERIES_NONE) {
            metrics_reset(series);
        }
        peer_reset_figures(set->peers[i].cell);
    }
}

static void reset_group(struct request *request, const struct api_thing *thing)
{
    const struct upstream_group *group = thing->thing;

    if (group->peers != NULL) {
        reset_peers(group, &group->peers->primary);
        reset_peers(group, &group->peers->backup);
    }
}

/* clang-format off */
static const struct api_since newer_of_groups[] = {
    {"codes", 7},
    {NULL, 0},
};
/* clang-format on */

#define GROUPS(ROOT)                                                                               \
    {                                                                                              \
        .root = ROOT, .name = "upstreams", .list = list_groups, .put = put_group,                  \
        .reset = reset_group, .newer = newer_of_groups, .code = "UpstreamNotFound",                \
        .text = "upstream not found"                                                               \
    }

const struct api_collection api_groups[] = {GROUPS("http"), GROUPS("stream"), {.root = NULL}};
