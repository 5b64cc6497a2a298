/* Hands idle connections over to a worker that is less busy. Private to this package. */
#ifndef SERVER_WORKER_BALANCE_H
#define SERVER_WORKER_BALANCE_H

/*
 * Gives at most `most` idle connections, those that were busy last, to the worker that reads the
 * mailbox; gives their number. With 0 it only wakes that worker. Does not wait: connections that do
 * not fit into the mailbox stay here.
 */
unsigned balance_hand_over(int mailbox, unsigned most);

#endif
