/* How long peers take to answer, as a load that balancers can compare: least_time, random two. */
#ifndef UPSTREAM_CELLS_PEER_TIME_H
#define UPSTREAM_CELLS_PEER_TIME_H

#include <stdbool.h>
#include <stdint.h>

#include "upstream/peer.h"

/* Which time counts, and whether requests under way do. */
struct peer_time_kind {
    enum peer_time until;
    bool is_inflight; /* a request that waits longer than the average counts with its time so far */
};

/*
 * Reads the word of a time into `until`: "last_byte"; of http "header", of stream "connect" or
 * "first_byte". False: it is none.
 */
bool peer_time_read(struct str word, bool is_stream, struct peer_time_kind *out);

/*
 * The peer's time, as a load for choose_least (arg is a struct peer_time_kind): the average time of
 * its answers, times the requests in progress. Times are rounded to 20 ms, so that what is fast is
 * equally fast. A time that was measured long ago fades: each second after fail_timeout without a
 * request halves it, so that a peer that was slow is asked again at last.
 */
uint64_t peer_time_load(const struct peer *peer, const void *kind);

/* What the balancer's hooks of the same names do: the times are taken, and requests under way
 * counted. */
void peer_time_picked(struct upstream_pick *pick);
void peer_time_connected(struct upstream_pick *pick, const struct peer_time_kind *kind);
void peer_time_responded(struct upstream_pick *pick, const struct peer_time_kind *kind);
void peer_time_done(struct upstream_pick *pick, enum peer_outcome outcome);

#endif
