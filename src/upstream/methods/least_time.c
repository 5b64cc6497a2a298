/* least_time: the peer that answers fastest and has the fewest requests. */
#include "upstream/methods/rows.h"

#include "upstream/picking/choose.h"

static struct peer *least_time_pick(struct upstream_pick *pick, struct peer_set *set)
{
    return choose_least(pick, set, peer_time_load, pick->group->balancer_settings);
}

static void least_time_connected(struct upstream_pick *pick)
{
    peer_time_connected(pick, pick->group->balancer_settings);
}

static void least_time_responded(struct upstream_pick *pick)
{
    peer_time_responded(pick, pick->group->balancer_settings);
}

static void least_time_done(struct upstream_pick *pick, struct peer *peer,
                            enum peer_outcome outcome)
{
    peer_time_done(pick, outcome);
}

static const struct balancer balancer_least_time = {
    .name = "least_time",
    .prepare = load_prepare,
    .forget = load_forget,
    .pick = least_time_pick,
    .picked = peer_time_picked,
    .connected = least_time_connected,
    .responded = least_time_responded,
    .done = least_time_done,
};

static const struct {
    const char *word;
    enum peer_time until;
    const struct upstream_subsystem *of; /* NULL: of each */
} words[] = {
    {"header", PEER_TIME_FIRST_BYTE, &upstream_http},
    {"connect", PEER_TIME_CONNECT, &upstream_stream},
    {"first_byte", PEER_TIME_FIRST_BYTE, &upstream_stream},
    {"last_byte", PEER_TIME_LAST_BYTE, NULL},
};

bool least_time_read(const struct upstream_subsystem *subsystem, struct str word,
                     struct peer_time_kind *out)
{
    for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if ((words[i].of == NULL || words[i].of == subsystem) && str_is(word, words[i].word)) {
            out->until = words[i].until;
            return true;
        }
    }
    return false;
}

bool least_time_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                      void *settings)
{
    struct peer_time_kind *kind = arena_new(scope->conf->arena, struct peer_time_kind);
    const struct upstream_subsystem *subsystem = scope_subsystem(scope);
    const struct str *bad = NULL;

    upstream_set_balancer(scope, node, &balancer_least_time, kind);
    if (!least_time_read(subsystem, node->args[1], kind)) {
        bad = &node->args[1];
    } else if (node->count == 3) {
        kind->is_inflight = str_is(node->args[2], "inflight");
        bad = kind->is_inflight ? NULL : &node->args[2];
    }
    return bad == NULL ||
           conf_error(scope->conf, node, "invalid parameter \"%.*s\"", STR_ARG(*bad));
}
