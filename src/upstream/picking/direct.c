/* Picking where a program says (upstream/direction.h). */
#include "upstream/direction.h"

#include "upstream/private.h"

void direction_begin(struct upstream_pick *pick)
{
    if (pick->direction == NULL) {
        pick->direction = arena_new(pick->arena, struct direction);
    }
    pick->direction->director = pick->group;
}

/* From here on this group's peers are picked from. */
static void lead_to(struct upstream_pick *pick, struct upstream_group *group)
{
    if (pick->group != group) {
        pick->group->worker_state->users--;
        peer_list_release(pick->list);
        pick_hold(pick, group);
    }
    pick->tried = group == pick->direction->director ? pick->tried : NULL;
}

bool direction_leads(struct upstream_pick *pick)
{
    struct direction *direction = pick->direction;

    direction->target = NULL;
    direction->refusal = 0;
    if (pick->tries != 0 && direction->more_tries != 0) {
        direction->more_tries--;
    }
    direction->director->balancer->direct(pick);
    if (direction->refusal != 0) {
        return false;
    }
    lead_to(pick, direction->target != NULL ? direction->target : direction->director);
    return true;
}
