/* Picking where a program says (upstream/balancer_decision.h). */
#include "upstream/balancer_decision.h"

#include "upstream/private.h"

void balancer_decision_begin(struct upstream_pick *pick)
{
    if (pick->decision == NULL) {
        pick->decision = arena_new(pick->arena, struct balancer_decision);
    }
    pick->decision->director = pick->group;
}

/* From here on this group's peers are picked from. */
static void lead_to(struct upstream_pick *pick, struct upstream_group *group)
{
    if (pick->group != group) {
        pick->group->worker_state->users--;
        peer_list_release(pick->list);
        pick_hold(pick, group);
    }
    pick->tried = group == pick->decision->director ? pick->tried : NULL;
}

bool balancer_decision_leads(struct upstream_pick *pick)
{
    struct balancer_decision *decision = pick->decision;

    decision->target = NULL;
    decision->refusal = 0;
    if (pick->tries != 0 && decision->more_tries != 0) {
        decision->more_tries--;
    }
    decision->director->balancer->direct(pick);
    if (decision->refusal != 0) {
        return false;
    }
    lead_to(pick, decision->target != NULL ? decision->target : decision->director);
    return true;
}
