/* Messages between the master and a worker, one descriptor each at most. Private to this package.
 */
#ifndef SERVER_PROCESS_CHANNEL_H
#define SERVER_PROCESS_CHANNEL_H

#include <stdbool.h>
#include <stdint.h>

enum channel_type {
    /* To a worker. */
    CHANNEL_QUIT = 1, /* end gracefully; what rests is closed */
    /*
     * A newer generation serves: end gracefully. What rests goes to the successor at the other end
     * of the descriptor, or stays until its next answer. Comes again when there is a newer one yet.
     */
    CHANNEL_REPLACED,
    CHANNEL_UPGRADED, /* as CHANNEL_REPLACED, by another master's workers: they pass on datagrams of
                         QUIC only */
    CHANNEL_TERMINATE, /* end at once */
    CHANNEL_REOPEN,    /* open the logs again */
    CHANNEL_GONE,      /* `listener` is not served by the next generation */
    CHANNEL_HANDOVER,  /* the descriptor brings parked connections of an older worker */
    CHANNEL_ADOPT, /* the retired `slot` of `listener`: accept from the descriptor until it is empty
                    */
    CHANNEL_RETURN,   /* that slot is wanted again: close it */
    CHANNEL_LOOK,     /* connections wait at the socket of `slot`, a sibling's, on any listener */
    CHANNEL_ACCEPTED, /* the descriptor is a connection that was accepted for `listener` */
    CHANNEL_TURN,     /* nothing: that the loop turns shows that the worker is alive */
    /* To the master. */
    CHANNEL_READY,   /* it accepts */
    CHANNEL_RETIRED, /* the retired `slot` of `listener` is empty and closed */
    /* To the other master of an upgrade; CHANNEL_HANDOVER, too, and CHANNEL_READY, where `listener`
     * is the number of CHANNEL_SERVES that follow. */
    CHANNEL_SERVES, /* `listener` is a number by which both know one that our workers serve */
    /* To the other master, and from it to its workers: the descriptor is the mailbox `slot` of a
       worker (net/datagram/binaries.h). */
    CHANNEL_MAILBOX,
};

/* One message; the kernel keeps them apart (SOCK_SEQPACKET). */
struct channel_message {
    uint32_t type;     /* enum channel_type */
    uint32_t listener; /* number in the order of generation->listeners */
    uint32_t slot;
};

/* Both ends, non-blocking, closed on exec. False with errno. */
bool channel_open(int ends[2]);

/* Sends; fd -1 for none, else the receiver gets a copy. False with errno; EAGAIN: the other end
 * sleeps. */
bool channel_send(int channel, const struct channel_message *message, int fd);

enum channel_result { CHANNEL_MESSAGE, CHANNEL_EMPTY, CHANNEL_CLOSED };

/* Takes one; *fd is owned by the caller, -1 for none. */
enum channel_result channel_receive(int channel, struct channel_message *message, int *fd);

#endif
