/* How long peers take to answer, as a load that balancers can compare: least_time, random two. */
#include "upstream/cells/peer_time.h"

#include "base/clock.h"

#define TIME_STEP_US 20000 /* times that differ by less are the same */
#define AVERAGE_OF 4

bool peer_time_read(struct str word, bool is_stream, struct peer_time_kind *out)
{
    if (str_is(word, "last_byte")) {
        out->until = PEER_TIME_LAST_BYTE;
    } else if (str_is(word, is_stream ? "first_byte" : "header")) {
        out->until = PEER_TIME_FIRST_BYTE;
    } else if (is_stream && str_is(word, "connect")) {
        out->until = PEER_TIME_CONNECT;
    } else {
        return false;
    }
    return true;
}

/* The average in microseconds, faded. */
static uint64_t time_faded_us(const struct peer *peer, enum peer_time until)
{
    struct peer_cell *cell = peer->cell;
    uint64_t time_us = cell->times_us[until];
    uint64_t asked_ms = cell->picked_at_ms + peer->server->fail_timeout_ms;
    uint64_t halvings;

    if (asked_ms >= clock_now.now_ms) {
        return time_us;
    }
    halvings = (clock_now.now_ms - asked_ms) / 1000;
    return halvings < 63 ? time_us >> halvings : 0;
}

/* How long the requests that have no answer yet have been waiting, on average, over all workers. */
static uint64_t time_waiting_us(struct peer_cell *cell)
{
    uint64_t count = 0, since_ms = 0, waited_ms;

    for (uint32_t i = 0; i < cell->slots; i++) {
        count += cell->use[i].unanswered;
        since_ms += cell->use[i].unanswered_since_ms;
    }
    if (count == 0) {
        return 0;
    }
    waited_ms = clock_now.now_ms * count - since_ms;
    /* The words are read one by one: between two of them a request may have come or gone. */
    return (int64_t) waited_ms > 0 ? waited_ms / count * 1000 : 0;
}

uint64_t peer_time_load(const struct peer *peer, const void *arg)
{
    const struct peer_time_kind *kind = arg;
    uint64_t time_us = time_faded_us(peer, kind->until);

    if (kind->is_inflight) {
        uint64_t waiting_us = time_waiting_us(peer->cell);

        time_us = waiting_us > time_us ? waiting_us : time_us;
    }
    return (time_us / TIME_STEP_US + 1) * ((uint64_t) peer_active(peer->cell) + 1);
}

void peer_time_picked(struct upstream_pick *pick)
{
    struct peer_use *use = peer_use_mine(pick->peer->cell);

    pick->peer->cell->picked_at_ms = clock_now.now_ms;
    use->unanswered++;
    use->unanswered_since_ms += pick->picked_ms;
    pick->is_unanswered = true;
}

/* The request is not under way any more, as far as times go. */
static void answered(struct upstream_pick *pick)
{
    struct peer_use *use;

    if (pick->is_unanswered) {
        use = peer_use_mine(pick->peer->cell);
        use->unanswered--;
        use->unanswered_since_ms -= pick->picked_ms;
        pick->is_unanswered = false;
    }
}

/* A moving average: the newest time weighs a quarter. Other workers may do the same meanwhile; one
 * of the times is lost then, which does no harm. */
static void average(_Atomic uint32_t *time_us, uint64_t picked_ms)
{
    uint64_t passed_us = (clock_now.now_ms - picked_ms) * 1000;
    uint64_t former_us = *time_us;

    if (former_us != 0) {
        passed_us = (former_us * (AVERAGE_OF - 1) + passed_us) / AVERAGE_OF;
    }
    passed_us = passed_us == 0 ? 1 : passed_us; /* 0 = not known */
    *time_us = passed_us < UINT32_MAX ? (uint32_t) passed_us : UINT32_MAX;
}

/* That moment of the request has come. */
static void reached(struct upstream_pick *pick, const struct peer_time_kind *kind,
                    enum peer_time until)
{
    average(&pick->peer->cell->times_us[until], pick->picked_ms);
    if (kind->until == until) {
        answered(pick);
    }
}

void peer_time_connected(struct upstream_pick *pick, const struct peer_time_kind *kind)
{
    reached(pick, kind, PEER_TIME_CONNECT);
}

void peer_time_responded(struct upstream_pick *pick, const struct peer_time_kind *kind)
{
    reached(pick, kind, PEER_TIME_FIRST_BYTE);
}

void peer_time_done(struct upstream_pick *pick, enum peer_outcome outcome)
{
    if (outcome == PEER_SERVED) {
        average(&pick->peer->cell->times_us[PEER_TIME_LAST_BYTE], pick->picked_ms);
    }
    answered(pick);
}
