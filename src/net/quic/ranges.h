/* Sets of numbers as ranges: packet numbers that were received, bytes of a stream that arrived,
 * were acknowledged or lost. */
#ifndef NET_QUIC_RANGES_H
#define NET_QUIC_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define QUIC_RANGES_FEW 1u /* ranges that need no memory beside the struct */

/* The numbers n with start <= n < end. */
struct quic_range {
    uint64_t start;
    uint64_t end;
};

/* Disjoint ranges in ascending order, none empty, none touching the next. */
struct quic_ranges {
    uint32_t count;    /* ranges */
    uint32_t capacity; /* ranges that there is memory for: QUIC_RANGES_FEW, or more in `items` */
    uint32_t most;     /* ranges that the set may have */
    union {
        struct quic_range few[QUIC_RANGES_FEW];
        struct quic_range *items; /* malloc'ed, owned */
    };
};

/* An empty set of at most `most` ranges. */
void quic_ranges_init(struct quic_ranges *ranges, uint32_t most);
void quic_ranges_free(struct quic_ranges *ranges);

/* The range at a position; position < count. */
static inline struct quic_range quic_ranges_at(const struct quic_ranges *ranges, uint32_t position)
{
    return (ranges->capacity == QUIC_RANGES_FEW ? ranges->few : ranges->items)[position];
}

/* Adds start … end - 1. False, and nothing changes, when the set would have too many ranges. */
bool quic_ranges_add(struct quic_ranges *ranges, uint64_t start, uint64_t end);
/* Takes start … end - 1 out. False, and nothing changes, when a range would be split and there are
 * too many. */
bool quic_ranges_remove(struct quic_ranges *ranges, uint64_t start, uint64_t end);
/* Takes out all numbers below this one. Never fails. */
void quic_ranges_drop_below(struct quic_ranges *ranges, uint64_t number);
void quic_ranges_drop_first(struct quic_ranges *ranges);

bool quic_ranges_has(const struct quic_ranges *ranges, uint64_t number);
/* The first number from this one on that is not in the set. */
uint64_t quic_ranges_gap(const struct quic_ranges *ranges, uint64_t number);
/* The first number from this one on that is in the set; UINT64_MAX: none. */
uint64_t quic_ranges_next(const struct quic_ranges *ranges, uint64_t number);

/* The packet numbers that were received in one space. All numbers below `below` count as received.
 */
struct quic_received {
    struct quic_ranges ranges; /* for the ACK frame, all at or above `below` */
    uint64_t below;
};

/* `most`: how many ranges an ACK frame may have. */
void quic_received_init(struct quic_received *received, uint32_t most);
void quic_received_free(struct quic_received *received);
/* Whether a packet number was received before; such a packet is discarded. */
bool quic_received_has(const struct quic_received *received, uint64_t number);
/* Never fails: when there are too many ranges, the lowest one is forgotten and `below` rises above
 * it. */
void quic_received_add(struct quic_received *received, uint64_t number);
/* An ACK frame of ours that named `number` as its largest was acknowledged (RFC 9000, 13.2.4):
 * these and lower ones are reported no more, and late packets below are discarded. */
void quic_received_reported(struct quic_received *received, uint64_t number);

#endif
