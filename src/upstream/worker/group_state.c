/* What a worker has of one group: made when it begins, or with a group of run time; taken away
 * again. */
#include <stdlib.h>

#include "base/fatal.h"
#include "upstream/private.h"

void group_start(struct upstream_group *group, struct run_time_group *run_time)
{
    struct group_state *state = calloc(1, sizeof(*state));

    if (state == NULL) {
        fatal_no_memory(sizeof(*state));
    }
    pools_start(state);
    list_init(&state->queue);
    list_init(&state->resolving);
    state->run_time = run_time;
    state->configured = group->servers;
    group->worker_state = state;
    watch_prepare(group);
    peers_renew(group);
    if (group->balancer == &balancer_round_robin) {
        round_robin_discard(group->set, &group->peers->primary);
        round_robin_discard(group->set, &group->peers->backup);
    }
}

/* Of groups that ended before their requests: known here, as what they belonged to may be freed
 * before the process ends. */
static struct group_state *left_behind;

void group_end(struct upstream_group *group)
{
    struct group_state *state = group->worker_state;

    CHECK_MAGIC(group, UPSTREAM_GROUP_MAGIC);
    if (state == NULL) {
        return;
    }
    pools_close(state);
    if (state->users != 0) {
        state->left =
            left_behind; /* a request was dropped where it stood: the process ends with it */
        left_behind = state;
        return;
    }
    peer_list_release(group->peers);
    group->peers = NULL;
    watch_free(state);
    server_table_release(state->table);
    group->servers = state->configured;
    pools_free(state);
    group->worker_state = NULL;
    free(state);
}
