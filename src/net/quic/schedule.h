/* Which stream is sent next (RFC 9218): by urgency; incremental ones take turns, others go one
 * after the other by id. */
#ifndef NET_QUIC_SCHEDULE_H
#define NET_QUIC_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

#define QUIC_URGENCIES 8u
#define QUIC_URGENCY_DEFAULT 3u
#define QUIC_TURN_BYTES 4096u /* of an incremental stream before the next one */

/* In a stream. */
struct quic_turn {
    struct list link;
    uint64_t id;
    uint32_t taken;  /* bytes of this turn */
    uint8_t urgency; /* 0 first */
    bool is_incremental;
    bool is_waiting; /* in the schedule */
};

struct quic_schedule {
    struct list waiting[QUIC_URGENCIES];
    uint8_t present; /* a bit for each urgency that has someone */
};

void quic_schedule_init(struct quic_schedule *schedule);
void quic_turn_init(struct quic_turn *turn, uint64_t id);
/* The stream has something that may be sent; does nothing where it waits already. */
void quic_schedule_add(struct quic_schedule *schedule, struct quic_turn *turn);
/* It has nothing, is blocked, or ends; does nothing where it does not wait. */
void quic_schedule_remove(struct quic_schedule *schedule, struct quic_turn *turn);
/* The next one, which stays; NULL: none waits. */
struct quic_turn *quic_schedule_first(const struct quic_schedule *schedule);
/* n bytes of it went into a packet: an incremental one whose turn is over goes after the others. */
void quic_schedule_sent(struct quic_schedule *schedule, struct quic_turn *turn, uint32_t n);
void quic_schedule_prioritize(struct quic_schedule *schedule, struct quic_turn *turn,
                              unsigned urgency, bool is_incremental);

#endif
