/* Messages between the master and a worker, one descriptor each at most. Private to this
 * package. */
#ifndef SERVER_PROCESS_CHANNEL_H
#define SERVER_PROCESS_CHANNEL_H

#include <stdbool.h>
#include <stdint.h>

enum channel_type {
    /* To a worker. */
    CHANNEL_QUIT = 1, /* end gracefully; close idle connections */
    /*
     * A newer generation serves: end gracefully. Idle connections go to the successor at the other
     * end of the descriptor, or stay until their next response. Sent again when there is an even
     * newer generation.
     */
    CHANNEL_REPLACED,
    CHANNEL_UPGRADED,  /* as CHANNEL_REPLACED, by the workers of another master, which pass on only
                          datagrams of QUIC to this worker */
    CHANNEL_TERMINATE, /* end at once */
    CHANNEL_REOPEN,    /* open the logs again */
    CHANNEL_GONE,      /* `listener` is not served by the next generation */
    CHANNEL_HANDOVER,  /* the descriptor brings parked connections of an older worker */
    CHANNEL_ADOPT, /* the retired `slot` of `listener`: accept from the descriptor until it is empty
                    */
    CHANNEL_RETURN,   /* that slot is in use again: close the descriptor */
    CHANNEL_LOOK,     /* connections wait on the sockets of `slot`, a sibling's, on any listener */
    CHANNEL_ACCEPTED, /* the descriptor is a connection that was accepted for `listener` */
    CHANNEL_TURN, /* does nothing: a loop that turns because of it shows that the worker is alive */
    /* To the master. */
    CHANNEL_READY,   /* it accepts */
    CHANNEL_RETIRED, /* the retired `slot` of `listener` is empty and closed */
    /* To the other master of an upgrade, which also gets CHANNEL_HANDOVER and CHANNEL_READY; in the
     * latter `listener` is the number of CHANNEL_SERVES messages that follow. */
    CHANNEL_SERVES, /* `listener` is a hash, known to both masters, of a listener that our workers
                       serve */
    /* To the other master, and from it to its workers: the descriptor is the mailbox `slot` of a
       worker (net/datagram/binaries.h). */
    CHANNEL_MAILBOX,
};

/* One message. The kernel keeps message boundaries (SOCK_SEQPACKET). */
struct channel_message {
    uint32_t type;     /* enum channel_type */
    uint32_t listener; /* number in the order of generation->listeners */
    uint32_t slot;
};

/* Both ends, non-blocking, closed on exec. False with errno. */
bool channel_open(int ends[2]);

/* Sends a message, and a copy of the descriptor unless fd is -1. False with errno; EAGAIN: the
 * receiver has not read earlier messages. */
bool channel_send(int channel, const struct channel_message *message, int fd);

enum channel_result { CHANNEL_MESSAGE, CHANNEL_EMPTY, CHANNEL_CLOSED };

/* Receives one message; the caller owns *fd, which is -1 if there is none. */
enum channel_result channel_receive(int channel, struct channel_message *message, int *fd);

#endif
