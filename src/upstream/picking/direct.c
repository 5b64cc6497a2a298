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

/* Bits of peers are of one list: those of the director are kept while others are picked from. */
static void keep_tried(struct upstream_pick *pick)
{
    struct balancer_decision *decision = pick->decision;

    decision->tried_few = pick->tried_few;
    decision->tried = pick->tried == &pick->tried_few ? &decision->tried_few : pick->tried;
    decision->tried_list = pick->list->number;
}

/* From here on this group's peers are picked from. */
static void lead_to(struct upstream_pick *pick, struct upstream_group *group)
{
    struct balancer_decision *decision = pick->decision;
    bool is_own = group == decision->director;

    if (pick->group != group) {
        if (pick->group == decision->director) {
            keep_tried(pick);
        }
        pick->group->worker_state->users--;
        peer_list_release(pick->list);
        pick_hold(pick, group);
        pick->tried = is_own && pick->list->number == decision->tried_list ? decision->tried : NULL;
    } else if (!is_own) {
        pick->tried = NULL; /* the script may name an address again */
    }
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
