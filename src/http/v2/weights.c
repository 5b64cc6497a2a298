/*
 * Weights and dependencies of RFC 7540 (5.3), for clients that send no others. What depends on a
 * stream comes after it, by urgency; what waits side by side has its share by weight, also below
 * groups that are no streams.
 */
#include "http/v2/v2.h"

#define URGENCY_USUAL 3
#define LINKS_MAX 8 /* from a stream to its root; a circle ends here, too */
#define WEIGHT_USUAL 16
#define WEIGHT_MAX 256

static struct v2_group *group_of(struct v2_connection *c, uint32_t id)
{
    return &c->scheduler.groups[id / 2 % V2_GROUPS];
}

/* Urgency and share from what it depends on. */
static void weigh(struct v2_stream *stream)
{
    struct v2_connection *c = stream->connection;
    uint64_t share = stream->weight * WEIGHT_MAX;
    unsigned depth = 0;
    uint32_t id = stream->depends_on;

    for (unsigned links = 0; id != 0 && links < LINKS_MAX; links++) {
        const struct v2_stream *parent = v2_find(c, id);
        const struct v2_group *group = group_of(c, id);

        if (parent != NULL) {
            depth++;
            id = parent->depends_on;
        } else if (group->id == id) {
            share = share * group->weight / WEIGHT_MAX;
            id = group->depends_on;
        } else {
            break;
        }
    }
    stream->share = share == 0 ? 1 : (uint32_t) share;
    if (URGENCY_USUAL + depth >= URGENCIES) {
        depth = URGENCIES - 1 - URGENCY_USUAL;
    }
    v2_prioritise(stream, (uint8_t) (URGENCY_USUAL + depth), true);
}

static void weigh_again(struct v2_stream *stream, void *arg)
{
    if (stream->weight != 0) {
        weigh(stream);
    }
}

/* A change of what streams depend on: from one to another. */
struct adoption {
    uint32_t from, to;
};

static void adopt_dependent(struct v2_stream *stream, void *arg)
{
    const struct adoption *adoption = arg;

    if (stream->id != adoption->to && stream->depends_on == adoption->from) {
        stream->depends_on = adoption->to;
    }
}

void v2_weights_ended(struct v2_stream *stream)
{
    struct v2_connection *c = stream->connection;
    struct adoption adoption = {stream->id, stream->depends_on};

    v2_each(c, adopt_dependent, &adoption);
    v2_each(c, weigh_again, NULL);
}

static void set(struct v2_stream *stream, const struct frame_priority *priority)
{
    struct v2_connection *c = stream->connection;
    struct adoption adoption = {priority->depends_on, stream->id};

    c->scheduler.has_weights = true;
    stream->depends_on = priority->depends_on;
    stream->weight = priority->weight;
    if (priority->is_exclusive) {
        v2_each(c, adopt_dependent, &adoption);
        v2_each(c, weigh_again, NULL);
    } else {
        weigh(stream);
    }
}

void v2_weights_begin(struct v2_stream *stream, const struct frame_priority *priority)
{
    struct v2_connection *c = stream->connection;
    const struct v2_group *group = group_of(c, stream->id);
    struct frame_priority before = {.weight = WEIGHT_USUAL};

    if (c->scheduler.ignores_weights || (!priority->is_there && !c->scheduler.has_weights)) {
        return;
    }
    if (group->id == stream->id) {
        before.depends_on = group->depends_on;
        before.weight = group->weight;
    }
    set(stream, priority->is_there ? priority : &before);
}

void v2_weights_change(struct v2_connection *c, uint32_t id, const struct frame_priority *priority)
{
    struct v2_stream *stream = v2_find(c, id);

    if (c->scheduler.ignores_weights) {
        return;
    }
    c->scheduler.has_weights = true;
    if (stream != NULL) {
        set(stream, priority);
        return;
    }
    *group_of(c, id) = (struct v2_group){id, priority->depends_on, priority->weight};
    v2_each(c, weigh_again, NULL);
}
