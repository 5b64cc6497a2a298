/* What the files of the recovery share. Implemented in acks.c and recovery.c. */
#ifndef NET_QUIC_RECOVERY_PRIVATE_H
#define NET_QUIC_RECOVERY_PRIVATE_H

#include "net/quic/recovery.h"

/* Declares packets of the space lost (RFC 9002, 6.1) and reports them; counts them in the sample.
 */
void recovery_find_lost(struct quic_recovery *r, enum quic_space space, struct quic_sample *sample);
/* Gives the sample to the congestion control, if it says anything. */
void recovery_give_sample(struct quic_recovery *r, struct quic_sample *sample);
/* Calls `report` for each frame of a packet. */
void recovery_report(struct quic_recovery *r, enum quic_space space, const struct quic_sent *sent,
                     void (*report)(void *, enum quic_space, const struct quic_carried *));
/* The packet no longer counts as in flight. */
void recovery_leave_flight(struct quic_recovery *r, const struct quic_sent *sent);
/* PTO of a space, without back-off. */
uint64_t recovery_pto_us(const struct quic_recovery *r, enum quic_space space);

#endif
