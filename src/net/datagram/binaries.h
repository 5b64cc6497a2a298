/*
 * An upgrade of the binary: the workers of two masters serve the same sockets, and each passes on
 * datagrams that belong to a connection of the other's workers (of listeners with a taker: QUIC).
 * All of it is for two binaries with the same DATAGRAM_PASSED_FORM. On the master's or the loop's
 * stack.
 */
#ifndef NET_DATAGRAM_BINARIES_H
#define NET_DATAGRAM_BINARIES_H

#include <stdbool.h>
#include <stdint.h>

/* Names the form of passed datagrams: a change of struct passed in mailbox.c needs another number.
 */
#define DATAGRAM_PASSED_FORM 1u

/* The mailboxes of this binary's workers: number and the descriptor to write to, which stays the
 * table's. */
void datagram_mailboxes_each(void (*visit)(uint32_t number, int fd, void *arg), void *arg);
/*
 * A mailbox of the other binary. fd: owned from now on, if true is returned. False: the number
 * cannot be of another binary. The first one, if it comes before this binary has mailboxes, decides
 * on the numbers of both.
 */
bool datagram_mailbox_of_other(uint32_t number, int fd);
/* The other binary has ended, or never was: its mailboxes are closed. */
void datagram_binary_gone(void);

#endif
