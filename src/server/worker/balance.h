/* Idle connections given to a worker that is less busy. Private to this package. */
#ifndef SERVER_WORKER_BALANCE_H
#define SERVER_WORKER_BALANCE_H

/*
 * With 0 it only wakes that worker. Gives at most `most` idle connections, those that were busy
 * last, to the worker that reads the mailbox. Gives their number. Does not wait: what the mailbox
 * does not take stays here.
 */
unsigned balance_hand_over(int mailbox, unsigned most);

#endif
